"""Estimators for scikit-learn, trained under differential privacy.

They need what the data must not tell: bounds, class labels, the number of rows where it matters. What
is not declared is read off the rows and listed in ``unaccounted_``.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import api
from .errors import ConfigError, PrivgradWarning

__all__ = ["EXPECTED_FAILED_CHECKS", "DPClassifier", "DPGridSearch", "DPRegressor"]

#: Checks of ``check_estimator`` that privacy forbids, each with its reason.
EXPECTED_FAILED_CHECKS: dict[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight would multiply what one example contributes, which the clip norm bounds"
    ),
    "check_methods_subset_invariance": (
        "only where `bounds` are not declared: see unaccounted_"
    ),
}

_counter = itertools.count()


class _DPEstimator(BaseEstimator):
    """What both estimators share: the manifest that they make, and the run."""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        model: str | Mapping[str, Any] = "linear",
        bounds: tuple[Any, Any] | None = None,
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
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.model = model
        self.bounds = bounds
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

    def _model(self, loss: str) -> dict[str, Any]:
        model = {"kind": self.model} if isinstance(self.model, str) else dict(self.model)
        return {"loss": loss, **model}

    def _manifest(self, data: dict[str, Any], loss: str) -> dict[str, Any]:
        """The manifest that fit() runs; ``manifest`` adds to it, key by key."""
        made: dict[str, Any] = {
            "privgrad": 1,
            "mode": self.mode,
            "data": data,
            "model": self._model(loss),
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
        if self.size is not None:
            data["size"] = self.size
        if self.random_state is not None:
            made["seed"] = _seed(self.random_state)
        return _merged(made, self.manifest or {})

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Features in [-1, 1] of their bounds, and inside: a function of one row alone."""
        low, high = self._low, self._high
        width = np.where(high > low, high - low, 1.0)
        return np.clip(2 * (X - low) / width - 1, -1, 1).astype(np.float32)

    def _set_bounds(self, X: np.ndarray) -> list[str]:
        """\u005freturns what was read off the rows."""
        read = []
        if self.bounds is None:
            self._low, self._high = X.min(axis=0), X.max(axis=0)
            read.append("bounds of the features")
        else:
            low, high = (np.broadcast_to(np.asarray(b, dtype=float), (X.shape[1],))
                         for b in self.bounds)
            if not np.all(low < high):
                raise ConfigError("bounds: the lower ones are not below the upper ones")
            self._low, self._high = low, high
        return read

    def _train(self, X: np.ndarray, y: np.ndarray, data: dict[str, Any], loss: str,
               read: list[str]) -> None:
        table = f"scikit-learn-{next(_counter)}"
        data = {"kind": "memory", **data,
                "train": {"features": self._scaled(X), "targets": y, "table": table}}
        if read and self.mode == "release":
            from .errors import PrivacyError

            raise PrivacyError(
                f"{', '.join(read)}: read off the rows, which release mode refuses; declare them"
            )
        folder = tempfile.mkdtemp(prefix="privgrad-")
        try:
            self.run_ = api.run(
                self._manifest(data, loss), out=Path(folder) / "run", state=Path(folder) / "state",
                threads=self.threads, callback=self.callback,
            )
            self.model_ = (self.run_.run_dir / "model.safetensors").read_bytes()
            self.ledger_ = (self.run_.run_dir / "ledger.jsonl").read_text(encoding="utf-8")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.epsilon_ = self.run_.epsilon
        self.n_iter_ = self.run_.steps
        self.unaccounted_ = (*self.run_.unaccounted, *read)
        if read:
            warnings.warn(
                f"{', '.join(read)}: read off the rows, and covered by no epsilon; declare them",
                PrivgradWarning, stacklevel=3,
            )

    def _predictions(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(self.model_)
            file.flush()
            rows = {"kind": "memory", "unlabelled": True, "train": {
                "features": self._scaled(X), "table": f"scikit-learn-{next(_counter)}",
            }}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivgradWarning)
                return api.predict(file.name, rows, threads=self.threads)


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
        to [-1, 1]. Not given, they are read off the rows, which ``unaccounted_`` lists.
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
        The declared, public number of rows.
    mode : str
        ``"research"`` or ``"release"``.
    manifest : dict, optional
        Any other key of a manifest, which goes before what the other parameters make.
    threads : int, optional
        Default all; the result does not depend on it.
    callback : callable, optional
        As for :func:`privgrad.run`.
    random_state : int, optional
        Whoever knows it can remove the noise: for tests, not for release.

    Attributes
    ----------
    run_ : Run
        What came of the training.
    epsilon_ : float
        What was spent.
    unaccounted_ : tuple of str
        What no epsilon covers.
    model_, ledger_ : bytes, str
        The files of the run.
    """


class DPClassifier(ClassifierMixin, _DPEstimator):
    __doc__ = f"""A classifier under differential privacy.
{_PARAMETERS}"""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        model: str | Mapping[str, Any] = "linear",
        bounds: tuple[Any, Any] | None = None,
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
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, model=model, bounds=bounds, clip_norm=clip_norm,
            learning_rate=learning_rate, steps=steps, batch_size=batch_size,
            optimizer=optimizer, accountant=accountant, adjacency=adjacency, size=size, mode=mode,
            manifest=manifest, threads=threads, callback=callback, random_state=random_state,
        )
        self.classes = classes

    def fit(self, X: Any, y: Any) -> DPClassifier:
        """Train, and charge for it.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Labels.

        Returns
        -------
        DPClassifier
            Itself.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        read = []
        if self.classes is None:
            self.classes_ = np.unique(y)
            read.append("class labels")
        else:
            self.classes_ = np.unique(self.classes)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        places = np.searchsorted(self.classes_, y)
        places = np.minimum(places, len(self.classes_) - 1)
        if not np.array_equal(self.classes_[places], y):
            raise ValueError("y has labels that classes lacks")
        read += self._set_bounds(X)
        self._train(X, places.astype(np.float32), {"classes": len(self.classes_)},
                    "cross_entropy", read)
        return self

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
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class DPRegressor(RegressorMixin, _DPEstimator):
    __doc__ = f"""A regressor under differential privacy.
{_PARAMETERS}"""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        model: str | Mapping[str, Any] = "linear",
        bounds: tuple[Any, Any] | None = None,
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
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, model=model, bounds=bounds, clip_norm=clip_norm,
            learning_rate=learning_rate, steps=steps, batch_size=batch_size,
            optimizer=optimizer, accountant=accountant, adjacency=adjacency, size=size, mode=mode,
            manifest=manifest, threads=threads, callback=callback, random_state=random_state,
        )
        self.target_bounds = target_bounds

    def fit(self, X: Any, y: Any) -> DPRegressor:
        """Train, and charge for it.

        Parameters
        ----------
        X : array-like, [rows, features]
        y : array-like, [rows]
            Reals; clipped to ``target_bounds``.

        Returns
        -------
        DPRegressor
            Itself.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        read = []
        if self.target_bounds is None:
            low, high = float(y.min()), float(y.max())
            read.append("bounds of the targets")
        else:
            low, high = self.target_bounds
            if not low < high:
                raise ConfigError("target_bounds: the lower one is not below the upper one")
        self._target = (low, (high - low) or 1.0)
        read += self._set_bounds(X)
        scaled = 2 * (np.clip(y, low, high) - low) / self._target[1] - 1
        self._train(X, scaled.astype(np.float32), {"task": "regression"}, "squared", read)
        return self

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
        values = self._predictions(X).values[:, 0]
        low, width = self._target
        return (values + 1) / 2 * width + low
