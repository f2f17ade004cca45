"""Invalid orders are refused: separate clients do not trust their server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import privgrad
from privgrad import federated

from test_federated import Order, clients_of, last_line, manifest_of, orders_of, releases, serve

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda order: b"", "privgrad order"),
        (lambda order: order[:-4], "privgrad order"),
        (lambda order: order + b"\0", "privgrad order"),
        (lambda order: order.replace(b"privgrad order", b"privgrad odder"), "privgrad order"),
        (lambda order: order[:22] + b"\3" + order[23:], "has version 3"),
    ],
)
def test_what_is_no_order_charges_nothing(small: dict[str, Any], changed: Any, says: str) -> None:
    manifest = manifest_of(small)
    clients = clients_of(manifest)
    order = changed(orders_of(manifest, clients)[0][0][1])
    with pytest.raises(privgrad.ConfigError, match=says):
        clients[0].answer(order)
    assert not Path("client-0").exists()


def test_an_order_of_another_manifest_is_refused(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    richer = {**manifest, "privacy": {**manifest["privacy"], "target_epsilon": 8}}
    order = orders_of(richer, clients_of(richer))[0][0][1]
    client = federated.Client(manifest, 0, "own")
    with pytest.raises(privgrad.ConfigError, match="another manifest"):
        client.answer(order)
    with pytest.raises(privgrad.ConfigError, match="the order is for client 0, but this is client 1"):
        federated.Client(richer, 1, "other").answer(order)
    assert not Path("own").exists()


def test_a_server_that_asks_for_too_much_gets_what_the_budget_pays_for(small: dict[str, Any]) -> None:
    manifest = manifest_of(small, federated={"clients": 1})
    client = federated.Client(manifest, 0, "client")
    order = bytearray(orders_of(manifest, [client])[0][0][1])
    # The number of steps is the third of three numbers before the flag "is there a first step" and
    # the model.
    parameters = privgrad.plan(manifest).parameters
    at = len(order) - 4 * parameters - 8 - 16 - 8
    assert int.from_bytes(order[at : at + 8], "little") == 2
    order[at : at + 8] = (10**6).to_bytes(8, "little")
    client.answer(bytes(order))
    made = releases(Path("client/ledgers/client-0.jsonl"))
    assert len(made) == privgrad.plan(manifest).json["affordable_steps"]
    assert max(epsilon for *_, epsilon in made) <= 3


def test_a_round_that_the_plan_has_not_charges_nothing(small: dict[str, Any]) -> None:
    manifest = manifest_of(small, federated={"clients": 1})
    client = federated.Client(manifest, 0, "client")
    order = bytearray(orders_of(manifest, [client])[0][0][1])
    # The round is the second of three numbers.
    at = len(order) - 4 * privgrad.plan(manifest).parameters - 8 - 16 - 16
    assert int.from_bytes(order[at : at + 8], "little") == 0
    order[at : at + 8] = manifest["federated"]["rounds"].to_bytes(8, "little")
    with pytest.raises(privgrad.ConfigError, match="a round that is not in the plan"):
        client.answer(bytes(order))
    ledger = Path("client/ledgers/client-0.jsonl")
    assert not ledger.exists() or not releases(ledger)


def test_a_client_whose_server_ends_early_has_the_epsilon_of_all_rounds(small: dict[str, Any]) -> None:
    manifest = manifest_of(small)
    client = federated.Client(manifest, 0, "early")
    others = [federated.Client(manifest, i, f"other-{i}") for i in range(1, 4)]
    seen: list[list[Order]] = []

    def ask(orders: list[Order]) -> list[None]:
        seen.append(orders)
        return [None for _ in orders]

    serve(manifest, [client, *others], ask=ask, out="orders")
    client.answer(dict(seen[0])[0])
    client.answer(dict(seen[-1])[0])  # the last word
    said = privgrad.verify("early")
    assert said, said.problems
    planned = json.loads(Path("early/statement.json").read_text())["epsilon"]
    assert said.epsilon == pytest.approx(planned)
    assert last_line(Path("early/ledgers/client-0.jsonl"))["epsilon"] < 0.9 * planned
