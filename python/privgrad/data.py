"""Rows in memory as part of a manifest.

A manifest's section ``data`` of kind ``memory`` may contain arrays and tables; in a written
manifest, names stand in their place::

    {"kind": "memory", "train": (X, y), "test": {"features": X2, "targets": y2}, "classes": 2}
    {"kind": "memory", "train": frame, "target": "label", "features": ["a", "b"], "labels": [...]}

Arrays of float32 and uint8 are read in place: NumPy arrays, PyTorch tensors, and objects with
``__dlpack__``. Of tables (pandas, Polars, PyArrow, the path of a Parquet file, objects with
``__arrow_c_stream__`` or ``__arrow_c_array__``), a column of lists of fixed size and a frame that
is a single array are read in place. Other numbers, and columns that are stored separately, are
copied to float32 once.

With ``columns`` a table may contain categories, texts, booleans, dates and missing values. They are
declared, and become features, as in a file (docs/data.md)::

    {"kind": "memory", "train": frame, "target": "label", "labels": [...], "columns": [...]}
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _core
from .errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["lent"]

_KINDS = {"memory", "privgrad.memory:memory"}
#: Keys of the section that say how rows become features and targets; they exist only here.
_HERE = ("target", "features")
#: Keys that say which value replaces a target or a feature that does not fit.
_FILLS = ("target_fill", "feature_fill")
# : The keys about the reading of a table with columns.
_DECLARED = ("columns", "target", "labels", "other_label", "target_fill", "task", "classes", "missing")


def is_table(rows: Any) -> bool:
    """Whether rows are a table with columns: pandas, Polars, PyArrow, or the path of a Parquet file."""
    if isinstance(rows, (str, os.PathLike)):
        return os.fspath(rows).lower().endswith(".parquet")
    return any(hasattr(rows, how) for how in ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__"))


def _table(rows: Any) -> Any:
    """The rows as a PyArrow table, which reads the columns of other tables in place."""
    from ._columns import arrow

    pyarrow = arrow()
    if isinstance(rows, (str, os.PathLike)):
        try:
            return pyarrow.parquet.read_table(os.fspath(rows))
        except (OSError, pyarrow.ArrowException) as problem:
            raise DataError(f"{os.fspath(rows)}: {problem}") from problem
    try:
        return pyarrow.table(rows)
    except (TypeError, ValueError, pyarrow.ArrowException):
        # A value without named columns: a single column, such as a Series, or an array of lists.
        pass
    try:
        column = pyarrow.array(rows) if hasattr(rows, "__arrow_c_array__") else pyarrow.chunked_array(rows)
        return pyarrow.table({"values": column})
    except (TypeError, ValueError, pyarrow.ArrowException):  # because the message may contain cells
        raise DataError(f"a table of type {type(rows).__name__}: cannot be read by PyArrow") from None


def _in_place(column: Any, fills: bool) -> np.ndarray | None:
    """The numbers, in place, of a column that holds all features of a row side by side.

    Each cell is a list of fixed size, or a single number; for other columns the result is None. If
    some numbers are missing and `fills` replaces them, the numbers are copied, with NaN for the
    missing ones.
    """
    import numpy as np

    from ._columns import arrow
    from ._numbers import lists_of

    if hasattr(column, "iloc") and not hasattr(column.dtype, "pyarrow_dtype"):
        return None
    pyarrow = arrow()
    if hasattr(column, "iloc"):
        column = pyarrow.chunked_array(column)
    if isinstance(column.type, pyarrow.BaseExtensionType):  # such as arrow.fixed_shape_tensor
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    kind, width = column.type, 1
    if pyarrow.types.is_fixed_size_list(kind):
        kind, width = kind.value_type, kind.list_size
    elif column.num_chunks != 1 and not column.null_count:
        return None
    if kind not in (pyarrow.float32(), pyarrow.uint8()):
        return None
    if not len(column):
        return np.empty((0, width), np.float32 if kind == pyarrow.float32() else np.uint8)
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numbers = whole if width == 1 and whole.type == kind else whole.flatten()
    if whole.null_count or numbers.null_count:
        return lists_of(whole) if fills else None
    array: np.ndarray = numbers.to_numpy(zero_copy_only=True).reshape(len(column), width)
    return array


def _block(rows: Any) -> np.ndarray | None:
    """The content of a pandas frame that is a single array in row order; otherwise None."""
    import numpy as np

    if not hasattr(rows, "dtypes") or not hasattr(rows, "iloc") or getattr(rows, "ndim", 0) != 2:
        return None
    kinds = set(rows.dtypes)
    if len(kinds) != 1 or kinds.pop() not in (np.dtype(np.float32), np.dtype(np.uint8)):
        return None
    array: np.ndarray = rows.to_numpy(copy=False)
    return array if array.flags.c_contiguous else None


def _of_table(
    rows: Any, section: Mapping[str, Any], fills: bool, split: str
) -> tuple[np.ndarray, Any, list[str] | None]:
    """The features, the column of targets if there is one, and the names of the features."""
    import numpy as np

    from ._numbers import numbers_of

    is_pandas = hasattr(rows, "iloc")
    if is_pandas and rows.ndim == 1:
        rows = rows.to_frame("values")
    target = section.get("target")
    block = _block(rows)
    if block is not None and target is None:
        all_names = [str(name) for name in rows.columns]
        if section.get("features") in (None, all_names):
            return block, None, all_names
    table = rows if is_pandas else _table(rows)
    known = _names(table)
    names = list(section.get("features") or [name for name in known if name != target])
    for name in [*names, *([] if target is None else [target])]:
        if known.count(name) != 1:
            raise ConfigError(
                f"data.{split}: there {'is no column' if name not in known else 'are several columns'} '{name}';"
                f" there are {', '.join(known)}"
            )

    def column(name: str) -> Any:
        return table.iloc[:, known.index(name)] if is_pandas else table.column(name)

    targets = None if target is None else column(target)
    array = _in_place(column(names[0]), fills) if len(names) == 1 else None
    if array is not None:
        return array, targets, names if array.shape[1] == 1 else None
    made = np.empty((len(table), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        with np.errstate(over="ignore"):  # the source finds values that do not fit
            made[:, place] = numbers_of(column(name), fills, f"data.{split}: the column '{name}'")
    return made, targets, names


def _lend_columns(given: Any, section: Mapping[str, Any], split: str, shared: str) -> str:
    """Pass a table as texts, which the source reads as declared. Return its name."""
    from ._columns import text_columns

    features, targets, name = _parts(given, split)
    if not is_table(features):
        raise ConfigError(
            f"data.{split}: is of type {type(features).__name__}; columns declares those of a table with"
            " names (pandas, Polars, PyArrow, a path *.parquet)"
        )
    is_pandas = hasattr(features, "iloc")
    table = features if is_pandas else _table(features)
    _core.lend_columns(name, text_columns(table, targets, section, f"data.{split}"), shared)
    return name


def _parts(given: Any, split: str) -> tuple[Any, Any, str]:
    """The features, the targets or None, and the name under which they are passed."""
    if isinstance(given, Mapping):
        unknown = set(given) - {"features", "targets", "table"}
        if unknown or "features" not in given:
            raise ConfigError(
                f"data.{split}: has {', '.join(sorted(given))}, expected features and targets"
            )
        return given["features"], given.get("targets"), str(given.get("table", split))
    if isinstance(given, tuple) and len(given) == 2:
        return given[0], given[1], split
    return given, None, split


class _Rows:
    """The content of one split: features, and targets if there are any.

    `fills` are the keys that say which value replaces a cell that does not fit.
    """

    def __init__(self, given: Any, section: Mapping[str, Any], split: str, fills: Container[str] = ()) -> None:
        from ._numbers import as_float32, features_of, targets_of

        self.names: list[str] | None = None
        features, targets, self.table = _parts(given, split)
        if is_table(features):
            of_table = section if targets is None else {**section, "target": None}
            features, column, self.names = _of_table(features, of_table, "feature_fill" in fills, split)
            targets = column if targets is None else targets
        if targets is not None and is_table(targets) and not hasattr(targets, "iloc"):
            targets = _table(targets).column(0)
        self.features = as_float32(features_of(features, "feature_fill" in fills, f"data.{split}: features"))
        self.targets = None if targets is None else targets_of(
            targets, section.get("labels"), "target_fill" in fills, f"data.{split}: targets"
        )


def _is_lent(data: Any) -> bool:
    """Whether a section data contains rows, not only their names."""
    if not isinstance(data, Mapping) or data.get("kind") not in _KINDS:
        return False
    return any(
        key in data and not (isinstance(data[key], Mapping) and set(data[key]) == {"table"})
        for key in ("train", "test")
    )


@contextmanager
def lent(data: Any, as_columns: bool = False, fills: Iterable[str] = ()) -> Iterator[Any]:
    """Pass the rows of a section ``data`` for the duration of a call.

    Parameters
    ----------
    data : dict or anything
        A section of kind ``memory`` with rows; anything else is unchanged.
    as_columns : bool
        Pass tables as columns of texts even if the section declares no columns.
    fills : iterable of str
        Those of ``target_fill`` and ``feature_fill`` that are given outside the section.

    Yields
    ------
    dict or anything
        The section with names instead of the rows.
    """
    if not _is_lent(data):
        yield data
        return
    names: list[str] = []
    try:
        if as_columns or data.get("columns") is not None:
            yield _lend_declared(data, names)
        else:
            yield _lend_numbers(data, names, {*fills, *(key for key in _FILLS if data.get(key) is not None)})
    finally:
        for name in names:
            _core.take_back(name)


def _shared(data: Mapping[str, Any], split: str) -> str:
    """Name the training table if `split` is test rows in the same memory or file; otherwise ""."""
    if split != "test" or "train" not in data:
        return ""
    from ._origins import share_rows  # imported here because it imports NumPy

    *train, name = _parts(data["train"], "train")
    *test, _ = _parts(data["test"], "test")
    return name if share_rows(train, test) else ""


def _lend_numbers(data: Mapping[str, Any], names: list[str], fills: Container[str]) -> dict[str, Any]:
    """Pass rows unchanged, and add their names to `names`. Return their section."""
    from ._cells import text_of

    section = {key: value for key, value in data.items() if key not in _HERE}
    for split in ("train", "test"):
        if split not in data:
            continue
        rows = _Rows(data[split], data, split, fills)
        _core.lend(rows.table, rows.features, rows.targets, _shared(data, split))
        names.append(rows.table)
        section[split] = {"table": rows.table}
        if rows.names is not None:
            section.setdefault("feature_names", rows.names)
    if section.get("labels") is not None:
        section["labels"] = [text_of(label) for label in section["labels"]]
    return section


def _lend_declared(data: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """The same for tables with declared columns."""
    from ._columns import as_declared

    if data.get("features") is not None:
        raise ConfigError("data.features is for tables of numbers; columns says what each column becomes")
    section = {"target": "target", **as_declared(data)}
    for split in ("train", "test"):
        if split not in data:
            continue
        name = _lend_columns(data[split], section, split, _shared(data, split))
        names.append(name)
        section[split] = {"table": name}
    return section


@contextmanager
def lent_manifest(manifest: Any, overrides: Sequence[str] = ()) -> Iterator[Any]:
    """The same for a manifest, or a study with a base, that is a dict.

    Release mode refuses rows without fills. It reads each cell by itself in any case, because a
    single row may decide the type of a container.
    """
    if not isinstance(manifest, Mapping):
        yield manifest
    elif isinstance(manifest.get("base"), Mapping):
        with lent_manifest(manifest["base"], overrides) as base:
            yield {**manifest, "base": base}
    elif "data" in manifest:
        said = {line.partition("=")[0].strip().removeprefix("base.") for line in overrides}
        is_release = manifest.get("mode") == "release" or "mode" in said
        with lent(manifest["data"], fills=[key for key in _FILLS if is_release or f"data.{key}" in said]) as data:
            yield {**manifest, "data": data}
    else:
        yield manifest


def declares_columns(reading: Mapping[str, Any] | None) -> bool:
    """Whether a model's rows are those of a table with declared columns."""
    return reading is not None and "columns" in reading["params"]


def _are_rows(rows: Any) -> bool:
    """Whether these are only rows, not a section or file."""
    return rows is not None and not isinstance(rows, Mapping) and (
        isinstance(rows, tuple) or not isinstance(rows, (str, os.PathLike)) or is_table(rows)
    )


@contextmanager
def lent_rows(rows: Any, reading: Mapping[str, Any] | None, needs_targets: bool) -> Iterator[Any]:
    """The same for the rows to which a model is applied: a section, or only rows.

    Parameters
    ----------
    reading : dict, optional
        How the model's own rows are read, and how many classes they have: a table gets the
        declarations of the model's table, which may have been a file.
    needs_targets : bool
        For a table, use the column of targets too, if it has one.
    """
    is_rows = _are_rows(rows)
    section = {"kind": "memory", "train": rows} if is_rows else rows
    if is_rows and not isinstance(rows, tuple):
        section["unlabelled"] = True
    if _is_lent(section) and declares_columns(reading) and section.get("columns") is None:
        assert reading is not None
        features, targets, _ = _parts(section["train"], "train")
        if is_table(features):
            known = {key: value for key, value in reading["params"].items() if key in _DECLARED}
            section = {**known, **section}
            if is_rows and needs_targets and targets is None:
                section["unlabelled"] = section["target"] not in _names(features)
    elif is_rows and is_table(_parts(rows, "train")[0]) and reading is not None:
        # The table may have other numeric columns too.
        section.setdefault("features", reading["params"].get("feature_names"))
    if is_rows and reading is not None and reading["source"] not in _KINDS and not _says_task(section):
        section |= {"classes": reading["classes"]} if reading["classes"] else {"task": "regression"}
    # Prediction uses the same fills as training.
    fills = [] if reading is None else [key for key in _FILLS if key in reading["params"]]
    with lent(section, fills=fills) as named:
        yield named


def _says_task(section: Mapping[str, Any]) -> bool:
    return any(key in section for key in ("classes", "labels", "task"))


def kept_in_memory(rows: Any, names: Sequence[str]) -> dict[str, dict[str, np.ndarray]] | None:
    """Unchanged columns of tables in memory, by split and name.

    Parameters
    ----------
    rows
        As for ``lent_rows``; None for rows that are stored elsewhere, such as in files.
    """
    section = {"train": rows} if _are_rows(rows) else rows
    if not _are_rows(rows) and not _is_lent(rows):
        return None
    if names and section.get("split") is not None:
        raise ConfigError("keep: data.split chooses rows by what they hold; leave it out, or split the table yourself")
    kept: dict[str, dict[str, np.ndarray]] = {}
    for split in ("train", "test"):
        if split in section:
            table = _parts(section[split], split)[0]
            kept[split] = {name: _kept(table, name, split) for name in names}
    return kept


def _kept(table: Any, name: str, split: str) -> np.ndarray:
    if not is_table(table):
        raise ConfigError(f"keep: the rows of {split} are of type {type(table).__name__}, which has no columns by name")
    known = _names(table)
    if name not in known:
        raise ConfigError(f"keep: there is no column '{name}'; there are {', '.join(known)}")
    if hasattr(table, "iloc"):
        column: np.ndarray = table.iloc[:, known.index(name)].to_numpy()
        return column
    values: np.ndarray = _table(table).column(name).to_numpy()
    return values


def _names(table: Any) -> list[str]:
    columns = table.columns if hasattr(table, "iloc") else _table(table).column_names
    return [str(name) for name in columns]


@contextmanager
def lent_again(section: Mapping[str, Any] | None, data: Mapping[str, Any] | None) -> Iterator[None]:
    """Pass rows under the names by which a run knows them.

    Parameters
    ----------
    section : dict
        The run's section ``data``, as resolved.
    data : dict, optional
        The section with the rows with which the run began.
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
    declared = {key: section[key] for key in _DECLARED if key in section} if "columns" in section else {}
    fills = [key for key in _FILLS if section.get(key) is not None]
    with lent({**declared, **data, **named, "kind": "memory"}, fills=fills):
        yield


def _as_mapping(rows: Any) -> dict[str, Any]:
    if isinstance(rows, Mapping):
        return dict(rows)
    if isinstance(rows, tuple):
        return {"features": rows[0], "targets": rows[1]}
    return {"features": rows}
