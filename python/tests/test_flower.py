"""Over Flower: a SuperLink and SuperNodes in processes of their own, with TLS and known keys.

PRIVGRAD_TEST_LONG=1 makes 100 rounds, elsewhere a few: each message to a client starts a process. A
client that dies is waited for until its answer is late, which takes minutes: with PRIVGRAD_TEST_LONG
alone. (test_federated.py kills clients in every run.)
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import privgrad

pytest.importorskip("flwr", reason="Flower is not installed")

from flower_federation import Federation
from test_federated import manifest_of, releases, weights

ROUNDS = 100 if "PRIVGRAD_TEST_LONG" in os.environ else 3


def wait_for_round(out: Path, rounds: int, federation: Federation) -> None:
    file = out / "rounds.jsonl"
    deadline = time.monotonic() + 300
    while not (file.exists() and len(file.read_text().splitlines()) >= rounds):
        assert time.monotonic() < deadline, federation.logs()
        time.sleep(0.2)


def test_the_same_bits_over_flower_and_a_client_that_lies_is_left_out(
    small: dict[str, Any], tmp_path: Path
) -> None:
    manifest = manifest_of(small, federated={"local_iterations": {"kind": "ali_dpfl"}, "rounds": ROUNDS},
                           steps=3 * ROUNDS)
    alone = privgrad.run(manifest, out="alone")
    Path("m.yaml").write_text(privgrad.plan(manifest).manifest)
    liar = {**manifest, "privacy": {**manifest["privacy"], "target_epsilon": 2.9}}
    Path("liar.yaml").write_text(privgrad.plan(liar).manifest)
    with Federation(tmp_path / "flower") as federation:
        names = ["alpha", "beta", "gamma", "delta", "liar"]
        for name in names:
            federation.register(name)
        for i, name in enumerate(names[:4]):
            federation.node(name, manifest=str(tmp_path / "m.yaml"), client=i,
                            directory=str(tmp_path / name), threads=1)
        federation.node("liar", manifest=str(tmp_path / "liar.yaml"), client=3,
                        directory=str(tmp_path / "liar"), threads=1)
        log = federation.run(tmp_path / "m.yaml", tmp_path / "server")
    assert Path("server/model.safetensors").exists(), log
    assert weights(privgrad.Run.open("server")) == weights(alone)
    for i, name in enumerate(names[:4]):
        ledger = Path(name, "ledgers", f"client-{i}.jsonl")
        assert releases(ledger) == releases(Path("alone", "ledgers", f"client-{i}.jsonl"))
    assert not Path("liar").exists()


@pytest.mark.skipif(ROUNDS < 100, reason="takes minutes: PRIVGRAD_TEST_LONG=1")
def test_a_client_that_dies_comes_back(small: dict[str, Any], tmp_path: Path) -> None:
    rounds = 6
    manifest = manifest_of(small, federated={"rounds": rounds}, steps=2 * rounds)
    Path("m.yaml").write_text(privgrad.plan(manifest).manifest)

    def start(federation: Federation, i: int) -> None:
        federation.node(f"node-{i}", manifest=str(tmp_path / "m.yaml"), client=i,
                        directory=str(tmp_path / f"client-{i}"), threads=1)

    with Federation(tmp_path / "flower") as federation:
        for i in range(4):
            federation.register(f"node-{i}")
        for i in range(4):
            start(federation, i)
        federation.start_run(tmp_path / "m.yaml", tmp_path / "server", timeout=45.0)
        wait_for_round(tmp_path / "server", 1, federation)
        federation.kill("node-2")
        wait_for_round(tmp_path / "server", 3, federation)  # one round at least without it
        start(federation, 2)
        deadline = time.monotonic() + 1200
        while not Path("server/summary.json").exists():
            assert time.monotonic() < deadline, federation.logs()
            time.sleep(0.5)
    lines = [json.loads(line) for line in Path("server/rounds.jsonl").read_text().splitlines()]
    took_part = [line["clients"] for line in lines]
    assert len(took_part) == rounds
    assert 3 in took_part[1:3], took_part  # while it was away
    assert 4 in took_part[3:], took_part  # when it was back
    made = releases(Path("client-2/ledgers/client-2.jsonl"))
    assert [step for step, *_ in made] == list(range(len(made)))  # none twice
    assert max(epsilon for *_, epsilon in made) <= 3
