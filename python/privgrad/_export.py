"""Models for programs of others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

from ._arguments import checked
from ._framework import HOME
from .errors import ConfigError, DataError, PluginError, PrivacyError, PrivgradError
from .runs import Run

__all__ = ["export"]

#: By the command's exit codes.
_ERRORS: dict[int, type[PrivgradError]] = {1: PluginError, 2: ConfigError, 3: PrivacyError, 4: DataError}


@checked
def export(
    model: str | os.PathLike[str] | Run,
    out: str | os.PathLike[str],
    *,
    format: str = "onnx",
    plugin_dirs: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Write a trained model, with its preprocessing, for programs of others.

    Of a table the graph takes each column by its name, raw, [n, 1]: float64 for numbers, NaN where one is
    missing, and texts for all else. Of arrays and images it takes ``features``, float32, [n, ...]. It gives
    ``probabilities``, or ``values`` where the loss makes none, and of a table the name of each row's
    ``class``.

    Parameters
    ----------
    model : path or Run
        A run (or its directory), or the file of a model.
    out : path
        Written there; replaced if it exists.
    format : str
        ``"onnx"``.
    plugin_dirs : iterable of path
        Looked through for plugins first.

    Raises
    ------
    ConfigError
        The call is wrong, or ONNX has no operations for a part of the model.
    PrivacyError
        The run is not over, and its keys are kept.
    DataError
        The model cannot be read, or the file not written.
    """
    directory = model.run_dir if isinstance(model, Run) else model
    write([os.fspath(directory), f"--format={format}"], out, plugin_dirs)


def write(words: Sequence[str], out: str | os.PathLike[str], plugin_dirs: Iterable[str | os.PathLike[str]]) -> None:
    """Have the command export a model.

    Raises
    ------
    PrivgradError
        As its exit code says.
    """
    places = [f"--plugin-dir={os.fspath(directory)}" for directory in plugin_dirs]
    done = subprocess.run(
        [os.fspath(HOME / "bin" / "privgrad"), "export", f"--out={os.fspath(out)}", *places, *words],
        capture_output=True, text=True, errors="replace", check=False,
    )
    if done.returncode == 0:
        return
    lines = done.stderr.splitlines() or [f"privgrad export ended with {done.returncode}"]
    raise _ERRORS.get(done.returncode, PrivgradError)(lines[-1].removeprefix("privgrad: error: "))
