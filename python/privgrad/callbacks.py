"""What is told of a run while it goes on, and to whom."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .errors import ConfigError, PrivgradWarning
from .results import number

if TYPE_CHECKING:
    from .runs import Run

__all__ = ["Callback", "Progress", "ProgressBar"]


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    step, steps : int
        Steps done, and in all.
    epsilon : float
        Spent so far.
    metrics : dict of str to float
        ``train_loss``, ``test_accuracy`` and so on, those that may be shown.
    """

    step: int
    steps: int
    epsilon: float
    metrics: dict[str, float]

    @classmethod
    def _of(cls, json: dict[str, Any]) -> Progress:
        metrics = {name: value for name, value in json["metrics"].items() if value is not None}
        return cls(json["step"], json["steps"], number(json["epsilon"]), metrics)


@runtime_checkable
class Callback(Protocol):
    """Whoever wants to know of a run: the one protocol of progress bars and trackers.

    All calls are made on the thread that called ``privgrad.run``. Who has begun is told of the end, whatever
    others raise.
    """

    def begin(self) -> None:
        """Before the data is read: what may be missing, such as a package, is found missing here."""

    def __call__(self, progress: Progress) -> None:
        """At each measurement."""

    def end(self, run: Run | None) -> None:
        """Be told of the end. What this raises is a warning: the run is over.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """


class _All:
    """Several callbacks, of which plain functions are told of the progress alone."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self._callbacks = list(callbacks)
        self._begun: list[Any] = []
        self.step = 0  #: Of the last measurement that they were told of.

    def begin(self) -> None:
        try:
            for callback in self._callbacks:
                if hasattr(callback, "begin"):
                    callback.begin()
                self._begun.append(callback)
        except BaseException:
            self.end(None)
            raise

    def __call__(self, progress: Progress) -> None:
        raised: list[BaseException] = []
        self.step = progress.step
        for callback in self._callbacks:
            try:
                callback(progress)
            except BaseException as problem:  # the others are told of this step, too
                raised.append(problem)
        if raised:
            raise raised[0]

    def end(self, run: Run | None) -> None:
        raised: list[tuple[Any, BaseException]] = []
        for callback in self._begun:
            try:
                if hasattr(callback, "end"):
                    callback.end(run)
            except BaseException as problem:
                raised.append((callback, problem))
        for callback, found in raised:
            if not isinstance(found, Exception):
                raise found
            warnings.warn(f"{type(callback).__name__}: at the end of the run: {type(found).__name__}: {found}",
                          PrivgradWarning, stacklevel=4)


def as_callback(given: Callable[[Progress], None] | Iterable[Any] | Any) -> _All | None:
    """One callback of what a caller gives: nothing, one, or several."""
    if given is None:
        return None
    callbacks = given if isinstance(given, Iterable) and not callable(given) else [given]
    for one in callbacks:
        if not callable(one):
            raise ConfigError(f"callback: is of type {type(one).__name__}, expected a function of a Progress, or a tracker")
    return _All(callbacks)


class ProgressBar:
    """A progress bar with epsilon (needs tqdm; in notebooks it is a widget).

    Parameters
    ----------
    **options
        As for ``tqdm``.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._make: Any = None
        self._bar: Any = None

    def begin(self) -> None:
        """Wait for the first measurement, which says how many steps there are.

        Raises
        ------
        ConfigError
            There is no tqdm.
        """
        try:
            from tqdm.auto import tqdm
        except ImportError as missing:
            raise ConfigError("ProgressBar needs tqdm: pip install 'privgrad[progress]'") from missing
        self._make, self._bar = tqdm, None

    def __call__(self, progress: Progress) -> None:
        """Move on."""
        if self._bar is None:
            self._bar = self._make(total=progress.steps, unit="step", **self._options)
        self._bar.update(progress.step - self._bar.n)
        shown = {"epsilon": f"{progress.epsilon:.4g}"}
        shown.update((name, f"{value:.4g}") for name, value in progress.metrics.items())
        self._bar.set_postfix(shown)

    def end(self, run: Run | None) -> None:
        """Stop.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """
        if self._bar is not None:
            self._bar.close()
