"""The event of a run: its cost is the run's epsilon, however the run ended, alone and with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad.sklearn import DPClassifier, DPGridSearch

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")

LABELS = np.random.default_rng(0).integers(0, 2, size=160)
ROWS = np.random.default_rng(1).normal(size=(160, 3)) + np.outer(LABELS, [2, 2, 2])
#: How a run ends, or how its noise changes, and the entries that cause it.
ENDS: dict[str, dict[str, Any]] = {
    "completed": {},
    "stopped_early": {"learning_rate": 1e-9,
                      "manifest": {"report": {"train_accuracy": {"share": 0.2, "every": 2, "patience": 2}}}},
    "diverged": {"model": {"kind": "mlp", "hidden": [8]}, "optimizer": {"kind": "momentum", "beta": 0.9},
                 "learning_rate": 3e38},
    "adapted": {"manifest": {"schedules": {"noise_multiplier": {
        "kind": "descent_check", "loss_bound": 1, "check_noise_multiplier": 60, "initial": 40}}}},
}
ended = pytest.mark.parametrize("how", ENDS)


def classifier(how: str, **changed: Any) -> DPClassifier:
    return DPClassifier(**{"epsilon": 2, "delta": 1e-5, "bounds": (-6, 8), "classes": [0, 1], "steps": 40,
                           "random_state": 2, **ENDS[how], **changed})


def ledger_of(text: str) -> tuple[float, int]:
    """The total of a ledger, and the number of its releases."""
    lines = [json.loads(line) for line in text.splitlines()]
    return lines[-1]["epsilon"], sum(line["type"] == "release" for line in lines)


@ended
def test_the_event_of_a_run_costs_its_epsilon(how: str) -> None:
    fitted = classifier(how).fit(ROWS, LABELS)
    assert fitted.run_.status == ("completed" if how == "adapted" else how)
    said = privgrad.account(fitted.event_, accountant="zcdp", delta=1e-5, adjacency="zero_out")
    assert said.epsilon == pytest.approx(fitted.epsilon_, rel=1e-9)
    assert said.epsilon == pytest.approx(2, rel=1e-6)  # the value for which the noise was found
    assert fitted.run_.json["statement"]["epsilon"] == fitted.epsilon_
    total, releases = ledger_of(fitted.ledger_)
    if how == "completed":
        assert said.epsilon == pytest.approx(total, rel=1e-9)
        assert fitted.run_.json["accounted_event"] is None
    else:
        assert said.epsilon > total
    if how in ("stopped_early", "diverged"):
        assert releases < 40
    assert privgrad.Run.open(fitted.run_.run_dir).event() == fitted.event_ == fitted.run_.event()
    assert fitted.verify()


@pytest.mark.parametrize("mode", ["research", "release"])
@ended
def test_a_search_costs_no_less_than_its_candidates_say(how: str, mode: str) -> None:
    seed = {"random_state": None} if mode == "release" else {}
    for norms in ([1.0], [1.0, 0.5]):
        search = DPGridSearch(classifier(how, mode=mode, **seed), {"clip_norm": norms}, epsilon=2, delta=1e-5,
                              validation=(ROWS[:40], LABELS[:40])).fit(ROWS[40:], LABELS[40:])
        each = search.cv_results_["epsilon"]
        assert search.epsilon_ >= max(each) * (1 - 1e-12)
        assert 2 * 0.97 < search.epsilon_ <= 2
        if len(norms) == 1:
            assert search.epsilon_ == pytest.approx(each[0], rel=1e-9)
        else:
            assert search.epsilon_ > 1.2 * max(each)


def test_a_run_of_an_earlier_version_has_no_event(small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    assert run.event() == privgrad.Run.open("run").event()
    file = Path("run/summary.json")
    summary = json.loads(file.read_text())
    del summary["accounted_event"]
    file.write_text(json.dumps(summary))
    with pytest.raises(privgrad.DataError, match=r"^run/summary.json: has no accounted_event, .* runs of earlier versions"):
        privgrad.Run.open("run").event()


def test_a_run_without_a_ledger_has_no_event(small: dict[str, Any]) -> None:
    small["privacy"]["noise"] = "off"
    with pytest.raises(privgrad.DataError, match="ledger.jsonl: is not there; a federated run has .* without noise none$"):
        privgrad.run(small).event()
