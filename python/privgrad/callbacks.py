"""What is told of a run while it goes on, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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

    All calls are made on the thread that called ``privgrad.run``.
    """

    def begin(self) -> None:
        """Before the data is read."""

    def __call__(self, progress: Progress) -> None:
        """At each measurement."""

    def end(self, run: Run | None) -> None:
        """Be told of the end.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """


class _All:
    """Several callbacks, of which plain functions are told of the progress alone."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self._callbacks = list(callbacks)

    def begin(self) -> None:
        for callback in self._callbacks:
            if hasattr(callback, "begin"):
                callback.begin()

    def __call__(self, progress: Progress) -> None:
        for callback in self._callbacks:
            callback(progress)

    def end(self, run: Run | None) -> None:
        for callback in self._callbacks:
            if hasattr(callback, "end"):
                callback.end(run)


def as_callback(given: Callable[[Progress], None] | Iterable[Any] | Any) -> _All | None:
    """One callback of what a caller gives: nothing, one, or several."""
    if given is None:
        return None
    return _All([given] if callable(given) else given)


class ProgressBar:
    """A progress bar with epsilon (needs tqdm; in notebooks it is a widget).

    Parameters
    ----------
    **options
        As for ``tqdm``.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._bar: Any = None

    def begin(self) -> None:
        """Wait for the first measurement, which says how many steps there are."""
        self._bar = None

    def __call__(self, progress: Progress) -> None:
        """Move on."""
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=progress.steps, unit="step", **self._options)
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
