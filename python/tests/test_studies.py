"""Predictions, studies and audits: the same as the command's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad


@pytest.fixture
def study(small: dict[str, Any]) -> dict[str, Any]:
    """Two arms, two seeds."""
    base = {k: v for k, v in small.items() if k != "seed"}
    base["data"] = {**base["data"], "test_rows": 100}
    return {
        "study": 1,
        "name": "two-arms",
        "base": base,
        "axes": {"schedules.learning_rate": [0.1, 0.5]},
        "seeds": [1, 2],
        "metrics": ["train_loss"],
    }


def test_predictions_are_the_commands(command: Any, small: dict[str, Any]) -> None:
    privgrad.run(small, out="run")
    here = privgrad.predict("run", split="train")
    there = command("predict", "run", "--split", "train", "--json")
    assert len(here) == there["rows"] == 200
    np.testing.assert_array_equal(here.probabilities, there["probabilities"])
    np.testing.assert_array_equal(here.predicted, there["predictions"])
    assert (list(here.classes), here.private) == (there["classes"], there["private"])
    assert here.values is None


def test_predictions_of_a_regression_are_values(command: Any, small: dict[str, Any]) -> None:
    Path("x.npy").touch()
    rows = np.random.default_rng(3).normal(size=(60, 3)).astype(np.float32)
    np.save("x.npy", rows)
    np.save("y.npy", rows.sum(axis=1))
    small["data"] = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"},
                     "task": "regression"}
    small["model"] = {"kind": "linear", "loss": "squared"}
    privgrad.run(small, out="run")
    here = privgrad.predict("run", split="train")
    there = command("predict", "run", "--split", "train", "--json")
    assert here.predicted is None
    np.testing.assert_array_equal(here.values[:, 0], there["values"])


def test_a_study_is_the_commands(command: Any, study: dict[str, Any]) -> None:
    import json

    Path("study.yaml").write_text(json.dumps(study))
    told: list[dict[str, Any]] = []
    here = privgrad.ablate("study.yaml", out="here", callback=told.append)
    there = command("ablate", "study.yaml", "--out", "there", "--json", "--quiet")
    assert {k: v for k, v in here.json.items() if k != "study_dir"} == {
        k: v for k, v in there.items() if k != "study_dir"
    }
    assert Path("here/results.csv").read_bytes() == Path("there/results.csv").read_bytes()
    assert [arm.runs for arm in here.arms] == [2, 2]
    assert [report["done"] for report in told] == [1, 2, 3, 4]
    assert privgrad.verify("here")


def test_a_study_goes_on_where_it_was_stopped(command: Any, study: dict[str, Any]) -> None:
    def stop(report: dict[str, Any]) -> None:
        if report["done"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privgrad.ablate(study, out="study", callback=stop)
    assert not Path("study/results.json").exists()
    made = sorted(Path("study").rglob("summary.json"))
    assert 2 <= len(made) <= 3
    dates = {file: file.read_bytes() for file in made}
    done = privgrad.ablate(study, out="study")
    assert [arm.runs for arm in done.arms] == [2, 2]
    assert {file: file.read_bytes() for file in made} == dates


def test_an_audit_is_the_commands(command: Any, small: dict[str, Any]) -> None:
    Path("m.yaml").write_text(privgrad.plan(small).manifest)
    here = privgrad.audit("m.yaml", canaries=50)
    there = command("audit", "m.yaml", "--canaries", "50", "--json")
    assert {**here.json, "seconds": 0} == {**there, "seconds": 0}
    assert here.epsilon_upper == pytest.approx(3)
    assert 0 <= here.epsilon_lower <= here.epsilon_upper
    assert not here.contradicts


def test_an_audit_of_a_run_is_left_there(small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    audit = privgrad.audit(run, canaries=50)
    assert Path("run/audit.json").exists()
    assert privgrad.verify(run, audit=True)
    assert audit.confidence == 0.99
    with pytest.raises(privgrad.ConfigError, match="overrides change a manifest"):
        privgrad.audit("run", overrides={"steps": 3})


def test_the_module_is_imported_without_the_heavy_ones() -> None:
    code = "import sys, privgrad; print([m for m in ('numpy', 'pandas', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
