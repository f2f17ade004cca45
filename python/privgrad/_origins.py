"""Whether some rows in memory are the same as others: compares the memory and the files that hold them.

The content of rows never decides, because an answer based on equal rows would reveal who is in the
data.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["share_rows"]

#: An address space, and a part of it; None: all of it.
_Piece = tuple[Hashable, "np.ndarray | None"]
_MEMORY = "memory"
_BITS = 8


class _At:
    """Addresses in the form of an array, which is never read."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> None:
        self.__array_interface__ = {
            "version": 3, "data": (address, True), "shape": shape, "strides": strides, "typestr": f"|V{size}"
        }


def share_rows(some: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether some rows are the same as others: parts of one object, array, buffer, or file.

    Parameters
    ----------
    some, others : iterable
        Their features and targets.
    """
    known: dict[Hashable, list[np.ndarray | None]] = {}
    for space, place in itertools.chain.from_iterable(map(_pieces, some)):
        known.setdefault(space, []).append(place)
    ends = {space: np.array([_ends(one) for one in places if one is not None], dtype=np.uint64).reshape(-1, 2)
            for space, places in known.items()}
    for space, place in itertools.chain.from_iterable(map(_pieces, others)):
        if space not in known:
            continue
        if place is None or any(one is None for one in known[space]):
            return True
        first, end = _ends(place)
        near = np.flatnonzero((ends[space][:, 0] < end) & (ends[space][:, 1] > first))
        if any(_share(known[space][at], place) for at in near):
            return True
    return False


def _share(one: Any, other: np.ndarray) -> bool:
    try:
        return np.shares_memory(one, other, max_work=1_000_000)  # type: ignore[arg-type]  # its stub knows -1 and 0
    except RuntimeError:  # too expensive to decide
        return True


def _ends(array: np.ndarray) -> tuple[int, int]:
    """The first address of an array, and the address after its last one."""
    if array.size == 0:
        return 0, 0
    steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    first = array.__array_interface__["data"][0]
    return (first + sum(step for step in steps if step < 0),
            first + sum(step for step in steps if step > 0) + array.itemsize)


def _pieces(rows: Any) -> Iterator[_Piece]:
    """Where rows are stored, for everything that can be given as features, targets, or both."""
    if rows is None or isinstance(rows, (bool, int, float)):
        return
    if isinstance(rows, (str, os.PathLike)):
        if os.path.exists(rows):
            yield _file(rows), None
        return
    yield ("object", id(rows)), None
    if isinstance(rows, np.ndarray):
        yield _array(rows)
    elif hasattr(rows, "iloc"):  # a pandas object
        columns = [rows] if rows.ndim == 1 else [rows.iloc[:, place] for place in range(rows.shape[1])]
        for column in columns:
            yield from _column(column.array)
    elif hasattr(rows, "data_ptr"):  # a PyTorch tensor, on any device
        size = rows.element_size()
        at = _At(rows.data_ptr(), tuple(rows.shape), tuple(size * step for step in rows.stride()), size)
        yield _MEMORY, np.asarray(at)
    elif any(hasattr(rows, how) for how in ("__arrow_c_stream__", "__arrow_c_array__")):
        from .data import _table

        for column in _table(rows).columns:
            yield from _arrow(column)
    elif type(rows).__module__.startswith("h5py."):
        yield rows.id, None
    elif isinstance(rows, (list, tuple)):
        for row in rows:
            if isinstance(row, (list, np.ndarray)):  # other objects, such as numbers, may be shared
                                                     # because they are equal
                yield (_MEMORY, row) if isinstance(row, np.ndarray) else (("object", id(row)), None)
    else:
        try:
            yield _array(np.from_dlpack(rows) if hasattr(rows, "__dlpack__") else np.asarray(memoryview(rows)))
        except (BufferError, RuntimeError, TypeError, ValueError):
            return  # it is read through a copy, so only the object itself can be compared


def _file(path: Any) -> Hashable:
    facts = os.stat(path)
    return "file", facts.st_dev, facts.st_ino


def _array(array: np.ndarray) -> _Piece:
    """An array in memory; for a mapped file, its place in the file (each mapping has its own address)."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    name = getattr(root, "filename", None)
    if not isinstance(root, np.memmap) or name is None or not os.path.exists(name):
        return _MEMORY, array
    place = root.offset + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return _file(name), np.asarray(_At(1 + place, array.shape, array.strides, array.itemsize))


def _column(values: Any) -> Iterator[_Piece]:
    """A pandas column. All kinds store their content in arrays of NumPy or Arrow."""
    for name in ("_ndarray", "_data"):
        held = getattr(values, name, None)
        if isinstance(held, np.ndarray):
            yield _array(held)
            return
    if hasattr(values, "__arrow_array__"):
        yield from _arrow(values.__arrow_array__())


def _arrow(values: Any) -> Iterator[_Piece]:
    """An Arrow column. The flags of missing values and the letters of texts are stored separately."""
    import pyarrow

    types = pyarrow.types
    kind = values.type
    if isinstance(values, pyarrow.ChunkedArray):
        for chunk in values.chunks:
            yield from _arrow(chunk)
    elif isinstance(kind, pyarrow.BaseExtensionType):
        yield from _arrow(values.storage)
    elif types.is_dictionary(kind):
        yield from _arrow(values.indices)
    elif types.is_struct(kind):
        for field in values.flatten():
            yield from _arrow(field)
    elif types.is_fixed_size_list(kind):
        yield from _arrow(values.values.slice(values.offset * kind.list_size, len(values) * kind.list_size))
    elif len(values.buffers()) > 1 and values.buffers()[1] is not None:
        try:
            width = kind.bit_width
        except ValueError:  # an array of offsets into letters or elements
            width = 64 if str(kind).startswith("large_") else 128 if str(kind).endswith("_view") else 32
        begin = values.buffers()[1].address * _BITS + values.offset * width
        first, end = -(-begin // _BITS), (begin + len(values) * width) // _BITS  # only the whole
                                                                                 # bytes that belong
                                                                                 # to it
        if end > first:
            yield _MEMORY, np.asarray(_At(first, (end - first,), (1,), 1))
