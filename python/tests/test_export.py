"""Exported models in onnxruntime, on the rows that users have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad._cells import text_of

onnxruntime = pytest.importorskip("onnxruntime")


def execute(file: str | Path, columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """The outputs of a graph for columns, each [n], or features, [n, ...]."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(string)": object}
    fed = {}
    for entry in session.get_inputs():
        values = np.asarray(columns[entry.name], dtype=types[entry.type])
        fed[entry.name] = values if values.ndim > 1 else values[:, None]
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(names, fed), strict=True))


def test_the_graph_of_a_frame_takes_what_the_frame_holds(small: dict[str, Any], command: Any) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = 90
    table = pandas.DataFrame({
        "age": np.where(np.arange(rows) % 9 == 0, np.nan, np.arange(rows) * 0.7),
        "visits": pandas.array([None if row % 10 == 0 else row % 6 for row in range(rows)], dtype="Int64"),
        "ward": pandas.Categorical([("north", "south", "never declared", None)[row % 4] for row in range(rows)]),
        "smoker": pandas.array([(True, False, None)[row % 3] for row in range(rows)], dtype="boolean"),
        "admitted": pandas.Series(pandas.date_range("2023-11-01", periods=rows)).where(np.arange(rows) % 8 != 0),
        "told": [f"{1 + row % 28}.{1 + row % 12}.2024" for row in range(rows)],
        "id": range(rows),
        "outcome": ["died" if row % 2 else "survived" for row in range(rows)],
    })
    declared = [
        {"name": "age", "type": "number", "min": 0, "max": 50, "unit": True, "fill": 40, "indicator": True},
        {"name": "visits", "type": "number", "fill": 0},
        {"name": "ward", "type": "category", "values": ["north", "south"], "other": True},
        {"name": "smoker", "type": "boolean", "fill": 0.5},
        {"name": "admitted", "type": "date", "format": "%d.%m.%Y", "parts": ["days", "weekday"],
         "since": "2024-01-01", "min": -30, "max": 30, "unit": True, "other": True},
        {"name": "told", "type": "date", "format": "%d.%m.%Y", "parts": ["day", "month"], "other": True},
        {"name": "id", "type": "drop"},
    ]
    data = {"kind": "memory", "train": table, "target": "outcome", "labels": ["survived", "died"],
            "other_label": "survived", "columns": declared}
    run = privgrad.run({**small, "data": data})
    made = privgrad.predict(run, table)
    privgrad.export(run, "model.onnx")
    texts = {name: [text_of(cell, "%d.%m.%Y") for cell in table[name]] for name in ("ward", "smoker", "admitted", "told")}
    raw = {**texts, "age": table["age"], "visits": table["visits"].astype("Float64").to_numpy(float, na_value=np.nan)}
    given = execute("model.onnx", raw)
    assert np.abs(given["probabilities"] - made.probabilities).max() < 1e-6
    assert given["class"].tolist() == made.columns()["class"].tolist()
    assert np.ptp(given["probabilities"][:, 0]) > 0.01
    # The command writes the same file, and does not accept a matrix of numbers.
    assert command.fails("export", run.run_dir, "--out", "again.onnx") == (0, "")
    assert Path("again.onnx").read_bytes() == Path("model.onnx").read_bytes()
    session = onnxruntime.InferenceSession("model.onnx")
    with pytest.raises(Exception, match=r"features|[Ii]nput"):
        session.run(None, {"features": np.zeros((3, 6), dtype=np.float32)})


def test_the_graph_of_an_array_takes_features(small: dict[str, Any]) -> None:
    X = np.random.default_rng(1).normal(size=(80, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    run = privgrad.run({**small, "data": {"kind": "memory", "train": (X, y), "classes": 2}})
    privgrad.export(run.run_dir / "model.safetensors", Path("model.onnx"))
    given = execute("model.onnx", {"features": X})
    assert list(given) == ["probabilities"]
    assert np.abs(given["probabilities"] - privgrad.predict(run, X).probabilities).max() < 1e-6


def test_what_cannot_be_exported_is_an_exception(small: dict[str, Any]) -> None:
    run = privgrad.run(small)
    Path("model.onnx").write_text("before")
    for error, call in (
        (privgrad.ConfigError, lambda: privgrad.export(run, "model.onnx", format="pmml")),
        (privgrad.DataError, lambda: privgrad.export("nowhere", "model.onnx")),
        (privgrad.DataError, lambda: privgrad.export(run, "no/such/folder/model.onnx")),
    ):
        with pytest.raises(error) as raised:
            call()
        assert "\n" not in str(raised.value)
        assert not str(raised.value).startswith("privgrad")
    with pytest.raises(privgrad.ConfigError, match="expected onnx"):
        privgrad.export(run, "model.onnx", format="pmml")
    (run.run_dir / "resume.json").write_text("{}")
    with pytest.raises(privgrad.PrivacyError, match="is not finished"):
        privgrad.export(run, "model.onnx")
    assert Path("model.onnx").read_text() == "before"


def test_the_graph_of_an_estimator_takes_what_predict_takes() -> None:
    pytest.importorskip("sklearn")
    from privgrad.sklearn import DPClassifier, DPRegressor

    random = np.random.default_rng(0)
    y = random.integers(0, 2, size=300)
    X = (random.normal(size=(300, 3)) * [1, 10, 100] + np.outer(y, [2, 20, 200])).astype(np.float32)
    X[0] = [-1e6, 1e6, 0]  # outside the bounds
    bounds = ([-4, -40, -400], [6, 60, 600])
    names = np.array(["no", "yes, of course"])[y]
    classifier = DPClassifier(epsilon=8, bounds=bounds, classes=["no", "yes, of course"], learning_rate=1.0).fit(X, names)
    classifier.export("c.onnx")
    given = execute("c.onnx", {"features": X})
    assert np.abs(given["probabilities"] - classifier.predict_proba(X)).max() < 1e-6
    assert given["class"].tolist() == classifier.predict(X).tolist()
    assert np.ptp(given["probabilities"][:, 0]) > 0.5

    targets = 1000 + 50 * y + random.normal(size=300)
    regressor = DPRegressor(epsilon=8, bounds=bounds, target_bounds=(900, 1100)).fit(X, targets)
    regressor.export(Path("r.onnx"))
    given = execute("r.onnx", {"features": X})
    assert list(given) == ["values"]
    np.testing.assert_allclose(given["values"][:, 0], regressor.predict(X), rtol=1e-6)
    assert np.ptp(given["values"]) > 10

    holes = X.copy()
    holes[1, 0], holes[2, 1] = np.nan, np.inf
    without = execute("r.onnx", {"features": holes})["values"][:, 0]
    assert np.isnan(without).tolist() == [row in (1, 2) for row in range(300)]
    for filled in (
        DPRegressor(epsilon=8, bounds=bounds, target_bounds=(900, 1100), feature_fill=7),
        DPRegressor(epsilon=8, bounds=bounds, target_bounds=(900, 1100), mode="release"),
    ):
        filled.fit(X, targets).export("f.onnx")
        given = execute("f.onnx", {"features": holes})
        np.testing.assert_allclose(given["values"][:, 0], filled.predict(holes), rtol=1e-6)


def test_a_regressor_is_evaluated_in_the_units_of_its_targets() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    from privgrad.sklearn import DPRegressor

    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(400, 2))
    y = 1000 + 80 * X[:, 0] + random.normal(size=400)
    regressor = DPRegressor(epsilon=8, bounds=(-1, 1), target_bounds=(900, 1050)).fit(X, y)  # some
                                                                                             # are
                                                                                             # outside
                                                                                             # the
                                                                                             # bounds
    said, predicted = regressor.evaluate(X, y), regressor.predict(X)
    assert said["rows"] == 400
    assert said["mse"] == pytest.approx(metrics.mean_squared_error(y, predicted), rel=1e-5)
    assert said["mae"] == pytest.approx(metrics.mean_absolute_error(y, predicted), rel=1e-5)
    assert said["r2"] == pytest.approx(regressor.score(X, y), abs=1e-5)
    with pytest.raises(ValueError, match="not finite"):
        regressor.evaluate(X[:2], [1, np.nan])


def test_what_is_said_of_an_estimator_fits_its_model(small: dict[str, Any], command: Any) -> None:
    run = privgrad.run(small)
    good = {"low": [-1] * 4, "high": [1] * 4, "otherwise": [], "values": None, "classes": ["a", "b"]}
    for wrong in ({"low": [0]}, {"high": [-2] * 4}, {"otherwise": [0]}, {"classes": ["a"]}, {"values": [0, 1]},
                  {"low": "text"}):
        Path("around.json").write_text(json.dumps({**good, **wrong}))
        code, said = command.fails("export", run.run_dir, "--out", "e.onnx", "--estimator", "around.json")
        assert code == 2
        assert "around.json: does not describe an estimator of this model: " in said
        assert said.count("\n") == 1
    Path("around.json").write_text(json.dumps(good))
    assert command.fails("export", run.run_dir, "--out", "e.onnx", "--estimator", "around.json") == (0, "")
    Path("t.csv").write_text("a,b,y\n1,0,1\n0,1,0\n")
    of_table = privgrad.run({**small, "data": {"kind": "csv", "train": "t.csv", "target": "y"}})
    code, said = command.fails("export", of_table.run_dir, "--out", "e.onnx", "--estimator", "around.json")
    assert code == 2
    assert "does not describe an estimator" in said
    Path("around.json").write_text(json.dumps({**good, "low": [0, 0], "high": [1, 1], "classes": ["0", "1"]}))
    code, said = command.fails("export", of_table.run_dir, "--out", "e.onnx", "--estimator", "around.json")
    assert code == 2
    assert "the model takes a table" in said
