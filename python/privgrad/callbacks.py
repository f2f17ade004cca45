"""Callbacks that receive the progress of a run."""

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
    """The progress of a run.

    Attributes
    ----------
    step, steps : int
        Number of completed steps, and number of all steps.
    epsilon : float
        The epsilon spent so far.
    metrics : dict of str to float
        ``train_loss``, ``test_accuracy`` and others, as far as they may be shown.
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
    """The protocol of progress bars and trackers.

    All calls are made on the thread that called ``privgrad.run``. If ``begin`` has succeeded,
    ``end`` is called, whatever other callbacks raise.
    """

    def begin(self) -> None:
        """Prepare, before the data are read: fail here if something is missing, such as a package."""

    def __call__(self, progress: Progress) -> None:
        """Receive a measurement."""

    def end(self, run: Run | None) -> None:
        """Receive the end of the run. An exception becomes a warning, because the run is over.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """


class _All:
    """Several callbacks; plain functions only receive the progress."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self._callbacks = list(callbacks)
        self._begun: list[Any] = []
        self.step = 0  #: The step of the last measurement that they received.

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
            except BaseException as problem:  # the others receive this step too
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
    """Combine the callbacks of a caller (none, one, or several) into one."""
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
        """Wait for the first measurement, which states the number of steps.

        Raises
        ------
        ConfigError
            If tqdm is not installed.
        """
        try:
            from tqdm.auto import tqdm
        except ImportError as missing:
            raise ConfigError("ProgressBar needs tqdm: pip install 'privgrad[progress]'") from missing
        self._make, self._bar = tqdm, None

    def __call__(self, progress: Progress) -> None:
        """Advance the bar."""
        if self._bar is None:
            self._bar = self._make(total=progress.steps, unit="step", **self._options)
        self._bar.update(progress.step - self._bar.n)
        shown = {"epsilon": f"{progress.epsilon:.4g}"}
        shown.update((name, f"{value:.4g}") for name, value in progress.metrics.items())
        self._bar.set_postfix(shown)

    def end(self, run: Run | None) -> None:
        """Close the bar.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """
        if self._bar is not None:
            self._bar.close()
