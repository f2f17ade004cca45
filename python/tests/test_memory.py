"""Rows in memory: the same run as from files, without a copy, and only with the same rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from privgrad import _core
from privgrad.data import _Rows


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
    here = privgrad.run(with_rows(small, {"train": rows, "target_fill": 0}))
    assert weights(here) == weights(of_files)
    assert (here.epsilon, here.metrics) == (of_files.epsilon, of_files.metrics)
    assert here.unaccounted == of_files.unaccounted


def test_public_test_rows_are_not_training_rows(small: dict[str, Any], rows: Any) -> None:
    """The same object or memory is refused; whether rows are equal does not matter."""
    features, labels = rows
    for test in (rows, (features, labels), (features[100:], labels[100:])):
        with pytest.raises(privgrad.PrivacyError, match="they are training rows"):
            privgrad.plan(with_rows(small, {"train": rows, "test": test, "test_is_public": True}))
    halves = {"train": (features[:150], labels[:150]), "test": (features[150:], labels[150:])}
    copies = {"train": rows, "test": (features.copy(), labels.copy())}
    for given in (halves, copies, {"train": rows, "test": rows, "test_is_public": False}):
        privgrad.plan(with_rows(small, {"test_is_public": True, **given}))


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
    _core.lend("here", features, targets)
    assert sys.getrefcount(features) > before
    assert _core.take_back("here")
    assert sys.getrefcount(features) == before
    assert not _core.take_back("here")


def test_large_rows_are_not_copied(small: dict[str, Any]) -> None:
    # 80 MB as bytes, 320 MB as real numbers: neither is copied in addition.
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
    _core.lend("taken", *rows)
    try:
        with pytest.raises(privgrad.ConfigError, match="'taken' is lent already"):
            _core.lend("taken", *rows)
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
        (lambda x, y: (x, y + 5), r"target 0 is not a class index: a whole number in 0..1; target_fill says"),
        (lambda x, y: (np.where(np.arange(4) == 2, np.nan, x), y), "row 0, feature 2 is not a finite number; feature_fill says"),
        (lambda x, y: (x * 1e300, y), "is not a finite number; feature_fill says"),
        (lambda x, y: (x[:, 0], y), "expected at least two"),
        (lambda x, y: (x.astype("U8"), y), "expected numbers"),
        (lambda x, y: (x, np.stack([y, y], 1)), "have 2 axes, expected one"),
    ],
)
def test_rows_that_do_not_fit_are_said(
    small: dict[str, Any], rows: Any, spoil: Any, says: str
) -> None:
    features = rows[0].astype(np.float64)
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
        ({"labels": ["no", "maybe"]}, "is not one of labels"),
        ({"train": frame.assign(a=[None, *frame["a"][1:]])}, "the column 'a' has 1 missing"),
    ]:
        with pytest.raises(privgrad.PrivgradError, match=says):
            privgrad.plan({**small, "data": {**base, **changed}})


def test_a_tensor_is_read_by_dlpack(small: dict[str, Any], rows: Any) -> None:
    class Tensor:
        """An object that only supports DLPack."""

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


# ---- where no copy is made


def kept(given: Any, **section: Any) -> np.ndarray:
    """The array that is passed on."""
    return _Rows(given, {"kind": "memory", **section}, "train").features


def test_what_lies_in_rows_is_not_copied(rows: Any) -> None:
    import pandas
    import polars
    import pyarrow

    x = rows[0]
    bytes_ = x.astype(np.uint8)
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.ravel()), 4)
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(x)
    frame = pandas.DataFrame(x, columns=list("abcd"), copy=False)
    in_polars = polars.DataFrame({"x": polars.Series(x)})
    for given, of in [
        (x, x),
        (bytes_, bytes_),
        (frame, frame.to_numpy()),
        (pyarrow.table({"x": lists}), lists.flatten().to_numpy()),
        (pyarrow.table({"x": tensors}), tensors.storage.flatten().to_numpy()),
        (pyarrow.table({"x": lists}).slice(100, 50), lists.flatten().to_numpy()),
        (lists, lists.flatten().to_numpy()),
        (Capsules(pyarrow.table({"x": lists})), lists.flatten().to_numpy()),
        (Capsule(pyarrow.record_batch({"x": lists})), lists.flatten().to_numpy()),
        (Capsule(lists), lists.flatten().to_numpy()),
        (in_polars, in_polars["x"].to_arrow().flatten().to_numpy()),
        (pyarrow.table({"a": x[:, 0].copy()}), None),
    ]:
        lent = kept(given)
        assert lent.flags.c_contiguous and lent.dtype in (np.float32, np.uint8)
        assert of is None or np.shares_memory(lent, of), given
    sliced = kept(pyarrow.table({"x": lists}).slice(100, 50))
    np.testing.assert_array_equal(sliced, x[100:150])
    column = pyarrow.array(x[:, 0].copy())
    assert np.shares_memory(kept(pyarrow.table({"a": column})), column.to_numpy())


def test_what_lies_otherwise_is_copied_once(rows: Any) -> None:
    import pandas
    import pyarrow

    x = rows[0]
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.ravel()), 4)
    halves = pyarrow.chunked_array([lists.slice(0, 100), lists.slice(100)])
    for given in (np.asfortranarray(x), x.astype(np.float64), np.repeat(x, 2, axis=0)[::2],
                  pandas.DataFrame({name: x[:, i] for i, name in enumerate("abcd")}),
                  pyarrow.table({"x": halves})):
        lent = kept(given)
        assert lent.flags.c_contiguous and lent.dtype == np.float32
        np.testing.assert_array_equal(lent, x)


class Capsules:
    """An object that only has ``__arrow_c_stream__``."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Capsule:
    """An object that only has ``__arrow_c_array__``."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._array.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_arrow_capsules_are_enough(small: dict[str, Any], rows: Any, kind: str) -> None:
    import pyarrow

    table = pyarrow.table(frames(rows)[kind])
    section = {"kind": "memory", "target": "label", "labels": ["no", "yes"]}
    expected = weights(privgrad.run(with_rows(small, {"train": rows})))
    for given in (Capsules(table), Capsule(table.combine_chunks().to_batches()[0])):
        assert weights(privgrad.run({**small, "data": {**section, "train": given}})) == expected


def test_features_and_targets_may_be_columns(small: dict[str, Any], rows: Any) -> None:
    import pyarrow

    x = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows[0].ravel()), 4)
    given = {"features": Capsule(x), "targets": Capsule(pyarrow.array(rows[1]))}
    assert weights(privgrad.run(with_rows(small, {"train": given}))) == weights(
        privgrad.run(with_rows(small, {"train": rows})))


@pytest.mark.parametrize("missing", ["of numbers", "of lists"])
def test_a_list_with_missing_numbers_is_refused(small: dict[str, Any], missing: str) -> None:
    import pyarrow

    kind = pyarrow.list_(pyarrow.float32(), 2)
    values = [[0, None], [1, 1]] if missing == "of numbers" else [None, [1, 1]]
    table = pyarrow.table({"x": pyarrow.array(values, kind), "y": [0, 1]})
    with pytest.raises(privgrad.DataError, match="the column 'x' (has 1 missing|holds)"):
        privgrad.plan(with_rows(small, {"train": table, "target": "y"}))


def test_targets_that_are_none_count_as_declared(small: dict[str, Any], rows: Any) -> None:
    import pyarrow

    x, y = rows
    spoiled = y.copy()
    spoiled[[3, 50]] = [7, np.nan]
    fitted = y.copy()
    fitted[[3, 50]] = 1
    expected = weights(privgrad.run(with_rows(small, {"train": (x, fitted), "target_fill": 1})))
    with pytest.warns(privgrad.PrivgradWarning, match="2 of 300 targets are missing or invalid, and count as target_fill"):
        run = privgrad.run(with_rows(small, {"train": (x, spoiled), "target_fill": 1}))
    assert weights(run) == expected
    assert "target_fill: 1" in run.manifest()
    labels = ["no" if one == 0 else "yes" for one in y]
    labels[3], labels[50] = "maybe", None
    table = pyarrow.table({**{n: x[:, i] for i, n in enumerate("abcd")}, "label": labels})
    section = {"kind": "memory", "train": table, "target": "label", "labels": ["no", "yes"], "target_fill": 1}
    with pytest.warns(privgrad.PrivgradWarning, match="2 of 300"):
        assert weights(privgrad.run({**small, "data": section})) == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e300, None])
def test_features_that_are_not_finite_count_as_declared(
    small: dict[str, Any], rows: Any, bad: float | None
) -> None:
    import pyarrow

    x, y = rows[0].astype(np.float64), rows[1]
    fitted = x.copy()
    fitted[3, 1] = -2
    expected = weights(privgrad.run(with_rows(small, {"train": (fitted, y), "feature_fill": -2})))
    columns = {name: list(x[:, place]) for place, name in enumerate("abcd")}
    columns["b"][3] = bad
    table = pyarrow.table({**columns, "y": y})
    section = {"train": table, "target": "y", "feature_fill": -2}
    assert weights(privgrad.run(with_rows(small, section))) == expected
    with pytest.raises(privgrad.PrivgradError, match="feature_fill"):
        privgrad.run(with_rows(small, {"train": table, "target": "y"}))
    fact = "that every feature is finite (feature_fill)"
    assert fact in privgrad.plan(with_rows(small, {"train": (x, y)})).unaccounted
    assert fact not in privgrad.plan(with_rows(small, {"train": (x, y), "feature_fill": 0})).unaccounted


def test_that_every_target_fits_is_a_fact_of_the_rows(small: dict[str, Any], rows: Any) -> None:
    manifest = with_rows(small, {"train": rows})
    assert "that every target fits (target_fill)" in privgrad.plan(manifest).unaccounted
    filled = with_rows(small, {"train": rows, "target_fill": 0})
    assert "that every target fits (target_fill)" not in privgrad.plan(filled).unaccounted
    with pytest.raises(privgrad.ConfigError, match="target_fill is 2, expected a class index"):
        privgrad.plan(with_rows(small, {"train": rows, "target_fill": 2}))
