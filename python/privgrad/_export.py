"""Exports models for other programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

from ._arguments import checked
from ._framework import HOME
from .errors import ConfigError, DataError, PluginError, PrivacyError, PrivgradError
from .runs import Run

__all__ = ["export"]

#: The exception for each exit code of the command.
_ERRORS: dict[int, type[PrivgradError]] = {1: PluginError, 2: ConfigError, 3: PrivacyError, 4: DataError}


@checked
def export(
    model: str | os.PathLike[str] | Run,
    out: str | os.PathLike[str],
    *,
    format: str = "onnx",
    plugin_dirs: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Write a trained model, with its preprocessing, for other programs.

    For a table, the inputs of the graph are the raw columns under their names, [n, 1]: float64 for
    numbers, NaN if one is missing, and texts for everything else. For arrays and images, the input
    is ``features``, float32, [n, ...]. The outputs are ``probabilities``, or ``values`` if the loss
    has no probabilities, and for a table the name of each row's ``class``.

    Parameters
    ----------
    model : path or Run
        A run (or its directory), or the file of a model.
    out : path
        The file to write; replaced if it exists.
    format : str
        ``"onnx"``; ``"state_dict"`` for a model that began from a file of weights: it is written
        with the same names and order; or ``"huggingface"`` for a model of the kind ``pretrained``:
        it is written as a new folder. The last two need the run's directory.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

    Raises
    ------
    ConfigError
        If the call is wrong, or ONNX has no operations for a part of the model.
    PrivacyError
        If the run is not over, so that its keys still exist.
    DataError
        If the model cannot be read, or the file cannot be written.
    """
    directory = model.run_dir if isinstance(model, Run) else model
    write([os.fspath(directory), f"--format={format}"], out, plugin_dirs)


def write(words: Sequence[str], out: str | os.PathLike[str], plugin_dirs: Iterable[str | os.PathLike[str]]) -> None:
    """Call the command to export a model.

    Raises
    ------
    PrivgradError
        The type follows from the command's exit code.
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
