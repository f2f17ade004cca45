"""The value of a cell depends on that cell alone: an odd cell never changes how other rows are read."""

from __future__ import annotations

import datetime
import decimal
import fractions
from typing import Any

import numpy as np
import pytest

from privgrad._cells import held, listed, number_of, numbers, places, text_of

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

from privgrad._columns import _column  # noqa: E402  (needs pyarrow)
from privgrad._numbers import numbers_of, targets_of  # noqa: E402

DAY = pandas.Timestamp("2020-01-31")


class Hostile:
    """A cell whose own code raises."""

    def __hash__(self) -> int:
        raise AssertionError("somebody hashed a cell")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("somebody compared a cell")

    def __str__(self) -> str:
        raise AssertionError("somebody wrote a cell")

    __float__ = __bool__ = __len__ = __str__  # type: ignore[assignment]


class Liar(float):
    """An object that looks like a number but is not one."""

    def __float__(self) -> float:
        raise AssertionError("somebody read a cell")


COLUMNS: dict[str, list[Any]] = {
    "reals": [0.1, 0.5, 3.0, 1e-5, -0.0], "singles": list(np.float32([0.1, 0.5, 3.0, 1e-5, 1e22])), "whole": [1, 2, 3, -4, 0],
    "beyond 1e15": [10**15 + 1, 10**15 + 2, 2**53 - 1, 10**16 + 1, 2**62 + 1], "bytes of images": list(np.uint8([0, 1, 7, 254, 255])),
    "whole reals": [1e15, 2e15, 3.0, 4.0, 1e16], "booleans": [True, False, True, True, False], "texts": ["a", "1", "2.0", "true", ""],
    "bytes": [b"a", b"1", b"2.0", b"b", b""], "times": [DAY, DAY + pandas.Timedelta("1h"), DAY, DAY, DAY],
    "days": [DAY.date()] * 5, "instants": [np.datetime64("2020-01-31T03", "ns")] * 5, "decimals": [decimal.Decimal("2.50")] * 5,
    "durations": [pandas.Timedelta("1D"), pandas.NaT, pandas.Timedelta("3h"), DAY - DAY, pandas.Timedelta("5ns")], "periods": [pandas.Period("2020")] * 5,
    "zoned": [DAY.tz_localize("Asia/Tokyo")] * 5, "with complex ones": [1.0, 0.5, 1j, 2j, 3.0], "halves": list(np.float16([0.5, 2, 3, 4, 5])),
}
ODD: list[Any] = [
    "secret", "", "nan", b"x", None, np.nan, np.inf, pandas.NA, pandas.NaT, 1j, True, 300, -1, 0.5, 2**63, 2**64, 10**30, 10**5000, 1e-320,
    np.float16(0.1), np.longdouble(0.1), decimal.Decimal("0.1"), decimal.Decimal("sNaN"), fractions.Fraction(1, 3), DAY,
    pandas.Timestamp("2020", tz="UTC"), datetime.date(2020, 1, 31), datetime.time(3), np.datetime64("30000-01-01"), np.timedelta64(3, "h"),
    pandas.Timedelta("1D"), pandas.Period("2020"), [1], (1, 2), {}, {1}, np.array([1, 2]), np.void(b"ab"), object(), Hostile(), Liar(2), "\ud800",
]


odd_cells = pytest.mark.parametrize("odd", range(len(ODD)), ids=lambda place: type(ODD[place]).__name__)
of_columns = pytest.mark.parametrize("kind", COLUMNS)


def containers(kind: str, cells: list[Any]) -> dict[str, Any]:
    """The containers that NumPy and pandas can make from a list of cells; some types reject some cells."""
    made = {}
    for name, make in (("array", np.array), ("series", pandas.Series), ("frame", lambda held: pandas.DataFrame({"a": held})["a"]),
                       ("category", lambda held: pandas.Series(pandas.Categorical(held)))):
        if name == "array" and kind == "halves":  # NumPy writes these numbers with the texts of
                                                  # other numbers
            cells = [float(cell) for cell in cells[:5]] + cells[5:]
        try:
            made[name] = make(cells)
        except Exception:  # cannot be made as this container
            continue
        if getattr(made[name], "ndim", 1) != 1:
            del made[name]
    return made


def common(text: str) -> tuple[str, float | None]:
    """A text, or the number it contains: PyArrow writes 0.00001, Python 1e-05."""
    value = number_of(text)
    return (text, None) if np.isnan(value) else ("", value)


def texts(column: Any) -> list[tuple[str, float | None]]:
    _, offsets, held, _, _ = _column("a", column, "%d.%m.%Y")
    return [common(bytes(held[offsets[row] : offsets[row + 1]]).decode()) for row in range(len(offsets) - 1)]


@odd_cells
@of_columns
def test_no_odd_cell_changes_the_text_of_another_row(kind: str, odd: int) -> None:
    cells = COLUMNS[kind]
    expected = [common(text_of(cell, "%d.%m.%Y")) for cell in cells]
    for name, column in containers(kind, cells).items():
        assert texts(column) == expected, name
    for name, column in containers(kind, [*cells, ODD[odd]]).items():
        if name == "array" and column.dtype.kind in "mUS":  # in NumPy's format: see below
            continue
        assert texts(column)[: len(cells)] == expected, name


@odd_cells
@of_columns
def test_no_odd_cell_changes_the_number_or_the_place_of_another_row(kind: str, odd: int) -> None:
    cells = COLUMNS[kind]
    labels = [cells[0], cells[1]]
    read = np.array([number_of(cell) for cell in cells])
    found = places(cells, labels)
    for whole in (cells, [*cells, ODD[odd]]):
        for name, column in containers(kind, whole).items():
            for given, expected in ((targets_of(column, None, True, ""), read.astype(np.float32)), (targets_of(column, labels, True, ""), found),
                                    (numbers(held(column)), read), (places(held(column), labels), found)):
                np.testing.assert_array_equal(given[: len(cells)].astype(np.float32), expected.astype(np.float32), err_msg=name)
            if name != "array":
                np.testing.assert_array_equal(numbers_of(column, True, "")[: len(cells)].astype(np.float32), read.astype(np.float32), err_msg=name)

@pytest.mark.filterwarnings("error")
def test_no_odd_cell_ends_a_fit_in_release_mode() -> None:
    sklearn = pytest.importorskip("privgrad.sklearn")
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    for odd in ODD:
        rows, labels = X.astype(object), list(y)
        rows[3, 1] = labels[4] = odd
        for targets in (labels, listed(labels)):
            made = sklearn.DPClassifier(bounds=(-3, 3), classes=[0, 1], mode="release", steps=1).fit(rows, targets)
            assert made.unaccounted_ == ()
            assert len(made.predict(rows)) == 20
        regressor = sklearn.DPRegressor(bounds=(-3, 3), target_bounds=(0, 1), mode="release", steps=1)
        assert regressor.fit(pandas.DataFrame(rows), labels).unaccounted_ == ()
