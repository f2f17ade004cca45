"""Estimators for scikit-learn."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import privgrad
from privgrad.sklearn import EXPECTED_FAILED_CHECKS, DPClassifier, DPGridSearch, DPRegressor

BOUNDS = (-6.0, 9.0)


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Three clusters, with names."""
    random = np.random.default_rng(2)
    labels = random.integers(0, 3, size=600)
    centres = np.array([[0, 0], [4, 0], [0, 4]])
    return random.normal(size=(600, 2)) + centres[labels], np.array(["a", "b", "c"])[labels]


def classifier(**changed: Any) -> DPClassifier:
    return DPClassifier(**{
        "epsilon": 3, "bounds": BOUNDS, "classes": ["a", "b", "c"], "learning_rate": 2.0,
        "random_state": 1, **changed,
    })


@pytest.mark.parametrize("estimator", [DPClassifier(random_state=0), DPRegressor(random_state=0)],
                         ids=lambda e: type(e).__name__)
def test_the_checks_of_scikit_learn(estimator: Any) -> None:
    listed = EXPECTED_FAILED_CHECKS[type(estimator).__name__]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, expected_failed_checks=listed, on_fail=None)
    broken = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert broken == {}
    # What is listed really fails: nothing hides behind the list.
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(listed)
    assert sum(r["status"] == "passed" for r in results) > 40


def test_only_noise_keeps_a_regressor_from_its_check() -> None:
    from sklearn.utils.estimator_checks import check_regressors_train

    warnings.simplefilter("ignore")
    check_regressors_train("DPRegressor", DPRegressor(epsilon=1000, random_state=0))


def test_a_classifier_learns_within_its_budget(rows: Any) -> None:
    fitted = classifier().fit(*rows)
    assert fitted.score(*rows) > 0.9
    assert fitted.epsilon_ <= 3
    assert list(fitted.classes_) == ["a", "b", "c"]
    np.testing.assert_allclose(fitted.predict_proba(rows[0]).sum(axis=1), 1)
    spent = privgrad.account(fitted.event_, accountant="zcdp", delta=1e-5, adjacency="zero_out")
    assert spent.epsilon == pytest.approx(fitted.epsilon_, rel=1e-9)


def test_a_regressor_learns_within_its_budget() -> None:
    random = np.random.default_rng(4)
    features = random.uniform(-1, 1, size=(800, 3))
    targets = features @ [1, -2, 3] + 5
    fitted = DPRegressor(epsilon=8, bounds=(-1, 1), target_bounds=(-1, 11), random_state=0)
    assert fitted.fit(features, targets).score(features, targets) > 0.5
    assert fitted.epsilon_ <= 8


def test_what_is_not_declared_is_told(rows: Any) -> None:
    with pytest.warns(privgrad.PrivgradWarning, match="class labels, bounds of the features"):
        fitted = classifier(bounds=None, classes=None).fit(*rows)
    assert {"class labels", "bounds of the features"} <= set(fitted.unaccounted_)
    declared = classifier().fit(*rows)
    assert not {"class labels", "bounds of the features"} & set(declared.unaccounted_)


def test_release_mode_refuses_what_was_read_off_the_rows(rows: Any) -> None:
    release = {"mode": "release", "random_state": None, "size": 600}
    with pytest.raises(privgrad.PrivacyError, match="bounds of the features: read off the rows"):
        classifier(bounds=None, **release).fit(*rows)
    fitted = classifier(**release).fit(*rows)
    assert fitted.unaccounted_ == ()
    assert not fitted.run_.reproducible


def test_a_row_outside_its_bounds_counts_as_one_at_them(rows: Any) -> None:
    far = rows[0].copy()
    far[3] = [1e9, -1e9]
    near = rows[0].copy()
    near[3] = [BOUNDS[1], BOUNDS[0]]
    np.testing.assert_array_equal(
        classifier().fit(far, rows[1]).predict_proba(rows[0]),
        classifier().fit(near, rows[1]).predict_proba(rows[0]),
    )


def test_labels_that_were_not_declared_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match="y has labels that classes lacks"):
        classifier(classes=["a", "b"]).fit(*rows)


def test_any_key_of_a_manifest_can_be_given(rows: Any) -> None:
    fitted = classifier(manifest={"schedules": {"learning_rate": 1}, "steps": 7}).fit(*rows)
    assert fitted.n_iter_ == 7
    with pytest.raises(privgrad.ManifestError, match="stepz"):
        classifier(manifest={"stepz": 7}).fit(*rows)


def test_it_works_in_a_pipeline_and_a_pickle(rows: Any) -> None:
    pipeline = make_pipeline(FunctionTransformer(np.clip, kw_args={"a_min": -6, "a_max": 9}),
                             classifier()).fit(*rows)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict(rows[0]), pipeline.predict(rows[0]))


# ---- the search


def test_a_search_costs_what_is_declared(rows: Any) -> None:
    private, public, labels, public_labels = train_test_split(*rows, test_size=0.3, random_state=0)
    search = DPGridSearch(
        classifier(), {"learning_rate": [0.5, 2.0], "steps": [20, 60]}, epsilon=3, delta=1e-5,
        validation=(public, public_labels),
    ).fit(private, labels)
    assert 0.97 * 3 < search.epsilon_ <= 3
    # Four trainings: what one of them may cost is far below the budget, and all together are it.
    assert max(search.cv_results_["epsilon"]) < 2
    assert len(search.cv_results_["score"]) == 4
    assert search.best_estimator_.random_state == 1 + search.best_index_
    assert search.best_score_ == max(search.cv_results_["score"])
    assert search.score(public, public_labels) == search.best_score_ > 0.8
    assert search.predict_proba(public).shape == (180, 3)


def test_a_search_over_a_pipeline_sets_its_last_step(rows: Any) -> None:
    pipeline = make_pipeline(FunctionTransformer(), classifier(steps=10))
    search = DPGridSearch(pipeline, {"dpclassifier__learning_rate": [0.5, 1.0]}, epsilon=2,
                          delta=1e-5, validation=(rows[0][:50], rows[1][:50])).fit(*rows)
    assert search.epsilon_ <= 2
    assert set(search.best_params_) == {"dpclassifier__learning_rate"}


def test_a_search_does_not_search_its_budget(rows: Any) -> None:
    with pytest.raises(privgrad.ConfigError, match="epsilon is of the whole search"):
        DPGridSearch(classifier(), {"epsilon": [1, 2]}, epsilon=2, delta=1e-5,
                     validation=rows).fit(*rows)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_feature_that_is_not_finite_counts_as_declared(rows: Any, bad: float) -> None:
    X, y = rows
    spoiled, filled = X.copy(), X.copy()
    spoiled[5, 1], filled[5, 1] = bad, -0.25
    with pytest.raises(ValueError, match="NaN|infinity"):
        classifier().fit(spoiled, y)
    fitted = classifier(feature_fill=-0.25).fit(spoiled, y)
    expected = classifier().fit(filled, y)
    assert np.array_equal(fitted.predict_proba(spoiled), expected.predict_proba(filled))
    with pytest.raises(ValueError, match="NaN|infinity"):
        expected.predict(spoiled)
    regressor = DPRegressor(
        epsilon=5, bounds=(-3, 3), target_bounds=(0, 1), random_state=3, feature_fill=-0.25
    )
    values = (y == "a").astype(float)
    assert np.isfinite(regressor.fit(spoiled, values).predict(spoiled)).all()
    assert regressor.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="NaN"):  # of the targets, always
        regressor.fit(X, np.where(np.arange(len(y)) == 3, np.nan, values))
    with pytest.raises(privgrad.ConfigError, match="feature_fill: is nan"):
        classifier(feature_fill=np.nan).fit(X, y)


def test_in_release_mode_no_feature_ends_a_fit(rows: Any) -> None:
    X, y = rows[0].copy(), rows[1]
    X[7] = np.nan, np.inf
    release = {"mode": "release", "random_state": None, "size": len(X)}
    for fill in (None, 0.5):
        fitted = classifier(feature_fill=fill, **release).fit(X, y)
        assert fitted.unaccounted_ == ()
        # In the middle of its bounds, or as declared; to predict as to learn.
        middle = sum(BOUNDS) / 2 if fill is None else fill
        assert np.array_equal(fitted.predict_proba(X[7:8]), fitted.predict_proba([[middle, middle]]))


def test_in_release_mode_no_error_tells_of_a_label(rows: Any) -> None:
    X, y = rows
    other = np.array(y)
    other[3] = 9
    with pytest.raises(ValueError, match="labels that classes lacks"):
        classifier().fit(X, other)
    assert "that every target fits" in classifier().fit(X, y).unaccounted_
    release = {"mode": "release", "random_state": None, "size": len(X)}
    fitted = classifier(**release).fit(X, other)
    assert fitted.unaccounted_ == ()
    assert list(fitted.classes_) == list(classifier().fit(X, y).classes_)
