"""A single row may decide which type a container has. Where every cell is accepted, no type can end a call or change how
another row is read: in release mode the outcome is the same with and without the unusual row."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad._cells import number_of

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

Make = Callable[[list[Any]], Any]
DAY = datetime.date(2024, 3, 1)
TIME = pandas.Timestamp("2024-03-01 10:00")


class Far(datetime.tzinfo):
    """A custom time zone, which Arrow mistakes for UTC."""

    def utcoffset(self, _: Any) -> datetime.timedelta:
        return datetime.timedelta(hours=-11)

    def dst(self, _: Any) -> datetime.timedelta:
        return datetime.timedelta(0)

    def tzname(self, _: Any) -> str:
        return "UTC"


#: By name: cells, an odd cell that gives the container another type, and the function that makes
#: the container.
ONE_ROW: dict[str, tuple[list[Any], Any, Make]] = {
    "all missing": ([math.nan] * 3, "x", pandas.Series), "whole numbers": ([1, 2, 1], math.nan, pandas.Series),
    "whole numbers beside a text": ([1, 2, 1], "x", pandas.Series), "reals beside a text": ([0.5, 2.0, 1.0], "x", pandas.Series),
    "booleans": ([True, False, True], "x", pandas.Series), "times": ([TIME, TIME, pandas.NaT], "x", pandas.Series),
    "zoned": ([TIME.tz_localize("Europe/Berlin")] * 3, 1, pandas.Series), "an offset": ([TIME.tz_localize("+01:30")] * 3, 1, pandas.Series),
    "a zone of one's own": ([(TIME + pandas.Timedelta("10h")).tz_localize(Far())] * 3, 1, pandas.Series),
    "durations": ([pandas.Timedelta("1D"), pandas.NaT, pandas.Timedelta("2h")], "x", pandas.Series),
    "finer durations": ([pandas.Timedelta(3, "h")] * 3, np.timedelta64(5, "ns"), pandas.Series),
    "periods": ([pandas.Period("2020"), pandas.NaT, pandas.Period("2021")], "x", pandas.Series),
    "intervals": ([pandas.Interval(0, 1), math.nan, pandas.Interval(1, 2)], "x", pandas.Series),
    "categories of durations": ([pandas.Timedelta("1D")] * 3, "x", lambda cells: pandas.Series(pandas.Categorical(cells))),
    "arrow dates": ([None, None, None], DAY, pyarrow.array), "arrow lists": ([None, None, None], [1], pyarrow.array),
    "arrow times": ([None, None, None], datetime.time(3), pyarrow.array), "arrow durations": ([None] * 3, datetime.timedelta(1), pyarrow.array),
    "arrow structs": ([None, None, None], {"a": 1}, pyarrow.array), "arrow numbers": ([None, None, None], 1.5, pyarrow.array),
    "numpy whole": ([0, 1, 1], np.timedelta64(3, "h"), np.array), "numpy days": ([np.datetime64("2024-03-01")] * 3, "x", np.array),
    "numpy hours": ([np.datetime64("2024-03-01T03", "h")] * 3, "x", np.array), "numpy void": ([np.void(b"12")] * 3, 1.0, np.array),
}
ENTRIES: dict[str, dict[str, Any]] = {
    "number": {"type": "number", "fill": 5}, "texts": {"type": "category", "values": ["x", "y"], "other": True, "indicator": True},
    "days": {"type": "category", "values": ["2024-03-01"], "other": True}, "yes": {"type": "boolean", "values": ["no", "yes"], "fill": 0.5},
    "date": {"type": "date", "format": "%d.%m.%Y", "parts": ["weekday"], "other": True},
}
of_one_row = pytest.mark.parametrize("kind", ONE_ROW)


def released(**data: Any) -> tuple[Any, ...]:
    """The outcome of a call in release mode, without anything that depends on noise."""
    try:
        run = privgrad.run({
            "privgrad": 1, "mode": "release", "data": {"kind": "memory", **data}, "model": {"kind": "linear", "loss": "cross_entropy"},
            "sampler": "full_batch", "optimizer": "sgd", "schedules": {"clip_norm": 1, "learning_rate": 0.5, "noise_multiplier": "uniform"},
            "privacy": {"target_epsilon": 2, "target_delta": 1e-5, "adjacency": "zero_out", "accountant": "zcdp"}, "steps": 1, "checkpoint": "off",
        })
    except privgrad.PrivgradError as problem:
        return type(problem), str(problem)
    assert run.unaccounted == ()
    return run.status, run.epsilon


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows that the engine receives: numeric features and targets, or the texts of each column."""
    seen: list[Any] = []
    core = privgrad.data._core
    lend, lend_columns = core.lend, core.lend_columns

    def texts(column: Any) -> list[bytes]:
        _, offsets, held, _, _ = column
        return [bytes(held[offsets[row] : offsets[row + 1]]) for row in range(len(offsets) - 1)]

    def lending(name: str, features: Any, targets: Any, *origin: Any) -> None:
        seen.append((features.copy(), targets.copy()))
        lend(name, features, targets, *origin)

    def lending_columns(name: str, columns: Any, *origin: Any) -> None:
        seen.append({column[0]: texts(column) for column in columns})
        lend_columns(name, columns, *origin)

    monkeypatch.setattr(core, "lend", lending)
    monkeypatch.setattr(core, "lend_columns", lending_columns)
    return seen


def ten_with(kind: str, row: int) -> list[Any]:
    """Two containers of equal length: with cells of one kind, and the same with one odd cell."""
    cells, odd, make = ONE_ROW[kind]
    whole = [cells[place % len(cells)] for place in range(10)]
    return [make(whole), make([*whole[:row], odd, *whole[row + 1 :]])]


def table_of(column: Any) -> Any:
    """A table with this column and another one; pandas has no columns for arrays of some types."""
    own = np.arange(10.0) if isinstance(column, np.ndarray) else column
    return (pyarrow.table if isinstance(column, pyarrow.Array) else pandas.DataFrame)({"a": own, "n": np.arange(10.0)})


@pytest.mark.filterwarnings("error")
@of_one_row
@pytest.mark.parametrize("entry", ENTRIES)
def test_no_row_decides_by_the_type_of_a_declared_column(lent: Any, kind: str, entry: str) -> None:
    declared = {"columns": [{"name": "a", **ENTRIES[entry]}, {"name": "n", "type": "number", "fill": 0}]}
    labels = {"target": "t", "labels": ["x", "2024-03-01"], "other_label": "x"}
    outcomes = [released(train=(table_of(column), column), **declared, **labels) for column in ten_with(kind, 4)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == "completed"
    for name in ("a", "n", "t"):
        one, other = ([number_of(text) if name == "n" else text for text in columns[name]] for columns in lent)
        del one[4], other[4]
        assert one == other, name


@pytest.mark.filterwarnings("error")
@of_one_row
@pytest.mark.parametrize("labels", [None, ["x", "2024-03-01"], [1, 2]], ids=str)
def test_no_row_decides_by_the_type_of_a_column_of_numbers(lent: Any, kind: str, labels: Any) -> None:
    what = {"classes": 3} if labels is None else {"labels": labels}
    outcomes = []
    for column in ten_with(kind, 4):
        rows = np.stack([column, column], axis=1) if isinstance(column, np.ndarray) else table_of(column)
        outcomes.append(released(train=(rows, column), feature_fill=0, target_fill=0, **what))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == "completed"
    for part in (0, 1):
        np.testing.assert_array_equal(*(np.delete(rows[part], 4, axis=0) for rows in lent))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [kind for kind in ONE_ROW if ONE_ROW[kind][2] is not pyarrow.array])
def test_no_row_decides_by_the_type_of_an_estimators_rows(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    sklearn = pytest.importorskip("privgrad.sklearn")
    seen: list[Any] = []
    run = sklearn.api.run
    monkeypatch.setattr(sklearn.api, "run", lambda manifest, **how: seen.append(manifest["data"]["train"]) or run(manifest, **how))
    classifier = sklearn.DPClassifier(bounds=(-3, 3), classes=["2024-03-01", "x"], mode="release", steps=1)
    regressor = sklearn.DPRegressor(bounds=(-3, 3), target_bounds=(0, 3), mode="release", steps=1)
    for made in (classifier, regressor):
        del seen[:]
        for column in ten_with(kind, 4):
            X = pandas.DataFrame({"a": column, "b": column}) if isinstance(column, pandas.Series) else np.stack([column, column], axis=1)
            assert made.fit(X, column).unaccounted_ == ()
        for part in ("features", "targets"):
            np.testing.assert_array_equal(*(np.delete(rows[part], 4, axis=0) for rows in seen))


@pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")
@of_one_row
def test_research_trains_on_the_rows_that_release_trains_on(small: dict[str, Any], lent: Any, kind: str) -> None:
    column = ten_with(kind, 4)[0]
    table = table_of(column)
    fills = {"train": (table, column), "feature_fill": 0, "target_fill": 0, "classes": 3}
    declared = {"train": (table, column), "columns": [{"name": "*", "type": "number", "fill": 0}], "target": "t", "classes": 3, "target_fill": 0}
    for data in (fills, declared):
        del lent[:]
        assert released(**data)[0] == "completed"
        privgrad.run({**small, "steps": 1, "data": {"kind": "memory", **data}})
        release, research = lent
        if isinstance(release, dict):
            assert release == research
            continue
        for one, other in zip(release, research, strict=True):
            np.testing.assert_array_equal(one, other)


def test_research_mode_says_that_a_type_has_no_value_or_no_number(small: dict[str, Any]) -> None:
    frame = pandas.DataFrame({"a": pandas.to_timedelta([1, 2] * 5, unit="D"), "n": range(10)})
    of_columns = {"columns": [{"name": "*", "type": "number", "fill": 0}], "target": "t"}
    for more, says in ((of_columns, r"^memory: train: the column 'a' holds timedelta64\[\w+\], expected a finite number, which no value of this type is: each counts as one that does not fit$"),
                       ({"feature_fill": 0}, "^memory: train: the feature 'a' is a finite number in no row, and counts as feature_fill in all$")):
        with pytest.warns(privgrad.PrivgradWarning, match=says):
            privgrad.plan({**small, "data": {"kind": "memory", "train": (frame, [0, 1] * 5), "classes": 2, "target_fill": 0, **more}})


@pytest.mark.parametrize("kind", ["times", "durations", "periods", "arrow dates", "arrow lists", "numpy days", "numpy hours", "numpy void", "numpy durations"])
def test_without_a_fill_a_type_without_numbers_is_refused_by_name(small: dict[str, Any], kind: str) -> None:
    column = np.array([1, 2] * 5, dtype="m8[h]") if kind == "numpy durations" else ten_with(kind, 4)[1 if kind.startswith("arrow") else 0]
    X, y = np.zeros((10, 2), np.float32), [0, 1] * 5
    sections = [{"train": (X, column), "classes": 2},
                {"train": (pandas.DataFrame({"n": range(10)}), column), "target": "t", "classes": 2, "columns": [{"name": "*", "type": "number", "fill": 0}]}]
    if kind.startswith("numpy"):
        sections.append({"train": (np.stack([column, column], axis=1), y), "classes": 2})
    for section in sections:
        with pytest.raises(privgrad.DataError, match=r"holds .*(datetime|timedelta|period|date32|list|V2).*, expected (numbers|a class index)") as raised:
            privgrad.plan({**small, "data": {"kind": "memory", **section}})
        assert "\n" not in str(raised.value)


def test_a_type_that_no_row_decides_is_refused_in_release_mode_too() -> None:
    """Arrow never infers lists of fixed size, and a NumPy file states its type before its rows."""
    lists = [[[1.0, 2.0]] * 10, [*[[1.0, 2.0]] * 9, None]]
    fills = {"feature_fill": 0, "target_fill": 0, "classes": 2}
    outcomes = [released(train=(pyarrow.table({"a": pyarrow.array(cells, pyarrow.list_(pyarrow.float64(), 2)), "n": range(10)}), [0, 1] * 5), **fills)
                for cells in lists]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] is privgrad.DataError
    assert "the column 'a' holds fixed_size_list" in outcomes[0][1]
    np.save("y.npy", np.arange(10) % 2)
    said = []
    for odd in ("2020-01-01", "NaT"):
        np.save("x.npy", np.array([["2020-01-01"]] * 9 + [[odd]], dtype="M8[D]"))
        said.append(released(kind="npy", train={"features": "x.npy", "targets": "y.npy"}, **fills))
    assert said[0] == said[1]
    assert said[0][0] is privgrad.DataError


def test_bytes_need_a_fill_as_the_reals_that_one_missing_cell_makes_of_them(lent: Any) -> None:
    whole = np.arange(20, dtype=np.uint8).reshape(10, 2)
    spoilt = whole.astype(np.float32)
    spoilt[3, 1] = math.nan
    outcomes = [released(train=(rows, [0, 1] * 5), classes=2, target_fill=0) for rows in (whole, spoilt)]
    assert outcomes[0] == outcomes[1]
    assert "release mode refuses 'that every feature is finite (feature_fill)'" in outcomes[0][1]
    assert [features.dtype for features, _ in lent] == [np.uint8, np.float32]


@pytest.mark.parametrize("label", ["2024-03-01", "2024-03-01 00:00:00"])
def test_a_label_that_is_a_day_is_found_with_midnight_and_without(lent: Any, label: str) -> None:
    # pandas writes days like this into a file if one row has a time of day, and reads them as
    # texts.
    texts = ["2024-03-01", "2024-03-01 00:00:00", "2024-03-01 00:00:00.000000", "2024-03-01 10:00:00", "x"] * 2
    released(train=(np.zeros((10, 1), np.float32), texts), labels=[label, "x"], feature_fill=0, target_fill=1)
    np.testing.assert_array_equal(lent[0][1], np.array([0, 0, 0, np.nan, 1] * 2, np.float32))


def test_an_error_of_a_column_names_it_and_shows_no_cell(small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from privgrad import _columns

    for problem in (ValueError("secret"), TypeError("secret"), OverflowError("secret"), pyarrow.ArrowInvalid("secret")):
        def fail(*_: Any, problem: Exception = problem) -> Any:
            raise problem

        monkeypatch.setattr(_columns, "_column", fail)
        data = {"kind": "memory", "train": pandas.DataFrame({"a": [1], "t": [0]}), "target": "t", "columns": [{"name": "*", "type": "number"}], "classes": 2}
        with pytest.raises(privgrad.DataError) as raised:
            privgrad.plan({**small, "data": data})
        assert str(raised.value) == "data.train: the column 'a' cannot be read"
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__


@pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")
@pytest.mark.parametrize("kind", ["times", "durations", "periods", "numpy days", "whole numbers beside a text"])
def test_a_fill_of_an_estimator_means_in_research_mode_what_it_means_in_release_mode(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    sklearn = pytest.importorskip("privgrad.sklearn")
    seen: list[Any] = []
    run = sklearn.api.run
    monkeypatch.setattr(sklearn.api, "run", lambda manifest, **how: seen.append(manifest["data"]["train"]) or run(manifest, **how))
    for column in ten_with(kind, 4):
        X = pandas.DataFrame({"a": column, "b": range(10)}) if isinstance(column, pandas.Series) else np.stack([column, column], axis=1)
        del seen[:]
        for mode in ("research", "release"):
            made = sklearn.DPClassifier(bounds=(-3, 3), classes=[0, 1], feature_fill=0.5, mode=mode, steps=1).fit(X, [0, 1] * 5)
            assert made.predict(X).shape == (10,)
            assert hasattr(made, "feature_names_in_") == isinstance(X, pandas.DataFrame)
        np.testing.assert_array_equal(seen[0]["features"], seen[1]["features"])


DAYS = [pandas.Timestamp("2024-03-01") + pandas.Timedelta(day, "D") for day in range(19)]
#: 19 cells, and one more because of which pandas writes most of them differently.
WRITTEN: dict[str, tuple[list[Any], Any]] = {
    "whole numbers": (list(range(19)), None), "reals": ([0.5 * place for place in range(19)], "x"), "identifiers": ([10**17 + 1000 * place for place in range(19)], None),
    "booleans": ([place % 2 == 0 for place in range(19)], None), "days": (DAYS, DAY), "days and a time": (DAYS, TIME), "days and a text": (DAYS, "x"),
    "days and a fraction": (DAYS, TIME + pandas.Timedelta("250ms")), "days and nanoseconds": (DAYS, TIME + pandas.Timedelta(5, "ns")),
    "times": ([day + pandas.Timedelta("10h") for day in DAYS], TIME + pandas.Timedelta("250us")), "durations": ([day - DAYS[0] for day in DAYS], "x"),
    "finer durations": ([day - DAYS[0] for day in DAYS], pandas.Timedelta("1us")), "zoned": ([day.tz_localize("UTC") for day in DAYS], TIME.tz_localize("UTC") + pandas.Timedelta("1us")),
    "dates": ([day.date() for day in DAYS], TIME),
}


@pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")
@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("entry", [
    {"type": "number", "fill": 5}, {"type": "boolean", "fill": 0.5}, {"type": "drop"},
    {"type": "category", "values": ["2024-03-02", "2", "100000000000001000", "2024-03-05 10:00:00"], "other": True},
    {"type": "date", "parts": ["day"], "other": True}, {"type": "date", "format": "%Y-%m-%d %H:%M:%S", "parts": ["day"], "other": True},
], ids=lambda entry: str(entry.get("format", entry["type"])))
def test_a_row_of_a_file_of_pandas_changes_no_other(small: dict[str, Any], kind: str, entry: dict[str, Any]) -> None:
    """The same lines, whether pandas writes the odd row with the others, or separately."""
    cells, odd = WRITTEN[kind]
    dialects = [{}, {"sep": ";", "decimal": ","}] if odd is None else [{}]
    for how in dialects:
        found = []
        together, apart = (
            pandas.DataFrame({"n": range(len(given)), "cell": given, "y": [row % 2 for row in range(len(given))]}).to_csv(index=False, **how)
            for given in ([*cells, odd], cells))
        lines = together.splitlines()
        assert lines[:20] != apart.splitlines() or kind in ("reals", "booleans", "days", "dates")
        for body in (lines[:20], apart.splitlines()):
            with open("rows.csv", "w", encoding="utf-8") as file:
                file.write("\n".join([*body, lines[20]]) + "\n")
            form = {"delimiter": ";", "decimal": ","} if how else {}
            data = {"kind": "csv", "train": "rows.csv", "target": "y", "classes": 2, "target_fill": 0, "split": {"test": 0.5}, **form,
                    "columns": [{"name": "n", "type": "number", "fill": 0}, {"name": "cell", **entry}]}
            run = privgrad.run({**small, "steps": 1, "data": data})
            found.append(json.loads((run.run_dir / "ledger.jsonl").read_text().splitlines()[0])["data_commitment"])
        assert found[0] == found[1]
