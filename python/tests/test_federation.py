"""A federation as a whole: accounts of sites, receipts, and what a server can prove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad import federated
from test_federated import BY_COLUMN, manifest_of, orders_of, serve

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")


def test_clients_pay_from_accounts_and_a_server_verifies_with_what_they_prove(
    small: dict[str, Any], command: Any
) -> None:
    manifest = manifest_of(small, mode="release", sampler="full_batch", privacy={
        "target_epsilon": 2, "target_delta": 1e-4, "adjacency": "zero_out", "accountant": "zcdp"})
    del manifest["seed"]
    manifest["data"] = {**manifest["data"], "size": 200}
    manifest["federated"] |= {"partition": BY_COLUMN, "shards": "given", "sizes": [50] * 4}
    rows = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    np.save("x.npy", rows)
    np.save("y.npy", (rows[:, 0] > 0).astype(np.float32))
    section = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2,
               "feature_fill": 0, "target_fill": 0}
    command("account", "--open", "account.jsonl", "--accountant", "zcdp", "--adjacency", "zero_out",
            "--target-epsilon", "2.2", "--target-delta", "1e-4", "--json")
    paying = {**manifest, "privacy": {**manifest["privacy"], "account": "account.jsonl"}}
    made = privgrad.run(small, out="made", overrides=["seed=null"])
    assert privgrad.verify(made, sign="site.key", new_key=True)

    def client(number: int, name: str) -> federated.Client:
        return federated.Client(paying if number == 0 else manifest, number, name, data=section,
                                key=None if number == 3 else "site.key", state=Path("state"))

    clients = [client(i, f"client-{i}") for i in range(4)]
    assert serve(manifest, clients, out="server").status == "completed"
    (run,) = command("account", "--ledger", "account.jsonl", "--json")["runs"]
    assert run["status"] == "completed"
    assert "the account 'account" in Path("client-0/statement.json").read_text()
    # One account does not pay for this plan twice.
    again = client(0, "again")
    (order,) = [order for who, order in orders_of(manifest, [again, *clients[1:]])[0] if who == 0]
    with pytest.raises(privgrad.PrivacyError, match="does not pay for this run"):
        again.answer(order)

    said = privgrad.verify("server")
    assert said, said.problems
    assert sum("signed that its ledger" in note for note in said.notes) == 3
    assert any("client 3: nothing here proves" in note for note in said.notes)
    said = privgrad.verify("server", client_dirs=[f"client-{i}" for i in range(4)])
    assert said, said.problems
    assert not any("nothing here proves" in note for note in said.notes)
    shown = command("verify", "server", "--client-dir", "client-1", "--json")
    assert shown["verified"] and any("client 1: its directory" in note for note in shown["notes"])
    code, error = command.fails("verify", "server", "--sign", "site.key")
    assert (code, "has no ledger" in error) == (2, True)
    code, _ = command.fails("verify", "server", "--client-dir", "made")
    assert code == 3
