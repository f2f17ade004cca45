"""Clients as separate programs: the same bits as in one process, and never the same step twice.

Function calls carry the bytes here; test_flower.py uses Flower.
"""

from __future__ import annotations

import json
import os
import signal
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad import federated

Order = tuple[int, bytes]

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")

# Column 0 says to which client an example belongs.
BY_COLUMN = {"kind": "by_column", "column": 0, "values": [0, 1, 2, 3]}


def manifest_of(small: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Four clients with their own ledgers."""
    return {
        **small,
        "name": "federation",
        "model": {"kind": "mlp", "hidden": [5], "loss": "cross_entropy"},
        "sampler": {"kind": "poisson", "batch_size": 10},
        "privacy": {"target_epsilon": 3, "target_delta": 1e-4, "adjacency": "add_or_remove_one",
                    "accountant": "rdp"},
        "steps": 12,
        **changed,
        "federated": {"clients": 4, "rounds": 6, "local_iterations": 2, **changed.get("federated", {})},
    }


def encoder() -> dict[str, Any]:
    """Changes of a manifest: rows of tokens, which this writes, and a small encoder of them."""
    rows = np.arange(200)[:, None]
    places = np.arange(6)
    tokens = np.where(places <= rows % 6, (rows // 2 + places**2) % 6, -1).astype(np.int8)
    np.save("tokens.npy", tokens)
    np.save("labels.npy", tokens[:, 0] % 2)
    return {
        "data": {"kind": "npy", "train": {"features": str(Path("tokens.npy").resolve()),
                                          "targets": str(Path("labels.npy").resolve())}, "classes": 2},
        "model": {"kind": "transformer", "preset": "encoder", "vocabulary": 6, "layers": 1, "width": 8,
                  "heads": 2},
    }


def weights(run: privgrad.Run) -> bytes:
    raw = (run.run_dir / "model.safetensors").read_bytes()
    return raw[8 + int.from_bytes(raw[:8], "little") :]


def releases(ledger: Path) -> list[tuple[Any, ...]]:
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    return [(line["step"], line["event"], line["epsilon"]) for line in lines if line["type"] == "release"]


def clients_of(manifest: dict[str, Any], **options: Any) -> list[federated.Client]:
    return [federated.Client(manifest, i, f"client-{i}", **options)
            for i in range(manifest["federated"]["clients"])]


def serve(manifest: dict[str, Any], clients: list[federated.Client], **options: Any) -> privgrad.Run:
    return federated.serve(
        manifest, [client.introduction() for client in clients],
        options.pop("ask", lambda orders: [clients[who].answer(order) for who, order in orders]), **options)


def orders_of(manifest: dict[str, Any], clients: list[federated.Client]) -> list[list[Order]]:
    """The orders of a run in which all clients are lost: each round has the initial model.

    Without the last words.
    """
    seen: list[list[Order]] = []

    def ask(orders: list[Order]) -> list[None]:
        seen.append(orders)
        return [None for _ in orders]

    serve(manifest, clients, ask=ask, out="orders")
    return seen[:-1]


def last_words(manifest: dict[str, Any], clients: list[federated.Client], out: str) -> list[Order]:
    """Makes a run, and returns its server's last words, which no client has received."""
    seen: list[list[Order]] = []

    def ask(orders: list[Order]) -> list[bytes | None]:
        seen.append(orders)
        is_over = len(seen) > manifest["federated"]["rounds"]
        return [None if is_over else clients[who].answer(order) for who, order in orders]

    assert serve(manifest, clients, ask=ask, out=out).status == "completed"
    return seen[-1]


@pytest.mark.parametrize(
    ("federation", "trusted", "network"),
    [
        ({}, False, dict),
        ({"participation": {"kind": "fixed_size", "batch_size": 2}, "client_drop_rate": 0.3,
          "straggler_rate": 0.5}, False, dict),
        ({"local_iterations": {"kind": "ali_dpfl"}, "rounds": 4}, False, dict),
        ({"local_iterations": {"kind": "ali_dpfl"}, "rounds": 4, "estimates": "from_models"}, False, dict),
        ({"aggregation": "dp_fed_avg", "client_clip_norm": 1.0}, True, dict),
        ({"aggregation": "dp_fed_avg", "client_clip_norm": 1.0,
          "participation": {"kind": "poisson", "batch_size": 2}}, True, dict),
        ({"rounds": 3}, False, encoder),
    ],
    ids=["fed_avg", "who takes part", "ali_dpfl", "ali_dpfl from models", "dp_fed_avg", "sampled clients",
         "an encoder"],
)
def test_the_same_bits_as_in_one_process(
    small: dict[str, Any], federation: dict[str, Any], trusted: bool, network: Callable[[], dict[str, Any]]
) -> None:
    manifest = manifest_of(small, federated=federation, **network())
    alone = privgrad.run(manifest, out="alone")
    run = serve(manifest, clients_of(manifest, trust_server=trusted), out="server")
    assert weights(run) == weights(alone)
    assert (run.status, run.steps) == (alone.status, alone.steps)
    # Without a ledger, the stated cost is that of everything the budgets can pay for.
    assert run.epsilon == (alone if trusted else privgrad.plan(manifest)).epsilon >= alone.epsilon

    def rounds(one: privgrad.Run) -> list[Any]:
        lines = (one.run_dir / "rounds.jsonl").read_text().splitlines()
        return [{**json.loads(line), "charged_epsilon": None} for line in lines]

    assert rounds(run) == rounds(alone)
    for i in range(4):
        own, theirs = (Path(place, "ledgers", f"client-{i}.jsonl") for place in (f"client-{i}", "alone"))
        assert theirs.exists() == (not trusted)
        if theirs.exists():  # a client that never takes part has no ledger
            assert (releases(own) if own.exists() else []) == releases(theirs)
    assert Path("server/ledger.jsonl").exists() == trusted
    assert not Path("server/ledgers").exists()


def test_a_client_that_comes_early_is_refused_and_told_of(small: dict[str, Any]) -> None:
    manifest = manifest_of(
        small, aggregator={"kind": "matrix", "bands": 2},
        privacy={"target_epsilon": 3, "target_delta": 1e-4, "adjacency": "zero_out", "accountant": "gdp"},
        federated={"aggregation": "dp_fed_avg", "client_clip_norm": 1.0, "min_separation": 2,
                   "participation": {"kind": "poisson", "sample_rate": 0.8}})
    alone = privgrad.run(manifest, out="alone")
    told: list[tuple[int, str]] = []
    asked: list[list[int]] = []
    clients = clients_of(manifest, trust_server=True)

    def ask(orders: list[Order]) -> list[bytes]:
        asked.append([who for who, _ in orders])
        return [clients[who].answer(order) for who, order in orders]

    run = serve(manifest, clients, ask=ask, refused=lambda who, why: told.append((who, why)), out="server")
    assert weights(run) == weights(alone)
    rounds = [json.loads(line) for line in Path("server/rounds.jsonl").read_text().splitlines()]
    assert sum(one["refused"] for one in rounds) == len(told) > 0
    assert all("it comes early to round" in why for _, why in told)
    numbers = [one["round"] for one in rounds if one["clients"] > 0]
    assert len(numbers) == len(asked) - 1  # the last words
    for who in range(4):
        own = [number for number, clients_asked in zip(numbers, asked) if who in clients_asked]
        assert all(later - earlier > 2 for earlier, later in zip(own, own[1:]))


def test_each_client_has_its_own_examples_and_no_others(small: dict[str, Any]) -> None:
    # As in one process, where column 0 says to which client an example belongs.
    random = np.random.default_rng(4)
    owners = np.repeat(np.arange(4), [30, 40, 50, 60]).astype(np.float32)
    targets = random.integers(0, 2, size=180).astype(np.float32)
    features = np.column_stack([owners, random.normal(size=(180, 3)) + 3 * targets[:, None]])
    np.save("x.npy", features.astype(np.float32))
    np.save("y.npy", targets)
    manifest = manifest_of(
        small, seed=5,
        federated={"partition": BY_COLUMN, "shards": "given", "sizes": [30, 40, 50, 60]})
    manifest["data"] = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"},
                        "classes": 2, "size": 180}
    alone = privgrad.run(manifest)
    clients = []
    for i in range(4):
        np.save(f"x{i}.npy", features[owners == i].astype(np.float32))
        np.save(f"y{i}.npy", targets[owners == i])
        Path(f"own-{i}.yaml").write_text(
            f"{{kind: npy, train: {{features: x{i}.npy, targets: y{i}.npy}}, classes: 2}}")
        clients.append(federated.Client(manifest, i, f"client-{i}", data=f"own-{i}.yaml"))
    Path("x.npy").unlink()  # neither the server nor a client opens it
    run = serve(manifest, clients)
    assert weights(run) == weights(alone)


def test_without_a_seed_each_client_has_a_key_of_its_own(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    del manifest["seed"]
    manifest["data"] = {**manifest["data"], "size": 200}
    manifest["federated"] |= {"partition": BY_COLUMN, "shards": "given", "sizes": [50] * 4}
    rows = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    own = {"kind": "memory", "train": (rows, (rows[:, 0] > 0).astype(np.float32)), "classes": 2}
    with pytest.raises(privgrad.PrivgradError):
        federated.Client(manifest, 0, "a", data=own)  # rows in memory are not available to it
    np.save("x.npy", rows)
    np.save("y.npy", (rows[:, 0] > 0).astype(np.float32))
    section = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2}
    # All clients have the same examples and the same model, so their answers differ only in the
    # noise.
    clients = [federated.Client(manifest, i, f"client-{i}", data=section) for i in range(4)]
    first = orders_of(manifest, clients)[0]
    answers = {clients[who].answer(order) for who, order in first}
    assert len(answers) == 4
    assert not any(b"reproducible\": true" in Path(f"client-{i}/statement.json").read_bytes()
                   for i in range(4))


def test_an_order_is_answered_once(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest)
    rounds = orders_of(manifest, clients)
    (who, first), (_, second) = rounds[0][1], rounds[1][1]
    client = clients[who]
    answer = client.answer(first)
    charged = releases(Path("client-1/ledgers/client-1.jsonl"))
    assert client.answer(first) == answer
    # Another process, which finds this one's files, can do it too.
    del client
    clients[who] = None  # type: ignore[call-overload]
    client = federated.Client(manifest, who, "client-1")
    assert client.answer(first) == answer
    assert releases(Path("client-1/ledgers/client-1.jsonl")) == charged
    # The same round with another model would be another release with the same noise.
    other = bytearray(first)
    other[-1] ^= 1
    with pytest.raises(privgrad.PrivacyError, match="round 0 was executed by another order"):
        client.answer(bytes(other))
    client.answer(second)
    with pytest.raises(privgrad.PrivacyError, match="round 0 was executed by another order"):
        client.answer(first)


def test_an_older_state_that_is_brought_back_is_refused(small: dict[str, Any]) -> None:
    # Its steps would be repeated from another model, with noise that was already released.
    manifest = manifest_of(small)
    clients = clients_of(manifest, state=Path("state"))
    rounds = orders_of(manifest, clients)
    (who, first), (_, second) = rounds[0][1], rounds[1][1]
    clients[who].answer(first)
    shutil.copytree("state", "older")
    clients[who].answer(second)
    del clients
    shutil.rmtree("state")
    shutil.copytree("older", "state")
    with pytest.raises(privgrad.PrivacyError, match="holds charges from after the checkpoint"):
        federated.Client(manifest, who, "client-1", state=Path("state"))


def test_a_damaged_state_is_not_replaced_by_the_one_before_it(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest, state=Path("state"))
    rounds = orders_of(manifest, clients)
    (who, first), (_, second) = rounds[0][1], rounds[1][1]
    clients[who].answer(first)
    clients[who].answer(second)
    del clients
    refused = []
    for slot in Path("state").rglob("checkpoint-*"):  # two of each client that answered
        whole = slot.read_bytes()
        slot.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(privgrad.DataError, match="damaged"):
            federated.Client(manifest, who, "client-1", state=Path("state"))
        slot.write_bytes(whole)
        refused.append(slot.name)
    assert sorted(refused) == ["checkpoint-a", "checkpoint-b"]
    federated.Client(manifest, who, "client-1", state=Path("state"))


def last_line(ledger: Path) -> dict[str, Any]:
    return json.loads(ledger.read_text().splitlines()[-1])


def test_the_last_word_closes_a_ledger_and_the_directory_verifies(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest, state=Path("state"))
    words = last_words(manifest, clients, "server")
    said = privgrad.verify("client-2")
    assert not said
    assert any("client-2.jsonl: is not closed" in problem for problem in said.problems)
    charged = releases(Path("client-2/ledgers/client-2.jsonl"))
    for who, word in words:
        clients[who].answer(word)
    for i in range(4):
        said = privgrad.verify(f"client-{i}")
        assert said, said.problems
        line = last_line(Path(f"client-{i}/ledgers/client-{i}.jsonl"))
        assert (line["type"], line["status"], line["steps_done"]) == ("close", "completed", 12)
        assert said.epsilon == pytest.approx(line["epsilon"])
        # The ledgers of the other clients and the model are elsewhere, and the result says so.
        assert any("that of one client" in note for note in said.notes)
    assert releases(Path("client-2/ledgers/client-2.jsonl")) == charged
    # A later change is detected.
    ledger = Path("client-2/ledgers/client-2.jsonl")
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:-2] + lines[-1:]))
    assert not privgrad.verify("client-2")
    statement = Path("client-1/statement.json")
    statement.write_text(statement.read_text().replace('"target_epsilon": 3', '"target_epsilon": 2'))
    assert not privgrad.verify("client-1")
    # A ledger for a single client does not replace those of a run on one machine.
    shutil.rmtree("client-3/ledgers")
    assert not privgrad.verify("client-3")


def test_after_the_last_word_there_is_nothing_more(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest, state=Path("state"))
    seen: list[list[Order]] = []
    with_keys: list[int] = []

    def sizes() -> list[int]:
        return [file.stat().st_size for file in Path("state").rglob("checkpoint-*")]

    def ask(orders: list[Order]) -> list[bytes | None]:
        seen.append(orders)
        with_keys[:] = sizes()
        return [clients[who].answer(order) for who, order in orders]

    serve(manifest, clients, ask=ask, out="server")
    (who, first), (_, word) = seen[0][1], seen[-1][1]
    ledger = Path("client-1/ledgers/client-1.jsonl").read_bytes()
    assert clients[who].answer(word) == word  # it may arrive twice
    clients[who] = None  # type: ignore[call-overload]
    client = federated.Client(manifest, who, "client-1", state=Path("state"))
    assert client.answer(word) == word
    with pytest.raises(privgrad.PrivacyError, match="the run is finished"):
        client.answer(first)
    assert Path("client-1/ledgers/client-1.jsonl").read_bytes() == ledger
    # Only the identity of the run and its receipt are kept: the key is deleted in both checkpoint files.
    assert len(sizes()) == 8
    assert max(sizes()) < 800 < min(with_keys)


def test_a_client_that_is_cut_off_while_it_leaves_has_left(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest)
    who, word = last_words(manifest, clients, "server")[1]
    statement = Path("client-1/statement.json")
    statement.rename("aside")
    with pytest.raises(privgrad.DataError, match="has vanished"):
        clients[who].answer(word)
    Path("aside").rename(statement)
    clients[who] = None  # type: ignore[call-overload]
    federated.Client(manifest, who, "client-1")
    assert privgrad.verify("client-1")


def test_a_last_word_that_is_none_changes_nothing(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest)
    (who, word), (_, other) = last_words(manifest, clients, "server")[1:3]
    ledger = Path("client-1/ledgers/client-1.jsonl").read_bytes()
    for changed, kind, says in [
        (other, privgrad.ConfigError, "the order is for client 2, but this is client 1"),
        (word[:-1], privgrad.ConfigError, "privgrad farewell"),
        (word.replace(b"completed", b"completes"), privgrad.ConfigError, "an unknown status"),
    ]:
        with pytest.raises(kind, match=says):
            clients[who].answer(changed)
    foreign = bytearray(word)
    at = bytes(word).index(b"privgrad farewell") + len(b"privgrad farewell") + 16
    foreign[at] ^= 1  # a byte of the run's name
    with pytest.raises(privgrad.PrivgradError):
        clients[who].answer(bytes(foreign))
    assert Path("client-1/ledgers/client-1.jsonl").read_bytes() == ledger


def test_a_directory_takes_part_in_one_run(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest)
    serve(manifest, clients, out="first")
    charged = releases(Path("client-0/ledgers/client-0.jsonl"))
    lost: list[str] = []

    def ask(orders: list[Order]) -> list[None]:
        for who, order in orders:
            with pytest.raises(privgrad.PrivacyError, match="a new run costs its epsilon again") as said:
                clients[who].answer(order)
            lost.append(str(said.value))
        return [None for _ in orders]

    serve(manifest, clients, ask=ask, out="second")
    assert lost
    assert releases(Path("client-0/ledgers/client-0.jsonl")) == charged


KILLED = """
import json, sys
from pathlib import Path
from privgrad import federated
client = federated.Client(json.loads(Path("m.json").read_text()), 0, "killed")
client.answer(Path("order").read_bytes())
"""


def killed_in_a_round() -> None:
    """The client of m.json and its order, killed after its ledger was charged, long before the end."""
    process = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.DEVNULL,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    ledger = Path("killed/ledgers/client-0.jsonl")
    deadline = time.monotonic() + 60
    try:
        while not (ledger.exists() and b'"release"' in ledger.read_bytes()):
            assert time.monotonic() < deadline
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)


def test_a_client_that_is_killed_pays_for_its_round_and_does_not_make_it_again(
    small: dict[str, Any],
) -> None:
    manifest = manifest_of(small, steps=2000, sampler={"kind": "poisson", "batch_size": 100},
                           federated={"clients": 1, "rounds": 2, "local_iterations": 1000})
    Path("m.json").write_text(json.dumps(manifest))
    whole = federated.Client(manifest, 0, "whole")
    (first, second) = (orders[0][1] for orders in orders_of(manifest, [whole]))
    Path("order").write_bytes(first)
    killed_in_a_round()
    ledger = Path("killed/ledgers/client-0.jsonl")
    client = federated.Client(manifest, 0, "killed")
    with pytest.raises(privgrad.PrivacyError, match="or interrupted, and is not executed again"):
        client.answer(first)
    assert [step for step, *_ in releases(ledger)] == list(range(1000))
    # The client then does what it would have done without the kill: the next steps, with their own
    # noise.
    whole.answer(first)
    assert client.answer(second) == whole.answer(second)
    assert releases(ledger) == releases(Path("whole/ledgers/client-0.jsonl"))


def test_an_older_state_in_a_round_that_is_brought_back_is_refused(small: dict[str, Any]) -> None:
    # The ledger lists the steps that it would charge again, and also the round after them, whose
    # noise it would draw again.
    manifest = manifest_of(small, steps=2000, sampler={"kind": "poisson", "batch_size": 100},
                           federated={"clients": 1, "rounds": 2, "local_iterations": 1000})
    Path("m.json").write_text(json.dumps(manifest))
    first, second = (orders[0][1] for orders in orders_of(manifest, [federated.Client(manifest, 0, "x")]))
    Path("order").write_bytes(first)
    killed_in_a_round()
    shutil.copytree("state", "older")
    client = federated.Client(manifest, 0, "killed")
    client.answer(second)
    del client
    shutil.rmtree("state")
    shutil.copytree("older", "state")
    charged = releases(Path("killed/ledgers/client-0.jsonl"))
    with pytest.raises(privgrad.PrivacyError, match="has charges that are newer than its private state"):
        federated.Client(manifest, 0, "killed")
    assert releases(Path("killed/ledgers/client-0.jsonl")) == charged


def test_an_estimate_of_a_round_that_was_cut_off_is_paid_for_too(small: dict[str, Any]) -> None:
    manifest = manifest_of(small, steps=60, federated={
        "clients": 1, "rounds": 3, "local_iterations": {"kind": "ali_dpfl"}})
    manifest["data"] |= {"rows": 4000, "dimensions": 50}
    manifest["model"] = {"kind": "mlp", "hidden": [200, 200]}
    manifest["sampler"] = {"kind": "poisson", "batch_size": 2000}
    Path("m.json").write_text(json.dumps(manifest))
    assert privgrad.plan(manifest).json["federated"]["estimates"] == "private"
    whole = federated.Client(manifest, 0, "whole")
    first, second, _ = (orders[0][1] for orders in orders_of(manifest, [whole]))
    Path("order").write_bytes(first)
    killed_in_a_round()
    client = federated.Client(manifest, 0, "killed")
    with pytest.raises(privgrad.PrivacyError, match="or interrupted, and is not executed again"):
        client.answer(first)
    whole.answer(first)
    assert client.answer(second) == whole.answer(second)
    assert releases(Path("killed/ledgers/client-0.jsonl")) == releases(Path("whole/ledgers/client-0.jsonl"))


def test_who_differs_is_named_before_anything_is_charged(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    said = [client.introduction() for client in clients_of(manifest)]

    def never(orders: list[Order]) -> list[None]:
        raise AssertionError("nobody was to be asked")

    for changed, says in [
        (said[:3], "clients that are there are .0, 1, 2., expected each of 0 to 3 once"),
        ([*said[:3], said[0]], "expected each of 0 to 3 once"),
        ([*said[:3], {**said[3], "protocol": 1}], "client 3 has another protocol than the server"),
        ([*said[:3], {**said[3], "plugins": "0" * 64}], "client 3 has other plugins than the server"),
        ([*said[:3], {**said[3], "program": "0" * 64}], "client 3 has another version of PrivGrad than the server"),
        ([*said[:3], {**said[3], "manifest": "0" * 64}], "client 3 has another manifest than the server"),
        ([*said[:3], {**said[3], "facts": {**said[3]["facts"], "classes": 7}}],
         "client 3 says classes of its data is 7, client 0 says 2"),
        ([], "no client has introduced itself"),
    ]:
        with pytest.raises(privgrad.ConfigError, match=says):
            federated.serve(manifest, changed, never, out="server")
    assert not Path("server").exists()


def test_an_answer_that_is_none_counts_as_lost_and_is_told(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest)
    told: list[tuple[int, str]] = []
    number = 0

    def ask(orders: list[Order]) -> list[bytes | None]:
        nonlocal number
        answers: list[bytes | None] = [clients[who].answer(order) for who, order in orders]
        if number == 6:  # the last word
            return answers
        honest = answers[2]
        assert honest is not None
        nan = np.float32(np.nan).tobytes()
        body = len(honest) - 32  # after the model: two real numbers, the flag of estimates, and two
                                 # estimates
        answers[2] = [
            b"I am no answer",
            honest[:-8],
            answers[1],
            honest[: body - 12] + nan + honest[body - 8 :],
            honest.replace(b"privgrad answer", b"privgrad answeR"),
            None,
        ][number]
        number += 1
        return answers

    run = serve(manifest, clients, ask=ask, refused=lambda who, why: told.append((who, why)), out="server")
    assert run.status == "completed"
    assert [who for who, _ in told] == [2] * 5
    assert "answers another order" in told[2][1]
    assert "not finite" in told[3][1]
    lines = [json.loads(line) for line in Path("server/rounds.jsonl").read_text().splitlines()]
    assert [line["clients"] for line in lines] == [3] * 6


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"privacy": {"noise": "off", "target_delta": 1e-4, "adjacency": "add_or_remove_one",
                      "accountant": "rdp"},
          "schedules": {"clip_norm": 1, "learning_rate": 0.5}}, "privacy.noise is off"),
        ({"federated": {"local_iterations": {"kind": "ali_dpfl"}, "rounds": 4,
                        "estimates": "unaccounted"}}, "unaccounted are exact values"),
        ({"federated": {"aggregation": "dp_fed_avg", "client_clip_norm": 1.0}}, "set trust_server"),
    ],
)
def test_what_would_leave_a_client_exactly_is_refused(
    small: dict[str, Any], changed: dict[str, Any], says: str
) -> None:
    with pytest.raises(privgrad.PrivacyError, match=says):
        federated.Client(manifest_of(small, **changed), 0, "client")
    assert not Path("client").exists()


def test_transforms_that_learn_from_everybody_are_refused(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    manifest["data"] = {**manifest["data"], "transforms": ["standardize"]}
    says = r"learns from the examples of all clients .* unreleased_statistics of data\.transforms\.0 standardize"
    with pytest.raises(privgrad.PrivacyError, match=says):
        federated.Client(manifest, 0, "client")


def test_a_client_without_a_number_of_the_manifest_is_refused(small: dict[str, Any]) -> None:
    with pytest.raises(privgrad.ConfigError, match="client is 4, allowed is .0, 3."):
        federated.Client(manifest_of(small), 4, "client")
    with pytest.raises(privgrad.ConfigError, match="no section federated"):
        federated.Client(small, 0, "client")
    drawn = manifest_of(small)
    del drawn["seed"]
    with pytest.raises(privgrad.ManifestError, match="draws the client of each example"):
        federated.Client(drawn, 0, "client")
