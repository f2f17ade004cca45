"""The exceptions of the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ConfigError",
    "DataError",
    "Interrupted",
    "ManifestError",
    "NumericError",
    "PluginError",
    "PrivacyError",
    "PrivgradError",
    "PrivgradWarning",
    "Problem",
    "StudyError",
]


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes
    ----------
    message : str
        What is wrong, in one line.
    key : str or None
        The dotted key of the manifest that has the mistake.
    file, line, column : str, int, int or None
        Its position, counted from 1. None if there is no position, as for an entry of a ``dict``.
    expected : str or None
        What is allowed.
    suggestion : str or None
        The nearest valid name.
    """

    message: str
    key: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    expected: str | None = None
    suggestion: str | None = None

    @property
    def place(self) -> str | None:
        """``FILE:LINE:COLUMN``, as far as it is known."""
        if self.file is None:
            return None
        return self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"


class PrivgradWarning(UserWarning):
    """A note that the command would print beside its result."""


class PrivgradError(Exception):
    """Base of all errors of the framework and its plugins.

    Attributes
    ----------
    problems : tuple of Problem
        All mistakes; at least one.
    """

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (Problem(message),)

    @property
    def place(self) -> str | None:
        """The position of the first problem."""
        return self.problems[0].place

    @property
    def key(self) -> str | None:
        """The dotted key of the first problem."""
        return self.problems[0].key

    @property
    def suggestion(self) -> str | None:
        """The nearest valid name, from the first problem that has one."""
        return next((p.suggestion for p in self.problems if p.suggestion), None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.problems)


class ConfigError(PrivgradError, ValueError):
    """The call is wrong: an unknown name, a value out of range, or a missing argument."""


class ManifestError(ConfigError):
    """The manifest is wrong."""


class PrivacyError(PrivgradError):
    """Refused for privacy: over budget, or a combination without a proof."""


class DataError(PrivgradError):
    """Rows or a file cannot be read or written, or have unexpected content."""


class PluginError(PrivgradError):
    """A plugin could not be trusted or loaded, or broke its contract."""


class NumericError(PrivgradError):
    """A computation produced an unusable number."""


class StudyError(PrivgradError):
    """Some runs of a study failed; the same call repeats them.

    Attributes
    ----------
    study_dir : str
        The study's directory.
    """

    study_dir: str = ""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has ended a run after a step.

    Attributes
    ----------
    run_dir : str
        The directory of the run.
    steps : int
        Number of completed steps.
    can_be_resumed : bool
        Whether ``run(resume=run_dir)`` can continue it; otherwise the directory contains the model
        so far.
    """

    def __init__(self, message: str, run_dir: str, steps: int, can_be_resumed: bool) -> None:
        super().__init__(message)
        self.run_dir = run_dir
        self.steps = steps
        self.can_be_resumed = can_be_resumed


_KINDS: dict[str, type[PrivgradError]] = {
    kind.__name__: kind
    for kind in (ConfigError, ManifestError, PrivacyError, DataError, PluginError, NumericError)
}

#: The name of a manifest given as a dict in errors; its line numbers would be meaningless.
_DICT = "<dict>"


def _problem(raw: dict[str, Any]) -> Problem:
    in_dict = raw["file"] == _DICT
    return Problem(
        message=raw["message"],
        key=raw["where"] or raw["set"],
        file=None if in_dict else raw["file"],
        line=None if in_dict else raw["line"],
        column=None if in_dict else raw["column"],
        expected=raw["expected"],
        suggestion=raw["nearest"],
    )


def _from_core(kind: str, message: str, problems: str) -> PrivgradError:
    """The exception for an error of the framework."""
    found = tuple(_problem(raw) for raw in json.loads(problems))
    if any(raw.file is None for raw in found):
        message = "\n".join(f"{p.key}: {p.message}" if p.key and p.file is None else
                            line for p, line in zip(found, message.split("\n")))
    return _KINDS[kind](message, found)
