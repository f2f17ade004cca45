"""Charges are never lost: an exception after the first charge leaves ledger, epsilon and model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import privgrad
from privgrad.sklearn import DPClassifier, DPGridSearch, DPRegressor

Y = np.random.default_rng(0).integers(0, 2, size=160)
X = np.random.default_rng(1).normal(size=(160, 3)) + np.outer(Y, [2, 2, 2])


class Down(Exception):
    """The exception of a tracker that cannot be reached."""


class Tracker:
    """A tracker that raises in one of its calls, at one of its steps."""

    def __init__(self, fails: str = "", at: int = 0, raises: type[BaseException] = Down) -> None:
        self.fails, self.at, self.raises = fails, at, raises
        self.told: list[Any] = []

    def _call(self, name: str, what: Any) -> None:
        self.told.append((name, what))
        if self.fails == name and (name != "step" or what >= self.at):
            raise self.raises(f"{name}: cannot be reached")

    def begin(self) -> None:
        self._call("begin", None)

    def __call__(self, progress: privgrad.Progress) -> None:
        self._call("step", progress.step)

    def end(self, run: privgrad.Run | None) -> None:
        self._call("end", run)

    def calls(self) -> list[str]:
        return [name for name, _ in self.told]


@pytest.mark.parametrize("is_first", [True, False])
def test_who_has_begun_is_told_of_the_end(small: dict[str, Any], is_first: bool) -> None:
    for fails, at in (("begin", 0), ("step", 6)):
        bad, good = Tracker(fails, at), Tracker()
        with pytest.raises(Down, match=fails):
            privgrad.run(small, out=f"run-{fails}", callback=[bad, good] if is_first else [good, bad])
        assert good.calls()[-1:] == ([] if is_first and fails == "begin" else ["end"])
        assert good.calls().count("end") <= 1
        assert bad.calls().count("end") == (fails != "begin")
        assert Path(f"run-{fails}").exists() == (fails != "begin")  # nothing was charged before all
                                                                    # callbacks had begun
        if fails == "step":
            assert good.calls().count("step") == bad.calls().count("step")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_run_that_is_over_is_returned(small: dict[str, Any], is_first: bool) -> None:
    for fails, at in (("end", 0), ("step", small["steps"])):
        bad, good = Tracker(fails, at), Tracker()
        with pytest.warns(privgrad.PrivgradWarning, match=f"Down: {fails}: cannot be reached"):
            run = privgrad.run(small, out=f"run-{fails}", callback=[bad, good] if is_first else [good, bad])
        assert (run.status, run.steps) == ("completed", 20)
        assert good.told[-1] == ("end", run)
        assert privgrad.verify(run)


def test_an_exception_says_where_the_run_is(small: dict[str, Any]) -> None:
    for checkpoint, says in (("off", "off holds the model so far"), ("on", r"resume with: privgrad.run(resume='on')")):
        manifest = small if checkpoint == "on" else {**small, "checkpoint": "off"}
        with pytest.raises(Down) as raised:
            privgrad.run({**manifest, "steps": 3000, "evaluate_every": 10}, out=checkpoint, callback=Tracker("step", 5))
        if sys.version_info >= (3, 11):
            assert re.match(r"privgrad: interrupted after step \d+ of 3000; ", raised.value.__notes__[0])
            assert says in raised.value.__notes__[0]
    assert privgrad.Run.open("off").status == "interrupted"
    assert privgrad.run(resume="on").steps == 3000


def test_a_progress_bar_without_its_package_is_refused_before_anything_is_charged(small: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(privgrad.ConfigError, match=r"^ProgressBar needs tqdm: pip install 'privgrad\[progress\]'$"):
        privgrad.run(small, out="run", callback=privgrad.ProgressBar())
    assert not Path("run").exists()
    assert privgrad.run(small, out="run").status == "completed"


@pytest.mark.parametrize("raises", [Down, KeyboardInterrupt])
@pytest.mark.parametrize("out", [None, "run"])
def test_an_estimator_keeps_what_was_charged(raises: Any, out: str | None) -> None:
    for at in (3, 20):
        fitted = DPClassifier(epsilon=3, bounds=(-4, 6), classes=[0, 1], steps=20, random_state=0, callback=Tracker("step", at, raises),
                              out=None if out is None else f"{out}-{at}")
        try:
            fitted.fit(X, Y)
            assert (at, raises) == (20, Down)
        except (Down, KeyboardInterrupt):
            assert 0 < fitted.epsilon_ <= 3
        lines = [json.loads(line) for line in fitted.ledger_.splitlines()]
        assert sum(line["type"] == "release" for line in lines) == fitted.n_iter_ >= at
        assert fitted.model_
        assert len(fitted.predict(X)) == len(X)

    fresh = DPClassifier(epsilon=3, bounds=(-4, 6), classes=[0, 1], steps=20, out="run-3")
    Path("run-3").mkdir(exist_ok=True)
    (Path("run-3") / "ledger.jsonl").write_text("of another run")
    with pytest.raises(privgrad.PrivgradError):
        fresh.fit(X, Y)
    assert not hasattr(fresh, "ledger_")


def search(estimator: Any = None, grid: Any = None, validation: Any = None) -> DPGridSearch:
    estimator = estimator or DPClassifier(bounds=(-4, 6), classes=[0, 1], steps=5, random_state=0)
    return DPGridSearch(estimator, grid or {"learning_rate": [0.1, 0.5]}, epsilon=3, delta=1e-5, validation=validation or (X[:40], Y[:40]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", [{}, {"mode": "release", "random_state": None}], ids=["research", "release"])
@pytest.mark.parametrize(("estimator", "validation", "says"), [
    (DPClassifier, (X[:40, :2], Y[:40]), r"X has the shape \(40, 2\), expected \[rows, 3\] as of fit"),
    (DPClassifier, (X[:0], Y[:0]), r"X has the shape \(0, 3\)"), (DPClassifier, (X[:40, 0], Y[:40]), r"X has the shape \(40,\)|X: is of type ndarray with 1"),
    (DPClassifier, (X[:40], Y[:39]), "y: is not of as many rows as X"), (DPClassifier, (X[:40], np.full(40, 7)), "y has labels that classes lacks"),
    (DPClassifier, (X[:40], Y[:40].astype(str)[:, None].repeat(2, 1)), "y: has 2 axes"), (DPClassifier, X[:40], "is of type ndarray, expected"),
    (DPClassifier, None, "is of type NoneType"), (DPClassifier, (X[:40], np.full(40, b"a")), "y has labels|y: holds"),
    (DPRegressor, (X[:40], np.full(40, np.nan)), "y has fewer than two targets, or one that is no"), (DPRegressor, (X[:1], Y[:1]), "y has fewer than two"),
])
def test_public_rows_are_looked_at_before_anything_is_charged(mode: Any, estimator: Any, validation: Any, says: str) -> None:
    spent: list[privgrad.Progress] = []
    facts = {"classes": [0, 1]} if estimator is DPClassifier else {"target_bounds": (0, 1)}
    one = estimator(**{"bounds": (-4, 6), "steps": 5, "random_state": 0, "callback": spent.append, **facts, **mode})
    for whole, key in ((one, "learning_rate"), (make_pipeline(FunctionTransformer(np.abs), one), f"dp{estimator.__name__[2:].lower()}__learning_rate")):
        if "mode" in mode and whole is not one:
            continue  # its steps refuse it
        if whole is not one and "shape (40, 2)" in says.replace("\\", ""):
            continue  # other steps know the width of the rows
        searched = DPGridSearch(whole, {key: [0.1, 0.5]}, epsilon=3, delta=1e-5, validation=validation)
        with pytest.raises(privgrad.ConfigError, match=f"^validation: (?:{says})"):
            searched.fit(X[40:], Y[40:])
        assert not hasattr(searched, "ledgers_")
    assert spent == []


def test_a_feature_without_a_number_among_public_rows_is_refused_unless_it_is_filled() -> None:
    spoilt = np.where(np.arange(3) == 1, np.nan, X[:40])
    with pytest.raises(privgrad.ConfigError, match="^validation: X has a feature that is no finite number, and feature_fill"):
        search(validation=(spoilt, Y[:40])).fit(X[40:], Y[40:])
    filled = DPClassifier(bounds=(-4, 6), classes=[0, 1], steps=5, random_state=0, feature_fill=0)
    assert search(filled, validation=(spoilt, Y[:40])).fit(X[40:], Y[40:]).best_score_ > 0


def test_a_candidate_without_a_score_is_not_chosen_and_loses_nothing() -> None:
    targets = X @ [1, -2, 0.5]
    regressor = DPRegressor(bounds=(-4, 6), target_bounds=(-9, 9), steps=50, model={"kind": "mlp", "hidden": [4]}, random_state=0)
    searched = DPGridSearch(regressor, {"learning_rate": [1e38, 0.5]}, epsilon=5, delta=1e-3, validation=(X[:40], targets[:40]))
    with pytest.warns(privgrad.PrivgradWarning, match=r"{'learning_rate': 1e\+38} has no score"):
        searched.fit(X[40:], targets[40:])
    assert searched.best_params_ == {"learning_rate": 0.5}
    assert np.isnan(searched.cv_results_["score"][0])
    assert 4.9 < searched.epsilon_ <= 5
    assert len(searched.ledgers_) == 2
    none = DPGridSearch(regressor, {"learning_rate": [1e38]}, epsilon=5, delta=1e-3, validation=(X[:40], targets[:40]))
    with pytest.raises(privgrad.DataError, match="no candidate has a score on the public rows"):
        none.fit(X[40:], targets[40:])
    assert 4.9 < none.epsilon_ <= 5
    assert (len(none.ledgers_), len(none.candidates_), none.unaccounted_) == (1, 1, none.candidates_[0].unaccounted_)


class Score(DPClassifier):
    """An estimator whose score raises."""

    def score(self, *_: Any, **__: Any) -> float:
        raise Down("the scorer")


def test_a_scorer_that_raises_loses_nothing() -> None:
    searched = search(Score(bounds=(-4, 6), classes=[0, 1], steps=5, random_state=0))
    with pytest.raises(privgrad.DataError, match="Down: the scorer"):
        searched.fit(X[40:], Y[40:])
    assert len(searched.ledgers_) == 2
    assert searched.epsilon_ <= 3


@pytest.mark.parametrize("raises", [Down, KeyboardInterrupt])
def test_a_search_that_is_stopped_says_what_all_could_have_cost(raises: Any) -> None:
    whole = search().fit(X[40:], Y[40:])
    seen: list[int] = []

    def stop(progress: privgrad.Progress) -> None:
        seen.append(progress.step)
        if seen.count(1) == 2:
            raise raises("enough")

    searched = search(DPClassifier(bounds=(-4, 6), classes=[0, 1], steps=5, random_state=0, callback=stop))
    with pytest.raises(raises):
        searched.fit(X[40:], Y[40:])
    assert searched.epsilon_ == pytest.approx(whole.epsilon_, rel=1e-9)
    assert len(searched.ledgers_) == 2
    assert searched.ledgers_[0] == searched.candidates_[0].ledger_
    assert len(searched.candidates_[0].predict(X)) == len(X)


@pytest.mark.parametrize("mode", ["research", "release"])
def test_release_mode_warns_of_a_pipeline_that_was_fitted_on_the_private_rows(mode: str, recwarn: Any) -> None:
    inner = DPClassifier(bounds=(-4, 6), classes=[0, 1], steps=3, mode=mode)
    make_pipeline("passthrough", StandardScaler(), make_pipeline(FunctionTransformer(np.abs), inner)).fit(X, Y)
    said = [str(one.message) for one in recwarn if "were fitted on all rows by the pipeline" in str(one.message)]
    assert len(said) == (mode == "release")
    if said:
        assert said[0].startswith("the steps standardscaler, pipeline, functiontransformer were") or said[0].startswith("the steps standardscaler, ")
    recwarn.clear()
    inner.fit(X, Y)
    assert not [one for one in recwarn if "fitted on all rows" in str(one.message)]


def test_the_first_example_needs_no_more_than_numpy() -> None:
    hidden = "import sys\nfor name in ('tqdm', 'tqdm.auto', 'pandas', 'pyarrow', 'sklearn'): sys.modules[name] = None\n"
    page = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    first = page.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", hidden + first], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
