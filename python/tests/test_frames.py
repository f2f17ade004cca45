"""Tables with declared columns: a frame of any library gives the same as a file."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

COLUMNS = [
    {"name": "age", "type": "number", "min": 0, "max": 100, "unit": True, "fill": 50, "indicator": True},
    {"name": "visits", "type": "number", "min": 0, "max": 10, "unit": True, "fill": 0},
    {"name": "sex", "type": "category", "values": ["f", "m"], "other": True},
    {"name": "ward", "type": "category", "values": ["1", "2"], "other": True, "indicator": True},
    {"name": "smoker", "type": "boolean", "fill": 0.5},
    {"name": "admitted", "type": "date", "format": "%d.%m.%Y", "parts": ["days", "day", "month", "weekday"],
     "since": "2024-01-01", "min": 0, "max": 365, "unit": True, "other": True},
    {"name": "*", "type": "drop"},
]


def frame(rows: int = 120) -> Any:
    random = np.random.default_rng(3)
    ill = random.integers(0, 2, size=rows)
    age = random.normal(40 + 30 * ill, 5).round(1)
    missing = random.random(rows) < 0.1
    days = pandas.Series(pandas.to_datetime("2024-01-01") + pandas.to_timedelta(random.integers(0, 400, rows), unit="D"))
    return pandas.DataFrame({
        "age": np.where(missing, np.nan, age),
        "visits": pandas.array([None if gone else int(n) for gone, n in zip(missing, random.integers(0, 10, rows), strict=True)], dtype="Int64"),
        "sex": pandas.Categorical(random.choice(["f", "m", "x"], rows)),
        "ward": pandas.array([None if gone else int(n) for gone, n in zip(missing, random.integers(1, 4, rows), strict=True)], dtype="Int64"),
        "smoker": pandas.array([None if gone else bool(s) for gone, s in zip(missing, random.integers(0, 2, rows), strict=True)], dtype="boolean"),
        "admitted": days.where(~pandas.Series(missing)),
        "notes": pandas.array([f"note, {n}" for n in range(rows)], dtype="string"),
        "outcome": np.where(ill == 1, "died", "survived"),
    })


def forms(table: Any) -> dict[str, Any]:
    import polars
    import pyarrow
    import pyarrow.parquet

    arrow = pyarrow.Table.from_pandas(table, preserve_index=False)
    pyarrow.parquet.write_table(arrow, "table.parquet")
    return {"pandas": table, "polars": polars.from_arrow(arrow), "pyarrow": arrow, "parquet": "table.parquet",
            "a part": pyarrow.concat_tables([arrow.slice(0, 5), arrow]).slice(5)}


def manifest(small: dict[str, Any], **data: Any) -> dict[str, Any]:
    declared = {"target": "outcome", "labels": ["survived", "died"], "other_label": "survived", "columns": COLUMNS}
    return {**small, "data": {**declared, **data}}


def weights(run: privgrad.Run) -> bytes:
    raw = (run.run_dir / "model.safetensors").read_bytes()
    return raw[8 + int.from_bytes(raw[:8], "little") :]


def write_csv(table: Any, name: str = "table.csv") -> str:
    table.to_csv(name, index=False, date_format="%d.%m.%Y")
    return name


def test_a_frame_is_the_file_of_it(small: dict[str, Any]) -> None:
    table = frame()
    of_file = privgrad.run(manifest(small, kind="csv", train=write_csv(table), row="record", malformed="fill"))
    assert of_file.unaccounted == privgrad.plan(manifest(small, kind="csv", train="table.csv", row="record", malformed="fill")).unaccounted
    for kind, rows in forms(table).items():
        here = privgrad.run(manifest(small, kind="memory", train=rows))
        assert weights(here) == weights(of_file), kind
        assert (here.metrics, here.unaccounted) == (of_file.metrics, of_file.unaccounted), kind
        assert privgrad.verify(here, data={"train": rows}), kind
    # Targets in a separate table, and test rows in another table or split off.
    apart = privgrad.run(manifest(small, kind="memory", target="y", train=(table.drop(columns="outcome"), table["outcome"])))
    assert weights(apart) == weights(of_file)
    split = {"split": {"test": 0.3, "by": "notes"}}
    halves = [privgrad.run(manifest(small, kind=kind, train=rows, **split, **more)) for kind, rows, more in
              (("csv", "table.csv", {"row": "record", "malformed": "fill"}), ("memory", table, {}))]
    assert halves[0].metrics == halves[1].metrics
    assert "test_loss" in halves[0].metrics


def test_what_does_not_fit_is_said_as_of_files(small: dict[str, Any]) -> None:
    table = frame()
    strict = [{**entry, "other": False} if entry["name"] == "sex" else entry for entry in COLUMNS]
    says = r"the value of column 'sex' is not one of its 2 values; say in columns what such a row becomes \(other: true\)"
    with pytest.raises(privgrad.DataError, match=rf"table.csv:\d+:\d+: {says}"):
        privgrad.plan(manifest(small, kind="csv", train=write_csv(table), columns=strict))
    first = list(table["sex"]).index("x")
    with pytest.raises(privgrad.DataError, match=f"memory: train: row {first}: {says}"):
        privgrad.plan(manifest(small, kind="memory", train=table, columns=strict))
    declared = {key: value for key, value in manifest(small, kind="memory", train=table)["data"].items() if key != "other_label"}
    assert "that every target fits (other_label)" in privgrad.plan({**small, "data": declared}).unaccounted
    for change, wrong in (
        ({"columns": COLUMNS[:-1]}, "no entry names the column 'notes'"),
        ({"target": "outcom"}, "did you mean 'outcome'"),
        ({"features": ["age"]}, "columns says what each column becomes"),
        ({"feature_fill": 0}, "columns sets it for each column"),
        ({"train": np.zeros((3, 2), dtype=np.float32)}, "is of type ndarray; columns declares those of a table"),
        ({"train": (table, table["outcome"])}, "the table has a column 'outcome'"),
    ):
        with pytest.raises(privgrad.PrivgradError, match=wrong):
            privgrad.plan(manifest(small, **{"kind": "memory", "train": table, **change}))
    arrow = forms(table)["pyarrow"]
    listed = arrow.append_column("lists", [[[1]] * len(table)])
    assert privgrad.plan(manifest(small, kind="memory", train=listed))
    with pytest.raises(privgrad.DataError, match="the column 'lists' holds list<.*>, expected .*, which no value of this type is"):
        privgrad.plan(manifest(small, kind="memory", train=listed, columns=[{"name": "lists", "type": "number"}, *COLUMNS]))


def test_tables_without_rows(small: dict[str, Any]) -> None:
    none = frame().iloc[:0]
    declared = manifest(small, kind="memory", size=100)
    for kind, rows in forms(none).items():
        declared["data"]["train"] = rows
        adjacent = {**declared["privacy"], "adjacency": "add_or_remove_one"}
        assert privgrad.plan({**declared, "privacy": adjacent}).unaccounted == ("training metrics",), kind


def test_a_cell_is_read_by_itself(small: dict[str, Any]) -> None:
    # A text among numbers gives the whole column the type object; the other cells are still
    # numbers.
    table = frame()
    numbered = [{**entry, "values": [1, 2.0]} if entry["name"] == "ward" else entry for entry in COLUMNS]
    plain = privgrad.run(manifest(small, kind="memory", train=table, columns=numbered))
    spoilt = table.astype({"age": object, "ward": object})
    spoilt.loc[spoilt["age"].isna(), "age"] = "unknown"
    assert weights(privgrad.run(manifest(small, kind="memory", train=spoilt))) == weights(plain)


def test_a_model_of_a_file_takes_frames_and_the_other_way_round(small: dict[str, Any], command: Any) -> None:
    table = frame()
    of_file = privgrad.run(manifest(small, kind="csv", train=write_csv(table), row="record", malformed="fill"))
    of_frame = privgrad.run(manifest(small, kind="memory", train=table))
    rows = table.drop(columns="outcome")
    expected = privgrad.predict(of_file, {"kind": "csv", "train": write_csv(rows, "new.csv"), "unlabelled": True})
    for run in (of_file, of_frame):
        for new in (rows, table, forms(rows)["polars"]):
            answers = privgrad.predict(run, new)
            np.testing.assert_array_equal(answers.probabilities, expected.probabilities)
            assert answers.classes == ("survived", "died")
    said = command("predict", of_frame.run_dir, "--data", "{kind: csv, train: new.csv, unlabelled: true}", "--json")
    np.testing.assert_array_equal(said["probabilities"], expected.probabilities)
    assert privgrad.evaluate(of_file, table) == {**privgrad.evaluate(of_frame, table), "model": str(of_file.run_dir / "model.safetensors")}
    with pytest.raises(privgrad.ConfigError, match="no targets"):
        privgrad.evaluate(of_file, rows)


def test_a_draft_is_marked_as_read_off_the_rows(small: dict[str, Any], command: Any) -> None:
    table = frame().drop(columns="notes")
    table.to_csv("table.csv", index=False)
    with pytest.warns(privgrad.PrivgradWarning, match="read off all rows"):
        made = privgrad.suggest(table, "outcome")
    written = command("data", "describe", "table.csv", "--set", "target=outcome", "--suggest", "--json")["data"]
    for key in ("columns", "labels", "other_label", "read_off_rows"):
        assert made[key] == written[key]
    types = {entry["name"]: entry["type"] for entry in made["columns"]}
    assert types == {"age": "number", "visits": "number", "sex": "category", "ward": "number", "smoker": "boolean", "admitted": "date"}
    assert made["train"] is table
    run = privgrad.run({**small, "data": made})
    assert any("types, ranges, values and labels of columns" in fact for fact in run.unaccounted)
    with pytest.raises(privgrad.PrivgradError, match="read_off_rows"):
        privgrad.run({**small, "mode": "release", "data": made})
    with pytest.warns(privgrad.PrivgradWarning):
        of_file = privgrad.suggest("table.csv", "outcome")
    assert of_file["columns"] == made["columns"]
    with pytest.warns(privgrad.PrivgradWarning):
        arrays = privgrad.suggest((np.zeros((4, 2), dtype=np.float32), np.array([0, 1, 2, 0])))
    assert (arrays["classes"], arrays["feature_fill"]) == (3, 0)


@pytest.mark.parametrize(("delimiter", "decimal"), [(";", ","), ("\t", "."), ("|", ".")])
def test_a_draft_finds_the_delimiter(delimiter: str, decimal: str) -> None:
    frame().drop(columns="notes").to_csv("table.csv", index=False, sep=delimiter, decimal=decimal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", privgrad.PrivgradWarning)
        made = privgrad.suggest(Path("table.csv"), "outcome")
    assert made["delimiter"] == delimiter
    assert made.get("decimal", ".") == decimal
    assert {entry["name"]: entry["type"] for entry in made["columns"]}["age"] == "number"


def test_columns_come_along_with_predictions(small: dict[str, Any]) -> None:
    table = frame()
    run = privgrad.run(manifest(small, kind="memory", train=table))
    plain = privgrad.predict(run, table)
    assert plain.kept == {}
    for who, new in forms(table).items():
        made = privgrad.predict(run, new, keep=["notes", "age"])
        np.testing.assert_array_equal(made.probabilities, plain.probabilities, err_msg=who)
        assert list(made.columns()) == ["notes", "age", *plain.columns()]
        assert list(made.kept["notes"]) == list(table["notes"])
        np.testing.assert_array_equal(made.kept["age"].astype(float), table["age"])  # as numbers
    # From files as texts, from frames as values.
    csv = {"kind": "csv", "train": write_csv(table), "unlabelled": True}
    texts = pandas.read_csv(csv["train"], dtype=str, keep_default_na=False)
    assert privgrad.predict(run, csv, keep="age").kept["age"].tolist() == list(texts["age"])
    apart = {"kind": "memory", "train": (table.drop(columns="outcome"), table["outcome"])}
    assert list(privgrad.predict(run, apart, keep="notes").kept["notes"]) == list(table["notes"])
    with pytest.raises(privgrad.ConfigError, match="keep: there is no column 'nots'; there are age, visits"):
        privgrad.predict(run, table, keep="nots")
    with pytest.raises(privgrad.ConfigError, match="keep: 'nots' is not a column of the rows; did you mean 'notes'"):
        privgrad.predict(run, csv, keep="nots")
    with pytest.raises(privgrad.ConfigError, match="chooses rows by what they hold"):
        privgrad.predict(run, {"kind": "memory", "train": table, "split": {"test": 0.5}}, keep="notes")
    with pytest.raises(privgrad.ConfigError, match="has no columns by name"):
        privgrad.predict(run, np.zeros((3, 2), dtype=np.float32), keep="notes")
    named = table.rename(columns={"notes": "class"})
    with pytest.raises(privgrad.ConfigError, match="a column 'class', too"):
        privgrad.predict(run, named, keep="class").columns()


def test_a_frame_of_numbers_may_have_other_columns(small: dict[str, Any]) -> None:
    table = pandas.DataFrame({"a": [0.0, 1.0, 0.0, 1.0] * 50, "b": [1, 2, 3, 4] * 50, "y": [0, 1, 0, 1] * 50})
    run = privgrad.run({**small, "data": {"kind": "memory", "train": table, "target": "y", "classes": 2}})
    plain = privgrad.predict(run, table[["a", "b"]])
    more = table.assign(id=range(1000, 1200))[["id", "b", "y", "a"]]
    made = privgrad.predict(run, more, keep="id")
    np.testing.assert_array_equal(made.probabilities, plain.probabilities)
    assert made.kept["id"].tolist() == list(range(1000, 1200))
    with pytest.raises(privgrad.ConfigError, match="there is no column 'b'"):
        privgrad.predict(run, more[["id", "a"]])


def test_predictions_have_names(small: dict[str, Any], command: Any) -> None:
    table = frame()
    run = privgrad.run(manifest(small, kind="memory", train=table))
    made = pandas.DataFrame(privgrad.predict(run, table).columns(), index=table["notes"])
    write_csv(table.drop(columns="outcome"), "new.csv")
    command("predict", run.run_dir, "--data", "{kind: csv, train: new.csv, unlabelled: true}", "--out", "said.csv", "--json")
    said = pandas.read_csv("said.csv")
    assert list(said) == ["row", *made]
    assert list(made) == ["prediction", "class", "probability_survived", "probability_died"]
    for name in made:
        np.testing.assert_array_equal(made[name].to_numpy(), said[name].to_numpy())
    none = privgrad.Predictions(probabilities=None, values=np.array([[1.0, 2.0], [np.nan, 0.0]]), predicted=np.array([1, -1]),
                                classes=("a", "b"), split="train", private=True).columns()
    assert list(none) == ["prediction", "class", "value_a", "value_b"]
    assert list(none["class"]) == ["b", None]
    reals = privgrad.Predictions(probabilities=None, values=np.array([[1.5]]), predicted=None, classes=(), split="train", private=True)
    assert {name: list(column) for name, column in reals.columns().items()} == {"value": [1.5]}


def test_frames_without_pyarrow_are_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [pandas.DataFrame({"age": [1.0, 2.0], "y": [0, 1]}), pandas.DataFrame({"sex": ["f", "m"], "y": [0, 1]})]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for rows in frames:
        with pytest.raises(privgrad.DataError, match=r"tables need pyarrow: pip install 'privgrad\[arrow\]'"):
            privgrad.suggest(rows, target="y")
