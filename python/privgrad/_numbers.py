"""Rows in memory as numbers: arrays, lists, and the columns of tables.

If a cell that is not a number is replaced by a fill (`fills`), each cell is read by itself,
whatever it and the others contain, and no container is refused because of its type, which a single
row may decide. Without fills, a container is refused if its type is not numeric. No error shows a
cell or reveals its type.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _cells
from ._columns import arrow, day_texts, plain_column
from .errors import ConfigError, DataError

__all__ = ["as_float32", "features_of", "lists_of", "numbers_of", "targets_of"]

_NUMBERS = "biuf"
_NO_NUMBERS = "mMV"
_NAMES = {"O": "objects", "U": "texts", "S": "bytes"}


def _held(kind: np.dtype) -> str:
    """The kind of values in an array, without the length of its longest text."""
    return _NAMES.get(kind.kind, f"{kind} values")


def _lying(values: Any, what: str) -> np.ndarray:
    """The array of an object that has one, without a copy."""
    if hasattr(values, "detach"):  # a PyTorch tensor
        values = values.detach().cpu()
    if isinstance(values, np.ndarray):
        return values
    try:
        return np.from_dlpack(values) if hasattr(values, "__dlpack__") else np.asarray(values)
    except (BufferError, RuntimeError) as problem:  # on a device, or of a type that NumPy does not
                                                    # have
        raise DataError(f"{what}: cannot be read: {problem}") from problem
    except (TypeError, ValueError, OverflowError):  # because the message contains cells
        raise DataError(f"{what}: is no array of numbers, with rows of one length") from None


def as_float32(array: np.ndarray) -> np.ndarray:
    """Features in C order: bytes and float32 in place; others are rounded to float64 first, as in files."""
    if array.dtype not in (np.float32, np.uint8):
        with np.errstate(all="ignore"):  # the source finds and names values that do not fit
            array = array.astype(np.float64, copy=False).astype(np.float32)
    return np.ascontiguousarray(array)


def features_of(values: Any, fills: bool, what: str) -> np.ndarray:
    """Features of an array or a list: numbers; uint8 and float32 in place, others as float64.

    Raises
    ------
    ConfigError
        With `fills`, if a row would decide how many features there are.
    DataError
        Without `fills`, if these are not numbers.
    """
    has_type = hasattr(values, "dtype")
    if isinstance(values, (str, os.PathLike)) or hasattr(values, "collect"):
        raise DataError(
            f"{what}: is of type {type(values).__name__}, expected an array, a table (of Polars a DataFrame, which a"
            " LazyFrame's collect() gives), or a path *.parquet"
        )
    if fills and not (has_type or hasattr(values, "__dlpack__") or hasattr(values, "__array__")):
        raise ConfigError(
            f"{what}: is of type {type(values).__name__}, as wide as its rows are; with feature_fill, and in"
            " release mode, expected an array or a table"
        )
    array = _lying(values, what)
    kind = array.dtype.kind
    if kind in _NUMBERS:
        return array
    if not fills:
        raise DataError(f"{what}: holds {_held(array.dtype) if has_type else 'what is no number'}, expected numbers")
    return _cells.numbers(array)


def _of_arrow(column: Any, fills: bool) -> np.ndarray | None:
    """The cells of a column: numbers, with NaN for missing ones, or objects; None for a refused type.

    Without `fills`, types other than numbers are refused. With `fills` they are not, because Arrow
    may have inferred the type from the rows. Lists of fixed size are always declared, never
    inferred.
    """
    pyarrow = arrow()
    types = pyarrow.types
    column = plain_column(pyarrow.chunked_array([column]) if isinstance(column, pyarrow.Array) else column)
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        if column.null_count:
            column = column.cast(pyarrow.uint8() if types.is_boolean(kind) else kind)
            column = column.cast(pyarrow.float64(), safe=False)
        numbers: np.ndarray = column.to_numpy()
        return numbers
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        cells = column.cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist()
    elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_decimal(kind) or types.is_null(kind):
        cells = column.to_pylist()
    elif not fills or types.is_fixed_size_list(kind):
        return None
    elif types.is_date(kind) or types.is_timestamp(kind):
        cells = day_texts(column).to_pylist()
    else:
        compute = pyarrow.compute
        cells = compute.if_else(compute.is_valid(column), _cells.UNLIKE_ALL, None).to_pylist()
    return _cells.listed(cells)


def _of_series(series: Any, fills: bool) -> np.ndarray | None:
    """The cells of a pandas column, likewise."""
    kind = series.dtype
    if hasattr(kind, "pyarrow_dtype"):
        return _of_arrow(arrow().chunked_array(series), fills)
    if not isinstance(kind, np.dtype):
        if kind.kind in _NUMBERS:  # its missing values are pandas.NA
            numbers: np.ndarray = series.to_numpy(dtype=np.float64, na_value=np.nan)
            return numbers
        if not hasattr(kind, "categories") and str(kind) not in ("string", "str"):  # times,
                                                                                    # periods,
                                                                                    # intervals
            return np.asarray(series.astype(object)) if fills else None
    array = np.asarray(series)
    if array.dtype.kind not in _NO_NUMBERS:
        return array
    return np.asarray(series.astype(object)) if fills else None


def numbers_of(column: Any, fills: bool, where: str) -> np.ndarray:
    """The numbers of a table's column, [rows]; NaN where there is none.

    Parameters
    ----------
    column
        A column of pandas or Arrow.
    where : str
        What errors call it.

    Raises
    ------
    DataError
        If the column is a list of fixed size; without `fills`, also if its type is not numeric, or
        a number is missing.
    """
    is_pandas = hasattr(column, "iloc")
    kind = column.dtype if is_pandas else column.type
    cells = _of_series(column, fills) if is_pandas else _of_arrow(column, fills)
    is_numbers = cells is not None and cells.dtype.kind in _NUMBERS
    if cells is None or not (is_numbers or fills):
        raise DataError(
            f"{where} holds {kind} values, expected numbers; leave it out of features, or encode it by values that"
            " you declare"
        )
    if fills:
        return _cells.numbers(cells)
    missing = int(column.isna().sum()) if is_pandas else column.null_count
    if missing:
        raise DataError(
            f"{where} has {missing} missing values; fill them by values that you declare, or say feature_fill"
        )
    return cells


def lists_of(whole: Any) -> np.ndarray:
    """Numbers, or lists of fixed size, as [rows, size]; NaN where one is missing.

    Parameters
    ----------
    whole
        An Arrow array of float32 or uint8.
    """
    pyarrow = arrow()
    width, values = 1, whole
    if pyarrow.types.is_fixed_size_list(whole.type):
        width = whole.type.list_size
        values = whole.values.slice(whole.offset * width, len(whole) * width)
    cells = _of_arrow(values, fills=True)
    assert cells is not None
    numbers = cells.astype(np.float32).reshape(len(whole), width)
    numbers[whole.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return numbers


def _targets(values: Any, fills: bool, what: str) -> np.ndarray:
    """Targets as an array of one axis."""
    if isinstance(values, (list, tuple)):
        return _cells.listed(values)
    if hasattr(values, "iloc"):
        found = _of_series(values if values.ndim == 1 else values.iloc[:, 0], fills)
    elif hasattr(values, "combine_chunks"):  # an Arrow column
        found = _of_arrow(values, fills)
    else:
        found = _lying(values, what)
        found = None if found.dtype.kind in _NO_NUMBERS and not fills else found
    if found is None:
        kind = getattr(values, "dtype", getattr(values, "type", type(values).__name__))
        raise DataError(f"{what}: holds {kind} values, expected numbers, or labels that are numbers or texts")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise DataError(f"{what}: have {found.ndim} axes, expected one")
    return found


def targets_of(values: Any, labels: Sequence[Any] | None, fills: bool, what: str) -> np.ndarray:
    """Targets as float32: numbers unchanged, labels as their indices.

    With `fills`, invalid targets become NaN, which the source replaces by its fill.

    Parameters
    ----------
    values
        A list, an array, or a column of pandas or Arrow.

    Raises
    ------
    DataError
        If they are not a column, or are lists of fixed size. Without `fills`, also if their type
        cannot be a target, or a row does not fit; the error names the first such row.
    """
    cells = _targets(values, fills, what)
    if labels is not None:
        if not fills:
            _cells.check_labels(cells.dtype, labels, what)
        places = _cells.places(cells, labels)
        wrong = np.flatnonzero(np.isnan(places))
        if not fills and wrong.size:
            raise DataError(f"{what}: row {wrong[0]} is not one of labels ({', '.join(map(str, labels))})")
        return places
    if cells.dtype.kind not in _NUMBERS and not fills:
        if cells.dtype.kind != "O":
            raise DataError(f"{what}: holds {_held(cells.dtype)}, expected numbers; say labels")
        wrong = np.flatnonzero(~np.isfinite(_cells.numbers(cells)))
        if wrong.size:
            raise DataError(f"{what}: row {wrong[0]} is no number; say labels, or target_fill")
    numbers = cells if cells.dtype.kind in _NUMBERS else _cells.numbers(cells)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(numbers.astype(np.float64).astype(np.float32))
