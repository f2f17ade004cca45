"""Drafts of a manifest's declarations about rows."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from typing import Any

from ._arguments import checked
from ._framework import framework, plain, yaml_text
from .data import is_table, lent
from .errors import PrivgradWarning

__all__ = ["suggest"]

Path = str | os.PathLike[str]


@checked
def suggest(
    rows: Any,
    target: str | None = None,
    *,
    plugin_dirs: Iterable[Path] = (),
    **section: Any,
) -> dict[str, Any]:
    """Draft a section ``data`` from all rows, as ``privgrad data describe --suggest`` does.

    Types, ranges, values and classes are facts about the rows, and a model that uses them reveals
    them. The section has the key ``read_off_rows``: every output lists it as unaccounted, and
    release mode refuses it. Remove the key only if nothing in the section comes from private rows.

    Parameters
    ----------
    rows : frame, table, arrays or path
        A table (pandas, Polars, PyArrow, a path ``*.parquet``), with its targets in a column or as
        (table, targets); (features, targets); or the path of a CSV file.
    target : str, optional
        For a table: the column to predict.
    plugin_dirs : iterable of path
        Folders to search for plugins first.
    **section
        Other keys of the section, such as ``missing`` or ``delimiter``.

    Returns
    -------
    dict
        The section, with the rows.

    Raises
    ------
    ConfigError, DataError
    """
    is_file = isinstance(rows, (str, os.PathLike)) and not is_table(rows)
    given: dict[str, Any] = {"kind": "csv" if is_file else "memory", "train": rows, **section}
    if target is not None:
        given["target"] = target
    elif isinstance(rows, tuple) and is_table(rows[0]):
        given["target"] = "target"
    features = rows[0] if isinstance(rows, tuple) else rows
    loaded = framework(plugin_dirs)
    with lent(given, as_columns=not is_file and is_table(features)) as named:
        made = json.loads(loaded.suggest(yaml_text(plain(named, "data"))))
    looked = ("types, ranges, values and labels were read off all rows (read_off_rows): for private rows, declare only what you know without them")
    for note in [looked, *made["notes"]]:
        warnings.warn(note, PrivgradWarning, stacklevel=2)
    return {**given, **made["data"]}
