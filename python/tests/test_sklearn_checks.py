"""The checks of scikit-learn for third-party estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import privgrad
from privgrad.sklearn import EXPECTED_FAILED_CHECKS, DPClassifier, DPGridSearch, DPRegressor


class OfItsRows(DPGridSearch):
    """A search whose public rows are those of fit(), because the checks use many forms of rows."""

    def _public_rows(self, made: Any, X: Any, y: Any) -> Any:
        return X, y


def search(estimator: Any) -> OfItsRows:
    return OfItsRows(estimator, {"learning_rate": [0.3, 0.5]}, epsilon=estimator.epsilon, delta=1e-5, validation=(None, None))


#: Checks that the search fails but the estimators pass.
OF_A_SEARCH = {"check_fit2d_1sample": "R2 of one public row is none"}


@pytest.mark.parametrize(
    ("estimator", "listed"),
    [(DPClassifier(random_state=0), EXPECTED_FAILED_CHECKS["DPClassifier"]), (DPRegressor(random_state=0), EXPECTED_FAILED_CHECKS["DPRegressor"]),
     (search(DPClassifier(random_state=0, steps=20)), {}), (search(DPRegressor(random_state=0, epsilon=1000)), OF_A_SEARCH)],
    ids=["DPClassifier", "DPRegressor", "DPGridSearch of classifiers", "DPGridSearch of regressors"])
def test_the_checks_of_scikit_learn(estimator: Any, listed: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, expected_failed_checks=listed, on_fail=None)
    broken = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert broken == {}
    # Every listed check really fails, so the list hides nothing.
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(listed)
    assert sum(r["status"] == "passed" for r in results) > 40


#: Values that a parameter may be given by mistake.
ODD = [None, "x", "", float("inf"), float("nan"), -1, 0, 10**400, 1j, object(), [], {}, {"kind": 3}, (1,), ("a", "b"), b"x", np.random.default_rng(0),
       np.array([[1.0]]), np.datetime64("2020"), lambda *_: None]


@pytest.mark.parametrize("kind", [DPClassifier, DPRegressor, DPGridSearch])
def test_whatever_a_parameter_is_given_an_error_is_one_of_ours(kind: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    facts = {DPClassifier: {"classes": [0, 1]}, DPRegressor: {"target_bounds": (0, 1)}}
    one = DPClassifier(bounds=(-4, 4), steps=2, **facts[DPClassifier])
    made = {DPGridSearch: lambda: DPGridSearch(one, {"steps": [2]}, epsilon=1, delta=1e-5, validation=(X, y))}.get(
        kind, lambda: kind(bounds=(-4, 4), steps=2, **facts.get(kind, {})))
    raw = []
    for name in made().get_params(deep=False):
        for odd in ODD:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    made().set_params(**{name: odd}).fit(X, y)
                except privgrad.PrivgradError:
                    pass
                except Exception as problem:
                    raw.append((name, odd, problem))
    assert raw == []


def test_only_noise_keeps_a_regressor_from_its_check() -> None:
    from sklearn.utils.estimator_checks import check_regressors_train

    warnings.simplefilter("ignore")
    check_regressors_train("DPRegressor", DPRegressor(epsilon=1000, random_state=0))
