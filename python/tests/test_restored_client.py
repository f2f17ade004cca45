"""A client on another machine, restored from a snapshot together with its ledger."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgrad import federated
from test_federated import manifest_of, orders_of

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")


def client_after_a_round(small: dict[str, Any], privacy: dict[str, Any],
                         noise: Any) -> tuple[dict[str, Any], dict[str, Any], int, bytes]:
    """A client that has answered one order, and a copy of all its files in ``older``.

    Returns:
        The manifest, the client's data, its number, and an order for its next round.
    """
    manifest = manifest_of(small, privacy={"target_delta": 1e-4, "adjacency": "add_or_remove_one", **privacy},
                           schedules={"clip_norm": 1, "learning_rate": 0.5, "noise_multiplier": noise})
    del manifest["seed"]
    manifest["data"] = {**manifest["data"], "size": 200}
    partition = {"kind": "by_column", "column": 0, "values": [0, 1, 2, 3]}
    manifest["federated"] |= {"partition": partition, "shards": "given", "sizes": [50] * 4}
    rows = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    np.save("x.npy", rows)
    np.save("y.npy", (rows[:, 0] > 0).astype(np.float32))
    section = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2}
    clients = [federated.Client(manifest, i, f"client-{i}", data=section, state=Path("state")) for i in range(4)]
    rounds = orders_of(manifest, clients)
    (who, first), (_, second) = rounds[0][0], rounds[1][0]
    clients[who].answer(first)
    clients.clear()
    for folder in ["state", f"client-{who}"]:
        shutil.copytree(folder, f"older/{folder}")
    return manifest, section, who, second


def restore(who: int) -> None:
    """Restores the whole machine: state, ledger and account are all older."""
    for folder in ["state", f"client-{who}"]:
        shutil.rmtree(folder)
        shutil.copytree(f"older/{folder}", folder)


@pytest.mark.parametrize("noise", [20.0, 0.01], ids=["noise", "batches"])
def test_a_restored_client_answers_another_order_with_other_noise_and_batches(
        small: dict[str, Any], noise: float) -> None:
    # The two orders differ in the last bit of one weight, so with the same noise and batches the
    # answers would differ only in that. Noise of 20 clip norms hides the batches; noise of 0.01
    # reveals them.
    manifest, section, who, second = client_after_a_round(small, {"accountant": "rdp"}, noise)
    changed = bytearray(second)
    changed[-4] ^= 1
    parameters = 4 * 5 + 5 + 5 * 2 + 2

    def answer_to(order: bytes) -> np.ndarray:
        """The distance of the client's answer from the model of the order."""
        restore(who)
        client = federated.Client(manifest, who, f"client-{who}", data=section, state=Path("state"))
        text = client.answer(order)
        at = text.index(parameters.to_bytes(8, "little")) + 8
        sent = np.frombuffer(text[at:at + 4 * parameters], np.float32)
        return sent.astype(float) - np.frombuffer(order[-4 * parameters:], np.float32)

    one = answer_to(second)
    assert np.array_equal(answer_to(second), one)
    assert np.linalg.norm(answer_to(bytes(changed)) - one) > 0.1 * np.linalg.norm(one)


ANSWER = """
import json, pathlib, sys
from privgrad import federated
manifest, section, who = json.loads(pathlib.Path("call.json").read_text())
client = federated.Client(manifest, who, f"client-{who}", data=section, state=pathlib.Path("state"))
pathlib.Path("answer").write_bytes(client.answer(pathlib.Path("order").read_bytes()))
"""


def test_a_client_goes_on_on_a_processor_that_rounds_otherwise(small: dict[str, Any]) -> None:
    # The C library treats the other processor as one that cannot multiply and add in one
    # instruction, so exp, log and pow have other last digits, and the search for a scale ends at
    # another number.
    manifest, section, who, second = client_after_a_round(
        small, {"target_epsilon": 2, "accountant": "pld"}, "uniform")
    Path("call.json").write_text(json.dumps([manifest, section, who]))
    Path("order").write_bytes(second)

    def answer(environment: dict[str, str]) -> bytes:
        restore(who)
        subprocess.run([sys.executable, "-W", "ignore", "-c", ANSWER], env=os.environ | environment, check=True,
                       timeout=120)
        return Path("answer").read_bytes()

    assert answer({"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2"}) == answer({})
