"""The value of a cell, whatever the container: a number, a text, or one of the declared labels.

The value is a function of the cell alone, although a single row may decide the type of a whole
container: if one cell is a text, NumPy turns true into 'True' and 2 into '2.0'; if one is complex,
all become complex; if one is a duration, whole numbers become durations; a missing cell turns 2
into 2.0 and float32 into float64. Therefore a number has the same text in all containers: whole
numbers below 2**53 have their digits, larger ones those of a double, and all others the shortest
digits of their float32, which is the type of features.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .errors import ConfigError, DataError

__all__ = ["UNLIKE_ALL", "check_labels", "column", "common_text", "finite_or", "held", "listed", "number_of", "numbers",
           "places", "table", "text_of"]

_MISSING = {"NAType", "NaTType", "NoneType"}
_NUMBERS = (int, float, complex, np.bool_, np.number, decimal.Decimal, fractions.Fraction)
#: Also the grammar of numbers in files; float() would accept "1_000" and blanks.
_GRAMMAR = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
_MOST_EXACT = 2.0**53
UNLIKE_ALL = "\ufffd"  # a text that no declared text equals
#: A day, or a time of day, followed by the fraction that pandas appends if another cell has a time
#: or a fraction of a second.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)( \d\d:\d\d:\d\d)(?:\.(?:0{3}|0{6}|0{9}))?", re.ASCII)


def _text(cell: Any) -> str | None:
    """The text in a cell of type str or bytes; None for other cells. Bytes are decoded as UTF-8, as NumPy does."""
    if issubclass(type(cell), str):
        return str.__str__(cell)
    return bytes.decode(cell, "utf-8", "replace") if issubclass(type(cell), bytes) else None


def number_of(cell: Any) -> float:
    """The number in a cell, or written in its text; NaN if there is none."""
    text = _text(cell)
    if text is not None:
        return float(text) if _GRAMMAR.fullmatch(text) else _WORDS.get(text, math.nan)
    if not issubclass(type(cell), _NUMBERS):
        return math.nan
    try:
        if issubclass(type(cell), np.timedelta64):  # in a container with a duration, NumPy counts
                                                    # whole numbers in its unit
            return math.nan if np.isnat(cell) else float(cell.astype(np.int64))
        if issubclass(type(cell), (complex, np.complexfloating)):
            return float(cell.real) if cell.imag == 0 else math.nan
        return float(cell)
    except Exception:  # a foreign class of numbers may raise anything, but no row may end a call
        return math.nan


def _number_text(value: float) -> str:
    if abs(value) >= _MOST_EXACT:
        return repr(value)
    if value.is_integer() and (value or math.copysign(1, value) > 0):
        return str(int(value))
    single = np.float32(value)
    return str(single if single else value)


def _day(cell: Any, form: str) -> str:
    """A date, or the day of a time, in a declared format; empty if it is missing."""
    if issubclass(type(cell), np.datetime64):
        cell = None if np.isnat(cell) else cell.astype("datetime64[D]").item()
    if cell is None:
        return ""
    if not hasattr(cell, "year"):  # outside the years that Python supports
        return UNLIKE_ALL
    parts = {"%Y": f"{cell.year:04}", "%m": f"{cell.month:02}", "%d": f"{cell.day:02}"}
    return re.sub("%.", lambda part: parts.get(part[0], "0"), form)


def text_of(cell: Any, form: str = "%Y-%m-%d") -> str:
    """The text of a cell: empty if the cell is missing, and a reserved text if the cell has no text.

    Parameters
    ----------
    form : str
        The declared format of dates; times of day, which no column keeps, are 0.
    """
    text, kind = _text(cell), type(cell)
    if text is not None:
        return text
    if kind.__name__ in _MISSING:
        return ""
    if issubclass(kind, (datetime.date, np.datetime64)):
        return _day(cell, form)
    if issubclass(kind, (bool, np.bool_)):
        return "true" if cell else "false"
    value = number_of(cell)
    if not math.isnan(value):
        return _number_text(value)
    if issubclass(kind, (complex, np.complexfloating)):
        return "" if np.isnan(cell.real) else UNLIKE_ALL
    is_nan = issubclass(kind, (float, np.floating)) or (issubclass(kind, decimal.Decimal) and cell.is_nan())
    return "" if is_nan else UNLIKE_ALL


def common_text(text: str) -> str:
    """The standard text of a number that NumPy or Python wrote; other texts are unchanged.

    So 2.0 becomes 2, and True becomes 1, but 01 and 1.10 are codes, because no number is written
    like this. A day loses the midnight that pandas appends if another row has a time of day.
    """
    value = number_of(text)
    if not math.isfinite(value):
        time = _TIME.fullmatch(text)
        return text if time is None else time[1] if time[2] == " 00:00:00" else time[1] + time[2]
    with np.errstate(over="ignore"):
        single = np.float32(value)
    usual = {*_WORDS, repr(value), str(single), repr(float(single))}
    if value.is_integer():
        usual.add(str(int(value)))
    return _number_text(value + 0.0) if text in usual else text  # -0.0 has the text of 0


def numbers(array: np.ndarray) -> np.ndarray:
    """The numbers of an array as float64, in the same shape; not finite where a cell is not a number.

    NumPy turns whole numbers in a container with a duration into durations, so durations count as
    numbers of the array's unit.
    """
    kind = array.dtype.kind
    with np.errstate(all="ignore"):  # larger than float64 can hold
        if kind in "biuf":
            return array.astype(np.float64)
        if kind == "m":
            return np.where(np.isnat(array), np.nan, array.astype(np.int64))
    read = (number_of(cell) for cell in (array if kind in "USMV" else array.astype(object)).flat)
    return np.fromiter(read, np.float64, array.size).reshape(array.shape)


def finite_or(array: np.ndarray, fill: Any) -> np.ndarray:
    """The numbers, with `fill` instead of every number that is not finite."""
    return np.where(np.isfinite(array), array, fill)


def table(X: Any) -> np.ndarray:
    """Features as an array of two axes.

    Raises
    ------
    ConfigError
        If X is not one. The width of a list follows from its rows, but no row may decide how wide
        an array or a table is.
    """
    axes = len(getattr(X, "shape", ()))
    array = held(X) if axes == 2 else None
    if array is None or array.ndim != 2:
        raise ConfigError(
            f"X: is of type {type(X).__name__} with {axes} axes; in release mode it is an array or a"
            " table, with two"
        )
    return array


def held(values: Any) -> np.ndarray:
    """The array of a container; objects for times and durations of pandas, which are not numbers."""
    array = np.asarray(values)
    are_times = hasattr(values, "iloc") and array.dtype.kind in "mM"
    return np.asarray(values.astype(object)) if are_times else array


def listed(values: Iterable[Any]) -> np.ndarray:
    """A list as an array of unchanged objects: NumPy would turn all into texts because of a single text."""
    held = list(values)
    array = np.empty(len(held), dtype=object)
    for row, value in enumerate(held):
        if issubclass(type(value), np.ndarray) and value.shape == ():
            value = value[()]
        elif type(value).__module__ == "torch" and value.numel() == 1:
            value = value.item()
        array[row] = value
    return array


def column(y: Any, rows: int) -> np.ndarray:
    """Targets as an array of one axis.

    Raises
    ------
    ConfigError
        If y is not an array of one axis, or has not as many rows as X.
    """
    array = listed(y) if isinstance(y, (list, tuple)) else held(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ConfigError(f"y: has {array.ndim} axes, expected one")
    if len(array) != rows:
        raise ConfigError("y: is not of as many rows as X")
    return array


def check_labels(kind: Any, labels: Iterable[Any], what: str) -> None:
    """Refuse a container of numbers, because of its type, if no label is a number.

    Raises
    ------
    DataError
    """
    texts = [text_of(label) for label in labels]
    if getattr(kind, "kind", "O") not in "biufc" or any(math.isfinite(number_of(text)) for text in texts):
        return
    shown = ", ".join(texts[:5]) + (", ..." if len(texts) > 5 else "")
    raise DataError(f"{what}: holds {kind} values, none of which can be one of the labels ({shown}), which are no numbers")


def places(cells: Sequence[Any] | np.ndarray, labels: Iterable[Any], other: float = math.nan) -> np.ndarray:
    """The index of each cell among the labels, float32; `other` for a cell that is not a label.

    A label is found by its text; a label that is a number is found by each common text of that
    number.
    """
    exact: dict[str, int] = {}
    by_number: dict[str, set[int]] = {}
    by_code: dict[str, set[int]] = {}
    for place, label in enumerate(labels):
        text = text_of(label)
        if text != UNLIKE_ALL:
            exact.setdefault(text, place)
        common = common_text(text)
        number = _number_text(number_of(text) + 0.0) if math.isfinite(number_of(text)) else common
        (by_number if common == number else by_code).setdefault(number, set()).add(place)

    def place_of(cell: Any) -> float:
        text = text_of(cell)
        if text in exact:
            return exact[text]
        number = common_text(text)
        found = by_number.get(number) or by_code.get(number) or ()
        return next(iter(found)) if len(found) == 1 else other

    return np.fromiter(map(place_of, cells), np.float32, len(cells))
