"""Rows of which whatever stands in one counts as something, and no error or warning tells of it.

What a cell counts as is a function of that cell alone: a text in one row changes the type of a whole
array, and must not change what other rows count as.
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import ConfigError

__all__ = ["cells", "column", "finite_or", "places", "table"]

_READ_AS_NUMBERS = (numbers.Real, np.bool_, decimal.Decimal, str, bytes)


def _number(cell: Any) -> float:
    """Not finite where the cell is not a number; a text may be one."""
    try:
        return float(cell) if isinstance(cell, _READ_AS_NUMBERS) else np.nan
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def cells(array: np.ndarray) -> np.ndarray:
    """The numbers of an array, float64, of its shape; not finite where there are none."""
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # beyond float64
            return array.astype(np.float64)
    if array.dtype.kind not in "OUS":  # dates are none, however many rows hold one
        return np.full(array.shape, np.nan)
    read = (_number(cell) for cell in array.astype(object).flat)
    return np.fromiter(read, np.float64, array.size).reshape(array.shape)


def finite_or(array: np.ndarray, fill: Any) -> np.ndarray:
    """The numbers, with `fill` in place of those that are not finite."""
    return np.where(np.isfinite(array), array, fill)


def table(X: Any) -> np.ndarray:
    """Features as an array of two axes.

    Raises
    ------
    ConfigError
        If X is none. A list of rows is as wide as its rows are; how wide an array or a table is, is
        no row's to tell.
    """
    axes = len(getattr(X, "shape", ()))
    array = np.asarray(X) if axes == 2 else None
    if array is None or array.ndim != 2:
        raise ConfigError(
            f"X: is of type {type(X).__name__} with {axes} axes; in release mode it is an array or a"
            " table, with two"
        )
    return array


def column(y: Any, rows: int) -> np.ndarray:
    """Targets as an array of one axis.

    Raises
    ------
    ConfigError
        If y is none, or not of as many rows as X.
    """
    array: np.ndarray
    if isinstance(y, (list, tuple)):  # each as it is: NumPy would make texts of all, for one of them
        array = np.empty(len(y), dtype=object)
        for row, value in enumerate(y):
            array[row] = value
    else:
        array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ConfigError(f"y: has {array.ndim} axes, expected one")
    if len(array) != rows:
        raise ConfigError("y: is not of as many rows as X")
    return array


def places(labels: np.ndarray, classes: Iterable[Any], other: float = 0) -> np.ndarray:
    """The place of each label among the classes, float32; `other` for what is none of them."""
    by_class = {_plain(label): place for place, label in enumerate(classes)}

    def place(label: Any) -> float:
        value = _plain(label)
        try:
            found = by_class.get(value)
            if found is None and isinstance(value, str):
                found = by_class.get(_number(value))
        except TypeError:  # of a type that is no label
            found = None
        return other if found is None else found

    return np.fromiter(map(place, labels), np.float32, len(labels))
