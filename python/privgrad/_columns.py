"""Columns of a table as the texts that a file would contain.

The text of a cell depends only on that cell and on the declaration of its column, so that each row
determines only its own features, as a line of a file does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._cells import UNLIKE_ALL, text_of
from .errors import ConfigError, DataError

__all__ = ["arrow", "as_declared", "day_texts", "plain_column", "text_columns"]

#: The name, the offset of each text, the bytes of the texts, what the type says about all cells
#: (texts, numbers, days, unreadable), and the type.
Column = tuple[str, Any, Any, str, str]

_ISO = "%Y-%m-%d"
_MOST_EXACT = 2.0**53


def arrow() -> Any:
    """PyArrow, which reads the columns of every kind of table in place.

    Raises
    ------
    DataError
        If it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as missing:
        raise DataError("tables need pyarrow: pip install 'privgrad[arrow]'") from missing
    return pyarrow


def as_declared(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section with the labels and the column values as texts, made like the texts of rows."""
    made = dict(section)
    if section.get("labels") is not None:
        made["labels"] = [text_of(label) for label in section["labels"]]
    if "other_label" in section:
        made["other_label"] = text_of(section["other_label"])
    if "columns" in section:
        made["columns"] = [_entry(entry) for entry in section["columns"]]
    return made


def _entry(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    made = dict(entry)
    if isinstance(entry.get("values"), (list, tuple)):
        made["values"] = [text_of(value) for value in entry["values"]]
    if entry.get("since") is not None:
        made["since"] = text_of(entry["since"])
    return made


def _form_of(name: str, columns: Any) -> str:
    """The declared format of a column's dates, from the first entry that fits."""
    for entry in columns if isinstance(columns, Sequence) else ():
        pattern = str(entry.get("name", "")) if isinstance(entry, Mapping) else ""
        if re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL):
            return str(entry.get("format") or _ISO)
    return _ISO


def _joined(texts: Sequence[bytes]) -> tuple[Any, Any]:
    import numpy as np

    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(texts), dtype=np.uint8)


def _of_cells(cells: Iterable[Any], form: str) -> tuple[Any, Any]:
    return _joined([text_of(cell, form).encode("utf-8", "replace") for cell in cells])


def plain_column(column: Any) -> Any:
    """An Arrow column without the types that wrap its values: Arrow's own extensions, and dictionaries."""
    pyarrow = arrow()
    kind = column.type
    if isinstance(kind, pyarrow.BaseExtensionType) and kind.extension_name.startswith("arrow."):
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
    if pyarrow.types.is_dictionary(column.type):
        column = pyarrow.chunked_array([_looked_up(chunk) for chunk in column.chunks or [column.combine_chunks()]])
    return column


def _looked_up(chunk: Any) -> Any:
    """The values of a chunk of a dictionary, taken by a kernel that exists for each type of values."""
    pyarrow = arrow()
    is_view = pyarrow.types.is_string_view(chunk.type.value_type)
    values = chunk.dictionary.cast(pyarrow.large_string()) if is_view else chunk.dictionary
    return values.take(chunk.indices)


def day_texts(column: Any, form: str = _ISO) -> Any:
    """The days of dates and times as texts in a declared format."""
    pyarrow = arrow()
    try:
        return pyarrow.compute.strftime(column, format=re.sub("%[HMSf]", "0", form))
    except pyarrow.ArrowException:
        raise DataError(f"times of type {column.type}: a time zone that Arrow does not know") from None


def _number_texts(column: Any) -> Any:
    """The texts of numbers, as text_of() writes them."""
    pyarrow = arrow()
    compute, text = pyarrow.compute, pyarrow.large_string()
    reals = column.cast(pyarrow.float64(), safe=False)
    reals = compute.if_else(compute.is_nan(reals), None, reals)
    is_exact = compute.less(compute.abs(reals), _MOST_EXACT)
    has_sign = compute.or_(compute.not_equal(reals, 0.0), compute.greater(compute.divide(1.0, reals), 0.0))
    is_whole = compute.and_(compute.and_(compute.equal(compute.floor(reals), reals), is_exact), has_sign)
    whole = compute.if_else(is_whole, reals, 0.0).cast(pyarrow.int64()).cast(text)
    single = reals.cast(pyarrow.float32(), safe=False)
    is_single = compute.and_(is_exact, compute.not_equal(single, 0.0))
    return compute.if_else(is_whole, whole, compute.if_else(is_single, single.cast(text), reals.cast(text)))


def _of_arrow(name: str, column: Any, form: str) -> Column:
    import numpy as np

    pyarrow = arrow()
    types, compute, type_name = pyarrow.types, pyarrow.compute, str(column.type)
    column = plain_column(column)
    kind, holds = column.type, "texts"
    if types.is_date(kind) or types.is_timestamp(kind):
        holds = "days"
        column = day_texts(column, form)
    elif types.is_boolean(kind):
        holds = "numbers"
    elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        holds = "numbers"
        column = _number_texts(column)
    elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return name, *_of_cells(column.to_pylist(), form), holds, type_name
    elif not (types.is_null(kind) or types.is_string(kind) or types.is_large_string(kind)
              or types.is_string_view(kind)):
        holds = "unreadable"
        column = compute.if_else(compute.is_valid(column), UNLIKE_ALL, "")
    texts = compute.fill_null(column.cast(pyarrow.large_string()), "").combine_chunks()
    _, begins, characters = texts.buffers()
    offsets = np.zeros(1, dtype=np.int64)
    if len(texts):
        offsets = np.frombuffer(begins, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = np.zeros(0, dtype=np.uint8) if characters is None else np.frombuffer(characters, dtype=np.uint8)
    return name, offsets, held, holds, type_name


def _column(name: str, values: Any, form: str) -> Column:
    """A column of pandas, an array, a list, or a column of Arrow."""
    import numpy as np

    pyarrow = arrow()
    if isinstance(values, pyarrow.Array):
        values = pyarrow.chunked_array([values])
    kind: Any = getattr(values, "dtype", None)
    if isinstance(values, pyarrow.ChunkedArray):
        return _of_arrow(name, values, form)
    if hasattr(kind, "categories") and hasattr(values, "iloc"):  # a pandas column; those of Polars
                                                                 # are Arrow columns
        texts = [text_of(value, form).encode("utf-8", "replace") for value in kind.categories]
        return name, *_joined([*map([*texts, b""].__getitem__, values.cat.codes)]), "texts", str(kind)
    cells_by_kind = "OUSc" if hasattr(values, "iloc") else "OUScmMV"
    if kind is None or (isinstance(kind, np.dtype) and (kind.kind in cells_by_kind or kind == np.longdouble)):
        holds = "texts" if kind is None else {"f": "numbers", "c": "numbers", "M": "days", "m": "unreadable",
                                              "V": "unreadable"}.get(kind.kind, "texts")
        return name, *_of_cells(values, form), holds, str(kind)
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        return _of_arrow(name, pyarrow.chunked_array(values), form)
    if getattr(kind, "tz", None) is not None:  # the local day, because Arrow does not know every
                                               # time zone
        values = values.dt.tz_localize(None)
    try:
        made = pyarrow.array(np.asarray(values) if hasattr(kind, "subtype") else values, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError):  # a pandas type that Arrow does not
                                                             # have
        return name, *_of_cells(values.astype(object), form), "unreadable", str(kind)
    chunked = made if isinstance(made, pyarrow.ChunkedArray) else pyarrow.chunked_array([made])
    return *_of_arrow(name, chunked, form)[:4], str(kind)


def text_columns(table: Any, targets: Any, section: Mapping[str, Any], where: str) -> list[Column]:
    """All columns of a table, and the targets as one more column.

    Parameters
    ----------
    table
        A frame of pandas, or a table of PyArrow.
    targets
        None if they are a column of the table.
    section : dict
        The declarations: ``columns``, and the name of the column of targets as ``target``.
    where : str
        The name of the table in errors.
    """
    if hasattr(table, "iloc"):
        named = [(str(name), series) for name, series in table.items()]
    else:
        named = [(name, table.column(place)) for place, name in enumerate(table.column_names)]
    columns = [_read(name, values, _form_of(name, section.get("columns")), where) for name, values in named]
    if targets is None:
        return columns
    target = section["target"]
    if target in [column[0] for column in columns]:
        raise ConfigError(f"{where}: targets are given, and the table has a column '{target}'; give one of them")
    return [*columns, _read(target, targets, _ISO, where)]


def _read(name: str, values: Any, form: str, where: str) -> Column:
    try:
        return _column(name, values, form)
    except (TypeError, ValueError, OverflowError, arrow().ArrowException):  # because the message
                                                                            # may contain cells
        raise DataError(f"{where}: the column '{name}' cannot be read") from None
