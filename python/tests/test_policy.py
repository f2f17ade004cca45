"""A site's policy binds calls in Python, and clients, whatever the environment says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad import federated
from test_federated import BY_COLUMN, manifest_of

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")

RULE = "privgrad_policy: 1\ndata:\n  - {{files: ['*'], epsilon: {epsilon}, delta: 1.0e-4}}\n"


@pytest.fixture
def released(small: dict[str, Any]) -> dict[str, Any]:
    """A run for release, with epsilon 3."""
    small.pop("seed")
    return {**small, "mode": "release", "data": {**small["data"], "size": 200}}


def policy(epsilon: float, more: str = "") -> str:
    Path("policy.yaml").write_text(RULE.format(epsilon=epsilon) + more)
    return str(Path("policy.yaml").resolve())


def test_calls_obey_the_policies_of_the_environment(
    released: dict[str, Any], small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVGRAD_POLICY", policy(2))
    for call in (lambda: privgrad.run(released, out="run"), lambda: privgrad.plan(released),
                 lambda: privgrad.audit(released, runs=20)):
        with pytest.raises(privgrad.PrivacyError, match=r"policy\.yaml:3: error: data\.0\.epsilon: the run states epsilon 2\.99"):
            call()
    with pytest.raises(privgrad.PrivacyError, match=r"data\.0\.delta"):
        privgrad.run(released, overrides={"privacy.target_delta": 1e-3}, out="run")
    assert not Path("run").exists()
    policy(3)
    assert privgrad.run(released, out="run").status == "completed"
    with pytest.raises(privgrad.PrivacyError, match=r"data\.0\.epsilon: anybody with the run's seed"):
        privgrad.run({**small, "seed": 1}, out="seeded")


def test_rows_in_memory_are_for_rules_about_all_data(
    released: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.zeros((200, 4), np.float32)
    manifest = {**released, "data": {"kind": "memory", "classes": 2, "size": 200,
                                     "train": (rows, np.zeros(200, np.float32))}}
    policy(3)
    Path("policy.yaml").write_text(Path("policy.yaml").read_text().replace("'*'", "/srv/*"))
    monkeypatch.setenv("PRIVGRAD_POLICY", "policy.yaml")
    with pytest.raises(privgrad.PrivacyError, match="no rule is for data in no file"):
        privgrad.run(manifest, out="run")


def test_the_policy_beside_the_package_binds_whatever_the_environment_says(
    released: dict[str, Any], tmp_path: Path
) -> None:
    package, home = Path(privgrad.__file__).parent, tmp_path / "site" / "privgrad"
    home.mkdir(parents=True)
    for one in package.iterdir():
        if one.name.startswith("_core"):
            shutil.copy(one, home)  # else the module would lie in the other package
        elif one.name != "_home":
            (home / one.name).symlink_to(one)
    (home / "_home" / "etc" / "privgrad").mkdir(parents=True)
    for one in (package / "_home").iterdir():
        (home / "_home" / one.name).symlink_to(one)
    site = home / "_home" / "etc" / "privgrad" / "policy.yaml"
    site.write_text(RULE.format(epsilon=2))
    code = f"import privgrad; privgrad.run({released!r}, out='run')"

    def made(**environment: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code], text=True, check=False, capture_output=True, timeout=100,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(home.parent), *sys.path]), **environment},
        ).stderr

    assert f"{site}:3: error: data.0.epsilon" in made()
    assert f"{site}:3: error: data.0.epsilon" in made(PRIVGRAD_POLICY=policy(100), HOME="/nowhere")
    assert not Path("run").exists()
    site.write_text(RULE.format(epsilon=4))
    made()
    assert Path("run", "summary.json").exists()


def own_data() -> dict[str, Any]:
    np.save("x.npy", np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32))
    np.save("y.npy", np.arange(50, dtype=np.float32) % 2)
    return {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2,
            "target_fill": 0, "feature_fill": 0}


@pytest.fixture
def federation(released: dict[str, Any]) -> dict[str, Any]:
    manifest = manifest_of(released, federated={"shards": "given", "sizes": [50] * 4, "partition": BY_COLUMN})
    manifest["data"] = {**manifest["data"], "size": 200}
    return manifest


def test_clients_obey_their_sites_policy(
    federation: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_data()
    monkeypatch.setenv("PRIVGRAD_POLICY", policy(2))
    for data in (own, None):
        with pytest.raises(privgrad.PrivacyError, match=r"data\.0\.epsilon: the run states epsilon"):
            federated.Client(federation, 0, "client", data=data)
    policy(4, "servers: ['alpha:9092']\n")
    for server in (None, "beta:9092"):
        with pytest.raises(privgrad.PrivacyError, match=r"policy\.yaml:4: error: servers: the client's server is"):
            federated.Client(federation, 0, "client", data=own, server=server)
    assert not Path("client").exists()
    assert federated.Client(federation, 0, "client", data=own, server="alpha:9092").introduction()["client"] == 0


def test_a_client_over_flower_tells_which_superlink_its_node_joined(
    federation: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed")
    from privgrad import flower

    assert flower._superlink() is None  # no process above this one is a SuperNode
    inner = "from privgrad import flower; print(flower._superlink())"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    for words in (["--superlink", "alpha:9092"], ["--superlink=alpha:9092"],
                  ["--superlink=evil:1", "--superlink", "alpha:9092"]):
        said = subprocess.run([sys.executable, "-c", outer, *words], text=True, check=True,
                              capture_output=True, timeout=100,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout
        assert said == "alpha:9092\n"
    # Flower takes abbreviations of its options, the last of which counts; then the server is not known.
    assert flower._option(["--superlink=alpha:9092", "--superl=evil:9092"], "--superlink") == ""
    assert flower._option(["--insecure", "alpha:9092"], "--superlink") is None

    own_data()
    Path("own.yaml").write_text("{kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2, target_fill: 0,\n"
                                " feature_fill: 0}\n")
    Path("m.yaml").write_text(privgrad.plan(federation).manifest)
    config = {"manifest": "m.yaml", "client": 0, "directory": "client", "data": "own.yaml"}
    monkeypatch.setenv("PRIVGRAD_POLICY", policy(2))
    with pytest.raises(privgrad.PrivacyError, match=r"data\.0\.epsilon"):
        flower._client_of(config)
    policy(4, "servers: ['alpha:9092']\n")
    with pytest.raises(privgrad.PrivacyError, match="the client's server is not known"):
        flower._client_of(config)
    monkeypatch.setattr(flower, "_superlink", lambda: "alpha:9092")
    assert flower._client_of(config).introduction()["client"] == 0


def test_no_manifest_beyond_a_policy_starts_as_a_client_over_flower(
    federation: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed")
    from privgrad import flower

    own_data()
    Path("own.yaml").write_text("{kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2, target_fill: 0,\n"
                                " feature_fill: 0}\n")
    monkeypatch.setattr(flower, "_superlink", lambda: "alpha:9092")
    monkeypatch.setenv("PRIVGRAD_POLICY", policy(2, "mode: release\nservers: ['alpha:9092']\n"))
    config = {"manifest": "m.yaml", "client": 0, "directory": "client", "data": "own.yaml"}
    federation["privacy"]["target_epsilon"] = 1.5

    # The manifest is written where no policy is in force, as a server's is.
    random = np.random.default_rng(11)
    for _ in range(200 if "PRIVGRAD_TEST_LONG" in os.environ else 20):
        changes = beyond(random, {"schedules.learning_rate": float(random.uniform(0.1, 1))})
        with monkeypatch.context() as elsewhere:
            elsewhere.delenv("PRIVGRAD_POLICY")
            Path("m.yaml").write_text(privgrad.plan(federation, overrides=changes).manifest)
        with pytest.raises(privgrad.PrivacyError, match=r"policy\.yaml:\d: error: "):
            flower._client_of(config)
    assert not Path("client").exists()
    Path("m.yaml").write_text(privgrad.plan(federation).manifest)
    assert flower._client_of(config).introduction()["client"] == 0


def beyond(random: np.random.Generator, changes: dict[str, Any]) -> dict[str, Any]:
    """Adds changes that go in one to three ways beyond a policy of epsilon 2 for release."""
    ways = [
        lambda: {"privacy.target_epsilon": float(random.uniform(2.2, 50))},
        lambda: {"privacy.target_delta": float(10 ** random.uniform(-3.9, -2.4))},
        lambda: {"mode": "research"},
        lambda: {"mode": "research", "privacy.noise": "off"},
        lambda: {"mode": "research", "seed": int(random.integers(100))},
    ]
    for way in random.choice(len(ways), size=random.integers(1, 4), replace=False):
        changes.update(ways[way]())
    return changes


def test_no_manifest_beyond_a_policy_starts_from_python(
    released: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(7)
    monkeypatch.setenv("PRIVGRAD_POLICY", policy(2, "mode: release\n"))
    released["privacy"]["target_epsilon"] = 1.5
    for _ in range(100 if "PRIVGRAD_TEST_LONG" in os.environ else 10):
        changes = beyond(random, {"steps": int(random.integers(1, 20))})
        with pytest.raises(privgrad.PrivacyError, match=r"policy\.yaml:\d: error: "):
            privgrad.run(released, overrides=changes, out="run")
    assert sorted(os.listdir()) == ["policy.yaml"]
