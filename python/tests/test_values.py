"""The table of kinds: values of many types, from several libraries, have the same bits in every source.

A value counts as it does in a text file (tests/plugins/data_sources_values_test.cpp has closed
forms). Every other way to write it is read in the same way by training, ``predict``, ``evaluate``
and ONNX, or its type is refused if rows that do not fit are refused.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad._cells import number_of, places

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")

DAY = datetime.date(2024, 3, 1)
WHOLE: list[Any] = [0, 1, 2, 3, -1, 7, 100, 127, -128, 255, 256, 32767, 65535, 20240301, 16777216, 16777217, 2**31, -(2**53) + 1, 10**15 + 1, 2**60 + 2**36 + 1,
                    10**30]
REALS: list[Any] = [0.5, 0.1, -0.25, 2.5, 1e-5, 1e-7, 1e-45, 1e-50, -0.0, 1234567.891, 1e16, 1e22, 3e38, 1e39, 1e300, math.inf, math.nan]
OTHERS: list[Any] = [True, False, None, "", "a", "01", "1.10", "true", "1.0", "2.0", "NA", " 1", "1_0", "1e3", "ä, \"b\"", "1e-400", "unknown", decimal.Decimal("2.50")]
VALUES: list[Any] = [*WHOLE, *REALS, *OTHERS]
DAYS = [DAY, datetime.date(1999, 12, 31), datetime.date(1850, 1, 1), datetime.date(2100, 12, 31), None]
CHOICES = ["0", "1", "2", "0.1", "1e-05", "16777217", "1000000000000001", "1e+16", "2.5", "01", "1.10", "a", "ä, \"b\""]
KINDS: dict[str, dict[str, Any]] = {
    "number": {"type": "number", "fill": 5},
    "scaled": {"type": "number", "min": -2, "max": 3, "unit": True, "fill": 1, "indicator": True},
    "choice": {"type": "category", "values": CHOICES, "other": True, "indicator": True},
    "yes": {"type": "boolean", "fill": 0.25},
    "bit": {"type": "boolean", "values": ["2", "1"], "fill": 0.5, "indicator": True},
}
TIMES: dict[str, dict[str, Any]] = {
    "when": {"type": "date", "format": "%d.%m.%Y", "parts": ["days", "weekday"], "since": "2024-01-01", "other": True},
    "at": {"type": "date", "format": "%Y-%m-%d %H:%M:%S.%f", "parts": ["day", "month"], "other": True},
    "iso": {"type": "category", "values": ["2024-03-01", "1999-12-31"], "other": True},
}


def text_of(value: Any) -> str:
    """The value as a file contains it."""
    if value is None or value != value:
        return ""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else repr(float(value))


def fits(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def is_real(value: Any) -> bool:
    return type(value) is float


def is_any_number(value: Any) -> bool:
    """Whether float64 holds the value as exactly as every reader of a text does."""
    return type(value) in (int, float) or value is None


def is_single(value: Any) -> bool:
    with np.errstate(over="ignore"):
        return is_real(value) and (not math.isfinite(value) or bool(np.isfinite(np.float32(value)))) and (value == 0 or abs(value) > 1e-46)


def series(dtype: Any) -> Callable[[list[Any]], Any]:
    return lambda values: pandas.Series(values, dtype=dtype)


def arrow(kind: Any) -> Callable[[list[Any]], Any]:
    return lambda values: pyarrow.array(values, kind)


def optional(one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or one(value)


def anything(value: Any) -> bool:
    return True


def is_text(value: Any) -> bool:
    return isinstance(value, str)


#: By name: which values a type can hold, and the function that makes a column of them.
TYPES: dict[str, tuple[Callable[[Any], bool], Callable[[list[Any]], Any]]] = {
    **{f"numpy {name}": (fits(np.iinfo(name).min, np.iinfo(name).max), lambda values, name=name: pandas.Series(np.array(values, dtype=name)))
       for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    **{f"pandas {name}": (optional(fits(np.iinfo(name.lower()).min, np.iinfo(name.lower()).max)), series(name)) for name in ("Int8", "UInt16", "Int64", "UInt64")},
    "numpy float16": (lambda value: type(value) is float and value in (0.5, -0.25, 2.5), series("float16")),
    "numpy float64": (is_any_number, series("float64")), "numpy float32": (is_single, series("float32")), "pandas Float32": (is_single, series("Float32")),
    "pandas Float64": (is_any_number, series("Float64")), "numpy complex128": (is_real, series("complex128")), "numpy longdouble": (is_real, series(np.longdouble)),
    "numpy bool": (lambda value: type(value) is bool, series("bool")), "pandas boolean": (optional(lambda value: type(value) is bool), series("boolean")),
    "objects": (anything, series(object)), "numpy objects": (anything, lambda values: pandas.Series(np.array(values, dtype=object), dtype=object)),
    "numpy texts": (is_text, lambda values: pandas.Series(np.array(values))), "pandas string": (optional(is_text), series("string")),
    "pandas str": (optional(is_text), series("str")), "bytes": (is_text, lambda values: pandas.Series([value.encode() for value in values], dtype=object)),
    "categories of numbers": (lambda value: is_any_number(value) and repr(value) != "-0.0", lambda values: pandas.Series(pandas.Categorical([float("nan") if value is None else float(value) for value in values]))),
    "categories of texts": (optional(is_text), lambda values: pandas.Series(pandas.Categorical(values))),
    "sparse": (is_real, lambda values: pandas.Series(pandas.arrays.SparseArray(values))),
    "arrow in pandas": (optional(fits(-(2**63), 2**63 - 1)), series(pandas.ArrowDtype(pyarrow.int64()))),
    **{f"arrow {kind}": (optional(one), arrow(kind)) for kind, one in (
        (pyarrow.int8(), fits(-128, 127)), (pyarrow.uint64(), fits(0, 2**64 - 1)), (pyarrow.int64(), fits(-(2**63), 2**63 - 1)), (pyarrow.float32(), is_single),
        (pyarrow.bool_(), lambda value: type(value) is bool), (pyarrow.string(), is_text), (pyarrow.large_string(), is_text),
        (pyarrow.string_view(), is_text), (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), is_text))},
    "arrow binary": (optional(is_text), lambda values: pyarrow.array([None if value is None else value.encode() for value in values])),
    "arrow decimal": (lambda value: isinstance(value, decimal.Decimal) or fits(-9, 999)(value),
                      lambda values: pyarrow.array([decimal.Decimal(value) for value in values], pyarrow.decimal128(12, 3))),
    "arrow double": (is_any_number, lambda values: pyarrow.array([None if value is None else float(value) for value in values])),
    "arrow null": (lambda value: value is None, arrow(pyarrow.null())),
    **{f"polars {kind}": (optional(one), lambda values, kind=kind: polars.Series(values, dtype=kind)) for kind, one in (
        (polars.Int16, fits(-(2**15), 2**15 - 1)), (polars.UInt32, fits(0, 2**32 - 1)), (polars.Float32, is_single), (polars.Float64, is_any_number),
        (polars.Boolean, lambda value: type(value) is bool), (polars.String, is_text), (polars.Categorical, is_text))},
}
DAY_TYPES: dict[str, Callable[[list[Any]], Any]] = {
    "objects": series(object), "numpy datetime64[s]": series("datetime64[s]"), "arrow date32": arrow(pyarrow.date32()), "arrow date64": arrow(pyarrow.date64()),
    "arrow timestamp": lambda values: pyarrow.array(values, pyarrow.date32()).cast(pyarrow.timestamp("us")), "polars Date": lambda values: polars.Series(values, dtype=polars.Date),
    "polars Datetime": lambda values: polars.Series(values).cast(polars.Datetime), "categories": lambda values: pandas.Series(pandas.Categorical(values)),
    "timestamps": lambda values: pandas.Series([None if value is None else datetime.datetime(value.year, value.month, value.day, 23, 59) for value in values],
                                               dtype=object),
}
#: Columns in which no cell has a declarable value.
UNREADABLE: dict[str, Any] = {
    "timedelta": pandas.Series(pandas.to_timedelta([1, 2], unit="D")), "period": pandas.Series(pandas.period_range("2020", periods=2, freq="Y")),
    "interval": pandas.Series(pandas.interval_range(0, 2)), "list": pyarrow.array([[1], [2]]), "struct": pyarrow.array([{"a": 1}, {"a": 2}]),
    "time64": pyarrow.array([datetime.time(3)] * 2),
}


def table_of(column: Any, names: Any) -> Any:
    """A table of the column's own library that contains the column under several names."""
    if isinstance(column, pandas.Series):
        return pandas.DataFrame(dict.fromkeys(names, column))
    return polars.DataFrame({name: column for name in names}) if isinstance(column, polars.Series) else pyarrow.table(dict.fromkeys(names, column))


def write(file: str, values: list[Any], names: Any, write_text: Callable[[Any, Any], str] = lambda value, name: text_of(value), **how: Any) -> str:
    with (gzip.open if file.endswith(".gz") else open)(file, "wt", newline="", encoding=how.pop("encoding", "utf-8")) as lines:
        writer = csv.writer(lines, **{"lineterminator": "\n", **how})
        writer.writerow([*names, "y"])
        writer.writerows([*(write_text(value, name) for name in names), write_text(value, "y")] for value in values)
    return file


def day_text(value: Any, name: str) -> str:
    return "" if value is None else value.strftime({"when": "%d.%m.%Y", "at": "%Y-%m-%d 00:00:00.0", "iso": "%Y-%m-%d", "y": "%Y-%m-%d"}[name])


def declared(kinds: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    labels = [*CHOICES, "2024-03-01"]
    return {"target": "y", "labels": labels, "other_label": "a", "columns": [{"name": name, **kind} for name, kind in kinds.items()], **more}


def rows_of(run: privgrad.Run) -> str:
    """The hash of all features and targets, bit for bit; in a seeded run it depends on no other secret."""
    first = json.loads((run.run_dir / "ledger.jsonl").read_text().splitlines()[0])
    commitment: str = first["data_commitment"]
    return commitment


def of_file(small: dict[str, Any], values: list[Any], kinds: dict[str, dict[str, Any]], write_text: Any, **more: Any) -> Any:
    file = write("values.csv", values, kinds, write_text)
    shutil.rmtree("reference", ignore_errors=True)
    run = privgrad.run({**small, "data": {"kind": "csv", "train": file, "malformed": "fill", "row": "line", **declared(kinds, **more)}}, out="reference")
    section = {"kind": "csv", "train": file, "malformed": "fill", "row": "line"}
    return run, privgrad.predict(run, {**section, "unlabelled": True}).probabilities, privgrad.evaluate(run, section)


def same_as_a_file(small: dict[str, Any], column: Any, values: list[Any], kinds: dict[str, dict[str, Any]],
                   write_text: Any = lambda value, name: text_of(value), **more: Any) -> None:
    run, expected, evaluated = of_file(small, values, kinds, write_text, **more)
    table = table_of(column, kinds)
    np.testing.assert_array_equal(privgrad.predict(run, table).probabilities, expected)
    assert privgrad.evaluate(run, (table, column)) == evaluated
    here = privgrad.run({**small, "data": {"kind": "memory", "train": (table, column), **declared(kinds, **more)}})
    assert rows_of(here) == rows_of(run)


@pytest.mark.parametrize("kind", TYPES)
def test_whoever_writes_a_value_it_counts_as_that_of_a_file(small: dict[str, Any], kind: str) -> None:
    takes, make = TYPES[kind]
    values = [value for value in VALUES if takes(value)]
    assert values
    same_as_a_file(small, make(values), values, KINDS)


@pytest.mark.parametrize("kind", DAY_TYPES)
def test_whoever_writes_a_day_it_counts_as_that_of_a_file(small: dict[str, Any], kind: str) -> None:
    same_as_a_file(small, DAY_TYPES[kind](DAYS), DAYS, TIMES, day_text)


@pytest.mark.parametrize("dialect", [
    {"delimiter": ";"}, {"delimiter": "\t"}, {"quoting": csv.QUOTE_ALL}, {"lineterminator": "\r\n"}, {"encoding": "utf-8-sig"}, {"file": "other.csv.gz"},
    {"decimal": ",", "delimiter": ";"}, {"by": "pandas"}, {"by": "polars"}, {"by": "pyarrow"}], ids=str)
def test_the_dialect_of_a_file_does_not_matter(small: dict[str, Any], dialect: dict[str, Any]) -> None:
    by, decimal_mark, file = (dialect.get(key) for key in ("by", "decimal", "file"))
    values = [value for value in VALUES if by is None or is_any_number(value)]
    run, expected, _ = of_file(small, values, KINDS, lambda value, name: text_of(value))
    names = list(KINDS)
    if by == "pandas":
        table_of(pandas.Series(values, dtype="float64"), names).to_csv("other.csv", index=False)
    elif by == "polars":
        polars.DataFrame(dict.fromkeys(names, polars.Series(values, dtype=polars.Float64, strict=False))).write_csv("other.csv")
    elif by == "pyarrow":
        import pyarrow.csv

        pyarrow.csv.write_csv(pyarrow.table(dict.fromkeys(names, pyarrow.array(np.array(values, dtype=float), from_pandas=True))), "other.csv")
    else:
        def text(value: Any, name: str) -> str:
            return text_of(value).replace(".", ",") if decimal_mark and math.isfinite(number_of(text_of(value))) and not isinstance(value, str) else text_of(value)

        how = {key: value for key, value in dialect.items() if key not in ("decimal", "file")}
        write(file or "other.csv", values, names, text, **how)
    section = {"kind": "csv", "train": file or "other.csv", "unlabelled": True, **{key: dialect[key] for key in ("delimiter", "decimal") if key in dialect}}
    rows = [row for row, value in enumerate(values) if not (decimal_mark and isinstance(value, str))]
    np.testing.assert_array_equal(privgrad.predict(run, section).probabilities[rows], expected[rows])


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "longdouble", "object", "str", "complex128", "npy", "hdf5"])
def test_an_array_is_read_as_the_column_of_a_file(small: dict[str, Any], kind: str) -> None:
    takes = {"bool": lambda value: type(value) is bool, "float16": lambda value: value in (0, 0.5, 2.5, 255) and type(value) is not bool, "float32": is_single,
             "int8": fits(-128, 127), "uint8": fits(0, 255), "int64": fits(-(2**63), 2**63 - 1), "uint64": fits(0, 2**64 - 1), "object": anything,
             "str": is_text, "npy": fits(-(2**63), 2**63 - 1), "hdf5": fits(-(2**63), 2**63 - 1)}.get(kind, is_any_number)
    values = [value for value in VALUES if takes(value)]
    column = {"number": KINDS["number"]}
    run, expected, _ = of_file(small, values, column, lambda value, name: text_of(value))
    targets = places([text_of(value) for value in values], [*CHOICES, "2024-03-01"], other=CHOICES.index("a"))
    array = np.array([[value] for value in values], dtype="int64" if kind in ("npy", "hdf5") else kind)
    section: dict[str, Any] = {"kind": "memory", "train": (array, targets), "scale": 1.0}
    if kind == "npy":
        np.save("x.npy", array)
        np.save("y.npy", targets[:, None])
        section = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}}
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File("x.h5", "w", libver="earliest") as file:
            file["features"], file["targets"] = array, targets[:, None]
        section = {"kind": "hdf5", "train": {"file": "x.h5"}}
    fills = {"classes": len(CHOICES) + 1, "feature_fill": 5, "target_fill": 0}
    here = privgrad.run({**small, "data": {**section, **fills}})
    assert rows_of(here) == rows_of(run)
    if section["kind"] == "memory":
        np.testing.assert_array_equal(privgrad.predict(here, array).probabilities, expected)


def strict(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without fills, so that a row that does not fit is an error."""
    return {key: value for key, value in entry.items() if key not in ("fill", "other", "indicator")}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_type_that_has_no_values_is_named_or_counts_as_others_do(small: dict[str, Any], kind: str) -> None:
    for name, entry in {**KINDS, **TIMES}.items():
        rows = (table_of(UNREADABLE[kind], [name]), ["1", "2"])
        with pytest.raises(privgrad.DataError, match=f"the column '{name}' holds .*{kind.split('64')[0]}.*, expected"):
            privgrad.plan({**small, "data": {"kind": "memory", "train": rows, **declared({name: strict(entry)})}})
    for kinds in (KINDS, TIMES):
        same_as_a_file(small, UNREADABLE[kind], ["zz", "zz"], kinds)


@pytest.mark.parametrize(("name", "entry", "column", "says"), [
    ("a", KINDS["number"], pandas.Series(pandas.to_datetime(["2024-01-01"] * 2)), "holds datetime64.*, expected a finite number, which no value of this type is"),
    ("a", {"type": "category", "values": ["x", "y"], "other": True}, pandas.Series([1, 2]), "holds int64, expected one of its 2 values"),
    ("a", {"type": "boolean", "values": ["no", "yes"], "fill": 0}, pyarrow.array([True, False]), "holds bool, expected one of its two values"),
    ("a", TIMES["when"], pandas.Series([1.5, 2.5]), r"holds float64, expected a date of the form '%d\.%m\.%Y'"),
    ("a", KINDS["choice"], pyarrow.array([DAY, DAY]), r"holds date32\[day\], expected one of its 13 values"),
])
def test_a_type_of_which_no_value_can_be_as_declared_is_refused_where_such_a_value_is(
        small: dict[str, Any], name: str, entry: Any, column: Any, says: str) -> None:
    same_as_a_file(small, column, ["zz", "zz"], {name: entry}, labels=["no", "maybe"], other_label="no")
    table = table_of(column, [name])
    section = {"kind": "memory", "train": (table, ["1", "2"]), **declared({name: strict(entry)})}
    with pytest.raises(privgrad.DataError, match=f"the column '{name}' {says}"):
        privgrad.plan({**small, "data": section})
    targets = {**declared({"b": KINDS["number"]}), "target": "a", "labels": ["no", "maybe"]}
    del targets["other_label"]
    with pytest.raises(privgrad.DataError, match="the column 'a' holds .*, expected one of the 2 labels, which no value of this type is"):
        privgrad.plan({**small, "data": {"kind": "memory", "train": table_of(column, ["a", "b"]), **targets}})


def test_the_graph_of_a_model_reads_what_predict_reads(small: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    values = [value for value in VALUES if value not in (" 1", "1_0")]
    kinds = {**KINDS, "when": TIMES["when"], "iso": TIMES["iso"]}
    days = [day + midnight for day in ("2024-03-01", "1999-12-31", "1850-01-01") for midnight in (
        "", " 00:00:00", " 00:00:00.000", " 00:00:00.000000", " 00:00:00.000000000", " 00:00:01", " 00:00")]
    values += [*days, *(text.replace("2024-03-01", "01.03.2024") for text in days[:7])]
    run, expected, _ = of_file(small, values, kinds, lambda value, name: text_of(value))
    privgrad.export(run, "model.onnx")
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    fed = {}
    for entry in session.get_inputs():
        texts = [text_of(value) for value in values]
        fed[entry.name] = np.array([number_of(text) for text in texts] if entry.type == "tensor(double)" else texts,
                                   dtype=np.float64 if entry.type == "tensor(double)" else object)[:, None]
    given = session.run(None, fed)[0]
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-6)
    assert Path("model.onnx").stat().st_size < 15e6
