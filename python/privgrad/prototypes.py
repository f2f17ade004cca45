"""Schedules and accountants as classes in Python, to try an idea before it becomes a plugin.

They only work in research mode: release mode refuses them, and every statement names the plugin
``python`` as untested. Put an object into a manifest instead of a component::

    class WarmUp(Schedule):
        def value(self, step, steps):
            return min(1.0, (step + 1) / 10)

    manifest["schedules"]["learning_rate"] = WarmUp()

A run with a prototype cannot be resumed, and the command ``privgrad verify`` cannot repeat its
derivation, because the class only exists in this process.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from typing import Any

from .errors import ConfigError

__all__ = ["Accountant", "Schedule"]

_registered: dict[tuple[str, str], Any] = {}


def _find(kind: str, name: str) -> Any:
    try:
        return _registered[kind, name]
    except KeyError:
        raise ConfigError(f"there is no {kind} '{name}' in this process") from None


class _Prototype(ABC):
    _kind = ""

    def component(self) -> dict[str, str]:
        """Register the object under the name of its class, and return how a manifest names it.

        Returns
        -------
        dict
        """
        name = type(self).__name__
        known = _registered.get((self._kind, name))
        number = 2
        while known is not None and known is not self:
            name = f"{type(self).__name__}-{number}"
            known = _registered.get((self._kind, name))
            number += 1
        _registered[self._kind, name] = self
        return {"kind": "python:python", "name": name, "sha256": _source_hash(type(self))}


def _source_hash(kind: type) -> str:
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):  # defined in an interactive interpreter
        return ""
    return hashlib.sha256(source.encode()).hexdigest()


class Schedule(_Prototype):
    """The value of a hyper-parameter over training: a pure function of the plan.

    Attributes
    ----------
    is_shape : bool
        Whether only the ratios of the values matter (for noise multipliers): the core then finds
        the scale that meets the budget.
    """

    _kind = "schedule"
    is_shape = False

    @abstractmethod
    def value(self, step: int, steps: int) -> float:
        """Return the value of a step.

        Parameters
        ----------
        step : int
            From 0.
        steps : int
            Number of planned steps.

        Returns
        -------
        float
            Finite and not negative (of a shape: positive), the same on every call.
        """


class Accountant(_Prototype):
    """The cost of events.

    Attributes
    ----------
    bound : str
        ``"upper"`` if every answer is proved to be no smaller than the truth; ``"estimate"`` cannot
        guard a budget.
    """

    _kind = "accountant"
    bound = "estimate"

    def refuses(self, event: dict[str, Any], adjacency: str) -> str | None:
        """Return why nothing is proved about an event; None if there is a proof.

        Parameters
        ----------
        event : dict
        adjacency : str

        Returns
        -------
        str or None
        """
        return None

    @abstractmethod
    def epsilon(self, event: dict[str, Any], adjacency: str, delta: float) -> float:
        """Return the smallest epsilon that can be proved.

        Parameters
        ----------
        event : dict
            All that was composed.
        adjacency : str
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Infinite if no finite value can be proved.
        """

    @abstractmethod
    def delta(self, event: dict[str, Any], adjacency: str, epsilon: float) -> float:
        """Return the smallest delta that can be proved.

        Parameters
        ----------
        event : dict
            All that was composed.
        adjacency : str
        epsilon : float
            At least 0.

        Returns
        -------
        float
            At most 1.
        """

    def _refuses(self, event: str, adjacency: str) -> str | None:
        return self.refuses(json.loads(event), adjacency)

    def _epsilon(self, event: str, adjacency: str, delta: float) -> float:
        return float(self.epsilon(json.loads(event), adjacency, delta))

    def _delta(self, event: str, adjacency: str, epsilon: float) -> float:
        return float(self.delta(json.loads(event), adjacency, epsilon))
