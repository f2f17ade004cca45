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

    The runs are made in this process, where rows in memory and prototypes are; the command makes each
    in a process of its own. What they leave is the same, and each goes on with what the other has begun.

    Parameters
    ----------
    study : dict, path or str
        As manifests are given; its format is that of docs/studies.md.
    overrides : dict or iterable of str
        Changes of the base.
    out : path, optional
        The study's directory; default ``studies/NAME``. One that was begun is continued.
    jobs : int, optional
        Runs at a time; default as many as the cores have room for. The results do not depend on it.
    threads : int, optional
        Of each run; default the cores, shared out among the runs at a time. The results do not depend
        on it.
    cache : bool or path
        As for ``privgrad.run``, of all runs.
    callback : callable, optional
        Told ``{"run", "done", "runs"}`` after each run, on the calling thread.
    plugin_dirs : iterable of path
        Looked through for plugins first.

    Returns
    -------
    Study

    Raises
    ------
    ManifestError, PrivacyError, DataError
    StudyError
        If runs failed; the same call tries them again.
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
        What ``privgrad ablate --dry-run --json`` prints: of each of ``arms`` the plan, and about how
        many seconds a run takes on one thread.

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
    assert made is not None  # where nothing stopped it
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
    threads: int | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
    plugin_dirs: Iterable[Path] = (),
) -> Audit:
    """Bound epsilon from below, by attacking a manifest, or a run that was made.

    Parameters
    ----------
    manifest : dict, path, str or Run
        A manifest trains on its private rows, and charges nothing: do not publish the result. Of a
        run (or its directory) rows are drawn from a public law, and ``audit.json`` is left there.
    overrides : dict or iterable of str
        As for ``privgrad.validate``; not of a run.
    canaries : int, optional
        Of one run; default 1000, or all rows.
    runs : int, optional
        Train so often instead, with one canary that is there in half of the runs.
    confidence : float, optional
        Of the lower bound, in (0, 1); default 0.99.
    neighbours : str, optional
        Of repeated runs: ``"canary"``, ``"rounding"`` or ``"lattice"``.
    threads : int, optional
        Default all; the result does not depend on it.
    callback : callable, optional
        Told ``{"run", "runs"}``, on the calling thread.
    plugin_dirs : iterable of path
        Looked through for plugins first.

    Returns
    -------
    Audit

    Raises
    ------
    ManifestError, ConfigError, PrivacyError, DataError
    """
    directory = _run_directory(manifest)
    if directory is not None and overrides:
        raise ConfigError("overrides change a manifest, and that of a run stays as it was")
    lines = override_lines(overrides)
    with lent_manifest(manifest, lines) as lent:
        made, stopped_by = framework(plugin_dirs).audit(
            manifest_text(lent, lines) if directory is None else None,
            directory or "", canaries, runs, confidence, neighbours, _number(threads, "threads"),
            None if callback is None else lambda report: callback(json.loads(report)),
        )
    if stopped_by is not None:
        raise stopped_by
    assert made is not None  # where nothing stopped it
    return Audit._of(json.loads(made))


def _run_directory(manifest: Any) -> str | None:
    if isinstance(manifest, Run):
        return os.fspath(manifest.run_dir)
    is_path = isinstance(manifest, os.PathLike) or (
        isinstance(manifest, str) and "\n" not in manifest
    )
    return os.fspath(manifest) if is_path and FilePath(manifest).is_dir() else None
