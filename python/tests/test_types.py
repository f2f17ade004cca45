"""Types and docstrings: mypy --strict, the stub of the compiled module, numpydoc."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import privgrad
from conftest import SOURCES

# Types are in the signatures, examples are in docs/python.md, and parameters common to several
# functions are described at one of them.
NOT_ASKED_FOR = {
    "ES01",  # no extended summary
    "EX01",  # no examples
    "SA01",  # no "See Also"
    "GL01",  # the summary begins on the first line
    "PR04",  # a parameter without a type
    "PR07",  # a parameter without a description
    "RT03",  # a returned value without a description: its type has one
    "RT04",  # a description that begins with a lower-case letter
}


def test_types_are_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(SOURCES / "pyproject.toml"), "--cache-dir",
         str(tmp_path / "cache"), str(SOURCES / "python" / "privgrad")],
        capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_has_what_the_compiled_module_has() -> None:
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "privgrad._core", "--concise"],
                          capture_output=True, text=True, check=False, timeout=240)
    # nanobind's own representation of classes and functions says nothing about how to call them.
    missing = [line for line in done.stdout.splitlines()
               if "is not present" in line or "stub argument" in line]
    assert "privgrad._core" in done.stdout, done.stdout + done.stderr
    assert not missing, "\n".join(missing)


def public() -> Iterator[tuple[str, Any]]:
    """Everything that a user may call, by full name."""
    for module in pkgutil.walk_packages(privgrad.__path__, "privgrad."):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ModuleNotFoundError as missing:  # belongs to an extra
            assert not str(missing.name).startswith("privgrad")
            continue
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if not str(getattr(thing, "__module__", "")).startswith("privgrad"):
                continue
            yield f"{module.name}.{name}", thing
            if not inspect.isclass(thing):
                continue
            for member, value in vars(thing).items():
                is_one = inspect.isfunction(value) or isinstance(value, (classmethod, property))
                if not member.startswith("_") and is_one:
                    yield f"{module.name}.{name}.{member}", value


def test_docstrings_are_numpydoc() -> None:
    validate = pytest.importorskip("numpydoc.validate").validate
    seen = 0
    wrong = []
    for name, thing in public():
        seen += 1
        # Objects that only the package creates describe their attributes instead of their
        # parameters.
        more = {"PR01"} if inspect.isclass(thing) else set()
        wrong += [f"{name}: {code} {what}" for code, what in validate(name)["errors"]
                  if code not in NOT_ASKED_FOR | more]
    assert seen > 60
    assert not wrong, "\n".join(wrong)
