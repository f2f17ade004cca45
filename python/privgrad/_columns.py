"""Columns of a table as the texts that a file would hold of them.

What the text of a cell is follows from that cell and from the column's type alone, so that a row
decides about its own features, as a line of a file does.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import ConfigError, DataError

__all__ = ["arrow", "as_declared", "as_text", "looked_up", "text_columns"]

#: A name, where each text begins, their bytes, whether they are days, and of a column that has no texts
#: its type.
Column = tuple[str, Any, Any, bool, str]

_MISSING = {"NAType", "NaTType", "NoneType"}
_MOST_WHOLE = 1e15  # below it a double tells all whole numbers apart


def arrow() -> Any:
    """PyArrow, which reads the columns of every kind of table where they lie.

    Raises
    ------
    DataError
        It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as missing:
        raise DataError("tables need pyarrow: pip install 'privgrad[arrow]'") from missing
    return pyarrow


def as_text(cell: Any) -> str:
    """The text of one value; empty where it is missing."""
    if type(cell).__name__ in _MISSING:
        return ""
    if hasattr(cell, "item") and getattr(cell, "shape", None) == ():
        cell = cell.item()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        if cell != cell:
            return ""
        return str(int(cell)) if cell.is_integer() and abs(cell) < _MOST_WHOLE else repr(cell)
    if isinstance(cell, datetime.date):  # a datetime is one, too
        return cell.isoformat()[:10]
    return str(cell)


def as_declared(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section, whose labels and values of columns are texts, as those of rows are."""
    made = dict(section)
    if section.get("labels") is not None:
        made["labels"] = [as_text(label) for label in section["labels"]]
    if "other_label" in section:
        made["other_label"] = as_text(section["other_label"])
    if "columns" in section:
        made["columns"] = [_entry(entry) for entry in section["columns"]]
    return made


def _entry(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    made = dict(entry)
    if isinstance(entry.get("values"), (list, tuple)):
        made["values"] = [as_text(value) for value in entry["values"]]
    if isinstance(entry.get("since"), datetime.date):
        made["since"] = as_text(entry["since"])
    return made


def _of_cells(cells: Iterable[Any]) -> tuple[Any, Any]:
    import numpy as np

    texts = [as_text(cell).encode("utf-8", "replace") for cell in cells]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(texts), dtype=np.uint8)


def looked_up(chunk: Any) -> Any:
    """The values of a chunk of a dictionary, by a kernel that each type of values has."""
    pyarrow = arrow()
    is_view = pyarrow.types.is_string_view(chunk.type.value_type)
    values = chunk.dictionary.cast(pyarrow.large_string()) if is_view else chunk.dictionary
    return values.take(chunk.indices)


def _of_arrow(name: str, column: Any) -> Column:
    import numpy as np

    pyarrow = arrow()
    compute, types = pyarrow.compute, pyarrow.types
    if isinstance(column.type, pyarrow.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        column = pyarrow.chunked_array(storage, column.type.storage_type)
    if types.is_dictionary(column.type):
        column = pyarrow.chunked_array([looked_up(chunk) for chunk in column.chunks or [column.combine_chunks()]])
    kind = column.type
    is_date = types.is_date(kind) or types.is_timestamp(kind)
    if is_date:
        column = compute.strftime(column, format="%Y-%m-%d")
    elif types.is_floating(kind):
        column = compute.if_else(compute.is_nan(column), None, column)
    elif not (types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind) or types.is_null(kind)
              or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        return name, np.zeros(len(column) + 1, dtype=np.int64), np.zeros(0, dtype=np.uint8), False, str(kind)
    texts = compute.fill_null(column.cast(pyarrow.large_string()), "").combine_chunks()
    _, places, characters = texts.buffers()
    offsets = np.zeros(1, dtype=np.int64)
    if len(texts):
        offsets = np.frombuffer(places, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = np.zeros(0, dtype=np.uint8) if characters is None else np.frombuffer(characters, dtype=np.uint8)
    return name, offsets, held, is_date, ""


def _column(name: str, values: Any) -> Column:
    """A column of pandas, an array, a list, or a column of Arrow."""
    pyarrow = arrow()
    if isinstance(values, pyarrow.Array):
        values = pyarrow.chunked_array([values])
    if isinstance(values, pyarrow.ChunkedArray):
        return _of_arrow(name, values)
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if isinstance(values, (list, tuple)) or (kind in "OUS" and not hasattr(values, "__arrow_c_stream__")):
        return (name, *_of_cells(values), False, "")
    if str(getattr(values, "dtype", "")) == "object":  # each cell by itself, whatever the others are
        return (name, *_of_cells(values), False, "")
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        return _of_arrow(name, pyarrow.chunked_array(values))
    made = pyarrow.array(values, from_pandas=True)
    return _of_arrow(name, made if isinstance(made, pyarrow.ChunkedArray) else pyarrow.chunked_array([made]))


def text_columns(table: Any, targets: Any, target: str | None, where: str) -> list[Column]:
    """All columns of a table, and the targets as one more.

    Parameters
    ----------
    table
        A frame of pandas, or a table of PyArrow.
    targets
        None where they are a column of the table.
    target : str, optional
        What their column is called.
    where : str
        What errors call the table.
    """
    if hasattr(table, "iloc"):
        columns = [_column(str(name), series) for name, series in table.items()]
    else:
        columns = [_column(name, table.column(place)) for place, name in enumerate(table.column_names)]
    if targets is None:
        return columns
    assert target is not None
    if target in [column[0] for column in columns]:
        raise ConfigError(f"{where}: targets are given, and the table has a column '{target}'; give one of them")
    return [*columns, _column(target, targets)]
