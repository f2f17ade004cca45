"""Predictions, studies and audits: the same results as from the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad.prototypes import Schedule


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


def test_arrays_are_predicted_as_the_files_of_a_run(small: dict[str, Any]) -> None:
    rows = np.random.default_rng(3).normal(size=(60, 3)).astype(np.float32)
    targets = np.arange(60) % 3
    np.save("x.npy", rows)
    np.save("y.npy", targets.astype(np.float32))
    files = {"features": "x.npy", "targets": "y.npy"}
    for name, task in (("classes", {"classes": 4}), ("reals", {"task": "regression"})):
        small["data"] = {"kind": "npy", "train": files, **task}
        small["model"] = {"kind": "linear", "loss": "squared" if name == "reals" else "cross_entropy"}
        run = privgrad.run(small, out=name)
        whole, lent = privgrad.predict(run, split="train"), privgrad.predict(run, rows)
        assert lent.classes == whole.classes
        kept = "values" if name == "reals" else "probabilities"
        np.testing.assert_array_equal(getattr(lent, kept), getattr(whole, kept))
        assert (privgrad.evaluate(run, (rows, targets))["loss"]
                == privgrad.evaluate(run, split="train")["loss"])


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


def weights_of(file: Path) -> bytes:
    raw = file.read_bytes()
    return raw[8 + int.from_bytes(raw[:8], "little") :]


def without_time(directory: str) -> dict[str, bytes]:
    """The results of a study, without its date and duration."""
    return {
        str(file.relative_to(directory)): (
            weights_of(file) if file.suffix == ".safetensors" else file.read_bytes())
        for file in sorted(Path(directory).rglob("*"))
        if file.name in ("results.csv", "model.safetensors", "metrics.jsonl", "manifest.yaml",
                         "plan.json")
    }


@pytest.mark.parametrize("shares", [{"jobs": 1}, {"jobs": 4}, {"jobs": 3, "threads": 2}, {"threads": 9}])
def test_a_study_is_the_same_however_it_is_shared_out(
    study: dict[str, Any], shares: dict[str, int]
) -> None:
    privgrad.ablate(study, out="alone", jobs=1, threads=1)
    privgrad.ablate(study, out="shared", **shares)
    assert len(without_time("alone")) > 12
    assert without_time("shared") == without_time("alone")


@pytest.mark.parametrize("jobs", [1, 2])
def test_as_many_runs_are_made_at_a_time_as_jobs(study: dict[str, Any], jobs: int) -> None:
    makers = set()

    class Slow(Schedule):
        def value(self, step: int, steps: int) -> float:
            if step == 0:
                makers.add(threading.get_ident())
                time.sleep(0.2)  # so that a single thread cannot take all runs
            return 0.25

    study["base"]["schedules"] = {**study["base"]["schedules"], "learning_rate": Slow()}
    study["axes"] = {"steps": [20, 30]}
    privgrad.ablate(study, jobs=jobs)
    assert len(makers) == jobs


def test_a_study_is_planned_as_the_command_does(command: Any, study: dict[str, Any]) -> None:
    Path("study.yaml").write_text(json.dumps(study))
    here = privgrad.plan_study("study.yaml")
    there = command("ablate", "study.yaml", "--dry-run", "--json", "--quiet")
    for planned in (here, there):
        for arm in planned["arms"]:
            assert arm.pop("estimated_seconds") > 0
    assert here == there
    assert not Path("studies").exists()


@pytest.mark.parametrize("number", [0, 4097])
def test_jobs_and_threads_have_bounds(study: dict[str, Any], number: int) -> None:
    for share in ("jobs", "threads"):
        with pytest.raises(privgrad.ConfigError, match=rf"{share} is {number}, allowed is \[1, 4096\]"):
            privgrad.ablate(study, **{share: number})


def frozen(study: dict[str, Any]) -> dict[str, Any]:
    """A study of the last layer of a network whose first layer is frozen: its outputs are stored."""
    privgrad.run({**study["base"], "seed": 9, "model": NETWORK}, out="before")
    base = {**study["base"], "model": {**NETWORK, "train": ["last"], "weights": {
        "file": str(Path("before/model.safetensors").absolute()), "public": True}}}
    return {**study, "base": base}


NETWORK = {"kind": "mlp", "hidden": [5], "loss": "cross_entropy"}


@pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")
def test_what_frozen_layers_make_is_kept(study: dict[str, Any]) -> None:
    study = frozen(study)
    run = {**study["base"], "seed": 1}
    without = privgrad.run(run, out="without")
    with pytest.warns(privgrad.PrivgradWarning, match="kept"):
        first = privgrad.run(run, out="first", cache="kept")
    files = {file: file.stat().st_mtime_ns for file in Path("kept").glob("*.features")}
    assert files
    with pytest.warns(privgrad.PrivgradWarning, match="kept"):
        second = privgrad.run(run, out="second", cache="kept")
    made = [weights_of(one.run_dir / "model.safetensors") for one in (without, first, second)]
    assert made[0] == made[1] == made[2]
    with pytest.warns(privgrad.PrivgradWarning, match="are kept in .*shared, as private as the data"):
        privgrad.ablate(study, out="study", cache="shared")
    # All runs have the same frozen layers and the same rows, so there is one file per split.
    assert {file.name for file in Path("shared").glob("*.features")} == {file.name for file in files}
    privgrad.ablate(study, out="plain")
    assert without_time("study") == without_time("plain")


def test_rows_that_are_streamed_are_kept(small: dict[str, Any]) -> None:
    rows = np.random.default_rng(3).normal(size=(60, 3)).astype(np.float32)
    np.save("x.npy", rows)
    np.save("y.npy", (rows.sum(axis=1) > 0).astype(np.float32))
    small["data"] = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2,
                     "streaming": True}
    with pytest.warns(privgrad.PrivgradWarning):
        privgrad.plan(small, cache="kept")
    files = {file.name for file in Path("kept").iterdir()}
    assert files
    with pytest.warns(privgrad.PrivgradWarning):
        kept = privgrad.run(small, out="run", cache="kept")
    assert {file.name for file in Path("kept").iterdir()} == files
    del small["data"]["streaming"]
    assert weights_of(kept.run_dir / "model.safetensors") == weights_of(
        privgrad.run(small, out="in-memory").run_dir / "model.safetensors")


def test_a_cache_with_nothing_to_keep_says_so(small: dict[str, Any], study: dict[str, Any]) -> None:
    with pytest.warns(privgrad.PrivgradWarning, match="this manifest has neither"):
        privgrad.run(small, cache="kept")
    with pytest.warns(privgrad.PrivgradWarning, match="no arm has either"):
        privgrad.ablate(study, cache="kept")
    assert not list(Path("kept").iterdir())


def test_the_users_own_cache_is_the_commands(
    command: Any, study: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("own").absolute()))
    with pytest.warns(privgrad.PrivgradWarning, match="own/privgrad/features"):
        privgrad.run({**frozen(study)["base"], "seed": 1}, cache=True)
    assert len(command("cache", "list", "--json")["features"]) > 0


def test_several_processes_are_for_the_command(small: dict[str, Any]) -> None:
    for call, words in [
        (lambda: privgrad.run(small, cluster="mpi"), "mpirun -np N privgrad run MANIFEST --cluster mpi"),
        (lambda: privgrad.run(resume="runs/x", cluster={"kind": "mpi"}), "privgrad run --resume DIR"),
    ]:
        with pytest.raises(privgrad.ConfigError, match=words):
            call()
    assert privgrad.run(small, cluster="local").status == "completed"


def test_a_process_of_several_does_not_make_the_run_of_all(small: dict[str, Any]) -> None:
    plugin = os.environ.get("PRIVGRAD_TEST_MPI")
    if not plugin or shutil.which("mpirun") is None:
        pytest.skip("there is no MPI, or its plugin was not built")
    Path("run.py").write_text(
        "import privgrad\n"
        f"m = {{**{small!r}, 'cluster': 'mpi'}}\n"
        f"dirs = [{plugin!r}]\n"
        "try:\n"
        "    privgrad.run(m, plugin_dirs=dirs)\n"
        "except privgrad.ConfigError as error:\n"
        "    print(error)\n"
        "print(privgrad.run(m, plugin_dirs=dirs, cluster='local').status)\n")
    done = subprocess.run(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, "run.py"],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
    assert done.stdout.count("mpirun -np 2 privgrad run MANIFEST, or say cluster=") == 2, done
    assert done.stdout.count("completed") == 2, done


def test_a_study_goes_on_where_it_was_stopped(command: Any, study: dict[str, Any]) -> None:
    def stop(report: dict[str, Any]) -> None:
        if report["done"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privgrad.ablate(study, out="study", jobs=1, callback=stop)
    assert not Path("study/results.json").exists()
    made = sorted(Path("study").rglob("summary.json"))
    assert 2 <= len(made) <= 3
    dates = {file: file.read_bytes() for file in made}
    done = privgrad.ablate(study, out="study")
    assert [arm.runs for arm in done.arms] == [2, 2]
    assert {file: file.read_bytes() for file in made} == dates


def test_a_run_that_cannot_go_on_begins_anew(command: Any, study: dict[str, Any]) -> None:
    study["base"] |= {
        "sampler": {"kind": "shuffle", "batch_size": 1, "fresh": False},
        "aggregator": {"kind": "tree", "momentum": 0.9, "arithmetic": "float"},
        "steps": 5000}
    study["base"]["privacy"]["accountant"] = "gdp"
    Path("study.yaml").write_text(json.dumps(study))
    call = subprocess.Popen([command.program, "ablate", "study.yaml", "--out", "study", "--jobs", "1"])
    ledger = Path("study/runs/0.1/seed-1/ledger.jsonl")
    while not ledger.exists() or ledger.stat().st_size < 100_000:
        assert call.poll() is None
        time.sleep(0.01)
    call.kill()
    call.wait()
    assert not Path("study/runs/0.1/seed-1/summary.json").exists()
    done = privgrad.ablate("study.yaml", out="study")
    assert [arm.runs for arm in done.arms] == [2, 2]


def test_an_audit_is_the_commands(command: Any, small: dict[str, Any]) -> None:
    Path("m.yaml").write_text(privgrad.plan(small).manifest)
    here = privgrad.audit("m.yaml", canaries=50)
    there = command("audit", "m.yaml", "--canaries", "50", "--json")
    assert {**here.json, "seconds": 0} == {**there, "seconds": 0}
    assert here.epsilon_upper == pytest.approx(3)
    assert 0 <= here.epsilon_lower <= here.epsilon_upper
    assert not here.contradicts


def test_the_exposure_of_a_language_model_is_the_commands(command: Any) -> None:
    np = pytest.importorskip("numpy")
    np.save("x.npy", np.random.default_rng(1).integers(0, 9, (60, 6)).astype(np.float32))
    manifest = {
        "privgrad": 1, "seed": 1, "data": {"kind": "npy", "train": {"features": "x.npy"}},
        "model": {"kind": "transformer", "preset": "decoder", "loss": "next_token", "vocabulary": 9,
                  "layers": 1, "width": 4, "heads": 2},
        "sampler": "full_batch", "optimizer": "sgd",
        "schedules": {"clip_norm": 1, "learning_rate": 0.1, "noise_multiplier": 4},
        "privacy": {"target_delta": 1e-5, "adjacency": "zero_out", "accountant": "zcdp"},
        "steps": 2}
    Path("m.yaml").write_text(json.dumps(manifest))
    here = privgrad.audit(manifest, canaries=20, exposure=True)
    there = command("audit", "m.yaml", "--canaries", "20", "--exposure", "--json")
    assert {**here.json, "seconds": 0} == {**there, "seconds": 0}
    assert 0 < here.json["exposure"]["mean_bits"] < here.json["exposure"]["most_bits"]
    assert "exposure" not in privgrad.audit(manifest, canaries=20).json
    with pytest.raises(privgrad.ConfigError, match="is measured in one run"):
        privgrad.audit(manifest, runs=3, exposure=True)
    with pytest.raises(privgrad.ConfigError, match="is measured only for a manifest"):
        privgrad.audit(privgrad.run(manifest, out="run"), exposure=True)


def test_an_audit_of_a_run_is_left_there(small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    audit = privgrad.audit(run, canaries=50)
    assert Path("run/audit.json").exists()
    assert privgrad.verify(run, audit=True)
    assert audit.confidence == 0.99
    with pytest.raises(privgrad.ConfigError, match="overrides cannot change the manifest of a run"):
        privgrad.audit("run", overrides={"steps": 3})


def test_the_module_is_imported_without_the_heavy_ones() -> None:
    code = "import sys, privgrad; print([m for m in ('numpy', 'pandas', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          timeout=120)
    assert done.stdout.strip() == "[]"


def test_runs_and_studies_are_frames(study: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    made = privgrad.ablate(study, out="framed")
    frame = made.frame()
    assert list(frame["arm"]) == ["0.1", "0.1", "0.5", "0.5"]
    assert list(frame["seed"]) == [1, 2, 1, 2]
    means = frame.groupby("arm")["train_loss"].mean()
    for arm in made.arms:
        assert means[arm.name] == pytest.approx(arm.metrics["train_loss"]["mean"], rel=1e-12)
    run = privgrad.Run.open(made.study_dir / "runs/0.1/seed-1")
    assert list(run.frame()["step"]) == [line["step"] for line in run.history()]
