"""Estimators for scikit-learn."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import privgrad
import privgrad.sklearn
from privgrad.sklearn import DPClassifier, DPGridSearch, DPRegressor

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
    with pytest.warns(privgrad.PrivgradWarning, match="bounds of the features, class labels"):
        fitted = classifier(bounds=None, classes=None).fit(*rows)
    assert {"class labels", "bounds of the features"} <= set(fitted.unaccounted_)
    declared = classifier().fit(*rows)
    assert not {"class labels", "bounds of the features"} & set(declared.unaccounted_)


def regressor(**changed: Any) -> DPRegressor:
    return DPRegressor(**{
        "epsilon": 3, "bounds": BOUNDS, "target_bounds": (0, 2), "random_state": 1, **changed,
    })


def released(make: Any, **changed: Any) -> Any:
    """An estimator in release mode, set by its parameter."""
    return make(**{"mode": "release", "random_state": None, "steps": 3, **changed})


def released_by_manifest(make: Any, **changed: Any) -> Any:
    """The same, set only by its manifest."""
    return make(**{"manifest": {"mode": "release"}, "random_state": None, "steps": 3, **changed})


in_release = pytest.mark.parametrize("release", [released, released_by_manifest])


@pytest.mark.parametrize(
    ("make", "missing", "read"),
    [(classifier, ["bounds"], ["bounds of the features"]),
     (classifier, ["bounds", "classes"], ["bounds of the features", "class labels"]),
     (regressor, ["bounds", "target_bounds"], ["bounds of the features", "bounds of the targets"])])
@pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")
def test_all_files_of_a_run_list_what_the_estimator_read(rows: Any, make: Any, missing: Any, read: Any) -> None:
    X, y = rows[0], rows[1] if make is classifier else rows[0][:, 0]
    said = "told by somebody else"
    fitted = make(steps=3, manifest={"data": {"read_off_rows": [said]}}, **dict.fromkeys(missing)).fit(X, y)
    assert {said, *read} <= set(fitted.unaccounted_)
    size = int.from_bytes(fitted.model_[:8], "little")
    metadata = json.loads(fitted.model_[8:8 + size])["__metadata__"]
    assert json.loads(metadata["unaccounted"]) == list(fitted.unaccounted_)
    statement = fitted.run_.json["statement"]
    assert [item["what"] for item in statement["unaccounted"]] == list(fitted.unaccounted_)
    assert fitted.run_.unaccounted == fitted.unaccounted_


class NeverLookedAt:
    """Rows that fail the test if they are read."""

    shape = (600, 2)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("somebody looked at the rows")

    def __len__(self) -> int:
        raise AssertionError("somebody counted the rows")


@in_release
@pytest.mark.parametrize(
    ("make", "missing", "more"),
    [(classifier, ["bounds"], {}), (classifier, ["bounds", "classes"], {}),
     (regressor, ["bounds", "target_bounds"], {}),
     (classifier, ["size"], {"adjacency": "add_or_remove_one"}),
     (classifier, ["size"], {"manifest": {"mode": "release", "privacy": {"adjacency": "add_or_remove_one"}}})])
def test_release_mode_asks_for_declarations_before_it_looks_at_a_row(
        release: Any, make: Any, missing: Any, more: Any) -> None:
    # The rows raise if they are read, so the refusal can only come from the declarations.
    estimator = release(make, **dict.fromkeys(missing), **more)
    refusal = f"^{', '.join(missing)}: not declared, and release mode reads nothing off the rows"
    with pytest.raises(privgrad.PrivacyError, match=refusal):
        estimator.fit(NeverLookedAt(), NeverLookedAt())
    search = DPGridSearch(estimator, {"learning_rate": [1, 2]}, epsilon=3, delta=1e-5,
                          validation=(np.zeros((1, 2)), ["a"]))
    with pytest.raises(privgrad.PrivacyError, match=refusal):
        search.fit(NeverLookedAt(), NeverLookedAt())
    declared = {name: getattr(make(), name) for name in missing} | ({"size": 40} if "size" in missing else {})
    targets = np.full(40, "a") if make is classifier else np.zeros(40)
    fitted = release(make, **{**more, **declared}).fit(np.zeros((40, 2)), targets)
    assert fitted.run_.mode == "release"
    assert fitted.unaccounted_ == ()
    assert not fitted.run_.reproducible


@in_release
def test_release_mode_refuses_what_was_read_off_the_rows_elsewhere(rows: Any, release: Any) -> None:
    read = {"data": {"read_off_rows": ["bounds, by me"]}}
    with pytest.raises(privgrad.PrivacyError, match="read_off_rows"):
        release(classifier, manifest={"mode": "release", **read}).fit(*rows)


@pytest.mark.parametrize(
    ("data", "key"),
    [({"train": (np.zeros((2, 2)), [0, 1])}, "train"), ({"kind": "synthetic", "rows": 9}, "kind"),
     ({"classes": 7}, "classes"), ({"target_fill": 1}, "target_fill"), ({"feature_fill": 1}, "feature_fill"),
     ({"test": (np.zeros((2, 2)), [0, 1])}, "test")])
def test_a_manifest_does_not_exchange_the_rows_of_fit(rows: Any, data: Any, key: str) -> None:
    with pytest.raises(privgrad.ConfigError, match=f"manifest: data.{key} is said by the rows of fit"):
        classifier(manifest={"data": data}).fit(*rows)


@pytest.mark.parametrize(
    ("manifest", "why"),
    [({"federated": {"clients": 2}}, "federated runs are made by privgrad.run"),
     ({"data": "rows.csv"}, "data is not a dict"), ({"privacy": 3}, "privacy is not a dict"),
     ("run.yaml", "is of type str, expected a dict")])
def test_a_manifest_that_an_estimator_cannot_run_is_refused(rows: Any, manifest: Any, why: str) -> None:
    with pytest.raises(privgrad.ConfigError, match=f"manifest: {why}"):
        classifier(manifest=manifest).fit(*rows)


@pytest.mark.parametrize("bounds", [(0, np.inf), (-np.inf, 0), (np.nan, 1), (2, 1), (-1.7e308, 1.7e308)])
def test_bounds_are_finite_and_in_order(rows: Any, bounds: Any) -> None:
    with pytest.raises(privgrad.ConfigError, match="^bounds: the lower ones are not below"):
        classifier(bounds=bounds).fit(*rows)
    with pytest.raises(privgrad.ConfigError, match="^target_bounds: the lower ones are not below"):
        regressor(target_bounds=bounds).fit(rows[0], rows[0][:, 0])


# ---- rows in release mode


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The manifests that the estimators pass to the engine, with their rows."""
    seen = []

    def run(manifest: Any, **options: Any) -> Any:
        seen.append(manifest)
        return api_run(manifest, **options)

    api_run = privgrad.sklearn.api.run
    monkeypatch.setattr(privgrad.sklearn.api, "run", run)
    return seen


def lent(manifest: dict[str, Any], what: str) -> np.ndarray:
    """The features or the targets in a manifest."""
    return manifest["data"]["train"][what]


MIDDLE = sum(BOUNDS) / 2
#: Cells that are not numbers, and the values that replace them.
CELLS = [np.nan, np.inf, -np.inf, None, "text", "", b"x", 1j, [1, 2], {}, object(), 10**400,
         np.datetime64("2020-01-01"), np.complex128(1 + 2j)]
#: Cells that are numbers, in whatever notation.
NUMBERS = [(2, 2), ("2.5", 2.5), (True, 1), (np.float32(0.1), float(np.float32(0.1))), (1.7e308, BOUNDS[1]),
           (-1.7e308, BOUNDS[0])]


def as_objects(X: np.ndarray) -> np.ndarray:
    return X.astype(object)


def as_frame(X: np.ndarray) -> Any:
    return pytest.importorskip("pandas").DataFrame(X)


@in_release
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [as_objects, as_frame])
@pytest.mark.parametrize(
    ("cell", "counts_as"), [*((cell, MIDDLE) for cell in CELLS), *NUMBERS], ids=lambda value: repr(value)[:15])
def test_a_cell_in_release_mode_changes_its_own_feature_and_nothing_else(
        rows: Any, runs: Any, release: Any, kind: Any, cell: Any, counts_as: float) -> None:
    X, y = rows[0][:40].astype(np.float32), rows[1][:40]
    expected = X.copy()
    expected[7, 1] = counts_as
    spoilt = as_objects(X)
    spoilt[7, 1] = cell
    estimator = release(classifier)
    fitted = estimator.fit(kind(spoilt), y)
    estimator.fit(expected, y)
    for what in ("features", "targets"):
        np.testing.assert_array_equal(lent(runs[0], what), lent(runs[1], what))
    assert fitted.unaccounted_ == ()
    # The same for prediction as for training.
    np.testing.assert_array_equal(fitted.predict_proba(kind(spoilt)), fitted.predict_proba(expected))


@in_release
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("classes", [["a", "b", "c"], [0, 1, 2], [0.5, 1.5, 2.5]], ids=["texts", "integers", "reals"])
@pytest.mark.parametrize("kind", [np.asarray, list], ids=["array", "list"])
@pytest.mark.parametrize(
    "label", [np.nan, np.inf, 0.25, None, "other", 9, b"q", [1], {}, object(), np.datetime64("2020-01-01")],
    ids=lambda value: repr(value)[:15])
def test_a_label_in_release_mode_counts_as_the_first_class_and_changes_no_other(
        rows: Any, runs: Any, release: Any, classes: Any, kind: Any, label: Any) -> None:
    X, places = rows[0][:40], np.arange(40) % 3
    y = [classes[place] for place in places]
    spoilt = np.empty(40, dtype=object)
    spoilt[:] = y
    spoilt[8] = label
    fitted = release(classifier, classes=classes).fit(X, list(spoilt) if kind is list else spoilt)
    expected = places.copy()
    expected[8] = 0
    np.testing.assert_array_equal(lent(runs[0], "targets"), expected)
    assert fitted.unaccounted_ == ()


@pytest.mark.parametrize("classes", [[0, 1, 2], [0.5, 1.5, 2.5]], ids=["integers", "reals"])
def test_labels_that_one_text_made_texts_of_are_still_numbers(rows: Any, runs: Any, classes: Any) -> None:
    X, places = rows[0][:40], np.arange(40) % 3
    y = np.array([*(classes[place] for place in places[:39]), "none"])
    assert y.dtype.kind == "U"
    released(classifier, classes=classes).fit(X, y)
    np.testing.assert_array_equal(lent(runs[0], "targets"), [*places[:39], 0])


@in_release
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [np.asarray, list], ids=["array", "list"])
@pytest.mark.parametrize(
    ("target", "counts_as"), [*((cell, 1.0) for cell in CELLS), ("0.5", 0.5), (7, 2), (-1.7e308, 0)],
    ids=lambda value: repr(value)[:15])
def test_a_target_in_release_mode_counts_as_the_middle_and_changes_no_other(
        rows: Any, runs: Any, release: Any, kind: Any, target: Any, counts_as: float) -> None:
    X, y = rows[0][:40], np.linspace(0, 2, 40)
    spoilt = y.astype(object)
    spoilt[8] = target
    fitted = release(regressor).fit(X, list(spoilt) if kind is list else spoilt)
    expected = y.astype(np.float32).astype(np.float64)  # the values rounded to float32
    expected[8] = counts_as
    np.testing.assert_array_equal(lent(runs[0], "targets"), (expected - 1).astype(np.float32))
    assert fitted.unaccounted_ == ()


@in_release
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("make", "targets"), [(classifier, ["a"]), (regressor, [1.0])])
def test_in_release_mode_there_may_be_no_rows(release: Any, make: Any, targets: Any) -> None:
    X, y = np.zeros((1, 2)), np.array(targets)
    by_number = {"size": 20, "adjacency": "add_or_remove_one"}
    for rows_left in (1, 0):
        fitted = release(make, **by_number).fit(X[:rows_left], y[:rows_left])
        assert fitted.unaccounted_ == ()
        assert len(fitted.predict(X)) == 1


def test_in_release_mode_the_form_of_rows_is_a_fact_of_their_container(rows: Any) -> None:
    for X in (rows[0].tolist(), rows[0][:, 0], None):
        with pytest.raises(privgrad.ConfigError, match="^X: is of type"):
            released(classifier).fit(X, rows[1])
    with pytest.raises(privgrad.ConfigError, match="^y: is not of as many rows as X$"):
        released(classifier).fit(rows[0], rows[1][1:])
    with pytest.raises(privgrad.ConfigError, match="^y: has 2 axes, expected one"):
        released(regressor).fit(rows[0], rows[0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ["secret", b"x", 1j, None, np.timedelta64(3, "h"), 2.5], ids=lambda value: repr(value)[:8])
@pytest.mark.parametrize("kind", [bool, int, float], ids=lambda kind: kind.__name__)
def test_a_cell_that_makes_another_type_of_the_whole_array_changes_no_other_row(runs: Any, kind: Any, odd: Any) -> None:
    random = np.random.default_rng(0)
    X = random.integers(0, 2, size=(40, 3)).astype(kind).tolist()
    y = [row[0] for row in X]
    spoilt_X, spoilt_y = [list(row) for row in X], list(y)
    spoilt_X[7][1] = spoilt_y[8] = odd
    estimator = released(classifier, classes=[kind(0), kind(1)])
    for features, targets in ((np.array(X), np.array(y)), (np.array(spoilt_X), np.array(spoilt_y)), (np.array(spoilt_X), spoilt_y)):
        assert estimator.fit(features, targets).unaccounted_ == ()
    others = np.arange(40) != 7, np.arange(40) != 8
    for run in runs[1:]:
        np.testing.assert_array_equal(lent(run, "features")[others[0]], lent(runs[0], "features")[others[0]])
        np.testing.assert_array_equal(lent(run, "targets")[others[1]], lent(runs[0], "targets")[others[1]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("classes", "labels", "held"),
    [(["0", "1"], [0, 1], "int64"), (["a", "b"], [0.5, 1.5], "float64"), (["a", "b"], [b"a", b"b"], "|S1"), ([b"a", b"b"], [True, False], "bool"),
     ([0, 1], ["2020-01-01", "2020-01-02"], "datetime64")])
def test_labels_of_a_type_that_no_class_has_are_refused_where_such_a_label_is(runs: Any, classes: Any, labels: Any, held: str) -> None:
    y = np.array(labels * 20, dtype="datetime64[D]" if held == "datetime64" else None)
    with pytest.raises(privgrad.ConfigError, match=f"^y: holds {re.escape(held)}.* values, none of which can be one of classes, which are"):
        classifier(classes=classes).fit(NeverLookedAt(), y)
    assert runs == []
    # A single row could have another type, and would change the type of all; in release mode each
    # such cell counts as the first class.
    assert released(classifier, classes=classes).fit(np.zeros((40, 2)), y).unaccounted_ == ()


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


def test_the_run_lives_as_long_as_the_estimator(rows: Any) -> None:
    fitted = classifier(manifest={"checkpoint": {"every_steps": 30}}).fit(*rows)
    directory = fitted.run_.run_dir
    assert fitted.verify().verified
    assert fitted.statement_["epsilon"] == fitted.epsilon_
    assert fitted.report_.lstrip().lower().startswith("<!doctype html>")
    assert fitted.statement_ == fitted.run_.statement()
    said = fitted.evaluate(*rows)
    assert said["accuracy"] == fitted.score(*rows)
    assert np.sum(said["confusion"]) == said["rows"] == len(rows[1])
    with pytest.raises(ValueError, match="labels that classes_ lacks"):
        fitted.evaluate(rows[0], np.full(len(rows[1]), "z"))
    assert sorted(path.name for path in directory.parent.iterdir()) == ["run"]
    again = pickle.loads(pickle.dumps(fitted))
    assert again.verify().verified
    del fitted
    assert not directory.parent.exists()
    with pytest.raises(privgrad.DataError, match="out= keeps a run"):
        again.verify()
    np.testing.assert_array_equal(again.predict(rows[0]), again.predict(rows[0]))
    assert again.report_


def test_out_keeps_the_run(rows: Any, command: Any) -> None:
    fitted = classifier(out="kept").fit(*rows)
    assert fitted.run_.run_dir == Path("kept")
    del fitted
    assert command("verify", "kept", "--json")["verified"]
    with pytest.raises(privgrad.PrivgradError, match="kept"):
        classifier(out="kept").fit(*rows)
    search = DPGridSearch(classifier(out="search"), {"learning_rate": [0.3, 1.0]}, epsilon=3, delta=1e-5,
                          validation=(rows[0][:50], rows[1][:50]))
    search.fit(rows[0][50:], rows[1][50:])
    assert {path.name for path in Path("search").iterdir()} == {"candidate-0", "candidate-1"}


def test_folds_of_a_cross_validation_have_their_own_size(rows: Any) -> None:
    from sklearn.model_selection import cross_val_score

    assert len(cross_val_score(classifier(), *rows, cv=3, error_score="raise")) == 3
    with pytest.raises(privgrad.ConfigError, match="size: is 600, and there are 400 rows; .* leave it out"):
        cross_val_score(classifier(size=600), *rows, cv=3, error_score="raise")
    by_number = classifier(size=600, adjacency="add_or_remove_one", batch_size=50, accountant="rdp")
    assert len(cross_val_score(by_number, *rows, cv=3, error_score="raise")) == 3


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
    # Four trainings: each costs far less than the budget, and together they cost all of it.
    assert max(search.cv_results_["epsilon"]) < 2
    assert len(search.cv_results_["score"]) == 4
    assert search.best_estimator_.random_state == 1 + search.best_index_
    assert search.best_score_ == max(search.cv_results_["score"])
    assert search.score(public, public_labels) == search.best_score_ > 0.8
    assert search.predict_proba(public).shape == (180, 3)


def of_two(estimator: Any, rows: Any, **changed: Any) -> DPGridSearch:
    """A search with two candidates, of a few steps on a few rows."""
    return DPGridSearch(estimator, **{
        "param_grid": {"learning_rate": [0.5, 1.0]}, "epsilon": 3, "delta": 1e-5,
        "validation": (rows[0][60:80], rows[1][60:80]), **changed,
    }).fit(rows[0][:60], rows[1][:60])


def charged(ledger: str) -> list[Any]:
    """The events that were charged to a ledger, in order."""
    lines = [json.loads(line) for line in ledger.splitlines()]
    return [line["event"] for line in lines if line["type"] == "release"]


@pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")
@pytest.mark.parametrize("said_by", ["parameters", "manifest"])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("accountant", [
    "zcdp", {"kind": "zcdp", "conversion": "classic"}, "rdp", "pld", "saddle_point", "gdp"], ids=str)
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_a_search_states_no_less_than_the_accountant_says_of_its_ledgers(
        rows: Any, command: Any, said_by: str, adjacency: str, accountant: Any, delta: float) -> None:
    said = {"adjacency": adjacency, "accountant": accountant}
    other = {"adjacency": "zero_out" if adjacency == "replace_one" else "replace_one",
             "accountant": "rdp" if accountant == "zcdp" else "zcdp"}
    given = said if said_by == "parameters" else {**other, "manifest": {"privacy": said}}
    search = of_two(classifier(steps=3, **given), rows, delta=delta)
    assert len(search.ledgers_) == 2
    opened = [json.loads(ledger.partition("\n")[0]) for ledger in search.ledgers_]
    assert {one["adjacency"] for one in opened} == {adjacency}
    assert {one["target_delta"] for one in opened} == {delta}
    together = {"event": "composed", "of": [event for ledger in search.ledgers_ for event in charged(ledger)]}
    asked = [accountant] if accountant != "saddle_point" else [accountant, "pld"]
    costs = [command("account", "--accountant", one if isinstance(one, str) else json.dumps(one), "--event", "-",
                     "--delta", str(delta), "--adjacency", adjacency, "--json", given=json.dumps(together))
             for one in asked]
    assert search.epsilon_ >= max(cost["epsilon"] for cost in costs) * (1 - 1e-12)
    assert 0.97 * 3 < search.epsilon_ <= 3


@pytest.mark.parametrize("asked", [["rdp"], ["saddle_point", "pld"]], ids=str)
def test_sampled_candidates_cost_what_is_proved_of_their_ledgers(rows: Any, command: Any, asked: Any) -> None:
    # pld proves the epsilon that saddle_point finds, or a slightly smaller one.
    search = of_two(classifier(steps=30, batch_size=12, accountant=asked[0]), rows,
                    param_grid={"learning_rate": [0.5, 1.0], "steps": [20, 40]})
    together = {"event": "composed", "of": [event for ledger in search.ledgers_ for event in charged(ledger)]}
    costs = [command("account", "--accountant", one, "--event", "-", "--delta", "1e-5", "--adjacency", "zero_out",
                     "--json", given=json.dumps(together))["epsilon"] for one in asked]
    assert len(set(costs)) == len(asked)
    assert search.epsilon_ == pytest.approx(max(costs), rel=1e-9)


@pytest.mark.parametrize(
    ("manifests", "why"),
    [([{"privacy": {"target_epsilon": 9}}], "manifest: privacy.target_epsilon is of the whole search"),
     ([{"privacy": {"target_delta": 1e-3}}], "manifest: privacy.target_delta is of the whole search"),
     ([{}, {"privacy": {"adjacency": "replace_one"}}], "param_grid: the adjacency is of the whole search")])
def test_no_manifest_of_a_candidate_gets_round_the_budget(rows: Any, manifests: Any, why: str) -> None:
    with pytest.raises(privgrad.ConfigError, match=why):
        of_two(classifier(steps=3), rows, param_grid={"manifest": manifests})


def test_a_search_asks_every_accountant_of_its_candidates(rows: Any) -> None:
    classic = {"privacy": {"accountant": {"kind": "zcdp", "conversion": "classic"}}}
    search = of_two(classifier(steps=3), rows, param_grid={"manifest": [{}, classic]})
    together = {"event": "composed", "of": [event for ledger in search.ledgers_ for event in charged(ledger)]}
    costs = [privgrad.account(together, accountant=one, delta=1e-5, adjacency="zero_out").epsilon
             for one in ("zcdp", classic["privacy"]["accountant"])]
    assert search.epsilon_ == pytest.approx(max(costs), rel=1e-9)
    assert costs[0] != pytest.approx(costs[1], rel=1e-3)


@pytest.mark.parametrize("seeded", [{"random_state": 5}, {"random_state": None, "manifest": {"seed": 5}}], ids=str)
def test_no_two_candidates_have_the_same_noise(rows: Any, runs: Any, seeded: Any) -> None:
    of_two(classifier(steps=3, **seeded), rows)
    assert [manifest["seed"] for manifest in runs] == [5, 6]


@pytest.mark.parametrize(
    "steps", [[StandardScaler()], [FunctionTransformer(np.abs)], ["passthrough", StandardScaler()]], ids=str)
def test_what_other_steps_of_a_pipeline_make_is_covered_by_nothing(rows: Any, steps: Any) -> None:
    grid = {"param_grid": {"dpclassifier__learning_rate": [0.5, 1.0]}}
    search = of_two(make_pipeline(*steps, classifier(steps=10)), rows, **grid)
    assert search.epsilon_ <= 3
    assert set(search.best_params_) == {"dpclassifier__learning_rate"}
    (name,) = [name for name, step in search.best_estimator_.steps[:-1] if step != "passthrough"]
    fact = f"what the step {name} makes of all rows"
    assert fact in search.unaccounted_
    inner = search.best_estimator_[-1]
    assert fact in inner.unaccounted_
    assert fact in inner.run_.unaccounted
    for release in ({"mode": "release"}, {"manifest": {"mode": "release"}}):
        with pytest.raises(privgrad.PrivacyError, match=f"the steps {name} are given all private rows at once"):
            of_two(make_pipeline(*steps, classifier(random_state=None, **release)), rows, **grid)


def test_a_search_over_steps_lists_those_of_each_candidate(rows: Any) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("model", classifier(steps=3))])
    search = of_two(pipeline, rows, param_grid={"scale": ["passthrough", StandardScaler()]})
    assert "what the step scale makes of all rows" in search.unaccounted_
    for release in ({"mode": "release"}, {"manifest": {"mode": "release"}}):
        whole = classifier(steps=3, random_state=None, **release)
        with pytest.raises(privgrad.PrivacyError, match="the steps scale are given"):
            of_two(Pipeline([("scale", "passthrough"), ("model", whole)]), rows,
                   param_grid={"scale": ["passthrough", StandardScaler()]})
        searched = of_two(Pipeline([("scale", "passthrough"), ("model", whole)]), rows,
                          param_grid={"model__learning_rate": [0.5, 1.0]})
        assert searched.unaccounted_ == ()


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
    with pytest.raises(ValueError, match="NaN"):  # in the targets, always
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
        # The middle of its bounds, or the declared fill; the same for prediction as for training.
        middle = sum(BOUNDS) / 2 if fill is None else fill
        assert np.array_equal(fitted.predict_proba(X[7:8]), fitted.predict_proba(np.array([[middle, middle]])))
