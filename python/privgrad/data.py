"""Rows in memory as a part of a manifest.

A manifest's section ``data`` of kind ``memory`` may hold arrays and tables where one that is written
down has the names under which they are lent::

    {"kind": "memory", "train": (X, y), "test": {"features": X2, "targets": y2}, "classes": 2}
    {"kind": "memory", "train": frame, "target": "label", "features": ["a", "b"], "labels": [...]}

float32 and uint8 in rows are read where they lie: NumPy arrays, PyTorch tensors, whatever has
``__dlpack__``. Other numbers are copied to float32 once, and so are the columns of tables (pandas,
Polars, PyArrow, a path of a Parquet file, whatever has ``__arrow_c_stream__``).
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
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__dataframe__")


def _array(values: Any, what: str) -> np.ndarray:
    """Numbers where they lie, or as float32 of their own."""
    import numpy as np

    if hasattr(values, "detach"):  # a tensor of PyTorch
        values = values.detach().cpu()
    if not isinstance(values, np.ndarray):
        values = np.from_dlpack(values) if hasattr(values, "__dlpack__") else np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{what}: holds {values.dtype} values, expected numbers"
            + ("; say labels" if what.endswith("targets") else "")
        )
    if values.dtype not in (np.float32, np.uint8):
        with np.errstate(over="ignore"):  # what does not fit is found, and named, by the source
            values = values.astype(np.float32)
    return np.ascontiguousarray(values)


def _targets(values: Any, labels: Sequence[Any] | None, what: str) -> np.ndarray:
    """Targets as float32: numbers as they are, labels as their places."""
    import numpy as np

    if labels is not None:
        places = {label: place for place, label in enumerate(labels)}
        wrong = [row for row, value in enumerate(values) if _plain(value) not in places]
        if wrong:
            raise DataError(
                f"{what}: row {wrong[0]} is none of labels ({', '.join(map(str, labels))})"
            )
        return np.array([places[_plain(value)] for value in values], dtype=np.float32)
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
    return pyarrow.table(rows)


def _columns(table: Any, names: Sequence[str], split: str) -> np.ndarray:
    """The columns side by side, as float32 in rows."""
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
        if column.null_count:
            raise DataError(
                f"data.{split}: the column '{name}' has {column.null_count} missing values;"
                " fill them by values that you declare"
            )
        made[:, place] = column.to_numpy()
    return made


def _of_table(rows: Any, section: Mapping[str, Any], split: str) -> tuple[Any, Any, list[str]]:
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
    return _columns(table, names, split), targets, names


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
            None if targets is None else _targets(targets, labels, f"data.{split}: targets")
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
