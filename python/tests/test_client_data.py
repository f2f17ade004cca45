"""The data section of a separate client must not contradict the run's manifest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad import federated
from test_federated import BY_COLUMN, manifest_of

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")

SCALED = {"kind": "max_norm", "to": 1}


def client_of(small: dict[str, Any], transforms: list[Any], directory: str) -> federated.Client:
    """A client with its own transforms, in a run with the transforms SCALED."""
    np.save("x.npy", np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32))
    np.save("y.npy", np.arange(50, dtype=np.float32) % 2)
    own = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2}
    manifest = manifest_of(small, federated={"shards": "given", "sizes": [50] * 4, "partition": BY_COLUMN})
    manifest["data"] = {**manifest["data"], "size": 200, "transforms": [SCALED]}
    return federated.Client(manifest, 0, directory, data={**own, "transforms": transforms})


@pytest.mark.parametrize(
    "other", [[{"kind": "max_norm", "to": 3}], ["flatten"], [SCALED, SCALED], [SCALED, "flatten"]], ids=str)
def test_other_transforms_than_the_run_has_are_refused(small: dict[str, Any], other: list[Any]) -> None:
    with pytest.raises(privgrad.ConfigError, match=r"^data\.transforms: are not those of the run's manifest.*leave"):
        client_of(small, other, "refused")


@pytest.mark.parametrize("same", [[], [SCALED], [{"to": 1.0, "kind": "privgrad.max_norm:max_norm"}]], ids=str)
def test_the_transforms_of_the_run_may_be_left_out_or_said_again(small: dict[str, Any], same: list[Any]) -> None:
    assert client_of(small, same, "taken").introduction()["client"] == 0


def test_what_is_not_declared_is_refused_with_the_same_words_whatever_the_rows_hold(small: dict[str, Any]) -> None:
    manifest = manifest_of(small, federated={"shards": "given", "sizes": [50] * 4, "partition": BY_COLUMN}, mode="release")
    manifest.pop("seed", None)
    manifest["data"] = {**manifest["data"], "size": 200}
    said = set()
    for rows in ("a,b,c,d,y\n" + "1,2,3,4,0\n2,2,3,4,1\n" * 25, "a,b,c,d,y\n1,2,x,4,0\n", "a,b,c,d,y\n1,2\n", "a,b,c,d,y\n"):
        with open("rows.csv", "w", encoding="utf-8") as file:
            file.write(rows)
        with pytest.raises(privgrad.PrivacyError, match="release mode refuses 'that every row is well formed") as refused:
            federated.Client(manifest, 0, "refused", data={"kind": "csv", "train": "rows.csv", "target": "y", "classes": 2})
        said.add(str(refused.value))
    assert len(said) == 1
