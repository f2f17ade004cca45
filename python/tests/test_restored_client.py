"""A client on another machine that was restored from a snapshot, its ledger with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgrad import federated
from test_federated import manifest_of, orders_of

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")


@pytest.mark.parametrize("noise", [20.0, 0.01], ids=["noise", "batches"])
def test_a_restored_client_answers_another_order_with_other_noise_and_batches(
        small: dict[str, Any], noise: float) -> None:
    # As if the whole machine had been restored: state, ledger and account are older together. The two orders differ by
    # the last bit of one weight, so that with the same noise and the same batches the answers would, too. Noise of 20
    # clip norms hides the batches, and noise of 0.01 shows them.
    privacy = {"target_delta": 1e-4, "adjacency": "add_or_remove_one", "accountant": "rdp"}
    schedules = {"clip_norm": 1, "learning_rate": 0.5, "noise_multiplier": noise}
    manifest = manifest_of(small, privacy=privacy, schedules=schedules)
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
    folders = ["state", f"client-{who}"]
    for folder in folders:
        shutil.copytree(folder, f"older/{folder}")
    changed = bytearray(second)
    changed[-4] ^= 1
    parameters = 4 * 5 + 5 + 5 * 2 + 2

    def answer_to(order: bytes) -> np.ndarray:
        """How far what the client sends is from the model of the order."""
        for folder in folders:
            shutil.rmtree(folder)
            shutil.copytree(f"older/{folder}", folder)
        client = federated.Client(manifest, who, f"client-{who}", data=section, state=Path("state"))
        text = client.answer(order)
        at = text.index(parameters.to_bytes(8, "little")) + 8
        sent = np.frombuffer(text[at:at + 4 * parameters], np.float32)
        return sent.astype(float) - np.frombuffer(order[-4 * parameters:], np.float32)

    one = answer_to(second)
    assert np.array_equal(answer_to(second), one)
    assert np.linalg.norm(answer_to(bytes(changed)) - one) > 0.1 * np.linalg.norm(one)
