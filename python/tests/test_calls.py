"""Calls that compute without data return what the command prints."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad

SGD = {
    "event": "self_composed",
    "count": 1000,
    "of": {
        "event": "poisson_sampled",
        "sampling_probability": 0.01,
        "of": {"event": "gaussian", "noise_multiplier": 1.0},
    },
}


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_account_is_the_commands(command: Any, accountant: str) -> None:
    here = privgrad.account(SGD, accountant=accountant, delta=1e-5)
    Path("event.json").write_text(json.dumps(SGD))
    there = command("account", "--accountant", accountant, "--event", "event.json",
                    "--delta", "1e-5", "--json")
    assert vars(here) == there


def test_account_of_a_gaussian_is_the_closed_form() -> None:
    # Noise multiplier s is rho-zCDP with rho = 1 / (2 s^2) (Bun and Steinke 2016, proposition 1.6).
    event = {"event": "gaussian", "noise_multiplier": 5.0}
    twice = {"event": "zcdp", "rho": 1 / 50}
    zcdp = {"kind": "zcdp"}
    assert privgrad.account(event, accountant=zcdp, delta=1e-5).epsilon == pytest.approx(
        privgrad.account(json.dumps(twice), accountant="zcdp", delta=1e-5).epsilon, rel=1e-9
    )


def test_account_gives_delta_at_epsilon_and_infinity() -> None:
    event = {"event": "gaussian", "noise_multiplier": 1.1}
    given = privgrad.account(event, accountant="gdp", epsilon=1.0)
    assert 0 < given.delta < 1
    assert given.epsilon == 1.0
    assert math.isinf(privgrad.account({"event": "non_private"}, accountant="pld", delta=1e-5).epsilon)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"delta": 2.0}, "delta is 2, allowed is (0, 1)"),
        ({"epsilon": -1.0}, "epsilon is -1, allowed is [0, "),
        ({}, "give one of delta and epsilon"),
        ({"delta": 1e-5, "epsilon": 1.0}, "give one of delta and epsilon"),
        ({"delta": 1e-5, "adjacency": "both"}, "both"),
    ],
)
def test_account_says_what_is_out_of_range(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(privgrad.ConfigError) as caught:
        privgrad.account(SGD, accountant="rdp", **arguments)
    assert says in str(caught.value)


def test_account_names_the_nearest_accountant() -> None:
    with pytest.raises(privgrad.ConfigError) as caught:
        privgrad.account(SGD, accountant="saddlepoint", delta=1e-5)
    assert caught.value.suggestion == "saddle_point"


def test_an_accountant_without_a_proof_refuses() -> None:
    with pytest.raises(privgrad.PrivacyError, match="zcdp"):
        privgrad.account(SGD, accountant="zcdp", delta=1e-5)


@pytest.mark.parametrize("asked", [{"steps": 500}, {"noise_multiplier": 1.2}])
def test_calibrate_is_the_commands(command: Any, asked: dict[str, Any]) -> None:
    here = privgrad.calibrate(
        accountant="rdp", target_epsilon=2, target_delta=1e-5, sample_rate=0.02, **asked
    )
    (name, value), = asked.items()
    there = command("calibrate", "--accountant", "rdp", "--target-epsilon", "2", "--target-delta",
                    "1e-5", "--sample-rate", "0.02", f"--{name.replace('_', '-')}", str(value),
                    "--json")
    assert vars(here) == there
    assert here.epsilon <= 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"target_epsilon": 0.0}, "target_epsilon is 0, allowed is (0, "),
        ({"target_delta": 1.0}, "target_delta is 1, allowed is (0, 1)"),
        ({"sample_rate": 1.5}, "sample_rate is 1.5, allowed is (0, 1]"),
        ({"sample_rate": math.nan}, "sample_rate is nan"),
        ({"steps": None}, "give one of steps and noise_multiplier"),
        ({"steps": 0}, "steps is 0, allowed is [1, "),
    ],
)
def test_calibrate_says_what_is_out_of_range(changed: dict[str, Any], says: str) -> None:
    call = {"target_epsilon": 2.0, "target_delta": 1e-5, "sample_rate": 0.1, "steps": 10}
    with pytest.raises(privgrad.ConfigError) as caught:
        privgrad.calibrate(accountant="rdp", **{**call, **changed})
    assert says in str(caught.value)


def test_plan_is_the_commands(command: Any, quickstart: Path) -> None:
    here = privgrad.plan(quickstart, overrides={"privacy.target_epsilon": 1.5})
    there = command("plan", quickstart, "--set", "privacy.target_epsilon=1.5", "--json")
    assert here.json == there
    assert here.epsilon <= 1.5
    assert len(here.noise_multiplier) == here.steps == 100
    again = privgrad.account(here.event, accountant="zcdp", delta=here.delta, adjacency="zero_out")
    assert again.epsilon == pytest.approx(here.epsilon, rel=1e-12)


def test_a_manifest_is_a_dict_a_path_or_a_text(small: dict[str, Any]) -> None:
    of_dict = privgrad.plan(small)
    text = of_dict.manifest
    Path("m.yaml").write_text(text)
    assert privgrad.plan(text).json == of_dict.json
    assert privgrad.plan("m.yaml").json == of_dict.json
    assert privgrad.plan(Path("m.yaml")).json == of_dict.json


def test_a_dict_keeps_its_numbers_to_the_last_bit(small: dict[str, Any]) -> None:
    small["privacy"]["target_delta"] = 1.2345678901234567e-07
    small["schedules"]["learning_rate"] = 1e-05
    plan = privgrad.plan(small)
    assert plan.delta == 1.2345678901234567e-07
    assert plan.learning_rate[0] == 1e-05


SHUFFLED = """
privgrad: 1
name: momentum
seed: 1
data: {kind: synthetic, rows: 100, dimensions: 4}
model: {kind: linear}
sampler: {kind: shuffle, batch_size: 5, fresh: false}
aggregator: {kind: tree, momentum: 0.95}
optimizer: {kind: sgd}
schedules: {clip_norm: 2.0, learning_rate: 0.1}
privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: replace_one, accountant: gdp}
steps: 60
"""


def test_noise_of_prefix_sums_grows_with_the_root_of_the_steps() -> None:
    """Independent noise: the sum of t releases has t times the variance of one."""
    answer = privgrad.noise_error(SHUFFLED, momentum=1)
    independent = next(one for one in answer["mechanisms"] if one["name"] == "independent")
    first = 2.0 / 5 * independent["noise_multiplier"]
    assert independent["stddev"] == pytest.approx([first * math.sqrt(t) for t in range(1, 61)], rel=1e-9)


def test_noise_error_of_two_is_the_commands(command: Any, tmp_path: Path) -> None:
    for name, kind in (("tree.yaml", "tree"), ("plain.yaml", "gaussian")):
        text = SHUFFLED if kind == "tree" else SHUFFLED.replace("{kind: tree, momentum: 0.95}", "gaussian")
        (tmp_path / name).write_text(text)
    files = [tmp_path / "tree.yaml", tmp_path / "plain.yaml"]
    asked = command("noise-error", *map(str, files), "--windows", "1,20", "--json")
    assert privgrad.noise_error(*files, windows=[1, 20]) == asked


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"momentum": 0.0}, "momentum is not in"),
        ({"momentum": math.nan}, "momentum is not in"),
        ({"smoothness": -1.0}, "smoothness is not"),
        ({"restart_every": 0}, "restart_every is not"),
        ({"windows": [61]}, "60"),
        ({"windows": []}, "windows is empty"),
        ({"other": SHUFFLED, "samplers": True}, "for one manifest"),
        ({"overrides": ["aggregator=gaussian"]}, "momentum is missing"),
    ],
)
def test_noise_error_says_what_is_out_of_range(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(privgrad.ConfigError, match=says):
        privgrad.noise_error(SHUFFLED, **arguments)


def test_plugins_are_the_commands(command: Any) -> None:
    there = command("plugins", "list", "--json")["plugins"]
    assert [vars(plugin) for plugin in privgrad.plugins()] == there
    assert all(plugin.tested for plugin in privgrad.plugins())
    assert privgrad.describe("optimizer/momentum") == command(
        "plugins", "describe", "optimizer/momentum", "--json"
    )
    assert privgrad.schema() == command("schema")


def test_an_error_has_place_key_and_suggestion(quickstart: Path) -> None:
    text = quickstart.read_text().replace("beta: 0.9", "betta: 0.9")
    line = next(i for i, part in enumerate(text.split("\n"), 1) if "betta" in part)
    Path("wrong.yaml").write_text(text)
    with pytest.raises(privgrad.ManifestError) as caught:
        privgrad.validate("wrong.yaml")
    problem = caught.value.problems[0]
    assert problem.place == f"wrong.yaml:{line}:{problem.column}"
    assert (problem.key, problem.suggestion) == ("optimizer.betta", "beta")
    assert caught.value.place == problem.place


def test_all_problems_of_a_dict_are_told_by_key(small: dict[str, Any]) -> None:
    small["optimizer"] = {"kind": "sgd", "speed": 3}
    small["privacy"]["target_delta"] = 2
    with pytest.raises(privgrad.ManifestError) as caught:
        privgrad.validate(small)
    assert {p.key for p in caught.value.problems} == {"optimizer.speed", "privacy.target_delta"}
    assert caught.value.place is None
    assert "<dict>" not in str(caught.value)


def test_what_is_refused_for_privacy_is_no_manifest_error(small: dict[str, Any]) -> None:
    with pytest.raises(privgrad.PrivacyError):
        privgrad.plan(small, overrides={"mode": "release"})


def test_a_missing_file_is_a_data_error(small: dict[str, Any]) -> None:
    small["data"] = {"kind": "csv", "train": "nowhere.csv", "target": "y"}
    with pytest.raises(privgrad.DataError, match=r"nowhere\.csv"):
        privgrad.validate(small)
    with pytest.raises(privgrad.DataError, match=r"missing\.yaml"):
        privgrad.plan("missing.yaml")


def test_errors_survive_pickling(small: dict[str, Any]) -> None:
    import pickle

    with pytest.raises(privgrad.ManifestError) as caught:
        privgrad.validate(small, overrides={"steps": -1})
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is privgrad.ManifestError
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


def test_without_an_accountant_the_least_proved_answer_counts() -> None:
    event = {"event": "self_composed", "count": 100, "of": {
        "event": "poisson_sampled", "sampling_probability": 0.01, "of": {"event": "gaussian", "noise_multiplier": 1.0}}}
    best = privgrad.account(event, delta=1e-5)
    assert best == privgrad.account(event, accountant="pld", delta=1e-5)
    assert best.epsilon < privgrad.account(event, accountant="rdp", delta=1e-5).epsilon
    asked = {"target_epsilon": 2, "target_delta": 1e-5, "sample_rate": 0.01, "steps": 100}
    assert privgrad.calibrate(**asked) == privgrad.calibrate(accountant="pld", **asked)
    with pytest.raises(privgrad.PrivacyError, match="no accountant has a proof"):
        privgrad.account({"event": "poisson_sampled", "sampling_probability": 0.1, "of": {"event": "zcdp", "rho": 0.1}},
                         delta=1e-5)


#: Values that an argument may be given by mistake.
ODD = ["x", "", math.inf, math.nan, -1, 0, 10**400, 1j, object(), [], {}, {"kind": 3}, (1,), b"x", np.array([[1.0]]), 3.5, True, None]


def test_whatever_an_argument_is_an_error_is_one_of_ours(small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    rows, labels = np.zeros((4, 4), dtype=np.float32), [0, 1, 0, 1]
    calls: dict[Any, dict[str, Any]] = {
        privgrad.account: {"event": {"event": "gaussian", "noise_multiplier": 5.0}, "delta": 1e-5},
        privgrad.calibrate: {"target_epsilon": 1, "target_delta": 1e-5, "sample_rate": 0.1, "steps": 10, "accountant": "zcdp"},
        privgrad.plan: {"manifest": small}, privgrad.validate: {"manifest": small}, privgrad.predict: {"model": run, "data": rows},
        privgrad.evaluate: {"model": run, "data": (rows, labels)}, privgrad.verify: {"directory": run}, privgrad.describe: {"component": "sgd"},
        privgrad.schema: {}, privgrad.plugins: {}, privgrad.suggest: {"rows": (rows, labels)}, privgrad.run: {"manifest": small},
    }
    raw = []
    for call, arguments in calls.items():
        for name in inspect.signature(call).parameters:
            for place, odd in enumerate(ODD if name not in ("section", "callback") else ()):
                given = {**({"out": f"{name}-{place}"} if call is privgrad.run else {}), **arguments, name: odd}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        call(**given)
                    except privgrad.PrivgradError:
                        pass
                    except Exception as problem:
                        raw.append((call.__name__, name, odd, problem))
    assert raw == []


def test_an_argument_of_another_type_is_named() -> None:
    with pytest.raises(privgrad.ConfigError, match="^delta: is of type str, expected a number or None$"):
        privgrad.account({"event": "gaussian", "noise_multiplier": 5.0}, delta="1e-5")  # type: ignore[arg-type]
    with pytest.raises(privgrad.ConfigError, match="^plugin_dirs: is of type str, expected a list of paths$"):
        privgrad.plugins(plugin_dirs="plugins")
