"""Over Flower: a SuperLink and SuperNodes in processes of their own, with TLS and known keys.

PRIVGRAD_TEST_LONG=1 makes 100 rounds, elsewhere a few: each message to a client starts a process.
Clients that die are tried in test_federated.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import privgrad

pytest.importorskip("flwr", reason="Flower is not installed")

from flower_federation import Federation
from test_federated import manifest_of, releases, weights

ROUNDS = 100 if "PRIVGRAD_TEST_LONG" in os.environ else 3


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
