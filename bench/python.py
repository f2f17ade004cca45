#!/usr/bin/env python3
"""The Python package: compares calls with dp_accounting's, a run with the command's, and times the import.

    pip install . dp-accounting
    bench/python.py [--rounds 5] [--steps 400]

Times are processor times; both sides alternate in rounds, and the fastest of each counts. Calls of
dp_accounting are those of its documentation: an accountant with its defaults, compose(),
get_epsilon(), and calibrate_dp_mechanism(). A run is made by a separate process, on one thread: its
whole processor time is reported, including the start of the interpreter and the loading of plugins,
and also the training loop alone, by its own clock. Prints one JSON document; every number of
seconds comes with epsilon, which shows whether both answered the same question.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import dp_accounting
import privgrad
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from privgrad._framework import HOME

DELTA = 1e-5
SETTINGS = [(0.01, 1.0, 1000), (256 / 60000, 1.1, 14063), (0.001, 0.8, 100_000)]
THEIRS = {"rdp": RdpAccountant, "pld": PLDAccountant}


def fastest(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, Any]]:
    """Processor seconds and results of calls; each call is first made once without measuring."""
    found = {name: (float("inf"), call()) for name, call in calls.items()}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            answer = call()
            found[name] = (min(found[name][0], time.process_time() - begin), answer)
    return found


def beside(ours: tuple[float, Any], theirs: tuple[float, Any]) -> dict[str, Any]:
    """One row of the result."""
    return {"privgrad": {"seconds": ours[0], "answer": ours[1]},
            "dp_accounting": {"seconds": theirs[0], "answer": theirs[1]},
            "times_as_fast": theirs[0] / ours[0]}


def account(name: str, q: float, sigma: float, steps: int, rounds: int) -> dict[str, Any]:
    """Epsilon of DP-SGD."""
    event = {"event": "self_composed", "count": steps, "of": {
        "event": "poisson_sampled", "sampling_probability": q,
        "of": {"event": "gaussian", "noise_multiplier": sigma}}}

    def theirs() -> float:
        sampled = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
        return THEIRS[name]().compose(sampled, steps).get_epsilon(DELTA)

    found = fastest({
        "ours": lambda: privgrad.account(event, accountant=name, delta=DELTA).epsilon,
        "theirs": theirs,
    }, rounds)
    return {"accountant": name, "q": q, "sigma": sigma, "steps": steps,
            **beside(found["ours"], found["theirs"])}


def calibrate(name: str, q: float, steps: int, rounds: int) -> dict[str, Any]:
    """Noise of DP-SGD for epsilon 2."""

    def theirs() -> float:
        return dp_accounting.calibrate_dp_mechanism(
            THEIRS[name],
            lambda sigma: dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma)), steps),
            2.0, DELTA)

    found = fastest({
        "ours": lambda: privgrad.calibrate(accountant=name, target_epsilon=2, target_delta=DELTA,
                                           sample_rate=q, steps=steps).noise_multiplier,
        "theirs": theirs,
    }, rounds)
    return {"accountant": name, "q": q, "steps": steps, "target_epsilon": 2,
            **beside(found["ours"], found["theirs"])}


def manifest(steps: int) -> dict[str, Any]:
    """A run of some seconds."""
    return {
        "privgrad": 1,
        "data": {"kind": "synthetic", "rows": 20000, "dimensions": 400, "test_rows": 1000},
        "model": {"kind": "mlp", "hidden": [256], "loss": "cross_entropy"},
        "sampler": {"kind": "poisson", "batch_size": 256},
        "optimizer": "sgd",
        "schedules": {"clip_norm": 1, "learning_rate": 0.1, "noise_multiplier": 1.1},
        "privacy": {"target_delta": DELTA, "adjacency": "add_or_remove_one", "accountant": "rdp"},
        "steps": steps, "seed": 1, "evaluate_every": steps, "checkpoint": "off",
    }


IN_PYTHON = """
import sys, json, privgrad
print(json.dumps(privgrad.run(sys.argv[1], out=sys.argv[2], threads=1).seconds))
"""


def timed(words: list[str], folder: str) -> tuple[float, str]:
    """Processor seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout)


def runs(steps: int, rounds: int) -> dict[str, Any]:
    """The same run by the command and by the package."""
    whole = {"command": float("inf"), "python": float("inf")}
    loop = dict(whole)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "m.yaml")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(manifest(steps), out)
        for i in range(rounds):
            seconds, said = timed([str(HOME / "bin" / "privgrad"), "run", file, "--out", f"c{i}",
                                   "--threads", "1", "--quiet", "--json"], folder)
            whole["command"] = min(whole["command"], seconds)
            loop["command"] = min(loop["command"], json.loads(said)["seconds"])
            seconds, said = timed([sys.executable, "-W", "ignore", "-c", IN_PYTHON, file, f"p{i}"],
                                  folder)
            whole["python"] = min(whole["python"], seconds)
            loop["python"] = min(loop["python"], json.loads(said))
    return {"steps": steps,
            "process_seconds": {**whole, "slower": whole["python"] / whole["command"] - 1},
            "loop_seconds": {**loop, "slower": loop["python"] / loop["command"] - 1}}


def import_seconds(rounds: int) -> float:
    """What `import privgrad` adds to an interpreter that does nothing."""
    best = {}
    for code in ("pass", "import privgrad"):
        best[code] = min(timed([sys.executable, "-c", code], ".")[0] for _ in range(3 * rounds))
    return best["import privgrad"] - best["pass"]


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    result = {
        "dp_accounting": dp_accounting.__version__ if hasattr(dp_accounting, "__version__") else "",
        "privgrad": privgrad.__version__,
        "import_seconds": import_seconds(given.rounds),
        "account": [account(name, *setting, given.rounds)
                    for name in THEIRS for setting in SETTINGS],
        "calibrate": [calibrate(name, 0.01, 1000, given.rounds) for name in THEIRS],
        "run": runs(given.steps, given.rounds),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
