"""Runs: the same files as from the command, callbacks, Ctrl-C, resuming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import privgrad


def weights(directory: Path) -> bytes:
    """The tensors of a model file, without its header, which has the date."""
    raw = (directory / "model.safetensors").read_bytes()
    return raw[8 + int.from_bytes(raw[:8], "little") :]


def undated(summary: dict[str, Any]) -> dict[str, Any]:
    """What two equal runs have in common: everything but the time and the place."""
    statement = {k: v for k, v in summary["statement"].items() if k != "date"}
    kept = {k: v for k, v in summary.items() if k not in {"seconds", "run_dir", "date"}}
    return {**kept, "statement": statement}


def test_a_run_is_the_commands_to_the_last_bit(command: Any, small: dict[str, Any]) -> None:
    Path("m.yaml").write_text(privgrad.plan(small).manifest)
    here = privgrad.run("m.yaml", out="here", threads=1)
    there = command("run", "m.yaml", "--out", "there", "--threads", "1", "--json", "--quiet")
    assert undated(here.json) == undated(there)
    assert weights(Path("here")) == weights(Path("there"))
    assert {p.name for p in Path("here").iterdir()} == {p.name for p in Path("there").iterdir()}
    assert (here.status, here.steps, here.mode) == ("completed", 20, "research")


def test_a_run_verifies_in_both(command: Any, small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    here = privgrad.verify(run)
    assert here
    assert here.epsilon == run.epsilon
    there = command("verify", "run", "--json")
    assert vars(here) == {**there, "problems": tuple(there["problems"]), "notes": tuple(there["notes"])}
    assert privgrad.verify(run, data=True)
    with (run.run_dir / "model.safetensors").open("ab") as model:
        model.write(b"x")
    broken = privgrad.verify(run)
    assert not broken
    assert any("model.safetensors" in problem for problem in broken.problems)


def test_a_run_is_signed_and_the_signature_is_asked_for(small: dict[str, Any]) -> None:
    run = privgrad.run(small)
    signed = privgrad.verify(run, sign="me.key", new_key=True)
    assert signed.signature is not None
    assert privgrad.verify(run, trusted="me.key.pub").signature == {
        "public_key": signed.signature["public_key"], "trusted": True,
    }
    other = privgrad.run(small)
    assert not privgrad.verify(other, trusted="me.key.pub")


def test_evaluate_is_the_commands(command: Any, small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    assert privgrad.evaluate(run) == command("evaluate", "run", "--json")
    section = {"kind": "synthetic", "rows": 50, "dimensions": 4, "distance": 4, "test_rows": 30}
    result = privgrad.evaluate("run", section, split="train")
    assert (result["rows"], result["split"], result["private"]) == (50, "train", True)


def test_a_run_is_read_again(small: dict[str, Any]) -> None:
    run = privgrad.run(small, out="run")
    again = privgrad.Run.open("run")
    assert (again.epsilon, again.metrics, again.status) == (run.epsilon, run.metrics, run.status)
    assert run.history()[-1]["step"] == 20
    assert "target_epsilon: 3" in run.manifest()
    assert run.statement()["delta"] == 1e-5
    with pytest.raises(privgrad.DataError, match="nowhere"):
        privgrad.Run.open("nowhere")


def test_callbacks_are_told_on_the_thread_of_the_caller(small: dict[str, Any]) -> None:
    told: list[Any] = []

    class Whole:
        def begin(self) -> None:
            told.append("begin")

        def __call__(self, progress: privgrad.Progress) -> None:
            assert threading.current_thread() is threading.main_thread()
            told.append(progress)

        def end(self, run: privgrad.Run | None) -> None:
            told.append(run)

    steps: list[int] = []
    run = privgrad.run(small, callback=[Whole(), lambda progress: steps.append(progress.step)])
    assert told[0] == "begin"
    assert told[-1] is run
    assert steps == sorted(steps)
    assert steps[-1] == 20
    last = told[-2]
    assert last.epsilon == pytest.approx(run.epsilon)
    assert last.metrics["train_loss"] == run.metrics["train_loss"]


def test_an_exception_of_a_callback_ends_the_run(small: dict[str, Any]) -> None:
    def enough(progress: privgrad.Progress) -> None:
        raise RuntimeError(f"enough at {progress.step}")

    with pytest.raises(RuntimeError, match="enough at "):
        privgrad.run(small, out="run", overrides={"steps": 5000, "evaluate_every": 10},
                     callback=enough)
    resumed = privgrad.run(resume="run")
    assert (resumed.status, resumed.steps) == ("completed", 5000)


def test_the_interpreter_is_free_while_a_run_computes(small: dict[str, Any]) -> None:
    ticks = 0
    over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.001):
            ticks += 1

    ticking = threading.Thread(target=tick)
    ticking.start()
    privgrad.run(small, overrides={"steps": 2000})
    over.set()
    ticking.join()
    assert ticks > 3


INTERRUPTED = """
import os, signal, sys
import privgrad

signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests may ignore it

def stop(progress):
    if progress.step >= 50:
        os.kill(os.getpid(), signal.SIGINT)

try:
    privgrad.run("m.yaml", out="cut", callback=stop)
except privgrad.Interrupted as cut:
    print(cut.run_dir, cut.steps, cut.can_be_resumed)
    print(cut)
    sys.exit(130)
"""


def test_ctrl_c_leaves_a_checkpoint_and_the_run_goes_on(small: dict[str, Any]) -> None:
    small.update(steps=3000, evaluate_every=10)
    Path("m.yaml").write_text(privgrad.plan(small).manifest)
    whole = privgrad.run("m.yaml", out="whole")
    cut = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert cut.returncode == 130, cut.stderr
    directory, steps, resumable = cut.stdout.split("\n")[0].split()
    assert (directory, resumable) == ("cut", "True")
    assert 50 <= int(steps) < 3000
    assert "privgrad.run(resume='cut')" in cut.stdout
    run = privgrad.run(resume="cut")
    assert run.json["resumed_at"] == int(steps)
    assert (run.status, run.steps, run.epsilon) == ("completed", 3000, whole.epsilon)
    assert weights(run.run_dir) == weights(whole.run_dir)
    with pytest.raises(privgrad.ConfigError):
        privgrad.run(resume="cut")


def test_what_does_not_go_together_is_said(small: dict[str, Any]) -> None:
    for arguments, says in [
        ({}, "give a manifest, or resume"),
        ({"manifest": small, "resume": "x"}, "give a manifest, or resume"),
        ({"resume": "x", "out": "y"}, "resume continues"),
        ({"manifest": small, "finish": True}, "finish ends a run that is resumed"),
        ({"manifest": small, "threads": 0}, "threads is 0, allowed is [1, 4096]"),
    ]:
        with pytest.raises(privgrad.ConfigError) as caught:
            privgrad.run(**arguments)  # type: ignore[arg-type]
        assert says in str(caught.value)


def test_a_locked_run_takes_the_plugins_of_the_lock_file(small: dict[str, Any]) -> None:
    first = privgrad.run(small, out="first")
    again = privgrad.run(first.run_dir / "manifest.yaml", locked=first.run_dir / "privgrad.lock")
    assert again.epsilon == first.epsilon
    lock = (first.run_dir / "privgrad.lock").read_text()
    Path("other.lock").write_text(lock.replace('sha256 = "', 'sha256 = "0', 1)[: len(lock)])
    with pytest.raises(privgrad.PrivgradError):
        privgrad.run(small, locked="other.lock")


def test_warnings_say_what_the_command_says(small: dict[str, Any]) -> None:
    small["privacy"]["target_delta"] = 0.5
    with pytest.warns(privgrad.PrivgradWarning, match="delta"):
        privgrad.plan(small)


def test_a_signal_of_another_kind_is_python_s(small: dict[str, Any]) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        run = privgrad.run(
            small, overrides={"steps": 500, "evaluate_every": 10},
            callback=lambda progress: os.kill(os.getpid(), signal.SIGUSR1),
        )
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard
    assert run.status == "completed"
    assert json.loads((run.run_dir / "summary.json").read_text())["steps"] == 500
