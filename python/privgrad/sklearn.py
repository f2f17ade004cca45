"""Estimators for scikit-learn, trained under differential privacy.

They need what the data must not tell: bounds, class labels, the number of rows where it matters. What
is not declared is read off the rows and listed in ``unaccounted_``.
"""

# File length: estimators that share what decides which facts are public; scikit-learn looks for them in one module.

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
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import api
from .errors import ConfigError, PrivacyError, PrivgradWarning

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


class _DPEstimator(BaseEstimator):
    """What both estimators share: the manifest that they make, and the run."""

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_any()
        return tags

    def _takes_any(self) -> bool:
        """Whether features may be no finite numbers; in release mode no error tells of one."""
        return self.feature_fill is not None or self.mode == "release"

    def _validated(self, X: Any, *y: Any, **how: Any) -> Any:
        """As validate_data(), with ``feature_fill``, if there is one, for what is not finite."""
        fill = self.feature_fill
        if fill is not None and not np.isfinite(fill):
            raise ConfigError(f"feature_fill: is {fill}, expected a finite number")
        checked = validate_data(self, X, *y, dtype=np.float64,
                                ensure_all_finite=not self._takes_any(), **how)
        if fill is None:
            return checked
        features, *others = checked if y else (checked,)
        filled = np.where(np.isfinite(features), features, float(fill))
        return (filled, *others) if y else filled

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Features in [-1, 1] of their bounds, and inside: a function of one row alone.

        What is not finite, and has no fill, is in the middle.
        """
        low, high = self._low, self._high
        width = np.where(high > low, high - low, 1.0)
        finite = np.isfinite(X)
        inside = np.clip(2 * (np.where(finite, X, low) - low) / width - 1, -1, 1)
        return np.where(finite, inside, 0.0).astype(np.float32)

    def _set_bounds(self, X: np.ndarray) -> list[str]:
        """Take the declared bounds, or read them off the rows. Gives what was read."""
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
        data = {"kind": "memory", **data, **self._fill(),
                "train": {"features": self._scaled(X), "targets": y, "table": table}}
        if read and self.mode == "release":
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
            self.event_ = self.run_.event()
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

    def _fill(self) -> dict[str, Any]:
        """What release mode asks for: that a row fits is a fact of it, and no error tells it.

        Features are finite and inside their bounds when they are lent (_validated, _scaled), so that
        none counts as the source's feature_fill.
        """
        return {"target_fill": 0, "feature_fill": 0} if self.mode == "release" else {}

    def _take_seed(self, place: int) -> None:
        """Noise of its own for each candidate: of the same noise, the difference of two has none."""
        if self.random_state is not None:
            self.random_state = _seed(self.random_state) + place

    def _event(self, X: Any, y: Any) -> dict[str, Any]:
        """What a training is charged for: it needs the number of rows, and none of their values."""
        rows, width = np.shape(X)
        labels = len(np.unique(y)) if getattr(self, "classes", None) is None else len(self.classes)
        is_classifier = isinstance(self, ClassifierMixin)
        data = {"kind": "memory", **self._fill(),
                **({"classes": labels} if is_classifier else {"task": "regression"}),
                "train": {"features": np.zeros((rows, width), dtype=np.float32),
                          "targets": np.zeros(rows, dtype=np.float32),
                          "table": f"scikit-learn-{next(_counter)}"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivgradWarning)
            loss = "cross_entropy" if is_classifier else "squared"
            return api.plan(self._manifest(data, loss)).event

    def _predictions(self, X: Any) -> Any:
        X = self._validated(X, reset=False)
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
    feature_fill : float, optional
        What a feature counts as that is missing, NaN or infinite, in the units of the features. Not
        given, such a feature is an error, as for other estimators; in release mode, where no error
        tells of a row, it is in the middle of its bounds.
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
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, model=model, bounds=bounds, feature_fill=feature_fill,
            clip_norm=clip_norm, learning_rate=learning_rate, steps=steps, batch_size=batch_size,
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
        X, y = self._validated(X, y)
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
        if self.mode == "release":  # no error tells of a row
            places = np.where(self.classes_[places] == y, places, 0)
        elif not np.array_equal(self.classes_[places], y):
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
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, model=model, bounds=bounds, feature_fill=feature_fill,
            clip_norm=clip_norm, learning_rate=learning_rate, steps=steps, batch_size=batch_size,
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
        X, y = self._validated(X, y, y_numeric=True)
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
        Its ``epsilon`` is replaced.
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
        made, scores, spent = [], [], []
        for place, params in enumerate(candidates):
            candidate = self._candidate(params, share)
            _estimator_of(candidate)._take_seed(place)
            candidate.fit(X, y)
            made.append(candidate)
            scores.append(candidate.score(*self.validation))
            spent.append(_estimator_of(candidate).event_)
        self.epsilon_ = self._cost(spent)
        if self.epsilon_ > self.epsilon:
            raise RuntimeError(f"the search cost {self.epsilon_}, above {self.epsilon}")
        self.best_index_ = int(np.argmax(scores))
        self.best_score_ = scores[self.best_index_]
        self.best_params_ = candidates[self.best_index_]
        self.best_estimator_ = made[self.best_index_]
        self.cv_results_ = {
            "params": candidates,
            "score": np.array(scores),
            "epsilon": np.array([_estimator_of(one).epsilon_ for one in made]),
        }
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def _candidate(self, params: Mapping[str, Any], epsilon: float) -> Any:
        candidate = clone(self.estimator).set_params(**params)
        _estimator_of(candidate).set_params(epsilon=epsilon, delta=self.delta)
        return candidate

    def _cost(self, events: Sequence[Mapping[str, Any]]) -> float:
        """What the events cost together: they are on the same rows, chosen beforehand."""
        inner = _estimator_of(self.estimator)
        return api.account(
            {"event": "composed", "of": list(events)}, accountant=inner.accountant,
            delta=self.delta, adjacency=inner.adjacency,
        ).epsilon

    def _share(self, candidates: Iterable[Mapping[str, Any]], X: Any, y: Any) -> float:
        """The largest epsilon for each at which all cost no more than the budget, to 1 in 1000."""

        def total(share: float) -> float:
            return self._cost(
                [_estimator_of(self._candidate(params, share))._event(X, y) for params in candidates]
            )

        low, high = 0.0, self.epsilon
        if total(high) <= self.epsilon:
            return high
        while high - low > 1e-3 * high:
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


def _estimator_of(candidate: Any) -> Any:
    """The private estimator of a candidate: itself, or the last step of a pipeline."""
    last = candidate.steps[-1][1] if isinstance(candidate, Pipeline) else candidate
    if not isinstance(last, _DPEstimator):
        raise ConfigError("estimator: neither a private estimator nor a pipeline that ends in one")
    return last
