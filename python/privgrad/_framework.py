"""The loaded plugins, once per search path."""

from __future__ import annotations

import json
import math
import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _core
from .errors import _DICT, ConfigError, PrivgradWarning

#: The files of the package, in the layout of an installation.
HOME = Path(__file__).parent / "_home"

ManifestLike = Mapping[str, Any] | str | os.PathLike[str]

_lock = threading.Lock()
_loaded: dict[tuple[str, ...], _core.Framework] = {}


def framework(plugin_dirs: Iterable[str | os.PathLike[str]] = ()) -> _core.Framework:
    """Load the plugins, or return those that were loaded before from the same places."""
    directories = [os.fspath(directory) for directory in plugin_dirs]
    key = (*directories, "", os.environ.get("PRIVGRAD_PLUGIN_PATH", ""))
    with _lock:
        if key not in _loaded:
            made = _core.Framework(directories, os.fspath(HOME / "bin" / "privgrad"))
            for refused in json.loads(made.refused()):
                warnings.warn(
                    f"{refused['path']}: not loaded: {refused['why']}", PrivgradWarning, stacklevel=3
                )
            _loaded[key] = made
        return _loaded[key]


def plain(value: Any, key: str = "") -> Any:
    """A manifest's value as JSON types: NumPy scalars and paths become numbers and texts."""
    if isinstance(value, Mapping):
        return {str(k): plain(v, f"{key}.{k}" if key else str(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, f"{key}.{i}") for i, v in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}: is {value}, expected a finite number")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "component"):  # a prototype
        return value.component()
    if getattr(value, "shape", None) == () and hasattr(value, "item") and value.item() is not value:
        return plain(value.item(), key)
    raise ConfigError(
        f"{key}: is of type {type(value).__name__}, expected a number, a text, a list or a dict"
        " (arrays go below data: {kind: memory, ...})"
    )


def yaml_text(value: Any) -> str:
    """A value as YAML, of which JSON is a subset."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def override_lines(overrides: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """``--set`` lines: made from a dict of dotted keys, or unchanged."""
    if isinstance(overrides, str):
        raise ConfigError("overrides is a text, expected a dict {KEY: VALUE} or a list of KEY=VALUE")
    if isinstance(overrides, Mapping):
        return [f"{key}={yaml_text(plain(value, key))}" for key, value in overrides.items()]
    return [str(line) for line in overrides]


def manifest_text(
    manifest: ManifestLike, overrides: Mapping[str, Any] | Iterable[str] = ()
) -> _core.ManifestText:
    """The module's argument for a manifest that is given as a dict, a path, or the text itself."""
    lines = override_lines(overrides)
    if isinstance(manifest, Mapping):
        named = {"name": "run", **plain(manifest)}  # otherwise its name would be that of a file
        return _core.ManifestText(False, yaml_text(named), _DICT, lines)
    if isinstance(manifest, str) and ("\n" in manifest or manifest.lstrip().startswith("{")):
        return _core.ManifestText(False, manifest, "<text>", lines)
    if isinstance(manifest, (str, os.PathLike)):
        return _core.ManifestText(True, os.fspath(manifest), "", lines)
    raise ConfigError(
        f"the manifest is of type {type(manifest).__name__}, expected a dict, a path or a text"
    )
