"""Public test rows that are training rows are refused because of their memory, and only because of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad.sklearn import DPClassifier, DPGridSearch

X = np.random.default_rng(5).normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(np.float32)
REFUSED = "test_is_public.*they are training rows"


def planned(small: dict[str, Any], data: dict[str, Any], **more: Any) -> privgrad.Plan:
    return privgrad.plan({**small, "data": {"test_is_public": True, **data}}, **more)


def in_memory(train: Any, test: Any) -> dict[str, Any]:
    return {"kind": "memory", "classes": 2, "train": (train, Y[: len(train)].copy()), "test": (test, Y[: len(test)].copy())}


def frame(rows: np.ndarray) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows, columns=list("abcd"))


def mixed(rows: np.ndarray) -> Any:
    """Columns of several types, each stored in its own memory."""
    made = frame(rows)
    made["b"] = made["b"].astype("float32")
    made["c"] = made["c"].round().astype("Int16")
    made["d"] = made["d"].round().astype("int64")
    return made


def of_arrow(rows: np.ndarray) -> Any:
    table = pytest.importorskip("pyarrow").table({name: rows[:, i].copy() for i, name in enumerate("abcd")})
    return table


def of_polars(rows: np.ndarray) -> Any:
    return pytest.importorskip("polars").DataFrame({name: rows[:, i].copy() for i, name in enumerate("abcd")})


def tensor(rows: np.ndarray) -> Any:
    """A tensor with gradients, which no other library can read in place."""
    torch = pytest.importorskip("torch")
    return torch.tensor(rows.tolist(), dtype=torch.float64, requires_grad=True)


def of_bits(rows: np.ndarray) -> Any:
    return pytest.importorskip("pyarrow").table({"a": rows[:, 0] > 0, "b": rows[:, 1] > 0})


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda rows: rows.copy(),
    "columns of float64": lambda rows: np.asfortranarray(rows),
    "frame": frame,
    "frame of many types": mixed,
    "arrow": of_arrow,
    "polars": of_polars,
    "tensor": tensor,
    "bits": of_bits,
}


def part(rows: Any, first: int, end: int) -> Any:
    if hasattr(rows, "iloc"):
        return rows.iloc[first:end]
    return rows.slice(first, end - first) if hasattr(rows, "schema") and hasattr(rows, "slice") else rows[first:end]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_the_training_rows_are_refused_whatever_holds_them(small: dict[str, Any], kind: str) -> None:
    """Rows of float64 are copied to float32; the comparison uses the original memory."""
    rows = KINDS[kind](X)
    for test in (rows, part(rows, 100, 300), part(rows, 140, 160)):
        with pytest.raises(privgrad.PrivacyError, match=REFUSED):
            planned(small, in_memory(rows, test))
    planned(small, in_memory(part(rows, 0, 150), part(rows, 150, 300)))
    planned(small, in_memory(rows, KINDS[kind](X)))  # equal rows, but in another place


def test_rows_between_others_are_not_these(small: dict[str, Any]) -> None:
    planned(small, in_memory(X[::2], X[1::2]))
    with pytest.raises(privgrad.PrivacyError, match=REFUSED):
        planned(small, in_memory(X[::2], X[2::4]))


def test_tables_with_declared_columns_are_refused_too(small: dict[str, Any]) -> None:
    table = mixed(X)
    table["y"] = np.where(Y > 0, "yes", "no")
    data = {"kind": "memory", "target": "y", "labels": ["yes", "no"], "other_label": "no",
            "columns": [{"name": "*", "type": "number", "fill": 0}]}
    for test in (table, table.iloc[200:], table.drop(columns=["y"]).assign(y=table["y"].to_numpy().copy())):
        with pytest.raises(privgrad.PrivacyError, match=REFUSED):
            planned(small, {**data, "train": table, "test": test})
    planned(small, {**data, "train": table.iloc[:200], "test": table.iloc[200:]})
    planned(small, {**data, "train": table, "test": table.copy(deep=True).map(lambda x: x)})


def test_labels_of_training_rows_are_refused_too(small: dict[str, Any]) -> None:
    y = Y.copy()
    with pytest.raises(privgrad.PrivacyError, match=REFUSED):
        planned(small, {"kind": "memory", "classes": 2, "train": (X, y), "test": (X[:50].copy(), y[:50])})


def test_a_file_that_is_mapped_twice_is_one(small: dict[str, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    os.link(tmp_path / "x.npy", tmp_path / "other.npy")
    train, test = (np.load(tmp_path / name, mmap_mode="r") for name in ("x.npy", "other.npy"))
    with pytest.raises(privgrad.PrivacyError, match=REFUSED):
        planned(small, in_memory(train, test[250:]))
    planned(small, in_memory(train[:250], test[250:]))


def test_overrides_are_heard(small: dict[str, Any]) -> None:
    data = {**in_memory(X, X[:100]), "test_is_public": False}
    privgrad.plan({**small, "data": data})
    for yes in ("true", "True"):
        with pytest.raises(privgrad.PrivacyError, match=REFUSED):
            privgrad.plan({**small, "data": data}, overrides=[f"data.test_is_public={yes}"])


def test_a_search_is_not_scored_on_its_own_rows() -> None:
    y = Y.astype(int)
    search = DPGridSearch(DPClassifier(adjacency="zero_out", steps=2), {"learning_rate": [0.1, 1.0]}, epsilon=4, delta=1e-5,
                          validation=(X[:50], y[:50]))
    with pytest.raises(privgrad.PrivacyError, match="validation: .* are training rows"):
        search.fit(X, y)
    assert not hasattr(search, "ledgers_")
    search.set_params(validation=(X[:50].copy(), y[:50].copy())).fit(X, y)
    assert search.ledgers_


def test_names_of_one_array_in_a_file_are_one(small: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y, x2=X, y2=Y)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for group in ("one", "two"):
            file[f"{group}/x"], file[f"{group}/y"] = X, Y
        file["soft"] = h5py.SoftLink("/one/x")
        file["hard"] = file["one/x"]
        file["group"] = file["one"]

    def arrays(x: str, y: str) -> dict[str, str]:
        return {"features": str(tmp_path / "a.npz"), "targets": str(tmp_path / "a.npz"),
                "features_array": x, "targets_array": y}

    def sets(x: str, y: str) -> dict[str, str]:
        return {"file": str(tmp_path / "a.h5"), "features": x, "targets": y}

    for kind, make, train, same, others in (
        ("npy", arrays, ("x", "y"), [("x.npy", "y2"), ("x2", "y.npy")], [("x2", "y2")]),
        ("hdf5", sets, ("one/x", "one/y"),
         [("/one/x", "two/y"), ("one//x", "two/y"), ("./one/x", "two/y"), ("soft", "two/y"), ("hard", "two/y"),
          ("group/x", "two/y"), ("two/x", "group/y")],
         [("two/x", "two/y")]),
    ):
        for names in same:
            with pytest.raises(privgrad.PrivacyError, match=REFUSED):
                planned(small, {"kind": kind, "classes": 2, "train": make(*train), "test": make(*names)})
        for names in others:
            planned(small, {"kind": kind, "classes": 2, "train": make(*train), "test": make(*names)})
