"""Estimators for scikit-learn, trained under differential privacy.

They need facts that must not come from the data: bounds, class labels, and in some cases the number
of rows. Undeclared facts are computed from the rows and listed as unaccounted; release mode refuses
this, and there no row decides whether ``fit`` raises.
"""

# File length: the estimators share the code that decides which facts are public, and scikit-learn
# expects them in one module.

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from . import _cells, _export, api
from ._framework import plain, yaml_text
from ._origins import share_rows
from .errors import ConfigError, DataError, PrivacyError, PrivgradWarning
from .results import Verification
from .runs import Run

__all__ = ["EXPECTED_FAILED_CHECKS", "DPClassifier", "DPGridSearch", "DPRegressor"]

#: Checks of ``check_estimator`` that contradict privacy, each with the reason.
EXPECTED_FAILED_CHECKS: dict[str, dict[str, str]] = {
    "DPClassifier": {},
    "DPRegressor": {
        "check_regressors_train": (
            "asks R2 above 0.5 of 200 rows; the noise of epsilon 1 does not allow that (at epsilon 1000"
            " it passes)"
        ),
    },
}

_counter = itertools.count()

#: The keys about the data that ``manifest`` may contain; all others follow from the parameters and
#: the rows of fit().
_OF_DATA = ("feature_names", "read_off_rows", "size", "streaming", "transforms")


class _Folder:
    """A temporary folder that is deleted with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="privgrad-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(kw_only=True, eq=False, repr=False)
class _DPEstimator(BaseEstimator):
    """The common part of both estimators: the manifest that they make, and the run."""

    #: Parameters that are computed from the rows if they are not declared, with a name for the
    #: fact.
    _facts = {"bounds": "bounds of the features"}
    _loss: ClassVar[str]

    epsilon: float = 1.0
    delta: float = 1e-5
    model: str | Mapping[str, Any] = "linear"
    bounds: tuple[Any, Any] | None = None
    feature_fill: float | None = None
    clip_norm: float = 1.0
    learning_rate: float = 0.5
    steps: int = 100
    batch_size: float | None = None
    optimizer: str | Mapping[str, Any] = "sgd"
    accountant: str | Mapping[str, Any] = "zcdp"
    adjacency: str = "zero_out"
    size: int | None = None
    mode: str = "research"
    manifest: Mapping[str, Any] | None = None
    threads: int | None = None
    callback: Any = None
    random_state: int | None = None
    out: str | os.PathLike[str] | None = None

    @abstractmethod
    def _task(self, y: Any) -> dict[str, Any]:
        """The entries of the section ``data`` about the targets."""

    @abstractmethod
    def _rows_of_fit(self, X: Any, y: Any) -> Any:
        """The checked features and targets of fit()."""

    def _model(self) -> dict[str, Any]:
        if not isinstance(self.model, (str, Mapping)):
            raise ConfigError(f"model: is of type {type(self.model).__name__}, expected a name or a dict")
        model = {"kind": self.model} if isinstance(self.model, str) else dict(self.model)
        return {"loss": self._loss, **model}

    def _manifest(self) -> dict[str, Any]:
        """The manifest that fit() runs, without its rows; keys of ``manifest`` take precedence."""
        _check_epsilon(self.epsilon)
        made: dict[str, Any] = {
            "privgrad": 1,
            "mode": self.mode,
            "data": {} if self.size is None else {"size": self.size},
            "model": self._model(),
            "sampler": "full_batch" if self.batch_size is None else {
                "kind": "poisson", "batch_size": self.batch_size,
            },
            "optimizer": self.optimizer,
            "schedules": {
                "clip_norm": self.clip_norm,
                "learning_rate": self.learning_rate,
                "noise_multiplier": "uniform",
            },
            "privacy": {
                "target_epsilon": self.epsilon,
                "target_delta": self.delta,
                "adjacency": self.adjacency,
                "accountant": self.accountant,
            },
            "steps": self.steps,
            "checkpoint": "off",
        }
        if self.random_state is not None:
            made["seed"] = _seed(self.random_state)
        more = self._more()
        for section in ("data", "privacy"):
            if not isinstance(more.get(section, {}), Mapping):
                raise ConfigError(f"manifest: {section} is not a dict")
        for key in more.get("data", {}):
            if key not in _OF_DATA:
                raise ConfigError(
                    f"manifest: data.{key} is said by the rows of fit() and the parameters of the"
                    f" estimator; of data, there can be {', '.join(_OF_DATA)}"
                )
        if more.get("federated") is not None:
            raise ConfigError("manifest: federated runs are made by privgrad.run()")
        return _merged(made, more)

    def _more(self) -> Mapping[str, Any]:
        more = {} if self.manifest is None else self.manifest
        if not isinstance(more, Mapping):
            raise ConfigError(f"manifest: is of type {type(more).__name__}, expected a dict")
        return more

    def _is_release(self) -> bool:
        return bool(_merged({"mode": self.mode}, self._more())["mode"] == "release")

    def _read(self, manifest: Mapping[str, Any]) -> list[str]:
        """The undeclared facts, which are computed from the rows.

        Raises
        ------
        PrivacyError
            In release mode, before any row is read.
        """
        missing = [name for name in self._facts if getattr(self, name) is None]
        if self._is_release():
            if steps := _steps_around(self):
                warnings.warn(
                    f"the steps {', '.join(steps)} were fitted on all rows by the pipeline around this estimator, which no"
                    " epsilon covers; fit them on public rows, or list them by read_off_rows",
                    PrivgradWarning, stacklevel=3,
                )
            if (manifest["privacy"].get("adjacency") == "add_or_remove_one"
                    and manifest["data"].get("size") is None):
                missing.append("size")
            if missing:
                raise PrivacyError(
                    f"{', '.join(missing)}: not declared, and release mode reads nothing off the rows;"
                    " declare them"
                )
        return [self._facts[name] for name in missing]

    def _lent(self, manifest: Mapping[str, Any], features: np.ndarray, targets: np.ndarray,
              of_task: Mapping[str, Any], read: Sequence[str]) -> dict[str, Any]:
        """The manifest with the rows, and with the facts computed from them.

        Rows that do not fit have already been replaced (_validated, _scaled), so the source's fill
        is never used; release mode requires one anyway, because no error may reveal a row.
        """
        self._check_size(manifest, len(features))
        data = {**manifest["data"], "kind": "memory", **of_task, "train": {
            "features": features, "targets": targets, "table": f"scikit-learn-{next(_counter)}",
        }}
        if self._is_release():
            data |= {"target_fill": 0, "feature_fill": 0}
        return {**manifest, "data": _with_facts(data, read)}

    @staticmethod
    def _check_size(manifest: Mapping[str, Any], rows: int) -> None:
        """Explain what to do if the declared size counts all rows, but these are the rows of a fold."""
        size = manifest["data"].get("size")
        adjacency = manifest["privacy"].get("adjacency")
        if adjacency == "add_or_remove_one" or not isinstance(size, int) or size == rows:
            return
        raise ConfigError(
            f"size: is {size}, and there are {rows} rows; under {adjacency} the number of rows is public, and"
            " needs no size: leave it out, so that each fold of a cross-validation has its own; under"
            " add_or_remove_one it may differ"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.feature_fill is not None or self._is_release()
        return tags

    def _validated(self, X: Any, *y: Any, **how: Any) -> Any:
        """Features, with their fill if there is one, and unchanged targets.

        Outside release mode, rows that validate_data() refuses are refused.
        """
        fill = self.feature_fill
        if fill is not None and not _is_finite(fill):
            raise ConfigError(f"feature_fill: is {fill}, expected a finite number")
        if self._is_release():
            table = _cells.table(X)
            validate_data(self, X, skip_check_array=True, reset=how.get("reset", True))
            features = _cells.numbers(table)
            others = [_cells.column(one, len(table)) for one in y]
        else:
            if fill is not None and len(getattr(X, "shape", ())) == 2:  # read as in release mode
                validate_data(self, X, skip_check_array=True, reset=how.pop("reset", True))
                X, check = _cells.numbers(_cells.table(X)), check_X_y if y else check_array
                checked = check(X, *y, dtype=np.float64, ensure_all_finite=False, **how)
            else:
                checked = validate_data(self, X, *y, dtype=np.float64, ensure_all_finite=fill is None, **how)
            features, *others = checked if y else (checked,)
        if fill is not None:
            features = _cells.finite_or(features, float(fill))
        return (features, *others) if y else features

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Features scaled from their bounds to [-1, 1] and clipped: a function of each row alone.

        A value that is not finite becomes the middle if there is no fill.
        """
        low, high = self._low, self._high
        width = np.where(high > low, high - low, 1.0)
        inside = 2 * ((_within(_cells.finite_or(X, low), low, high) - low) / width) - 1
        return np.where(np.isfinite(X), inside, 0.0).astype(np.float32)

    def _set_bounds(self, X: np.ndarray) -> None:
        """Use the declared bounds, or compute them from the rows."""
        if self.bounds is None:
            self._low, self._high = X.min(axis=0), X.max(axis=0)
        else:
            self._low, self._high = _bounds("bounds", self.bounds, (X.shape[1],))

    def _train(self, manifest: Mapping[str, Any], read: Sequence[str]) -> None:
        self._folder = _Folder() if self.out is None else None
        out: Any = self.out
        state = None
        if self._folder is not None:
            out, state = self._folder.path / "run", self._folder.path / "state"
        was_there = not isinstance(out, (str, os.PathLike)) or os.path.exists(os.path.join(out, "ledger.jsonl"))
        try:
            self._keep(api.run(manifest, out=out, state=state, threads=self.threads, callback=self.callback))
        except BaseException:  # from a callback, or Ctrl-C: what was charged before has a ledger
                               # and a model
            if not was_there:
                with contextlib.suppress(OSError, DataError):
                    self.ledger_ = (Path(out) / "ledger.jsonl").read_text(encoding="utf-8")
                    self._keep(Run.open(out))
            raise
        finally:
            if state is not None:  # private, and useless for a run that is not resumed
                shutil.rmtree(state, ignore_errors=True)
        if read:
            warnings.warn(
                f"{', '.join(read)}: read off the rows, and covered by no epsilon; declare them",
                PrivgradWarning, stacklevel=3,
            )

    def _keep(self, run: Run) -> None:
        """Take over the results of a run."""
        self.run_ = run
        self.ledger_ = (run.run_dir / "ledger.jsonl").read_text(encoding="utf-8")
        self.epsilon_ = run.epsilon
        self.event_ = run.event()
        self.model_ = (run.run_dir / "model.safetensors").read_bytes()
        self.statement_ = run.statement()
        self.report_ = (run.run_dir / "report.html").read_text(encoding="utf-8")
        self.n_iter_ = run.steps
        self.unaccounted_ = run.unaccounted

    def _check_public(self, X: Any, y: Any, width: int | None, of_fit: Any) -> None:
        """Refuse public rows on which no score can be computed, before anything is charged.

        Parameters
        ----------
        width : int, optional
            Number of the model's features; None if other steps compute them.
        of_fit
            The targets of fit().
        """
        shape = _shape(_cells.table(X) if self._is_release() else X)
        if len(shape) != 2 or shape[0] == 0 or width not in (None, shape[1]):
            raise ConfigError(f"X has the shape {shape}, expected [rows, {width or 'features'}] as of fit(), with rows")
        if (width is not None and not self.__sklearn_tags__().input_tags.allow_nan
                and not np.isfinite(_cells.numbers(np.asarray(X))).all()):
            raise ConfigError("X has a feature that is no finite number, and feature_fill is not declared")
        self._check_type(getattr(y, "dtype", None))
        self._check_targets(_cells.column(y, shape[0]), of_fit)

    def _check_type(self, kind: Any) -> None:
        """Refuse targets because of their type."""

    @abstractmethod
    def _check_targets(self, targets: np.ndarray, of_fit: Any) -> None:
        """Refuse targets on which no score can be computed."""

    def _plan(self, X: Any, y: Any) -> Any:
        """The plan of a training: it depends on the number of rows, but not on their values."""
        manifest = self._manifest()
        read = self._read(manifest)
        rows, width = _shape(_cells.table(X) if self._is_release() else X)
        lent = self._lent(manifest, np.zeros((rows, width), dtype=np.float32),
                          np.zeros(rows, dtype=np.float32), self._task(y), read)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivgradWarning)
            return api.plan(lent)

    def _predictions(self, X: Any) -> Any:
        X = self._validated(X, reset=False)
        return self._applied(api.predict, {"unlabelled": True}, {"features": self._scaled(X)})

    def _applied(self, call: Any, section: Mapping[str, Any], rows: Mapping[str, Any]) -> Any:
        """The result of a call for the model and rows."""
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(self.model_)
            file.flush()
            data = {"kind": "memory", **section, "train": {**rows, "table": f"scikit-learn-{next(_counter)}"}}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivgradWarning)
                return call(file.name, data, threads=self.threads)

    def export(self, out: str | os.PathLike[str], *, plugin_dirs: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Write the estimator as ONNX, for other programs; its input is the rows of predict().

        The input of the graph is ``features``, float32, [n, features], which it clips to their
        bounds. Its outputs are ``probabilities``, in the order of ``classes_``, and the name of
        each row's ``class``; or ``values``, in the units of the targets.

        Parameters
        ----------
        out : path
            The file to write; replaced if it exists.
        plugin_dirs : iterable of path
            Folders to search for plugins first.

        Raises
        ------
        ConfigError
            If ONNX has no operations for a part of the model.
        DataError
            If the file cannot be written.
        """
        check_is_fitted(self)
        otherwise = np.zeros((0, len(self._low)))  # such a row has no prediction
        if self.feature_fill is not None or self._is_release():
            fill = np.nan if self.feature_fill is None else float(self.feature_fill)
            otherwise = self._scaled(np.full((1, len(self._low)), fill))
        around = {"low": self._low.tolist(), "high": self._high.tolist(), "otherwise": otherwise.ravel().tolist(),
                  "values": None, "classes": [], **self._around()}
        with tempfile.TemporaryDirectory(prefix="privgrad-") as folder:
            model, estimator = Path(folder) / "model.safetensors", Path(folder) / "estimator.json"
            model.write_bytes(self.model_)
            estimator.write_text(json.dumps(around), encoding="utf-8")
            _export.write([f"--estimator={estimator}", str(model)], out, plugin_dirs)

    @abstractmethod
    def _around(self) -> dict[str, Any]:
        """The mapping of outputs, in the format of ``privgrad export --estimator``."""

    def verify(self, **how: Any) -> Verification:
        """Verify the run from its files, as ``privgrad.verify`` does.

        Parameters
        ----------
        **how
            The arguments of ``privgrad.verify``.

        Returns
        -------
        Verification
            True if it verifies.

        Raises
        ------
        DataError
            If the run was in a temporary folder, and the fitted estimator no longer exists.
        """
        check_is_fitted(self)
        if not self.run_.run_dir.exists():
            raise DataError(
                f"{self.run_.run_dir}: is gone with the estimator that was fitted; out= keeps a run"
            )
        return api.verify(self.run_, **how)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_folder", None)  # it belongs to this object, not to its copies
        return state


def _shape(X: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return shape


def _is_finite(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and bool(np.isfinite(_cells.number_of(value)))


def _check_epsilon(epsilon: Any) -> None:
    if not (_is_finite(epsilon) and epsilon > 0):
        raise ConfigError(
            f"epsilon: is {epsilon}, expected a number above 0; manifest={{\"privacy\": {{\"noise\": \"off\"}}}} trains"
            " without noise"
        )


def _bounds(name: str, given: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Declared bounds: finite, with finite widths, and the lower ones below the upper ones."""
    try:
        low, high = (np.broadcast_to(np.asarray(bound, dtype=float), shape) for bound in given)
    except (TypeError, ValueError):
        each = f", each a number or {shape[0]} of them, one for each feature" if shape else ""
        raise ConfigError(f"{name}: expected (low, high){each}") from None
    with np.errstate(over="ignore"):
        if not (np.all(low < high) and np.all(np.isfinite(high - low))):
            raise ConfigError(f"{name}: the lower ones are not below the upper ones, by a finite number")
    return low, high


def _within(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """The values rounded to float32, the type of features and targets, within their bounds."""
    with np.errstate(over="ignore"):
        return np.clip(np.clip(values, low, high).astype(np.float32).astype(np.float64), low, high)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if not isinstance(random_state, np.random.RandomState):
        raise ConfigError(f"random_state: is of type {type(random_state).__name__}, expected an int or a RandomState")
    return int(random_state.randint(2**31))


def _steps_around(estimator: Any) -> list[str]:
    """The steps of the pipeline that calls fit() of an estimator; it has fitted them on all rows.

    Pipelines do not tell their last step about the others, so this looks for them among the
    callers.
    """
    names: list[str] = []
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline) and caller.steps[-1][1] is estimator:
            names = [*_steps_before(caller), *names]
            estimator = caller
        frame = frame.f_back  # type: ignore[assignment]
    return names


def _merged(made: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in more.items():
        inner = made.get(key)
        if isinstance(inner, dict) and isinstance(value, Mapping) and "kind" not in value:
            made[key] = _merged(dict(inner), value)
        else:
            made[key] = value
    return made


_PARAMETERS = """
    Parameters
    ----------
    epsilon, delta : float
        The budget; never exceeded.
    model : str or dict
        A component: ``"linear"``, or ``{"kind": "mlp", "hidden": [32]}``.
    bounds : (low, high), optional
        Of the features, each a number or one for each feature. Features are clipped to them and mapped
        to [-1, 1]. Not given, they are read off the rows, which ``unaccounted_`` lists, and release
        mode refuses.
    feature_fill : float, optional
        What a feature counts as that is missing, NaN or infinite, in the units of the features. Not
        given, such a feature is an error, as for other estimators; in release mode, where no error
        tells of a row, and a text is none either, it is in the middle of its bounds.
    clip_norm, learning_rate : float
        Of the gradients.
    steps : int
        Of training.
    batch_size : float, optional
        Poisson sampling with this expectation; by default every step takes all rows.
    optimizer, accountant : str or dict
        Components.
    adjacency : str
        What neighbouring data sets are.
    size : int, optional
        The declared, public number of rows. Under ``replace_one`` and ``zero_out`` their number is public
        by itself.
    mode : str
        ``"research"`` or ``"release"``.
    manifest : dict, optional
        Any other key of a manifest, which goes before what the other parameters make. Of ``data``:
        ``feature_names``, ``read_off_rows``, ``size``, ``streaming`` and ``transforms``.
    threads : int, optional
        Default all; the result does not depend on it.
    callback : callable, optional
        As for ``privgrad.run``.
    random_state : int, optional
        Whoever knows it can remove the noise: for tests, not for release.
    out : path, optional
        Keep the run in this directory, new or empty. Not given, it is in a temporary folder, which is
        gone with the estimator. One directory holds one run: in a cross-validation, leave it out.

    Attributes
    ----------
    run_ : Run
        What came of the training.
    epsilon_ : float
        The guarantee of the run.
    event_ : dict
        What costs it, as ``Run.event`` says.
    unaccounted_ : tuple of str
        What no epsilon covers, as the run's files say it.
    model_, ledger_ : bytes, str
        The files of the run.
    statement_ : dict
        Its privacy statement.
    report_ : str
        Its page, HTML.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class DPClassifier(ClassifierMixin, _DPEstimator):
    __doc__ = f"""A classifier under differential privacy.
{_PARAMETERS}"""

    _loss = "cross_entropy"
    _facts = {**_DPEstimator._facts, "classes": "class labels"}

    classes: Sequence[Any] | None = None

    def fit(self, X: Any, y: Any) -> DPClassifier:
        """Train, and charge for it.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Labels. In release mode, a label that is not in ``classes`` counts as the first class.

        Returns
        -------
        DPClassifier
            Itself.
        """
        manifest = self._manifest()
        read = self._read(manifest)
        X, y = self._rows_of_fit(X, y)
        places = _cells.places(y, self.classes_, other=0 if self._is_release() else np.nan)
        if np.isnan(places).any():
            raise ValueError("y has labels that classes lacks")
        self._set_bounds(X)
        self._train(self._lent(manifest, self._scaled(X), places, self._task(y), read), read)
        return self

    def _rows_of_fit(self, X: Any, y: Any) -> Any:
        if not self._is_release():
            self._check_type(getattr(y, "dtype", None))
        X, y = self._validated(X, y)
        if not self._is_release():
            check_classification_targets(y)
        self.classes_ = self._classes(y)
        if len(self.classes_) < 2:
            raise ConfigError("Classifier can't train when only one class is present.")
        return X, y

    def _around(self) -> dict[str, Any]:
        return {"classes": [str(label) for label in self.classes_.tolist()]}

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Say how well the model predicts, as ``privgrad.evaluate`` does; private if the rows are private.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Labels, each of ``classes_``.

        Returns
        -------
        dict
            ``rows``, ``loss``, ``accuracy``, ``confusion``, ``per_class``, ``auc``.
        """
        check_is_fitted(self)
        self._check_type(getattr(y, "dtype", None))
        places = _cells.places(_cells.column(y, len(X)), self.classes_)
        if np.isnan(places).any():
            raise ValueError("y has labels that classes_ lacks")
        rows = {"features": self._scaled(self._validated(X, reset=False)), "targets": places}
        return self._applied(api.evaluate, self._task(y), rows)

    def _check_type(self, kind: Any) -> None:
        """Refuse targets of a type that can contain none of the classes, if such labels are errors.

        NumPy turns numbers into texts if the array contains a text, and likewise into bytes or
        durations.
        """
        no_label = {**dict.fromkeys("biufc", "USM"), "S": "UM", "M": "USbiufc"}.get(getattr(kind, "kind", "O"), "")
        kinds = {np.asarray(label).dtype for label in (() if self.classes is None else self._classes(None))}
        if kinds and all(one.kind in no_label for one in kinds):
            held = " and ".join(sorted({"texts" if one.kind == "U" else str(one) for one in kinds}))
            raise ConfigError(
                f"y: holds {kind} values, none of which can be one of classes, which are {held}; declare classes"
                " of the type of y, or give y in that of classes"
            )

    def _check_targets(self, targets: np.ndarray, of_fit: Any) -> None:
        if np.isnan(_cells.places(targets, self._classes(of_fit))).any():
            raise ConfigError("y has labels that classes lacks")

    def _classes(self, y: Any) -> np.ndarray:
        if self.classes is None:
            return np.unique(np.asarray(y))
        if isinstance(self.classes, (str, bytes, Mapping)) or not hasattr(self.classes, "__len__"):
            raise ConfigError(f"classes: is of type {type(self.classes).__name__}, expected a list of labels")
        try:
            return np.unique(self.classes)
        except TypeError:
            raise ConfigError("classes: have no order, expected labels of one type") from None

    def _task(self, y: Any) -> dict[str, Any]:
        return {"classes": len(self._classes(y))}

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, [rows, features]

        Returns
        -------
        numpy.ndarray
            float64, [rows, classes].
        """
        check_is_fitted(self)
        return self._predictions(X).probabilities

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like, [rows, features]

        Returns
        -------
        numpy.ndarray
            [rows], labels.
        """
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


@dataclass(kw_only=True, eq=False, repr=False)
class DPRegressor(RegressorMixin, _DPEstimator):
    __doc__ = f"""A regressor under differential privacy.
{_PARAMETERS}"""

    _loss = "squared"
    _facts = {**_DPEstimator._facts, "target_bounds": "bounds of the targets"}

    target_bounds: tuple[float, float] | None = None

    def fit(self, X: Any, y: Any) -> DPRegressor:
        """Train, and charge for it.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Real numbers; clipped to ``target_bounds``. In release mode, anything but a finite
            number becomes the middle of the bounds.

        Returns
        -------
        DPRegressor
            Itself.
        """
        manifest = self._manifest()
        read = self._read(manifest)
        X, y = self._rows_of_fit(X, y)
        if self.target_bounds is None:
            low, high = float(y.min()), float(y.max())
        else:
            low, high = (float(bound) for bound in _bounds("target_bounds", self.target_bounds, ()))
        if self._is_release():
            y = _cells.finite_or(_cells.numbers(y), low + (high - low) / 2)
        self._target = (low, (high - low) or 1.0)
        self._set_bounds(X)
        scaled = 2 * ((_within(y, low, high) - low) / self._target[1]) - 1
        lent = self._lent(manifest, self._scaled(X), scaled.astype(np.float32), self._task(y), read)
        self._train(lent, read)
        return self

    def _check_targets(self, targets: np.ndarray, of_fit: Any) -> None:
        if len(targets) < 2 or not np.isfinite(_cells.numbers(targets)).all():
            raise ConfigError("y has fewer than two targets, or one that is no finite number")

    def _task(self, y: Any) -> dict[str, Any]:
        return {"task": "regression"}

    def _rows_of_fit(self, X: Any, y: Any) -> Any:
        return self._validated(X, y, y_numeric=True)

    def _around(self) -> dict[str, Any]:
        return {"values": list(self._target)}

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Say how well the model predicts, as ``privgrad.evaluate`` does; private if the rows are private.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Real numbers, which are not clipped to ``target_bounds``.

        Returns
        -------
        dict
            ``rows``; ``mse``, ``mae`` and ``r2`` in the units of the targets; ``loss`` in the units
            of the training, in which ``target_bounds`` are -1 and 1.
        """
        check_is_fitted(self)
        targets = _cells.numbers(_cells.column(y, len(X)))
        if not np.isfinite(targets).all():
            raise ValueError("y has a target that is not finite")
        low, width = self._target
        rows = {"features": self._scaled(self._validated(X, reset=False)), "targets": 2 * (targets - low) / width - 1}
        made = self._applied(api.evaluate, self._task(y), rows)
        for name, unit in (("mse", width * width / 4), ("mae", width / 2)):
            if made[name] is not None:  # undefined if rows overflow
                made[name] *= unit
        return made

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted value of each row.

        Parameters
        ----------
        X : array-like, [rows, features]

        Returns
        -------
        numpy.ndarray
            float64, [rows].
        """
        check_is_fitted(self)
        values = self._predictions(X).values[:, 0]
        low, width = self._target
        return (values + 1) / 2 * width + low


class DPGridSearch(MetaEstimatorMixin, BaseEstimator):
    """Choose among parameters under one budget: all candidates together cost the declared epsilon.

    Each candidate is trained once, with the largest epsilon for which the accountant proves the
    total cost of all trainings. The candidates are compared on rows that are declared public, which
    costs nothing: the choice is a function of released models and public rows.

    Parameters
    ----------
    estimator : DPClassifier or DPRegressor
        Its ``epsilon`` and ``delta`` are replaced; its adjacency and accountant apply to the
        search. Or a pipeline that ends in such an estimator: its other steps are unaccounted, and
        refused in release mode.
    param_grid : dict or list of dict
        As for ``sklearn.model_selection.GridSearchCV``. The budget cannot be searched.
    epsilon, delta : float
        The budget of the whole search.
    validation : (X, y)
        Public rows, which are not used for training.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, best_index_
        The candidate with the highest score on the public rows.
    candidates_ : list
        All fitted candidates. If a training raises, only the earlier ones; ``epsilon_`` is then
        what all would have cost.
    cv_results_ : dict
        ``params``, ``score`` and ``epsilon`` of each candidate. If no score can be computed, for
        example because of infinite predictions, it is NaN, and the candidate is not chosen.
    epsilon_ : float
        The total cost of all trainings.
    unaccounted_ : tuple of str
        Everything that no epsilon covers, in any training.
    ledgers_ : list of str
        The ledgers of all trainings.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float,
        delta: float,
        validation: tuple[Any, Any],
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.validation = validation

    def fit(self, X: Any, y: Any) -> DPGridSearch:
        """Train every candidate.

        Parameters
        ----------
        X, y : array-like
            Private rows.

        Returns
        -------
        DPGridSearch
            Itself.

        Raises
        ------
        ConfigError
            Before anything is charged; also if no score can be computed on the public rows.
        PrivacyError
            Before anything is charged, if the public rows are training rows (judged by their
            memory).
        DataError
            If no candidate has a score; all trained models are kept.
        """
        from sklearn.model_selection import ParameterGrid

        _check_epsilon(self.epsilon)
        _estimator_of(self.estimator)
        try:
            candidates = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as problem:
            raise ConfigError(f"param_grid: {problem}") from None
        if not candidates:
            raise ConfigError("param_grid: has no candidates")
        for params in candidates:
            for budget in ("epsilon", "delta", "accountant", "adjacency"):
                if any(key.split("__")[-1] == budget for key in params):
                    raise ConfigError(f"param_grid: {budget} is of the whole search, and not searched")
        first = self._candidate(0, candidates[0], self.epsilon)
        inner = _estimator_of(first)
        inner._read(inner._manifest())
        if not _steps_before(first):
            inner._rows_of_fit(X, y)
        share, planned = self._share(candidates, X, y)
        made = [self._candidate(place, params, share) for place, params in enumerate(candidates)]
        inner = [_estimator_of(one) for one in made]
        public = self._public_rows(made, X, y)
        self.candidates_, self.epsilon_ = made, planned
        self.ledgers_: list[str] = []
        for one, private in zip(made, inner, strict=True):
            try:
                one.fit(X, y)
            finally:
                if hasattr(private, "ledger_"):
                    self.ledgers_.append(private.ledger_)
        self.epsilon_ = self._cost(inner, [one.run_.json for one in inner], [one.event_ for one in inner])
        if self.epsilon_ > self.epsilon:
            raise RuntimeError(f"the search cost {self.epsilon_}, above {self.epsilon}")
        self.unaccounted_ = tuple(dict.fromkeys(fact for one in inner for fact in one.unaccounted_))
        self._choose(candidates, public)
        return self

    def _public_rows(self, made: Sequence[Any], X: Any, y: Any) -> tuple[Any, Any]:
        """The rows of ``validation``, on which each candidate can be scored.

        Raises
        ------
        ConfigError
        """
        if not (isinstance(self.validation, (tuple, list)) and len(self.validation) == 2):
            raise ConfigError(f"validation: is of type {type(self.validation).__name__}, expected (X, y)")
        public = self.validation[0], self.validation[1]
        if share_rows((X, y), public):
            raise PrivacyError(
                "validation: its rows are to be public, but they are training rows, which are private; give others"
            )
        for one in made:
            try:
                _estimator_of(one)._check_public(*public, None if _steps_before(one) else _shape(X)[1], y)
            except ConfigError as problem:
                raise ConfigError(f"validation: {problem}") from None
        return public

    def _choose(self, candidates: Sequence[Mapping[str, Any]], public: tuple[Any, Any]) -> None:
        """Compare the candidates on public rows. Those without a score are not chosen, but are kept."""
        scores, problems = [], []
        for one in self.candidates_:
            try:
                scores.append(float(one.score(*public)))
            except Exception as problem:  # raised by the predictions of a model that diverged
                scores.append(np.nan)
                problems.append(f"{candidates[len(scores) - 1]} has no score: {type(problem).__name__}: {problem}")
        self.cv_results_ = {
            "params": candidates,
            "score": np.array(scores),
            "epsilon": np.array([_estimator_of(one).epsilon_ for one in self.candidates_]),
        }
        if not np.isfinite(scores).any():
            raise DataError(f"no candidate has a score on the public rows; {'; '.join(problems)}")
        self.best_index_ = int(np.argmax(np.where(np.isfinite(scores), scores, -np.inf)))
        self.best_score_ = scores[self.best_index_]
        self.best_params_ = candidates[self.best_index_]
        self.best_estimator_ = self.candidates_[self.best_index_]
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        for said in problems:
            warnings.warn(said, PrivgradWarning, stacklevel=3)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.estimator_type, tags.classifier_tags, tags.regressor_tags = (
            own.estimator_type, own.classifier_tags, own.regressor_tags
        )
        tags.input_tags = own.input_tags
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the rows of fit()."""
        return self.best_estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """The names of these columns, if they have names."""
        return self.best_estimator_.feature_names_in_

    def _candidate(self, place: int, params: Mapping[str, Any], epsilon: float) -> Any:
        candidate = clone(self.estimator).set_params(**params)
        inner = _estimator_of(candidate)
        inner.set_params(epsilon=epsilon, delta=self.delta)
        if inner.out is not None:
            inner.set_params(out=Path(inner.out) / f"candidate-{place}")
        manifest = inner._manifest()
        for key, own in (("target_epsilon", epsilon), ("target_delta", self.delta)):
            if manifest["privacy"].get(key) != own:
                raise ConfigError(f"manifest: privacy.{key} is of the whole search; give it to DPGridSearch")
        more = dict(inner._more())
        steps = _steps_before(candidate)
        if steps and inner._is_release():
            raise PrivacyError(
                f"estimator: the steps {', '.join(steps)} are given all private rows at once, which"
                " release mode refuses; give rows that are made already, each of itself alone"
            )
        if steps:
            facts = [f"what the step {name} makes of all rows" for name in steps]
            more["data"] = _with_facts(more.get("data", {}), facts)
        if manifest.get("seed") is not None:
            # Separate noise for each candidate: with the same noise, the difference of two models
            # would have none.
            inner.set_params(random_state=manifest["seed"] + place)
            more.pop("seed", None)
        if steps or "seed" in inner._more():
            inner.set_params(manifest=more)
        return candidate

    def _cost(self, inner: Sequence[Any], said: Sequence[Mapping[str, Any]],
              events: Sequence[Mapping[str, Any]]) -> float:
        """The total cost of events on the same rows that were chosen in advance.

        Every accountant of the runs answers, together with its certifier; the largest answer
        counts.
        """
        adjacencies = {one["adjacency"] for one in said}
        if len(adjacencies) > 1:
            raise ConfigError("param_grid: the adjacency is of the whole search, and not searched")
        (adjacency,) = adjacencies
        together = {"event": "composed", "of": list(events)}
        return max(
            api.account(together, accountant=who, delta=self.delta, adjacency=adjacency).epsilon
            for who in _accountants(one._manifest()["privacy"]["accountant"] for one in inner)
        )

    def _share(self, candidates: Sequence[Mapping[str, Any]], X: Any, y: Any) -> tuple[float, float]:
        """The largest epsilon per training within the total budget, to 1 in 1000; and the total cost."""

        def total(share: float) -> float:
            inner = [_estimator_of(self._candidate(place, params, share))
                     for place, params in enumerate(candidates)]
            plans = [one._plan(X, y) for one in inner]
            return self._cost(inner, [plan.json for plan in plans], [plan.event for plan in plans])

        low, high, spent = 0.0, self.epsilon, total(self.epsilon)
        if spent <= self.epsilon:
            return high, spent
        while high - low > 1e-3 * high and high > 1e-6 * self.epsilon:
            middle = (low + high) / 2
            cost = total(middle)
            if cost <= self.epsilon:
                low, spent = middle, cost
            else:
                high = middle
        if low == 0.0:
            raise ConfigError("param_grid: the budget pays for no candidate")
        return low, spent

    def predict(self, X: Any) -> np.ndarray:
        """Predict with the best estimator.

        Parameters
        ----------
        X : array-like, [rows, features]

        Returns
        -------
        numpy.ndarray
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(lambda search: hasattr(search.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the best estimator's probabilities.

        Parameters
        ----------
        X : array-like, [rows, features]

        Returns
        -------
        numpy.ndarray
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the best estimator's score.

        Parameters
        ----------
        X, y : array-like

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return self.best_estimator_.score(X, y)


def _with_facts(data: Mapping[str, Any], read: Sequence[str]) -> dict[str, Any]:
    """A section ``data`` that also lists the facts computed from its rows."""
    if not read:
        return dict(data)
    given = data.get("read_off_rows") or []
    return {**data, "read_off_rows": [*(given if isinstance(given, (list, tuple)) else [given]), *read]}


def _accountants(named: Iterable[Any]) -> list[Any]:
    """The accountants without duplicates, and those that certify them."""
    asked: dict[str, Any] = {}
    for one in named:
        asked[yaml_text(plain(one))] = one
        if not hasattr(one, "component"):  # a prototype does not have it
            name = one if isinstance(one, str) else one["kind"]
            prover = api.describe(f"accountant/{name}").get("certified_by")
            if prover is not None:
                asked[yaml_text(prover)] = prover
    return list(asked.values())


def _steps_before(candidate: Any) -> list[str]:
    """The names of a pipeline's steps that change rows, and are fitted on all of them."""
    steps = candidate.steps[:-1] if isinstance(candidate, Pipeline) else []
    return [name for name, step in steps if step is not None and not isinstance(step, str)]


def _estimator_of(candidate: Any) -> Any:
    """The private estimator of a candidate: the candidate itself, or the last step of a pipeline."""
    last = candidate.steps[-1][1] if isinstance(candidate, Pipeline) else candidate
    if not isinstance(last, _DPEstimator):
        raise ConfigError("estimator: neither a private estimator nor a pipeline that ends in one")
    return last
