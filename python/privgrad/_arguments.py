"""Checks the types of arguments, because errors of the compiled code do not name the argument."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from .errors import ConfigError

__all__ = ["checked"]

P = ParamSpec("P")
R = TypeVar("R")


def _is_real(value: Any) -> bool:
    try:
        return isinstance(value, numbers.Real) and isinstance(float(value), float)
    except OverflowError:
        return False


def _are(kind: type | tuple[type, ...]) -> Callable[[Any], bool]:
    """Whether a value is a list of such values. A text does not count as a list of texts."""
    return lambda value: (isinstance(value, Iterable) and not isinstance(value, (str, bytes))
                          and (not hasattr(value, "__len__") or all(isinstance(one, kind) for one in value)))


_PATH = (str, os.PathLike)
#: By the type in a signature: its name in messages, and whether a value has the type.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number of 0 or more", lambda value: isinstance(value, numbers.Integral) and 0 <= int(value) < 2**63),
    "float": ("a number", _is_real),
    "str": ("a text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, _PATH)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, _PATH)),
    "Run": ("a run", lambda value: hasattr(value, "run_dir")),
    "Overrides": ("a dict or a list of texts", lambda value: isinstance(value, Mapping) or _are(object)(value)),
    "Iterable[str]": ("a list of texts", _are(str)),
    "Iterable[Path]": ("a list of paths", _are(_PATH)),
    "Mapping[str, Any]": ("a dict", lambda value: isinstance(value, Mapping)),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a call against the types of its signature, if these are plain types."""
    signature = inspect.signature(function)
    plain = {name: kinds for name, parameter in signature.parameters.items()
             if set(kinds := str(parameter.annotation).split(" | ")) <= set(_KINDS)}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            kinds = [_KINDS[kind] for kind in plain.get(name, ())]
            if kinds and not any(is_one(value) for _, is_one in kinds):
                expected = " or ".join(what for what, _ in kinds)
                said = value if _is_real(value) and abs(value) < 2**63 else f"of type {type(value).__name__}"
                raise ConfigError(f"{name}: is {said}, expected {expected}")
        return function(*args, **kwargs)

    return call
