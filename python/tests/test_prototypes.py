"""Schedules and accountants in Python: only for research, which the outputs say."""

from __future__ import annotations

import math
from typing import Any

import pytest

import privgrad
from privgrad.prototypes import Accountant, Schedule


class WarmUp(Schedule):
    """Rises for some steps."""

    def __init__(self, over: int) -> None:
        self.over = over

    def value(self, step: int, steps: int) -> float:
        """From 1 / over to 1."""
        return min(1.0, (step + 1) / self.over)


class Falling(Schedule):
    """A shape of noise."""

    is_shape = True

    def value(self, step: int, steps: int) -> float:
        """Twice as much noise in the first step as in the last."""
        return 2 - step / (steps - 1)


class PureGaussian(Accountant):
    """zCDP by hand, only for Gaussian events (Bun and Steinke 2016, lemma 3.5)."""

    bound = "upper"

    def _rho(self, event: dict[str, Any]) -> float:
        if event["event"] == "gaussian":
            return 0.5 / event["noise_multiplier"] ** 2
        if event["event"] == "self_composed":
            return event["count"] * self._rho(event["of"])
        return sum(self._rho(part) for part in event["of"])

    def refuses(self, event: dict[str, Any], adjacency: str) -> str | None:
        """Refuses sampled events, for which it has no proof."""
        known = {"gaussian", "self_composed", "composed"}
        return None if event["event"] in known else f"{event['event']} has no proof here"

    def epsilon(self, event: dict[str, Any], adjacency: str, delta: float) -> float:
        """rho + 2 sqrt(rho log(1 / delta))."""
        rho = self._rho(event)
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    def delta(self, event: dict[str, Any], adjacency: str, epsilon: float) -> float:
        """The same, solved for delta."""
        rho = self._rho(event)
        return 1.0 if epsilon <= rho else math.exp(-((epsilon - rho) ** 2) / (4 * rho))


def test_a_schedule_is_a_class(small: dict[str, Any]) -> None:
    small["schedules"]["learning_rate"] = WarmUp(4)
    plan = privgrad.plan(small)
    assert plan.learning_rate[:5] == (0.25, 0.5, 0.75, 1.0, 1.0)
    run = privgrad.run(small)
    assert run.status == "completed"
    (named,) = [p for p in run.statement()["versions"]["plugins"] if p["name"] == "python"]
    assert named["tested"] is False
    assert "name: WarmUp" in run.manifest()
    assert "sha256: " in run.manifest()


def test_a_shape_is_scaled_to_the_budget(small: dict[str, Any]) -> None:
    small["schedules"]["noise_multiplier"] = Falling()
    plan = privgrad.plan(small)
    assert plan.noise_multiplier[0] == pytest.approx(2 * plan.noise_multiplier[-1])
    assert 2.999 < plan.epsilon <= 3


def test_an_accountant_guards_a_budget(small: dict[str, Any]) -> None:
    small["privacy"]["accountant"] = PureGaussian()
    plan = privgrad.plan(small)
    assert plan.epsilon <= 3
    rho = 20 * 0.5 / plan.noise_multiplier[0] ** 2
    assert plan.epsilon == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e5)), rel=1e-12)
    # The framework's own accountant gives a smaller epsilon: the manual conversion is weaker.
    exact = privgrad.account(plan.event, accountant="zcdp", delta=1e-5, adjacency="zero_out")
    assert exact.epsilon < plan.epsilon
    assert privgrad.run(small).epsilon == pytest.approx(plan.epsilon)


def test_what_it_has_no_proof_for_is_refused(small: dict[str, Any]) -> None:
    small["privacy"].update(accountant=PureGaussian(), adjacency="add_or_remove_one")
    small["sampler"] = {"kind": "poisson", "sample_rate": 0.1}
    with pytest.raises(privgrad.PrivacyError, match="poisson_sampled has no proof here"):
        privgrad.plan(small)


def test_an_estimate_guards_nothing(small: dict[str, Any]) -> None:
    class Guess(PureGaussian):
        bound = "estimate"

    small["privacy"]["accountant"] = Guess()
    with pytest.raises(privgrad.PrivacyError):
        privgrad.plan(small)


def test_release_mode_refuses_them_whatever_is_allowed(small: dict[str, Any]) -> None:
    del small["seed"]
    small["mode"] = "release"
    small["schedules"]["learning_rate"] = WarmUp(4)
    with pytest.raises(privgrad.PrivacyError, match="python"):
        privgrad.plan(small)
    small["allow"] = {"plugins": ["0" * 64]}
    with pytest.raises(privgrad.PrivacyError, match="for research mode alone"):
        privgrad.plan(small)


@pytest.mark.parametrize(("value", "says"), [
    (-1.0, "is -1, expected a finite number >= 0"),
    (math.nan, "is nan"),
    ("x", "not a number"),
])
def test_a_value_that_is_none_is_said(small: dict[str, Any], value: Any, says: str) -> None:
    class Broken(Schedule):
        def value(self, step: int, steps: int) -> float:
            return value

    small["schedules"]["learning_rate"] = Broken()
    with pytest.raises(privgrad.PluginError, match=says):
        privgrad.plan(small)


def test_an_exception_of_the_class_is_said(small: dict[str, Any]) -> None:
    class Raises(Schedule):
        def value(self, step: int, steps: int) -> float:
            raise RuntimeError("not today")

    small["schedules"]["learning_rate"] = Raises()
    with pytest.raises(privgrad.PluginError, match="not today"):
        privgrad.run(small)
