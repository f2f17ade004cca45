"""Estimators for scikit-learn, trained under differential privacy.

They need what the data must not tell: bounds, class labels, the number of rows where it matters. What
is not declared is read off the rows and listed as unaccounted; release mode refuses that, and there
no row decides whether ``fit`` raises.
"""

# File length: estimators that share what decides which facts are public; scikit-learn looks for them in one module.

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _export, _rows, api
from ._framework import plain, yaml_text
from .errors import ConfigError, DataError, PrivacyError, PrivgradWarning
from .results import Verification

__all__ = ["EXPECTED_FAILED_CHECKS", "DPClassifier", "DPGridSearch", "DPRegressor"]

#: Checks of ``check_estimator`` that privacy forbids, each with its reason.
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

#: What ``manifest`` may say of the data; the rest is said by the parameters, and by the rows of fit().
_OF_DATA = ("feature_names", "read_off_rows", "size", "streaming", "transforms")


class _Folder:
    """A temporary folder that is gone with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="privgrad-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _DPEstimator(BaseEstimator):
    """What both estimators share: the manifest that they make, and the run."""

    #: Parameters that are read off the rows where they are not declared, and what is read.
    _facts = {"bounds": "bounds of the features"}
    _loss: str

    @abstractmethod
    def _task(self, y: Any) -> dict[str, Any]:
        """What the section ``data`` says of the targets."""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        model: str | Mapping[str, Any] = "linear",
        bounds: tuple[Any, Any] | None = None,
        feature_fill: float | None = None,
        clip_norm: float = 1.0,
        learning_rate: float = 0.5,
        steps: int = 100,
        batch_size: float | None = None,
        optimizer: str | Mapping[str, Any] = "sgd",
        accountant: str | Mapping[str, Any] = "zcdp",
        adjacency: str = "zero_out",
        size: int | None = None,
        mode: str = "research",
        manifest: Mapping[str, Any] | None = None,
        threads: int | None = None,
        callback: Any = None,
        random_state: int | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.model = model
        self.bounds = bounds
        self.feature_fill = feature_fill
        self.clip_norm = clip_norm
        self.learning_rate = learning_rate
        self.steps = steps
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.accountant = accountant
        self.adjacency = adjacency
        self.size = size
        self.mode = mode
        self.manifest = manifest
        self.threads = threads
        self.callback = callback
        self.random_state = random_state
        self.out = out

    def _model(self) -> dict[str, Any]:
        model = {"kind": self.model} if isinstance(self.model, str) else dict(self.model)
        return {"loss": self._loss, **model}

    def _manifest(self) -> dict[str, Any]:
        """The manifest that fit() runs, without its rows; ``manifest`` goes first, key by key."""
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
        """What nobody has declared, so that it is read off the rows.

        Raises
        ------
        PrivacyError
            In release mode, before any row is looked at.
        """
        missing = [name for name in self._facts if getattr(self, name) is None]
        if self._is_release():
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
        """The manifest with the rows, and with what was read off them.

        A row that does not fit has been made to (_validated, _scaled), so that none counts as the source's
        fill; in release mode one is asked for, since no error may tell of a row.
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
        """Say what to do where a declared size is that of the whole, and these are the rows of a fold."""
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
        """Features, with their fill if there is one, and targets as they are.

        Out of release mode, what validate_data() refuses is refused.
        """
        fill = self.feature_fill
        if fill is not None and not np.isfinite(fill):
            raise ConfigError(f"feature_fill: is {fill}, expected a finite number")
        if self._is_release():
            table = _rows.table(X)
            validate_data(self, X, skip_check_array=True, reset=how.get("reset", True))
            features = _rows.cells(table)
            others = [_rows.column(one, len(table)) for one in y]
        else:
            checked = validate_data(self, X, *y, dtype=np.float64, ensure_all_finite=fill is None, **how)
            features, *others = checked if y else (checked,)
        if fill is not None:
            features = _rows.finite_or(features, float(fill))
        return (features, *others) if y else features

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Features in [-1, 1] of their bounds, and inside: a function of one row alone.

        What is not finite, and has no fill, is in the middle.
        """
        low, high = self._low, self._high
        width = np.where(high > low, high - low, 1.0)
        inside = 2 * ((np.clip(_rows.finite_or(X, low), low, high) - low) / width) - 1
        return np.where(np.isfinite(X), inside, 0.0).astype(np.float32)

    def _set_bounds(self, X: np.ndarray) -> None:
        """Take the declared bounds, or read them off the rows."""
        if self.bounds is None:
            self._low, self._high = X.min(axis=0), X.max(axis=0)
        else:
            self._low, self._high = _bounds("bounds", self.bounds, (X.shape[1],))

    def _train(self, manifest: Mapping[str, Any], read: Sequence[str]) -> None:
        self._folder = _Folder() if self.out is None else None
        out, state = self.out, None
        if self._folder is not None:
            out, state = self._folder.path / "run", self._folder.path / "state"
        try:
            self.run_ = api.run(manifest, out=out, state=state, threads=self.threads, callback=self.callback)
        finally:
            if state is not None:  # private, and of no use to a run that is not resumed
                shutil.rmtree(state, ignore_errors=True)
        self.model_ = (self.run_.run_dir / "model.safetensors").read_bytes()
        self.event_ = self.run_.event()
        self.ledger_ = (self.run_.run_dir / "ledger.jsonl").read_text(encoding="utf-8")
        self.statement_ = self.run_.statement()
        self.report_ = (self.run_.run_dir / "report.html").read_text(encoding="utf-8")
        self.epsilon_ = self.run_.epsilon
        self.n_iter_ = self.run_.steps
        self.unaccounted_ = self.run_.unaccounted
        if read:
            warnings.warn(
                f"{', '.join(read)}: read off the rows, and covered by no epsilon; declare them",
                PrivgradWarning, stacklevel=3,
            )

    def _plan(self, X: Any, y: Any) -> Any:
        """What a training is planned to be: it needs the number of rows, and none of their values."""
        manifest = self._manifest()
        read = self._read(manifest)
        rows, width = np.shape(_rows.table(X) if self._is_release() else X)
        lent = self._lent(manifest, np.zeros((rows, width), dtype=np.float32),
                          np.zeros(rows, dtype=np.float32), self._task(y), read)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivgradWarning)
            return api.plan(lent)

    def _predictions(self, X: Any) -> Any:
        X = self._validated(X, reset=False)
        return self._applied(api.predict, {"unlabelled": True}, {"features": self._scaled(X)})

    def _applied(self, call: Any, section: Mapping[str, Any], rows: Mapping[str, Any]) -> Any:
        """What a call says of the model and rows."""
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(self.model_)
            file.flush()
            data = {"kind": "memory", **section, "train": {**rows, "table": f"scikit-learn-{next(_counter)}"}}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivgradWarning)
                return call(file.name, data, threads=self.threads)

    def export(self, out: str | os.PathLike[str], *, plugin_dirs: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Write the estimator as ONNX, for programs of others: from the rows that predict() takes.

        The graph takes ``features``, float32, [n, features], which it brings into their bounds, and gives
        ``probabilities``, in the order of ``classes_``, and the name of each row's ``class``; or ``values``, in
        the units of the targets.

        Parameters
        ----------
        out : path
            Written there; replaced if it exists.
        plugin_dirs : iterable of path
            Looked through for plugins first.

        Raises
        ------
        ConfigError
            ONNX has no operations for a part of the model.
        DataError
            The file cannot be written.
        """
        check_is_fitted(self)
        otherwise = np.zeros((0, len(self._low)))  # a row has no prediction
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
        """What is done to outputs, as ``privgrad export --estimator`` has it."""

    def verify(self, **how: Any) -> Verification:
        """Check the run by its files, as ``privgrad.verify`` does.

        Parameters
        ----------
        **how
            What ``privgrad.verify`` takes.

        Returns
        -------
        Verification
            True if it verifies.

        Raises
        ------
        DataError
            If the run lay in a temporary folder, and the estimator that was fitted is gone.
        """
        check_is_fitted(self)
        if not self.run_.run_dir.exists():
            raise DataError(
                f"{self.run_.run_dir}: is gone with the estimator that was fitted; out= keeps a run"
            )
        return api.verify(self.run_, **how)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_folder", None)  # it goes with this object, and not with a copy
        return state


def _bounds(name: str, given: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Declared bounds: finite, with a width that is, and the lower ones below the upper ones."""
    low, high = (np.broadcast_to(np.asarray(bound, dtype=float), shape) for bound in given)
    with np.errstate(over="ignore"):
        if not (np.all(low < high) and np.all(np.isfinite(high - low))):
            raise ConfigError(f"{name}: the lower ones are not below the upper ones, by a finite number")
    return low, high


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(np.random.RandomState().randint(2**31) if random_state is None
               else random_state.randint(2**31))


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


class DPClassifier(ClassifierMixin, _DPEstimator):
    __doc__ = f"""A classifier under differential privacy.
{_PARAMETERS}"""

    _loss = "cross_entropy"
    _facts = {**_DPEstimator._facts, "classes": "class labels"}

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        model: str | Mapping[str, Any] = "linear",
        bounds: tuple[Any, Any] | None = None,
        feature_fill: float | None = None,
        classes: Sequence[Any] | None = None,
        clip_norm: float = 1.0,
        learning_rate: float = 0.5,
        steps: int = 100,
        batch_size: float | None = None,
        optimizer: str | Mapping[str, Any] = "sgd",
        accountant: str | Mapping[str, Any] = "zcdp",
        adjacency: str = "zero_out",
        size: int | None = None,
        mode: str = "research",
        manifest: Mapping[str, Any] | None = None,
        threads: int | None = None,
        callback: Any = None,
        random_state: int | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, model=model, bounds=bounds, feature_fill=feature_fill,
            clip_norm=clip_norm, learning_rate=learning_rate, steps=steps, batch_size=batch_size,
            optimizer=optimizer, accountant=accountant, adjacency=adjacency, size=size, mode=mode,
            manifest=manifest, threads=threads, callback=callback, random_state=random_state,
            out=out,
        )
        self.classes = classes

    def fit(self, X: Any, y: Any) -> DPClassifier:
        """Train, and charge for it.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Labels. In release mode, what is none of ``classes`` counts as the first of them.

        Returns
        -------
        DPClassifier
            Itself.
        """
        manifest = self._manifest()
        read = self._read(manifest)
        X, y = self._validated(X, y)
        if not self._is_release():
            check_classification_targets(y)
        self.classes_ = self._classes(y)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        places = _rows.places(y, self.classes_)
        if not self._is_release() and not np.array_equal(self.classes_[places.astype(int)], y):
            raise ValueError("y has labels that classes lacks")
        self._set_bounds(X)
        self._train(self._lent(manifest, self._scaled(X), places, self._task(y), read), read)
        return self

    def _around(self) -> dict[str, Any]:
        return {"classes": [str(label) for label in self.classes_.tolist()]}

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Say how well the model does, as ``privgrad.evaluate`` does. Of private rows that is private.

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
        labels = _rows.column(y, len(X))
        places = _rows.places(labels, self.classes_)
        if not np.array_equal(self.classes_[places.astype(int)], labels):
            raise ValueError("y has labels that classes_ lacks")
        rows = {"features": self._scaled(self._validated(X, reset=False)), "targets": places}
        return self._applied(api.evaluate, self._task(y), rows)

    def _classes(self, y: Any) -> np.ndarray:
        return np.unique(y if self.classes is None else self.classes)

    def _task(self, y: Any) -> dict[str, Any]:
        return {"classes": len(self._classes(y))}

    def predict_proba(self, X: Any) -> np.ndarray:
        """Give the probability of each class.

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
        """Give the most probable class of each row.

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


class DPRegressor(RegressorMixin, _DPEstimator):
    __doc__ = f"""A regressor under differential privacy.
{_PARAMETERS}"""

    _loss = "squared"
    _facts = {**_DPEstimator._facts, "target_bounds": "bounds of the targets"}

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        model: str | Mapping[str, Any] = "linear",
        bounds: tuple[Any, Any] | None = None,
        feature_fill: float | None = None,
        target_bounds: tuple[float, float] | None = None,
        clip_norm: float = 1.0,
        learning_rate: float = 0.5,
        steps: int = 100,
        batch_size: float | None = None,
        optimizer: str | Mapping[str, Any] = "sgd",
        accountant: str | Mapping[str, Any] = "zcdp",
        adjacency: str = "zero_out",
        size: int | None = None,
        mode: str = "research",
        manifest: Mapping[str, Any] | None = None,
        threads: int | None = None,
        callback: Any = None,
        random_state: int | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, model=model, bounds=bounds, feature_fill=feature_fill,
            clip_norm=clip_norm, learning_rate=learning_rate, steps=steps, batch_size=batch_size,
            optimizer=optimizer, accountant=accountant, adjacency=adjacency, size=size, mode=mode,
            manifest=manifest, threads=threads, callback=callback, random_state=random_state,
            out=out,
        )
        self.target_bounds = target_bounds

    def fit(self, X: Any, y: Any) -> DPRegressor:
        """Train, and charge for it.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Reals; clipped to ``target_bounds``. In release mode, what is no finite number is in
            their middle.

        Returns
        -------
        DPRegressor
            Itself.
        """
        manifest = self._manifest()
        read = self._read(manifest)
        X, y = self._validated(X, y, y_numeric=True)
        if self.target_bounds is None:
            low, high = float(y.min()), float(y.max())
        else:
            low, high = (float(bound) for bound in _bounds("target_bounds", self.target_bounds, ()))
        if self._is_release():
            y = _rows.finite_or(_rows.cells(y), low + (high - low) / 2)
        self._target = (low, (high - low) or 1.0)
        self._set_bounds(X)
        scaled = 2 * ((np.clip(y, low, high) - low) / self._target[1]) - 1
        lent = self._lent(manifest, self._scaled(X), scaled.astype(np.float32), self._task(y), read)
        self._train(lent, read)
        return self

    def _task(self, y: Any) -> dict[str, Any]:
        return {"task": "regression"}

    def _around(self) -> dict[str, Any]:
        return {"values": list(self._target)}

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Say how well the model does, as ``privgrad.evaluate`` does. Of private rows that is private.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Reals, as they are: none is clipped to ``target_bounds``.

        Returns
        -------
        dict
            ``rows``; ``mse``, ``mae`` and ``r2`` in the units of the targets; ``loss`` in those of the
            training, to which ``target_bounds`` are -1 and 1.
        """
        check_is_fitted(self)
        targets = _rows.column(y, len(X)).astype(float)
        if not np.isfinite(targets).all():
            raise ValueError("y has a target that is not finite")
        low, width = self._target
        rows = {"features": self._scaled(self._validated(X, reset=False)), "targets": 2 * (targets - low) / width - 1}
        made = self._applied(api.evaluate, self._task(y), rows)
        for name, unit in (("mse", width * width / 4), ("mae", width / 2)):
            if made[name] is not None:  # not of rows that overflow
                made[name] *= unit
        return made

    def predict(self, X: Any) -> np.ndarray:
        """Give the value of each row.

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
    """Choose among parameters under one budget: all candidates together cost what is declared.

    Each candidate is trained once, with the largest epsilon of its own at which the accountant proves
    the total for all trainings together. They are compared on rows that are declared public, which
    costs nothing: what is chosen is a function of released models and public rows.

    Parameters
    ----------
    estimator : DPClassifier or DPRegressor
        Its ``epsilon`` and ``delta`` are replaced; its adjacency and its accountant are the search's. Or
        a pipeline that ends in one: what its other steps make of the rows is unaccounted, and refused
        in release mode.
    param_grid : dict or list of dict
        As for ``sklearn.model_selection.GridSearchCV``. The budget cannot be searched.
    epsilon, delta : float
        Of the whole search.
    validation : (X, y)
        Public rows, which are in no training.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, best_index_
        Of the candidate with the highest score on the public rows.
    cv_results_ : dict
        ``params``, ``score`` and ``epsilon`` of each candidate.
    epsilon_ : float
        What all trainings cost together.
    unaccounted_ : tuple of str
        What no epsilon covers, of any training.
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
        """
        from sklearn.model_selection import ParameterGrid

        candidates = list(ParameterGrid(self.param_grid))
        for params in candidates:
            for budget in ("epsilon", "delta", "accountant", "adjacency"):
                if any(key.split("__")[-1] == budget for key in params):
                    raise ConfigError(f"param_grid: {budget} is of the whole search, and not searched")
        share = self._share(candidates, X, y)
        made = [self._candidate(place, params, share) for place, params in enumerate(candidates)]
        scores = [one.fit(X, y).score(*self.validation) for one in made]
        inner = [_estimator_of(one) for one in made]
        self.epsilon_ = self._cost(inner, [one.run_.json for one in inner], [one.event_ for one in inner])
        if self.epsilon_ > self.epsilon:
            raise RuntimeError(f"the search cost {self.epsilon_}, above {self.epsilon}")
        self.unaccounted_ = tuple(dict.fromkeys(fact for one in inner for fact in one.unaccounted_))
        self.ledgers_ = [one.ledger_ for one in inner]
        self.best_index_ = int(np.argmax(scores))
        self.best_score_ = scores[self.best_index_]
        self.best_params_ = candidates[self.best_index_]
        self.best_estimator_ = made[self.best_index_]
        self.cv_results_ = {
            "params": candidates,
            "score": np.array(scores),
            "epsilon": np.array([one.epsilon_ for one in inner]),
        }
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

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
            # Noise of its own for each candidate: of the same noise, the difference of two has none.
            inner.set_params(random_state=manifest["seed"] + place)
            more.pop("seed", None)
        if steps or "seed" in inner._more():
            inner.set_params(manifest=more)
        return candidate

    def _cost(self, inner: Sequence[Any], said: Sequence[Mapping[str, Any]],
              events: Sequence[Mapping[str, Any]]) -> float:
        """What the events cost together: they are on the same rows, chosen beforehand.

        Every accountant of the runs is asked, and who proves what it finds; the largest answer counts.
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

    def _share(self, candidates: Sequence[Mapping[str, Any]], X: Any, y: Any) -> float:
        """The largest epsilon for each at which all cost no more than the budget, to 1 in 1000."""

        def total(share: float) -> float:
            inner = [_estimator_of(self._candidate(place, params, share))
                     for place, params in enumerate(candidates)]
            plans = [one._plan(X, y) for one in inner]
            return self._cost(inner, [plan.json for plan in plans], [plan.event for plan in plans])

        low, high = 0.0, self.epsilon
        if total(high) <= self.epsilon:
            return high
        while high - low > 1e-3 * high and high > 1e-6 * self.epsilon:
            middle = (low + high) / 2
            if total(middle) <= self.epsilon:
                low = middle
            else:
                high = middle
        if low == 0.0:
            raise ConfigError("param_grid: the budget pays for no candidate")
        return low

    def predict(self, X: Any) -> np.ndarray:
        """Predict by the best estimator.

        Parameters
        ----------
        X : array-like, [rows, features]

        Returns
        -------
        numpy.ndarray
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Give the best estimator's probabilities.

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
        """Give the best estimator's score.

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
    """A section ``data`` that says, too, what was read off its rows."""
    if not read:
        return dict(data)
    given = data.get("read_off_rows") or []
    return {**data, "read_off_rows": [*(given if isinstance(given, (list, tuple)) else [given]), *read]}


def _accountants(named: Iterable[Any]) -> list[Any]:
    """Each of the accountants once, and those that certify them."""
    asked: dict[str, Any] = {}
    for one in named:
        asked[yaml_text(plain(one))] = one
        if not hasattr(one, "component"):  # a prototype has none
            name = one if isinstance(one, str) else one["kind"]
            prover = api.describe(f"accountant/{name}").get("certified_by")
            if prover is not None:
                asked[yaml_text(prover)] = prover
    return list(asked.values())


def _steps_before(candidate: Any) -> list[str]:
    """The names of what makes other rows of a pipeline's, and is given all of them at once."""
    steps = candidate.steps[:-1] if isinstance(candidate, Pipeline) else []
    return [name for name, step in steps if step is not None and not isinstance(step, str)]


def _estimator_of(candidate: Any) -> Any:
    """The private estimator of a candidate: itself, or the last step of a pipeline."""
    last = candidate.steps[-1][1] if isinstance(candidate, Pipeline) else candidate
    if not isinstance(last, _DPEstimator):
        raise ConfigError("estimator: neither a private estimator nor a pipeline that ends in one")
    return last
