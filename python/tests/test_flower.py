"""Runs over Flower: a SuperLink and SuperNodes in separate processes, with TLS and known keys.

PRIVGRAD_TEST_LONG=1 makes 100 rounds, otherwise a few: each message to a client starts a process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import privgrad
from privgrad import federated

pytest.importorskip("flwr", reason="Flower is not installed")

from privgrad import flower

from conftest import SOURCES
from flower_federation import BIN, LIMIT, Federation, free_port
from test_federated import encoder, manifest_of, releases, weights

def charged(client: int) -> list[tuple[Any, ...]]:
    """The entries so far in the ledger of a client of this run."""
    ledger = Path(f"client-{client}", "ledgers", f"client-{client}.jsonl")
    return releases(ledger) if ledger.exists() else []


def lines(client: int) -> int:
    """The number of complete lines of a client's ledger; the last line may be half written."""
    ledger = Path(f"client-{client}", "ledgers", f"client-{client}.jsonl")
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


# The time of the flwr call and of what comes before and after it: a SuperLink accepts a killed node
# again only after a minute.
pytestmark = pytest.mark.timeout(LIMIT + 360)

ROUNDS = 100 if "PRIVGRAD_TEST_LONG" in os.environ else 3


def test_the_same_bits_over_flower_without_a_client_that_lies_or_whose_site_forbids_the_server(
    small: dict[str, Any], tmp_path: Path
) -> None:
    manifest = manifest_of(small, federated={"local_iterations": {"kind": "ali_dpfl"}, "rounds": ROUNDS},
                           steps=3 * ROUNDS, **encoder())
    alone = privgrad.run(manifest, out="alone")
    Path("m.yaml").write_text(privgrad.plan(manifest).manifest)
    liar = {**manifest, "privacy": {**manifest["privacy"], "target_epsilon": 2.9}}
    Path("liar.yaml").write_text(privgrad.plan(liar).manifest)
    with Federation(tmp_path / "flower") as federation:
        names = ["alpha", "beta", "gamma", "delta", "liar", "stranger"]
        for name in names:
            federation.register(name)
        for site, server in (("site", f"127.0.0.1:{federation.port}"), ("strict", "alpha:9092")):
            Path(f"{site}.yaml").write_text(f"privgrad_policy: 1\nservers: ['{server}']\n")
        federation.environment["PRIVGRAD_POLICY"] = str(tmp_path / "site.yaml")
        for i, name in enumerate(names[:4]):
            federation.node(name, manifest=str(tmp_path / "m.yaml"), client=i,
                            directory=str(tmp_path / name), threads=1)
        federation.node("liar", manifest=str(tmp_path / "liar.yaml"), client=3,
                        directory=str(tmp_path / "liar"), threads=1)
        federation.environment["PRIVGRAD_POLICY"] = str(tmp_path / "strict.yaml")
        federation.node("stranger", manifest=str(tmp_path / "m.yaml"), client=3,
                        directory=str(tmp_path / "stranger"), threads=1)
        federation.environment["PRIVGRAD_POLICY"] = str(tmp_path / "site.yaml")
        log = federation.run(tmp_path / "m.yaml", tmp_path / "server")
        log += federation.logs()
    assert Path("server/model.safetensors").exists(), log
    assert weights(privgrad.Run.open("server")) == weights(alone)
    for i, name in enumerate(names[:4]):
        ledger = Path(name, "ledgers", f"client-{i}.jsonl")
        assert releases(ledger) == releases(Path("alone", "ledgers", f"client-{i}.jsonl"))
    assert not Path("liar").exists()
    assert not Path("stranger").exists()
    # The site's own log says which rule refused; what the server wrote does not.
    refusal = f"strict.yaml:2: error: servers: the client's server is 127.0.0.1:{federation.port}"
    assert f"PrivGrad: refused: {tmp_path}/{refusal}" in log
    assert "the site refuses; the log of its SuperNode says why" in log
    assert log.count(refusal) == log.count(f"PrivGrad: refused: {tmp_path}/{refusal}")


@pytest.mark.long
def test_a_client_that_is_killed_in_a_round_takes_part_again(small: dict[str, Any], tmp_path: Path) -> None:
    # Long rounds, so that there is time to kill a client.
    manifest = manifest_of(small, steps=1800, sampler={"kind": "poisson", "batch_size": 40},
                           federated={"rounds": 6, "local_iterations": 300})
    Path("m.yaml").write_text(privgrad.plan(manifest).manifest)
    with Federation(tmp_path / "flower") as federation:
        nodes = [dict(manifest=str(tmp_path / "m.yaml"), client=i, directory=str(tmp_path / f"client-{i}"),
                      threads=1) for i in range(4)]
        for i, node in enumerate(nodes):
            federation.register(f"node-{i}")
            federation.node(f"node-{i}", **node)
        federation.start_run(tmp_path / "m.yaml", tmp_path / "server")
        federation.wait_for(lambda: lines(2) > 302)  # in the second round
        federation.kill("node-2")
        federation.node_again("node-2", **nodes[2])
        federation.wait_for(lambda: Path("server/summary.json").exists())
        log = federation.logs()
    rounds = [json.loads(line) for line in Path("server/rounds.jsonl").read_text().splitlines()]
    lost = [i for i, one in enumerate(rounds) if one["clients"] == 3]
    assert lost and [one["clients"] for one in rounds] == [3 if i in lost else 4 for i in range(6)], log
    assert max(lost) < 5, log  # it took part again

    # The same run by function calls. The client's result of a lost round is lost, and it does not
    # receive the rounds that it missed. Its ledger shows how many it missed: none, if it was killed
    # between two rounds.
    paid, cut_off = divmod(len(charged(2)), 300)
    assert cut_off == 0, log
    heard = lost[:paid - (6 - len(lost))]
    again = [federated.Client(manifest, i, f"again-{i}") for i in range(4)]
    number = -1

    def ask(orders: list[tuple[int, bytes]]) -> list[bytes | None]:
        nonlocal number
        number += 1
        answers = {who: again[who].answer(order) for who, order in orders
                   if who != 2 or number not in lost or number in heard}
        return [None if who == 2 and number in lost else answers.get(who) for who, _ in orders]

    expected = federated.serve(manifest, [client.introduction() for client in again], ask, out="expected")
    assert weights(privgrad.Run.open("server")) == weights(expected), log
    for i in range(4):
        assert charged(i) == releases(Path(f"again-{i}", "ledgers", f"client-{i}.jsonl")), log


class Slow:
    """A grid whose nodes take some time, with a clock that only advances during waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float) -> None:
        self.now, self.takes, self.looks = 0.0, takes, 0
        monkeypatch.setattr(flower.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(flower.time, "sleep", self.wait)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def push_messages(self, messages: list[Any]) -> list[str | None]:
        return ["a", "b", None]  # the last message could not be sent

    def pull_messages(self, ids: set[str]) -> list[Any]:
        self.looks += 1
        assert None not in ids
        return [SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=one))
                for one in sorted(ids) if one == "a" or self.now >= self.takes]


@pytest.mark.parametrize(("takes", "most_looks"), [(0.3, 10), (10, 60), (300, 200)])
def test_looking_for_answers_adds_a_tenth_at_most(
    monkeypatch: pytest.MonkeyPatch, takes: float, most_looks: int
) -> None:
    grid = Slow(monkeypatch, takes)
    assert len(flower._replies(grid, [], 600.0)) == 2
    assert takes <= grid.now <= 1.1 * takes + 0.1
    assert grid.looks <= most_looks


def test_who_does_not_answer_in_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Slow(monkeypatch, 300)
    assert len(flower._replies(grid, [], 20.0)) == 1
    assert grid.now == pytest.approx(20)


@pytest.mark.long
def test_the_tutorial_of_clients_runs(tmp_path: Path) -> None:
    page = (SOURCES / "docs" / "tutorials" / "clients.md").read_text()
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    nodes = f"$(echo {free_port()} {free_port()} | cut -d ' ' -f $((n + 1)))"
    for written, free in (("9092", str(free_port())), ("910$n", nodes)):
        assert written in script
        script = script.replace(written, free)
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
                   "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1"}
    with (tmp_path / "log").open("wb") as log:
        shell = subprocess.Popen(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, stdout=log,
                                 stderr=log, start_new_session=True)
        try:
            shell.wait(LIMIT)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    said = (tmp_path / "log").read_text(errors="replace")
    assert shell.returncode == 0, said
    assert "verified: epsilon 3" in said
