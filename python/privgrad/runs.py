"""A finished run, read from the files of its directory."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import DataError, Interrupted
from .results import number, pandas

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """The result of a run.

    Attributes
    ----------
    status : str
        ``"completed"``, ``"budget_exhausted"``, ``"stopped_early"``, ``"diverged"``,
        ``"interrupted"`` or ``"untrained"`` (no client's model ever arrived).
    steps : int
        Number of steps that were made.
    epsilon, delta : float
        The guarantee; infinite without noise.
    accountant : str
        The accountant that proves it.
    metrics : dict of str to float or None
        ``train_loss``, ``train_accuracy``, ``test_loss``, ``test_accuracy``; None if there is no
        value, or it may not be shown. With ``gradient_norm: true`` also ``gradient_norm``, for the
        final model, and ``mean_gradient_norm``, over the run.
    unaccounted : tuple of str
        Uses of private rows that were not charged.
    mode : str
        ``"research"`` or ``"release"``.
    reproducible : bool
        Whether the randomness came from a seed, with which the noise could be removed.
    seconds : float or None
        Duration of the training loop; None if it would reveal private sizes.
    run_dir : pathlib.Path
        The directory of the run.
    json : dict
        The output of ``privgrad run --json``.
    """

    status: str
    steps: int
    epsilon: float
    delta: float
    accountant: str
    metrics: dict[str, float | None]
    unaccounted: tuple[str, ...]
    mode: str
    reproducible: bool
    seconds: float | None
    run_dir: Path
    json: dict[str, Any] = field(repr=False)

    @classmethod
    def _of(cls, summary: dict[str, Any]) -> Run:
        return cls(
            status=summary["status"],
            steps=summary["steps"],
            epsilon=number(summary["epsilon"]),
            delta=summary["delta"],
            accountant=summary["accountant"],
            metrics=summary["metrics"],
            unaccounted=tuple(str(item) for item in summary["unaccounted"]),
            mode=summary["mode"],
            reproducible=summary["reproducible"],
            seconds=summary.get("seconds"),
            run_dir=Path(summary["run_dir"]),
            json=summary,
        )

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Run:
        """Read an earlier run.

        Parameters
        ----------
        directory : path
            The directory of the run.

        Returns
        -------
        Run

        Raises
        ------
        DataError
            If there is no summary, because there is no run or it was interrupted.
        """
        file = Path(directory) / "summary.json"
        try:
            summary = json.loads(file.read_text(encoding="utf-8"))
            return cls._of({**summary, "run_dir": os.fspath(directory)})
        except (OSError, KeyError, ValueError) as problem:
            raise DataError(f"{file}: is not a summary of a run: {problem}") from problem

    def history(self) -> list[dict[str, Any]]:
        """Return the measurements made during the run.

        Returns
        -------
        list of dict
            One dict for each line of ``metrics.jsonl``.
        """
        lines = (self.run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def frame(self) -> Any:
        """Return the measurements made during the run as a frame.

        Returns
        -------
        pandas.DataFrame
            A row for each line of ``metrics.jsonl``.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        """
        return pandas().DataFrame(self.history())

    def manifest(self) -> str:
        """Return the manifest with all defaults filled in.

        Returns
        -------
        str
            YAML.
        """
        return (self.run_dir / "manifest.yaml").read_text(encoding="utf-8")

    def statement(self) -> dict[str, Any]:
        """Return the privacy statement.

        Returns
        -------
        dict
            The content of ``statement.json``.
        """
        return json.loads((self.run_dir / "statement.json").read_text(encoding="utf-8"))

    def event(self) -> dict[str, Any]:
        """Return the event whose cost is the run's epsilon.

        This is the event that was charged to its ledger. If releases decided how the run continued
        (it stopped because of its reports, it diverged, or its noise adapts), it is everything that
        the run could have done.

        Returns
        -------
        dict
            An event for ``privgrad.account``. For several runs on the same rows that were chosen in
            advance, ``{"event": "composed", "of": [...]}`` gives their total cost.

        Raises
        ------
        DataError
            If there is no single ledger: a federated run has one for each client, and a run without
            noise has none. Also if the run was made by an earlier version, whose summaries do not
            contain the event.
        """
        if "accounted_event" not in self.json:
            raise DataError(
                f"{self.run_dir / 'summary.json'}: has no accounted_event, expected what the epsilon of the run is"
                " the cost of, if not of what its ledger was charged; runs of earlier versions do not say it"
            )
        if self.json["accounted_event"] is not None:
            accounted: dict[str, Any] = self.json["accounted_event"]
            return accounted
        file = self.run_dir / "ledger.jsonl"
        if not file.exists():
            raise DataError(
                f"{file}: is not there; a federated run has a ledger for each client, and one without noise none"
            )
        lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
        events = (line["event"] for line in lines if line["type"] == "release")
        return {
            "event": "composed",
            "of": [
                {"event": "self_composed", "count": sum(1 for _ in same), "of": event}
                for event, same in itertools.groupby(events)
            ],
        }

    def _repr_html_(self) -> str:
        from ._html import run_html

        return run_html(self)


def _ended(made: str | None, stopped_by: BaseException | None, told: int) -> tuple[Run, list[str]]:
    """Turn the result of a call into a Run, with warnings; raise the exception that stopped it.

    If a callback raises at the last step (`told`), there is nothing to stop. At an earlier step its
    exception is raised, even if the run has meanwhile finished.
    """
    answer: Any = None if made is None else json.loads(made)
    if stopped_by is None:
        return Run._of(answer["summary"]), answer["notes"]
    if answer is None:
        raise stopped_by
    summary = answer["summary"]
    is_over = summary["status"] != "interrupted"
    if is_over and told >= summary["steps"] and isinstance(stopped_by, Exception):
        note = f"callback: after the last step: {type(stopped_by).__name__}: {stopped_by}"
        return Run._of(summary), [*answer["notes"], note]
    directory, steps = summary["run_dir"], summary["steps"]
    message = f"{'over' if is_over else 'interrupted'} after step {steps} of {answer['planned_steps']}; " + (
        f"resume with: privgrad.run(resume={directory!r})" if answer["can_be_resumed"]
        else f"{directory} holds the model so far"
    )
    if isinstance(stopped_by, KeyboardInterrupt):
        raise Interrupted(message, directory, steps, answer["can_be_resumed"]) from stopped_by
    if hasattr(stopped_by, "add_note"):  # since Python 3.11
        stopped_by.add_note(f"privgrad: {message}")
    raise stopped_by
