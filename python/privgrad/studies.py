"""Studies and audits: calls that train many times."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from ._arguments import checked
from ._framework import ManifestLike, framework, manifest_text, override_lines, plain, yaml_text
from .api import Overrides, Path, _cache, _number, _path, _warn
from .data import lent_manifest
from .errors import _DICT, ConfigError, Interrupted, Problem, StudyError
from .results import Audit, Study
from .runs import Run

__all__ = ["ablate", "audit", "plan_study"]


@checked
def ablate(
    study: ManifestLike,
    *,
    overrides: Overrides = (),
    out: Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    cache: bool | Path = False,
    callback: Callable[[dict[str, Any]], None] | None = None,
    plugin_dirs: Iterable[Path] = (),
) -> Study:
    """Compare variants of a manifest at the same privacy.

    The runs are made in this process, which has the rows in memory and the prototypes; the command
    makes each run in its own process. The results are the same, and each can continue a study that
    the other began.

    Parameters
    ----------
    study : dict, path or str
        Given like a manifest; docs/studies.md describes the format.
    overrides : dict or iterable of str
        Changes to the base.
    out : path, optional
        The study's directory; default ``studies/NAME``. An unfinished study is continued.
    jobs : int, optional
        Number of runs at a time; default: as many as fit on the cores. The results do not depend on
        it.
    threads : int, optional
        Threads of each run; default: the cores divided by the runs at a time. The results do not
        depend on it.
    cache : bool or path
        As for ``privgrad.run``, for all runs.
    callback : callable, optional
        Called with ``{"run", "done", "runs"}`` after each run, on the calling thread.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    Study

    Raises
    ------
    ManifestError, PrivacyError, DataError
    StudyError
        If runs failed; the same call repeats them.
    Interrupted
        A ``KeyboardInterrupt``; the same call continues the study.
    """
    at_a_time, of_each = _number(jobs, "jobs"), _number(threads, "threads")
    lines = override_lines(overrides)
    with lent_manifest(study, lines) as lent:
        made, stopped_by = framework(plugin_dirs).ablate(
            *_study_text(lent), lines, _path(out), _cache(cache), at_a_time,
            of_each, False,
            None if callback is None else lambda report: callback(json.loads(report)),
        )
    answer: Any = None if made is None else json.loads(made)
    if stopped_by is not None:
        if answer is None or not isinstance(stopped_by, KeyboardInterrupt):
            raise stopped_by
        raise Interrupted(
            f"interrupted; the same call continues the study of {answer['study_dir']}",
            answer["study_dir"], 0, True,
        ) from stopped_by
    _warn(answer["notes"])
    if answer["left"]:
        failed = answer["failed"] or [f"{answer['left']} runs are left"]
        error = StudyError("\n".join(failed), tuple(Problem(line) for line in failed))
        error.study_dir = answer["study_dir"]
        raise error
    return Study._of(answer["results"])


@checked
def plan_study(
    study: ManifestLike, *, overrides: Overrides = (), plugin_dirs: Iterable[Path] = ()
) -> dict[str, Any]:
    """Plan and calibrate every arm of a study. Trains nothing and releases nothing.

    Parameters
    ----------
    study, overrides, plugin_dirs
        As for ``ablate``.

    Returns
    -------
    dict
        The output of ``privgrad ablate --dry-run --json``: for each of ``arms`` the plan, and the
        estimated seconds of a run on one thread.

    Raises
    ------
    ManifestError, PrivacyError, DataError
    """
    lines = override_lines(overrides)
    with lent_manifest(study, lines) as lent:
        made, stopped_by = framework(plugin_dirs).ablate(
            *_study_text(lent), lines, None, None, 0, 0, True, None
        )
    if stopped_by is not None:
        raise stopped_by
    assert made is not None  # nothing stopped it
    answer = json.loads(made)
    _warn(answer["notes"])
    planned: dict[str, Any] = answer["plan"]
    return planned


def _study_text(study: ManifestLike) -> tuple[bool, str, str]:
    if isinstance(study, Mapping):
        return False, yaml_text(plain(study)), _DICT
    if isinstance(study, str) and ("\n" in study or study.lstrip().startswith("{")):
        return False, study, "<text>"
    return True, os.fspath(study), ""


@checked
def audit(
    manifest: ManifestLike | Run,
    *,
    overrides: Overrides = (),
    canaries: int | None = None,
    runs: int | None = None,
    confidence: float | None = None,
    neighbours: str | None = None,
    exposure: bool = False,
    threads: int | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
    plugin_dirs: Iterable[Path] = (),
) -> Audit:
    """Bound epsilon from below by attacking a manifest, or a finished run.

    Parameters
    ----------
    manifest : dict, path, str or Run
        With a manifest, the attack trains on the private rows without charging them: do not publish
        the result. For a run (or its directory), rows are drawn from a public distribution, and
        ``audit.json`` is written there.
    overrides : dict or iterable of str
        As for ``privgrad.validate``; not for a run.
    canaries : int, optional
        Number of canaries in a single run; default 1000, or all rows.
    runs : int, optional
        Instead, train this often, with one canary that is present in half of the runs.
    confidence : float, optional
        The confidence of the lower bound, in (0, 1); default 0.99.
    neighbours : str, optional
        For repeated runs: ``"canary"``, ``"rounding"`` or ``"lattice"``.
    exposure : bool, optional
        For a manifest with ``loss: next_token``: canaries are rows of random tokens, and the model
        after the last step is attacked. ``json["exposure"]`` of the result says how well the model
        remembers them.
    threads : int, optional
        Default all; the result does not depend on it.
    callback : callable, optional
        Called with ``{"run", "runs"}``, on the calling thread.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    Audit

    Raises
    ------
    ManifestError, ConfigError, PrivacyError, DataError
    """
    directory = _run_directory(manifest)
    if directory is not None and overrides:
        raise ConfigError("overrides cannot change the manifest of a run")
    lines = override_lines(overrides)
    with lent_manifest(manifest, lines) as lent:
        made, stopped_by = framework(plugin_dirs).audit(
            manifest_text(lent, lines) if directory is None else None,
            directory or "", canaries, runs, confidence, neighbours, exposure,
            _number(threads, "threads"),
            None if callback is None else lambda report: callback(json.loads(report)),
        )
    if stopped_by is not None:
        raise stopped_by
    assert made is not None  # nothing stopped it
    return Audit._of(json.loads(made))


def _run_directory(manifest: Any) -> str | None:
    if isinstance(manifest, Run):
        return os.fspath(manifest.run_dir)
    is_path = isinstance(manifest, os.PathLike) or (
        isinstance(manifest, str) and "\n" not in manifest
    )
    return os.fspath(manifest) if is_path and FilePath(manifest).is_dir() else None
