"""The command line as functions."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._arguments import checked
from ._framework import ManifestLike, framework, manifest_text, override_lines, plain, yaml_text
from .callbacks import Progress, as_callback
from .data import kept_in_memory, lent_again, lent_manifest, lent_rows
from .errors import ConfigError, PrivgradWarning
from .results import Account, Calibration, Plan, Plugin, Predictions, Verification
from .runs import Run, _ended

if TYPE_CHECKING:
    import numpy as np

Path = str | os.PathLike[str]
Overrides = Mapping[str, Any] | Iterable[str]

__all__ = [
    "account",
    "calibrate",
    "describe",
    "evaluate",
    "plan",
    "plugins",
    "predict",
    "run",
    "schema",
    "validate",
    "verify",
]


def _accountant(accountant: str | Mapping[str, Any] | None) -> str | None:
    return accountant if accountant is None or isinstance(accountant, str) else yaml_text(plain(accountant))


def _path(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _cache(cache: bool | Path) -> str | None:
    """The folder of private copies: None for no copies, "" for the user's own folder."""
    if isinstance(cache, bool):
        return "" if cache else None
    return os.fspath(cache)


def _number(value: int | None, what: str) -> int:
    """A number of threads or runs; 0 for the default."""
    if value is not None and not 1 <= value <= 4096:
        raise ConfigError(f"{what} is {value}, allowed is [1, 4096]")
    return value or 0


def _is_alone(cluster: str | Mapping[str, Any] | None, call: str) -> bool:
    """Whether the caller asked for a single process; several processes need the command."""
    if cluster is None:
        return False
    kind = cluster.get("kind") if isinstance(cluster, Mapping) else cluster
    if kind == "local":
        return True
    raise ConfigError(
        f"cluster is {kind!r}, and a call in Python is made by one process (\"local\"); make it by the"
        f" command: mpirun -np N privgrad {call} --cluster {kind}"
    )


def _warn(notes: Iterable[str]) -> None:
    for note in notes:
        warnings.warn(note, PrivgradWarning, stacklevel=3)


@checked
def account(
    event: Mapping[str, Any] | str,
    *,
    accountant: str | Mapping[str, Any] | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    adjacency: str = "add_or_remove_one",
    plugin_dirs: Iterable[Path] = (),
) -> Account:
    """Compute the cost of an event: epsilon at a delta, or delta at an epsilon.

    Parameters
    ----------
    event : dict or str
        What a mechanism did to the data, e.g. 1000 steps of DP-SGD: ``{"event": "self_composed",
        "count": 1000, "of": {"event": "poisson_sampled", "sampling_probability": 0.01, "of":
        {"event": "gaussian", "noise_multiplier": 1.1}}}``; ``Plan.event`` is such a dict. A text is
        parsed as JSON.
    accountant : str or dict, optional
        Its name, or with parameters ``{"kind": "zcdp", "conversion": "classic"}``; default the one that
        proves most.
    delta : float, optional
        In (0, 1); epsilon is computed.
    epsilon : float, optional
        At least 0; delta is computed.
    adjacency : str
        ``"add_or_remove_one"``, ``"replace_one"`` or ``"zero_out"``.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    Account

    Raises
    ------
    ConfigError
        If the event is invalid, a number is out of range, or not exactly one of delta and epsilon
        is given.
    PrivacyError
        If the accountant has no proof for the event.
    """
    text = event if isinstance(event, str) else json.dumps(event, default=plain)
    answer = framework(plugin_dirs).account(
        _accountant(accountant), adjacency, text, delta, epsilon
    )
    return Account._of(json.loads(answer))


@checked
def calibrate(
    *,
    accountant: str | Mapping[str, Any] | None = None,
    target_epsilon: float,
    target_delta: float,
    sample_rate: float | None = None,
    allocation: int | None = None,
    steps: int | None = None,
    noise_multiplier: float | None = None,
    adjacency: str = "add_or_remove_one",
    plugin_dirs: Iterable[Path] = (),
) -> Calibration:
    """Find the noise for a number of steps, or the number of steps for a noise.

    Parameters
    ----------
    accountant : str or dict, optional
        Its name, or with parameters ``{"kind": "zcdp", "conversion": "classic"}``; default the one that
        proves most.
    target_epsilon, target_delta : float
        The guarantee: above 0, and in (0, 1).
    sample_rate : float, optional
        Probability that an example is in a batch (Poisson sampling), in (0, 1].
    allocation : int, optional
        Instead of ``sample_rate``: the number of steps of an epoch in which every example draws its
        step (random allocation).
    steps : int, optional
        The noise multiplier is computed.
    noise_multiplier : float, optional
        The number of steps is computed.
    adjacency : str
        ``"add_or_remove_one"``, ``"replace_one"`` or ``"zero_out"``.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    Calibration
        Its epsilon has been checked to be at most the target.

    Raises
    ------
    ConfigError
        If a number is out of range, or not exactly one of steps and noise_multiplier is given.
    PrivacyError
        If the accountant has no proof, or only estimates.
    """
    answer = framework(plugin_dirs).calibrate(
        _accountant(accountant), adjacency, target_epsilon, target_delta, sample_rate,
        allocation, steps, noise_multiplier,
    )
    return Calibration._of(json.loads(answer))


@checked
def plugins(*, plugin_dirs: Iterable[Path] = ()) -> list[Plugin]:
    """List the components of all plugins that were found.

    Parameters
    ----------
    plugin_dirs : iterable of path
        Folders to search first, before the directories of ``PRIVGRAD_PLUGIN_PATH``, the user's own,
        and those of the package.

    Returns
    -------
    list of Plugin
        Sorted by kind and name. Refused files cause warnings when they are found.
    """
    return [Plugin(**raw) for raw in json.loads(framework(plugin_dirs).plugins())["plugins"]]


@checked
def describe(component: str, *, plugin_dirs: Iterable[Path] = ()) -> dict[str, Any]:
    """Describe a component: what it does, its source, its parameters.

    Parameters
    ----------
    component : str
        ``"optimizer/momentum"``, or only its name if that is unique.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    dict
        The output of ``privgrad plugins describe --json``.

    Raises
    ------
    ConfigError
        If there is no such component (with the nearest name), or more than one.
    """
    return json.loads(framework(plugin_dirs).describe(component))


@checked
def schema(*, study: bool = False, plugin_dirs: Iterable[Path] = ()) -> dict[str, Any]:
    """Return a JSON Schema for manifests (or studies), made from the plugins that were found.

    Parameters
    ----------
    study : bool
        Return the schema of studies.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    dict
    """
    return json.loads(framework(plugin_dirs).schema(study))


@checked
def validate(
    manifest: ManifestLike, *, overrides: Overrides = (), plugin_dirs: Iterable[Path] = ()
) -> None:
    """Check a manifest against the plugins. Opens no data.

    Parameters
    ----------
    manifest : dict, path or str
        A text with a line break, or in braces, is the manifest itself; any other text is a path.
    overrides : dict or iterable of str
        ``{"privacy.target_epsilon": 1}``, or ``["privacy.target_epsilon=1"]``.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Raises
    ------
    ManifestError
        With all mistakes as ``problems``: place, key, what is allowed, the nearest name.
    PrivacyError
        If it is valid, but contains something that release mode refuses.
    DataError
        If files that it names are missing.
    """
    lines = override_lines(overrides)
    with lent_manifest(manifest, lines) as lent:
        framework(plugin_dirs).validate(manifest_text(lent, lines))


@checked
def plan(
    manifest: ManifestLike,
    *,
    overrides: Overrides = (),
    cache: bool | Path = False,
    plugin_dirs: Iterable[Path] = (),
) -> Plan:
    """Show what a run would do and cost. Trains nothing and releases nothing.

    Parameters
    ----------
    manifest, overrides
        As for ``validate``.
    cache : bool or path
        As for ``run``: streamed rows are stored.
    plugin_dirs : iterable of path
        As for ``validate``.

    Returns
    -------
    Plan

    Raises
    ------
    ManifestError, PrivacyError, DataError
    """
    lines = override_lines(overrides)
    with lent_manifest(manifest, lines) as lent:
        made = json.loads(framework(plugin_dirs).plan(manifest_text(lent, lines), _cache(cache)))
    _warn(made["notes"])
    return Plan._of(made["name"], made["manifest"], made["plan"])


@checked
def run(
    manifest: ManifestLike | None = None,
    *,
    overrides: Overrides = (),
    out: Path | None = None,
    resume: Path | None = None,
    finish: bool = False,
    threads: int | None = None,
    state: Path | None = None,
    locked: Path | None = None,
    cache: bool | Path = False,
    cluster: str | Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    callback: Callable[[Progress], None] | Iterable[Any] | Any = None,
    plugin_dirs: Iterable[Path] = (),
) -> Run:
    """Train the model of a manifest, or continue an interrupted run.

    Other Python threads can run meanwhile. Ctrl-C ends the run after its current step, with a
    checkpoint if the manifest asks for checkpoints.

    Parameters
    ----------
    manifest : dict, path or str, optional
        As for ``validate``; not with `resume`.
    overrides : dict or iterable of str
        As for ``validate``; not with `resume`.
    out : path, optional
        The run directory, new or empty; default ``runs/NAME-TIME``.
    resume : path, optional
        The directory of an interrupted run, which continues from its last checkpoint.
    finish : bool
        With `resume`: end the run where it was interrupted, with the model so far.
    threads : int, optional
        Default all; the result does not depend on it.
    state : path, optional
        The folder for private files, outside the run directory; default as for the command.
    locked : path, optional
        Load only the plugins of this lock file, and only if they are unchanged.
    cache : bool or path
        Store the outputs of frozen layers and costly transforms, and streamed rows, in this folder,
        and reuse them: private copies that only you can read, until ``privgrad cache delete``. True
        means the user's own folder, as for the command.
    cluster : str or dict, optional
        ``"local"``: only this process, whatever the manifest says. A run with several processes
        needs the command, ``mpirun -np N privgrad run``; docs/python.md says why.
    data : dict, optional
        With `resume`: the section ``data`` with the rows in memory with which the run began. Other
        rows are refused.
    callback : callable, or tracker, or several of them
        Called with the progress, on the calling thread; see ``privgrad.callbacks``. If it raises,
        the run ends as with Ctrl-C, and the exception is raised; after the last step it becomes a
        warning.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    Run
        Also if the status is ``"budget_exhausted"`` or ``"diverged"``.

    Raises
    ------
    ManifestError, PrivacyError, DataError, PluginError, NumericError
    Interrupted
        A ``KeyboardInterrupt`` that says how to continue the run.
    """
    if (manifest is None) == (resume is None):
        raise ConfigError("give a manifest, or resume: the directory of an interrupted run")
    if resume is not None and (overrides or out is not None or locked is not None):
        raise ConfigError("resume continues a run unchanged; overrides, out and locked do not fit")
    if finish and resume is None:
        raise ConfigError("finish ends a run that is resumed; give resume, too")
    if data is not None and resume is None:
        raise ConfigError("data is for resume; a manifest has its own")
    lines = override_lines(overrides)
    workers = _number(threads, "threads")
    alone = _is_alone(cluster, "run MANIFEST" if resume is None else "run --resume DIR")
    listener = as_callback(callback)
    loaded = framework(plugin_dirs)
    if listener is not None:
        listener.begin()
    result = None
    try:
        with lent_manifest(manifest, lines) as lent, lent_again(*_rows_of_run(loaded, resume, data)):
            made, stopped_by = loaded.run(
                None if manifest is None else manifest_text(lent, lines),
                _path(out if resume is None else resume), _path(state), _path(locked), _cache(cache),
                workers, finish, alone,
                None if listener is None else lambda report: listener(Progress._of(json.loads(report))),
            )
        result, notes = _ended(made, stopped_by, 0 if listener is None else listener.step)
    finally:
        if listener is not None:
            listener.end(result)
    _warn(notes)
    return result


def _rows_of_run(
    loaded: Any, directory: Path | None, data: Mapping[str, Any] | None
) -> tuple[dict[str, Any] | None, Mapping[str, Any] | None]:
    """The arguments of ``lent_again``: the run's section ``data``, and the rows."""
    if data is None or directory is None:
        return None, None
    manifest = os.path.join(os.fspath(directory), "manifest.yaml")
    return json.loads(loaded.data_section(manifest_text(manifest))), data


@checked
def predict(
    model: Path | Run,
    data: Any = None,
    *,
    split: str | None = None,
    keep: str | Iterable[str] = (),
    threads: int | None = None,
    plugin_dirs: Iterable[Path] = (),
) -> Predictions:
    """Apply a trained model to rows.

    Parameters
    ----------
    model, data, split
        As for ``evaluate``; the rows need no targets.
    keep : str or iterable of str, optional
        Columns of the rows' table to copy to the result, such as an id. This does not change which
        columns are features.
    threads, plugin_dirs
        As for ``evaluate``.

    Returns
    -------
    Predictions

    Raises
    ------
    ConfigError, DataError
    """
    loaded = framework(plugin_dirs)
    names = [keep] if isinstance(keep, str) else [str(name) for name in keep]
    of_memory = kept_in_memory(data, names)
    with lent_rows(data, _reading(loaded, model, data), needs_targets=False) as rows:
        made = loaded.predict(
            _model(model), _section(rows), split, names if of_memory is None else [],
            _number(threads, "threads"),
        )
    said = json.loads(made.json)
    _warn(said["remarks"])
    numbers, predicted = made.numbers(), made.predicted()
    return Predictions(
        probabilities=numbers if made.are_probabilities else None,
        values=None if made.are_probabilities else numbers,
        predicted=predicted if len(predicted) == len(numbers) else None,
        classes=tuple(said["classes"]),
        split=said["split"],
        private=said["private"],
        kept=_texts(said.get("kept", {}), names) if of_memory is None else of_memory[said["split"]],
    )


def _texts(kept: Mapping[str, list[str]], names: list[str]) -> dict[str, np.ndarray]:
    import numpy as np

    return {name: np.array(kept[name], dtype=object) for name in names}


@checked
def evaluate(
    model: Path | Run,
    data: Any = None,
    *,
    split: str | None = None,
    threads: int | None = None,
    plugin_dirs: Iterable[Path] = (),
) -> dict[str, Any]:
    """Measure how well a trained model performs.

    Parameters
    ----------
    model : path or Run
        A run (or its directory), or the file of a model.
    data : dict, path or rows, optional
        A manifest's section ``data``, or a file that contains one; or rows in memory: features, or
        (features, targets). Default: the test rows of the run.
    split : str, optional
        ``"train"`` or ``"test"``; default test if there are test rows, otherwise train.
    threads : int, optional
        Default all; the result does not depend on it.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    dict
        The output of ``privgrad evaluate --json``: ``rows``, ``loss``, ``accuracy``, ``confusion``,
        ``per_class``, ``auc``; for a regression ``mse``, ``mae``, ``r2``. ``private`` is true
        unless the rows are declared public.

    Raises
    ------
    ConfigError, DataError
    """
    loaded = framework(plugin_dirs)
    with lent_rows(data, _reading(loaded, model, data), needs_targets=True) as rows:
        return json.loads(
            loaded.evaluate(_model(model), _section(rows), split, _number(threads, "threads"))
        )


def _model(model: Path | Run) -> str:
    return os.fspath(model.run_dir if isinstance(model, Run) else model)


def _reading(loaded: Any, model: Path | Run, data: Any) -> dict[str, Any] | None:
    """How the model's own rows are read, in case `data` must be read in the same way."""
    return None if data is None else json.loads(loaded.reading(_model(model)))


def _section(data: Any) -> str | None:
    if data is None or isinstance(data, (str, os.PathLike)):
        return _path(data)
    return yaml_text(plain(data, "data"))


@checked
def verify(
    directory: Path | Run,
    *,
    client: int | None = None,
    client_dirs: Iterable[Path] = (),
    data: bool | Mapping[str, Any] = False,
    opening: Path | None = None,
    audit: bool = False,
    trusted: Path | None = None,
    sign: Path | None = None,
    new_key: bool = False,
    plugin_dirs: Iterable[Path] = (),
) -> Verification:
    """Verify a run or a study from its files.

    Parameters
    ----------
    directory : path or Run
        The directory of the run or study.
    client : int, optional
        For a run with a ledger for each client: verify the guarantee to this client.
    client_dirs : iterable of path
        For the server of a run whose clients were separate programs: their directories, to verify
        with the server's.
    data : bool or dict
        Read the training data, and compare them with the commitment in the ledger; for a run with
        rows in memory, the section ``data`` with the rows.
    opening : path, optional
        With `data`: the ``opening.json`` that the run wrote for the owner of the data.
    audit : bool
        Repeat the audit of ``audit.json``, and compare the result.
    trusted : path, optional
        Require a signature by this public key.
    sign : path, optional
        If the verification succeeds, sign with this key: ``signature.json`` in the directory.
    new_key : bool
        Create the key of `sign` first.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Returns
    -------
    Verification
        True if it verifies.

    Raises
    ------
    ConfigError, DataError
    """
    rows = None if isinstance(data, bool) else data
    if opening is not None and not data:
        raise ConfigError("opening opens what data=True compares; give both")
    if new_key and sign is None:
        raise ConfigError("new_key makes the key of sign; give both")
    loaded = framework(plugin_dirs)
    with lent_again(*_rows_of_run(loaded, _model(directory), rows)):
        made, stopped_by = loaded.verify(
            _model(directory), client, [os.fspath(one) for one in client_dirs], bool(data), audit,
            new_key, _path(opening), _path(trusted), _path(sign),
        )
    if stopped_by is not None:
        raise stopped_by
    assert made is not None  # nothing stopped it
    return Verification._of(json.loads(made))
