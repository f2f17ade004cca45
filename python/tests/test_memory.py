"""Rows in memory: the same run as from files, without a copy, and only with the same rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad import _core


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Two clusters in float32."""
    random = np.random.default_rng(5)
    labels = random.integers(0, 2, size=300)
    features = (random.normal(size=(300, 4)) + 3 * labels[:, None]).astype(np.float32)
    return features, labels.astype(np.float32)


def with_rows(small: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    return {**small, "data": {"kind": "memory", "classes": 2, **data}}


def weights(run: privgrad.Run) -> bytes:
    raw = (run.run_dir / "model.safetensors").read_bytes()
    return raw[8 + int.from_bytes(raw[:8], "little") :]


def test_rows_in_memory_are_the_rows_of_files(small: dict[str, Any], rows: Any) -> None:
    np.save("x.npy", rows[0])
    np.save("y.npy", rows[1])
    small["data"] = {"kind": "npy", "train": {"features": "x.npy", "targets": "y.npy"}, "classes": 2,
                     "target_fill": 0}
    of_files = privgrad.run(small)
    here = privgrad.run(with_rows(small, {"train": rows}))
    assert weights(here) == weights(of_files)
    assert (here.epsilon, here.metrics) == (of_files.epsilon, of_files.metrics)
    assert here.unaccounted == of_files.unaccounted


def test_the_manifest_says_what_was_declared(small: dict[str, Any], rows: Any) -> None:
    run = privgrad.run(with_rows(small, {"train": rows}))
    text = run.manifest()
    assert "privgrad.memory:memory" in text
    assert "table: train" in text
    assert "classes: 2" in text


def test_without_the_number_of_classes_it_is_listed(small: dict[str, Any], rows: Any) -> None:
    manifest = {**small, "data": {"kind": "memory", "train": rows}}
    assert "number of classes" in " ".join(privgrad.plan(manifest).unaccounted)
    assert "number of classes" not in " ".join(
        privgrad.plan(with_rows(small, {"train": rows})).unaccounted
    )


def test_rows_are_read_where_they_lie(rows: Any) -> None:
    features, targets = rows
    before = sys.getrefcount(features)
    _core.lend("here", features, targets, 1.0)
    assert sys.getrefcount(features) > before
    assert _core.take_back("here")
    assert sys.getrefcount(features) == before
    assert not _core.take_back("here")


def test_large_rows_are_not_copied(small: dict[str, Any]) -> None:
    # 80 MB of bytes, 320 MB as reals: neither is made again beside them.
    import resource

    features = np.zeros((20_000, 4000), dtype=np.uint8)
    targets = np.tile(np.array([0, 1], dtype=np.float32), 10_000)
    manifest = with_rows(small, {"train": (features, targets), "scale": 1 / 255}) | {
        "sampler": {"kind": "poisson", "batch_size": 8}, "steps": 2,
        "privacy": {"target_epsilon": 3, "target_delta": 1e-6,
                    "adjacency": "add_or_remove_one", "accountant": "rdp"},
    }
    features += 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    privgrad.run(manifest)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 60e6


def test_a_table_can_be_lent_once(rows: Any) -> None:
    _core.lend("taken", *rows, 1.0)
    try:
        with pytest.raises(privgrad.ConfigError, match="'taken' is lent already"):
            _core.lend("taken", *rows, 1.0)
    finally:
        _core.take_back("taken")


def test_the_command_says_that_rows_are_not_there(
    command: Any, small: dict[str, Any], rows: Any
) -> None:
    run = privgrad.run(with_rows(small, {"train": rows}), out="run")
    code, said = command.fails("run", run.run_dir / "manifest.yaml", "--out", "again")
    assert code == 4
    assert "the table 'train' is not in this process" in said
    assert command("verify", "run", "--json")["verified"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda x, y: (x, y[:-1]), "300 examples, but 299 targets"),
        (lambda x, y: (x, y + 5), r"target 0 is [56], expected a class index"),
        (lambda x, y: (np.where(np.arange(4) == 2, np.nan, x), y), "row 0, feature 2 is nan"),
        (lambda x, y: (x * 1e300, y), "is -?inf, expected a finite number"),
        (lambda x, y: (x[:, 0], y), "expected at least two"),
        (lambda x, y: (x.astype("U8"), y), "expected numbers"),
        (lambda x, y: (x, np.stack([y, y], 1)), "have 2 axes, expected one"),
    ],
)
def test_rows_that_do_not_fit_are_said(
    small: dict[str, Any], rows: Any, spoil: Any, says: str
) -> None:
    features = rows[0].astype(np.float64) if "inf" in says else rows[0]
    with pytest.raises(privgrad.PrivgradError, match=says):
        privgrad.run(with_rows(small, {"train": spoil(features, rows[1])}))


def test_a_run_goes_on_with_the_same_rows_alone(small: dict[str, Any], rows: Any) -> None:
    class Enough(Exception):
        pass

    def stop(progress: privgrad.Progress) -> None:
        raise Enough

    manifest = with_rows(small, {"train": rows}) | {"steps": 3000, "evaluate_every": 10}
    whole = privgrad.run(manifest)
    with pytest.raises(Enough):
        privgrad.run(manifest, out="cut", callback=stop)
    with pytest.raises(privgrad.DataError, match="the table 'train' is not in this process"):
        privgrad.run(resume="cut")
    other = (rows[0].copy(), rows[1])
    other[0][17, 2] += 1e-3
    with pytest.raises(privgrad.PrivacyError):
        privgrad.run(resume="cut", data={"kind": "memory", "train": other})
    done = privgrad.run(resume="cut", data={"kind": "memory", "train": rows})
    assert weights(done) == weights(whole)
    assert privgrad.verify(done, data={"train": rows})
    assert not privgrad.verify(done, data={"train": other})


def test_a_model_is_applied_to_rows(small: dict[str, Any], rows: Any) -> None:
    run = privgrad.run(with_rows(small, {"train": rows, "test": rows}))
    with pytest.raises(privgrad.DataError, match="is not in this process"):
        privgrad.predict(run)
    of_run = privgrad.predict(run, {"kind": "memory", "train": rows, "test": rows})
    assert (of_run.split, len(of_run)) == ("test", 300)
    here = privgrad.predict(run, rows[0])
    np.testing.assert_array_equal(here.probabilities, of_run.probabilities)
    assert privgrad.evaluate(run, rows)["accuracy"] == privgrad.evaluate(
        run, {"kind": "memory", "train": rows, "test": rows}
    )["accuracy"] > 0.9


def test_images_as_bytes_are_scaled(small: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    images = random.integers(0, 256, size=(50, 6, 6), dtype=np.uint8)
    labels = (images.mean(axis=(1, 2)) > 127).astype(np.int64)
    small["data"] = {"kind": "memory", "train": (images, labels), "classes": 2, "scale": 1 / 255,
                     "transforms": ["flatten"]}
    of_bytes = privgrad.run(small)
    reals = (images.astype(np.float32) * np.float32(1 / 255), labels)
    small["data"] = {**small["data"], "train": reals}
    del small["data"]["scale"]
    assert weights(privgrad.run(small)) == weights(of_bytes)


def test_a_study_has_rows_in_memory(small: dict[str, Any], rows: Any) -> None:
    base = {k: v for k, v in with_rows(small, {"train": rows}).items() if k != "seed"}
    study = {"study": 1, "name": "s", "base": base, "seeds": [1, 2], "metrics": ["train_loss"],
             "axes": {"schedules.learning_rate": [0.1, 0.5]}}
    assert [arm.runs for arm in privgrad.ablate(study).arms] == [2, 2]


# ---- tables


def frames(rows: Any) -> dict[str, Any]:
    import pandas
    import polars
    import pyarrow
    import pyarrow.parquet

    columns = {name: rows[0][:, i] for i, name in enumerate("abcd")}
    columns["label"] = np.where(rows[1] == 1, "yes", "no")
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, "rows.parquet")
    return {"pandas": pandas.DataFrame(columns), "polars": polars.DataFrame(columns),
            "pyarrow": table, "parquet": "rows.parquet"}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "parquet"])
def test_tables_are_the_same_rows(small: dict[str, Any], rows: Any, kind: str) -> None:
    of_arrays = privgrad.run(with_rows(small, {"train": rows}))
    section = {"kind": "memory", "train": frames(rows)[kind], "target": "label",
               "labels": ["no", "yes"]}
    run = privgrad.run({**small, "data": section})
    assert weights(run) == weights(of_arrays)
    assert "feature_names" in run.manifest()
    assert privgrad.predict(run, rows[0]).classes == ("no", "yes")


def test_a_table_says_what_does_not_fit(small: dict[str, Any], rows: Any) -> None:
    frame = frames(rows)["pandas"]
    base = {"kind": "memory", "train": frame, "target": "label", "labels": ["no", "yes"]}
    for changed, says in [
        ({"target": "lable"}, "there is no column 'lable'; there are a, b, c, d, label"),
        ({"features": ["a", "label"]}, "the column 'label' holds .* values, expected numbers"),
        ({"labels": ["no", "maybe"]}, "is none of labels"),
        ({"train": frame.assign(a=[None, *frame["a"][1:]])}, "the column 'a' has 1 missing"),
    ]:
        with pytest.raises(privgrad.PrivgradError, match=says):
            privgrad.plan({**small, "data": {**base, **changed}})


def test_a_tensor_is_read_by_dlpack(small: dict[str, Any], rows: Any) -> None:
    class Tensor:
        """What has DLPack and nothing else."""

        def __init__(self, array: np.ndarray) -> None:
            self._array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    lent = tuple(Tensor(array) for array in rows)
    assert weights(privgrad.run(with_rows(small, {"train": lent}))) == weights(
        privgrad.run(with_rows(small, {"train": rows}))
    )
    assert Path("runs").is_dir()
