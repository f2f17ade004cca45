"""Rows in memory as a part of a manifest.

A manifest's section ``data`` of kind ``memory`` may hold arrays and tables where one that is written
down has the names under which they are lent::

    {"kind": "memory", "train": (X, y), "test": {"features": X2, "targets": y2}, "classes": 2}
    {"kind": "memory", "train": frame, "target": "label", "features": ["a", "b"], "labels": [...]}

float32 and uint8 in rows are read where they lie: NumPy arrays, PyTorch tensors, whatever has
``__dlpack__``; of tables (pandas, Polars, PyArrow, a path of a Parquet file, whatever has
``__arrow_c_stream__`` or ``__arrow_c_array__``) a column of lists of fixed size, and a frame that is one
array. Other numbers are copied to float32 once, and so are columns that lie apart from each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _core
from .errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["lent"]

_KINDS = {"memory", "privgrad.memory:memory"}
#: Keys of the section that say how rows become features and targets, here and nowhere else.
_HERE = ("target", "features", "scale")


def _is_table(rows: Any) -> bool:
    if isinstance(rows, (str, os.PathLike)):
        return os.fspath(rows).endswith(".parquet")
    return any(hasattr(rows, how) for how in ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__"))


def _array(values: Any, what: str) -> np.ndarray:
    """Numbers where they lie, or as float32 of their own."""
    import numpy as np

    if hasattr(values, "detach"):  # a tensor of PyTorch
        values = values.detach().cpu()
    if not isinstance(values, np.ndarray):
        try:
            values = np.from_dlpack(values) if hasattr(values, "__dlpack__") else np.asarray(values)
        except (BufferError, RuntimeError) as problem:  # on a device, or of a type that NumPy has not
            raise DataError(f"{what}: cannot be read: {problem}") from problem
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{what}: holds {values.dtype} values, expected numbers"
            + ("; say labels" if what.endswith("targets") else "")
        )
    if values.dtype not in (np.float32, np.uint8):
        with np.errstate(over="ignore"):  # what does not fit is found, and named, by the source
            values = values.astype(np.float32)
    return np.ascontiguousarray(values)


def _targets(values: Any, labels: Sequence[Any] | None, fills: bool, what: str) -> np.ndarray:
    """Targets as float32: numbers as they are, labels as their places.

    Where a target that is none counts as another (`fills`), the source puts that in place of NaN.
    """
    import numpy as np

    if labels is not None:
        places = {label: place for place, label in enumerate(labels)}
        if fills:
            return np.array([places.get(_plain(value), np.nan) for value in values], dtype=np.float32)
        wrong = [row for row, value in enumerate(values) if _plain(value) not in places]
        if wrong:
            raise DataError(
                f"{what}: row {wrong[0]} is none of labels ({', '.join(map(str, labels))})"
            )
        return np.array([places[_plain(value)] for value in values], dtype=np.float32)
    if fills and isinstance(values, list):  # a column, whose missing values are None
        values = [np.nan if value is None else value for value in values]
    array = _array(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{what}: have {array.ndim} axes, expected one")
    return np.ascontiguousarray(array, dtype=np.float32)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _table(rows: Any) -> Any:
    """A table of PyArrow, which reads the others' columns where they lie."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as missing:
        raise DataError("tables need pyarrow: pip install 'privgrad[arrow]'") from missing
    if isinstance(rows, (str, os.PathLike)):
        try:
            return pyarrow.parquet.read_table(os.fspath(rows))
        except (OSError, pyarrow.ArrowException) as problem:
            raise DataError(f"{os.fspath(rows)}: {problem}") from problem
    try:
        return pyarrow.table(rows)
    except (TypeError, ValueError, pyarrow.ArrowException):
        # Not columns with names: one alone, such as a Series, or an array of lists.
        column = pyarrow.array(rows) if hasattr(rows, "__arrow_c_array__") else pyarrow.chunked_array(rows)
        return pyarrow.table({"values": column})


def _in_place(table: Any, names: Sequence[str]) -> np.ndarray | None:
    """The numbers of a column that holds all features of a row side by side, where they lie.

    That is a list of fixed size in each row, or a single number. None of other columns.
    """
    import pyarrow

    if len(names) != 1:
        return None
    column = table.column(names[0])
    if isinstance(column.type, pyarrow.BaseExtensionType):  # such as arrow.fixed_shape_tensor
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    kind, width = column.type, 1
    if pyarrow.types.is_fixed_size_list(kind):
        kind, width = kind.value_type, kind.list_size
    elif column.num_chunks != 1:
        return None
    if kind not in (pyarrow.float32(), pyarrow.uint8()) or column.null_count or not table.num_rows:
        return None
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numbers = whole if width == 1 and whole.type == kind else whole.flatten()
    if numbers.null_count:
        return None
    array: np.ndarray = numbers.to_numpy(zero_copy_only=True).reshape(table.num_rows, width)
    return array


def _block(rows: Any) -> np.ndarray | None:
    """What a frame of pandas holds as one array with its rows one after the other; else None."""
    import numpy as np

    if not hasattr(rows, "dtypes") or not hasattr(rows, "iloc") or getattr(rows, "ndim", 0) != 2:
        return None
    kinds = set(rows.dtypes)
    if len(kinds) != 1 or kinds.pop() not in (np.dtype(np.float32), np.dtype(np.uint8)):
        return None
    array: np.ndarray = rows.to_numpy(copy=False)
    return array if array.flags.c_contiguous else None


def _columns(table: Any, names: Sequence[str], fills: bool, split: str) -> np.ndarray:
    """The columns side by side, as float32 in rows.

    Where a feature that is none counts as another (`fills`), the source puts that in place of NaN.
    """
    import numpy as np
    import pyarrow

    made = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        column = table.column(name)
        kind = column.type
        if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
                or pyarrow.types.is_boolean(kind)):
            raise DataError(
                f"data.{split}: the column '{name}' holds {kind} values, expected numbers;"
                " leave it out of features, or encode it by values that you declare"
            )
        if column.null_count and not fills:
            raise DataError(
                f"data.{split}: the column '{name}' has {column.null_count} missing values;"
                " fill them by values that you declare, or say feature_fill"
            )
        if column.null_count:  # in double, whose rounding to float32 is that of whole columns
            column = column.cast(pyarrow.uint8() if pyarrow.types.is_boolean(kind) else kind)
            column = column.cast(pyarrow.float64(), safe=False)
        with np.errstate(over="ignore"):  # what does not fit is found by the source
            made[:, place] = column.to_numpy()
    return made


def _of_table(rows: Any, section: Mapping[str, Any], split: str) -> tuple[Any, Any, list[str] | None]:
    block = _block(rows)
    if block is not None and section.get("target") is None:
        all_names = [str(name) for name in rows.columns]
        if section.get("features") in (None, all_names):
            return block, None, all_names
    table = _table(rows)
    target = section.get("target")
    known = list(table.column_names)
    names = list(section.get("features") or [name for name in known if name != target])
    for name in [*names, *([] if target is None else [target])]:
        if name not in known:
            raise ConfigError(
                f"data.{split}: there is no column '{name}'; there are {', '.join(known)}"
            )
    targets = None if target is None else table.column(target).to_pylist()
    array = _in_place(table, names)
    if array is None:
        return _columns(table, names, "feature_fill" in section, split), targets, names
    return array, targets, names if array.shape[1] == 1 else None


class _Rows:
    """What one split holds: features, and targets if there are any."""

    def __init__(self, given: Any, section: Mapping[str, Any], split: str) -> None:
        self.names: list[str] | None = None
        if isinstance(given, Mapping):
            unknown = set(given) - {"features", "targets", "table"}
            if unknown or "features" not in given:
                raise ConfigError(
                    f"data.{split}: has {', '.join(sorted(given))}, expected features and targets"
                )
            features, targets = given["features"], given.get("targets")
            self.table = str(given.get("table", split))
        elif isinstance(given, tuple) and len(given) == 2:
            (features, targets), self.table = given, split
        else:
            features, targets, self.table = given, None, split
        if _is_table(features):
            if targets is not None:
                features, _, self.names = _of_table(features, {**section, "target": None}, split)
            else:
                features, targets, self.names = _of_table(features, section, split)
        if targets is not None and _is_table(targets):
            targets = _table(targets).column(0).to_pylist()
        self.features = _array(features, f"data.{split}: features")
        labels = section.get("labels")
        self.targets = (
            None if targets is None else _targets(targets, labels, "target_fill" in section, f"data.{split}: targets")
        )


def _is_lent(data: Any) -> bool:
    """Whether a section data holds rows, not only names of them."""
    if not isinstance(data, Mapping) or data.get("kind") not in _KINDS:
        return False
    return any(
        key in data and not (isinstance(data[key], Mapping) and set(data[key]) == {"table"})
        for key in ("train", "test")
    )


@contextmanager
def lent(data: Any) -> Iterator[Any]:
    """Lend the rows of a section ``data`` while a call lasts.

    Parameters
    ----------
    data : dict or anything
        A section of kind ``memory`` with rows; anything else is left as it is.

    Yields
    ------
    dict or anything
        The section with the names of the rows in their place.
    """
    if not _is_lent(data):
        yield data
        return
    section = {key: value for key, value in data.items() if key not in _HERE}
    names: list[str] = []
    try:
        for split in ("train", "test"):
            if split not in data:
                continue
            rows = _Rows(data[split], data, split)
            _core.lend(rows.table, rows.features, rows.targets, float(data.get("scale", 1.0)))
            names.append(rows.table)
            section[split] = {"table": rows.table}
            if rows.names is not None:
                section.setdefault("feature_names", rows.names)
        if section.get("labels") is not None:
            section["labels"] = [str(label) for label in section["labels"]]
        yield section
    finally:
        for name in names:
            _core.take_back(name)


@contextmanager
def lent_manifest(manifest: Any) -> Iterator[Any]:
    """The same for a manifest, or a study with a base, that is a dict."""
    if not isinstance(manifest, Mapping):
        yield manifest
    elif isinstance(manifest.get("base"), Mapping):
        with lent(manifest["base"].get("data")) as data:
            yield {**manifest, "base": {**manifest["base"], "data": data}}
    elif "data" in manifest:
        with lent(manifest["data"]) as data:
            yield {**manifest, "data": data}
    else:
        yield manifest


@contextmanager
def lent_rows(rows: Any) -> Iterator[Any]:
    """The same for the rows that a model is applied to: a section, or rows alone."""
    is_rows = rows is not None and not isinstance(rows, Mapping) and (
        isinstance(rows, tuple) or not isinstance(rows, (str, os.PathLike)) or _is_table(rows)
    )
    if not is_rows:
        with lent(rows) as section:
            yield section
        return
    section = {"kind": "memory", "train": rows}
    if not isinstance(rows, tuple):
        section["unlabelled"] = True
    with lent(section) as named:
        yield named


@contextmanager
def lent_again(section: Mapping[str, Any] | None, data: Mapping[str, Any] | None) -> Iterator[None]:
    """Lend rows under the names that a run knows them by.

    Parameters
    ----------
    section : dict
        The run's section ``data``, as resolved.
    data : dict, optional
        The section with rows that the run began with.
    """
    if data is None:
        yield
        return
    if section is None or section.get("kind") not in _KINDS:
        raise ConfigError("data is given, but the run's rows are not in memory")
    named = {
        split: {**_as_mapping(data[split]), "table": section[split]["table"]}
        for split in ("train", "test")
        if split in data and split in section
    }
    with lent({**data, **named, "kind": "memory"}):
        yield


def _as_mapping(rows: Any) -> dict[str, Any]:
    if isinstance(rows, Mapping):
        return dict(rows)
    if isinstance(rows, tuple):
        return {"features": rows[0], "targets": rows[1]}
    return {"features": rows}
