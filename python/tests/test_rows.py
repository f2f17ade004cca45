"""Rows in memory in release mode, where every content of a row is accepted: no row can end a run, change how another row
is read, or appear in a message."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import privgrad

ROWS = 40
FEATURES = np.random.default_rng(0).uniform(-1, 1, (ROWS, 2)).astype(np.float32)
CLASSES = np.arange(ROWS) % 2
#: Cells that are not numbers.
CELLS = [np.nan, np.inf, -np.inf, None, "secret", "", b"x", 1j, [1, 2], ["a"], {}, object(), 10**400, -1e300,
         np.datetime64("2020-01-01"), np.array([1, 2])]
#: Cells that are numbers, in whatever notation.
NUMBERS = [(1, 1), ("0.5", 0.5), (True, 1), (np.float32(0.25), 0.25), (decimal.Decimal("0.5"), 0.5)]


def named(value: Any) -> str:
    return repr(value)[:15]


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, Any]]:
    """The features and targets that the engine receives."""
    seen = []

    def lend(name: str, features: np.ndarray, targets: Any, shares_rows_with: str) -> None:
        seen.append((features.copy(), None if targets is None else targets.copy()))
        core_lend(name, features, targets)

    core_lend = privgrad.data._core.lend
    monkeypatch.setattr(privgrad.data._core, "lend", lend)
    return seen


def released(**data: Any) -> privgrad.Run:
    """A run in release mode on rows for which every cell has a fill."""
    data = {"kind": "memory", "classes": 2, "feature_fill": 0, "target_fill": 0, **data}
    return privgrad.run({
        "privgrad": 1, "mode": "release", "data": {key: value for key, value in data.items() if value is not None},
        "model": {"kind": "linear", "loss": "cross_entropy"}, "sampler": "full_batch", "optimizer": "sgd",
        "schedules": {"clip_norm": 1, "learning_rate": 0.5, "noise_multiplier": "uniform"},
        "privacy": {"target_epsilon": 2, "target_delta": 1e-5, "adjacency": "zero_out", "accountant": "zcdp"},
        "steps": 2, "checkpoint": "off",
    })


def objects(values: Any, row: int, cell: Any) -> np.ndarray:
    """The values, with this cell among them."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    array[row] = cell
    return array


def as_array(spoilt: np.ndarray) -> Any:
    """Features with the given second column."""
    array = np.empty((ROWS, 2), dtype=object)
    array[:, 0], array[:, 1] = FEATURES[:, 0], spoilt
    return array


def as_frame(spoilt: np.ndarray) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": FEATURES[:, 0], "b": pandas.Series(spoilt, dtype=object)})


def as_array_of_frame(spoilt: np.ndarray) -> Any:
    return as_frame(spoilt).to_numpy()


of_features = pytest.mark.parametrize("kind", [as_array, as_frame, as_array_of_frame])


@pytest.mark.filterwarnings("error")
@of_features
@pytest.mark.parametrize(("cell", "number"), [*((cell, np.nan) for cell in CELLS), *NUMBERS], ids=named)
def test_a_cell_changes_its_own_feature_and_nothing_else(lent: Any, kind: Any, cell: Any, number: float) -> None:
    run = released(train=(kind(objects(FEATURES[:, 1], 7, cell)), CLASSES))
    expected = FEATURES.copy()
    expected[7, 1] = number
    ((features, _),) = lent
    np.testing.assert_array_equal(np.where(np.isfinite(features), features, np.nan), expected)
    assert (run.status, run.unaccounted) == ("completed", ())


def as_list(spoilt: np.ndarray) -> Any:
    return list(spoilt)


def as_series(spoilt: np.ndarray) -> Any:
    return pytest.importorskip("pandas").Series(spoilt, dtype=object)


def itself(spoilt: np.ndarray) -> Any:
    return spoilt


of_targets = pytest.mark.parametrize("kind", [itself, as_list, as_series])


@pytest.mark.filterwarnings("error")
@of_targets
@pytest.mark.parametrize(("cell", "number"), [*((cell, np.nan) for cell in CELLS), (1, 1), ("1", 1), (True, 1)], ids=named)
def test_a_target_changes_its_own_row_and_nothing_else(lent: Any, kind: Any, cell: Any, number: float) -> None:
    run = released(train=(FEATURES, kind(objects(CLASSES, 8, cell))))
    expected = CLASSES.astype(np.float32)
    expected[8] = number
    ((features, targets),) = lent
    np.testing.assert_array_equal(np.where(np.isfinite(targets), targets, np.nan), expected)
    np.testing.assert_array_equal(features, FEATURES)
    assert (run.status, run.unaccounted) == ("completed", ())


@pytest.mark.filterwarnings("error")
@of_targets
@pytest.mark.parametrize("labels", [["a", "b"], [3, 4]], ids=["texts", "numbers"])
@pytest.mark.parametrize("cell", CELLS, ids=named)
def test_a_label_changes_its_own_row_and_nothing_else(lent: Any, kind: Any, labels: Any, cell: Any) -> None:
    given = objects([labels[place] for place in CLASSES], 9, cell)
    run = released(train=(FEATURES, kind(given)), labels=labels, classes=None)
    expected = CLASSES.astype(np.float32)
    expected[9] = np.nan
    np.testing.assert_array_equal(lent[0][1], expected)
    assert (run.status, run.unaccounted) == ("completed", ())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cell", CELLS, ids=named)
def test_a_cell_of_a_frame_with_its_targets_is_read_by_itself(lent: Any, cell: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({
        "a": FEATURES[:, 0], "b": FEATURES[:, 1],
        "t": pandas.Series(objects(CLASSES, 8, cell), dtype=object),
    })
    released(train=frame, target="t")
    expected = CLASSES.astype(np.float32)
    expected[8] = np.nan
    ((features, targets),) = lent
    np.testing.assert_array_equal(np.where(np.isfinite(targets), targets, np.nan), expected)
    np.testing.assert_array_equal(features, FEATURES)


def tables_of(columns: dict[str, list[Any]]) -> list[Any]:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(columns)
    made = [table, pytest.importorskip("pandas").DataFrame(columns)]
    try:
        import polars
    except ImportError:
        return made
    return [*made, polars.DataFrame(columns)]


@pytest.mark.parametrize("cell", ["secret", "", None])
def test_a_text_that_makes_texts_of_its_column_changes_its_own_row(lent: Any, cell: Any) -> None:
    # As when a file is read in which one non-numeric field turns the whole column into texts.
    texts = [repr(float(number)) for number in FEATURES[:, 1]]
    targets = [str(place) for place in CLASSES]
    texts[3], targets[5] = cell, cell
    for table in tables_of({"a": list(FEATURES[:, 0]), "b": texts, "t": targets}):
        released(train=table, target="t")
    as_texts = np.array([cell if cell is not None else "none" for cell in targets])
    assert as_texts.dtype.kind == "U"
    released(train=(np.array([[repr(float(a)), b or "none"] for a, b in zip(FEATURES[:, 0], texts, strict=True)]), as_texts))
    expected, places = FEATURES.copy(), CLASSES.astype(np.float32)
    expected[3, 1] = places[5] = np.nan
    for features, found in lent:
        np.testing.assert_array_equal(features, expected)
        np.testing.assert_array_equal(found, places)


@pytest.mark.parametrize("cell", [300, 2**40, None, "secret", np.nan, -1, 0.5, 1j, True], ids=named)
def test_what_is_no_byte_among_bytes_changes_its_own_row(lent: Any, cell: Any) -> None:
    pandas = pytest.importorskip("pandas")
    whole = np.arange(2 * ROWS, dtype=np.uint8).reshape(ROWS, 2)
    rows = whole.tolist()
    rows[7][1] = cell
    spoilt = [np.array(rows), np.array(rows, dtype=object), pandas.DataFrame(rows), pandas.DataFrame(rows, columns=["a", "b"])]
    for given in (whole, *spoilt):
        released(train=(given, CLASSES), scale=1 / 255)
    expected = whole.astype(np.float32)
    assert lent[0][0].dtype == np.uint8
    for features, _ in lent[1:]:
        assert features.dtype == np.float32
        np.testing.assert_array_equal(np.delete(features, 7, axis=0), np.delete(expected, 7, axis=0))
        assert features[7, 0] == expected[7, 0]


def test_bytes_and_reals_of_the_same_numbers_train_the_same_model(small: dict[str, Any]) -> None:
    whole = np.arange(2 * ROWS, dtype=np.uint8).reshape(ROWS, 2)
    forms = (whole, whole.astype(np.int64), whole.astype(np.float32))
    scaled = whole.astype(np.float32) * np.float32(1 / 255)
    plain = privgrad.run({**small, "data": {"kind": "memory", "train": (scaled, CLASSES), "classes": 2}})
    expected = privgrad.predict(plain, scaled).probabilities
    for rows in forms:
        run = privgrad.run({**small, "data": {"kind": "memory", "train": (rows, CLASSES), "classes": 2, "scale": 1 / 255}})
        for others in forms:  # scaled like the training rows, without a new declaration
            np.testing.assert_array_equal(privgrad.predict(run, others).probabilities, expected)
            assert privgrad.verify(run, data={"train": (others, CLASSES)})
        assert privgrad.evaluate(run, (rows, CLASSES))["loss"] == privgrad.evaluate(plain, (scaled, CLASSES))["loss"]


@pytest.mark.parametrize(("labels", "targets"), [(["a", "b"], CLASSES), (["no", "yes"], CLASSES == 1), (["a", "b"], CLASSES + 0.5)], ids=str)
def test_labels_of_another_type_than_all_targets_are_refused_by_it_where_there_is_no_fill(small: dict[str, Any], lent: Any, labels: Any, targets: Any) -> None:
    with pytest.raises(privgrad.DataError, match=rf"holds {targets.dtype} values, none of which can be one of the labels \({labels[0]}, {labels[1]}\)"):
        privgrad.plan({**small, "data": {"kind": "memory", "train": (FEATURES, targets), "labels": labels}})
    assert released(train=(FEATURES, targets), labels=labels, classes=None).unaccounted == ()
    assert np.isnan(lent[-1][1]).all()


def test_what_is_missing_in_a_column_of_lists_changes_its_own_row(lent: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for kind, scale in ((pyarrow.float32(), 1), (pyarrow.uint8(), 0.5)):
        whole = [[row % 7, row % 5] for row in range(ROWS)]
        spoilt: list[Any] = list(whole)
        spoilt[3], spoilt[5] = None, [5, None]
        for lists in (whole, spoilt):
            table = pyarrow.table({"x": pyarrow.array([[0, 0], *lists], pyarrow.list_(kind, 2)).slice(1), "t": CLASSES})
            released(train=table, target="t", scale=scale)
        (plain, _), (filled, _) = lent[-2:]
        expected = plain.astype(np.float32)
        expected[3], expected[5, 1] = np.nan, np.nan
        np.testing.assert_array_equal(filled, expected)
        assert filled.shape == (ROWS, 2)


def test_a_large_whole_number_is_the_same_beside_a_text(lent: Any) -> None:
    # Between float32 and float64, rounding once or twice gives different results, so every path
    # rounds to float64 first.
    large = np.full((ROWS, 2), 2**60 + 2**36 + 1)
    spoilt = large.astype(object)
    spoilt[0, 0] = "secret"
    pandas = pytest.importorskip("pandas")
    for given in (large, spoilt, pandas.DataFrame(large), pandas.DataFrame(spoilt)):
        released(train=(given, CLASSES))
        np.testing.assert_array_equal(lent[0][0][1:], lent[-1][0][1:])


def messages(call: Callable[[], Any]) -> str:
    """The text of an error and of its causes."""
    with pytest.raises(privgrad.PrivgradError) as raised:
        call()
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None or raised.value.__suppress_context__
    return str(raised.value)


@pytest.mark.parametrize("mode", ["research", "release"])
@pytest.mark.parametrize("cell", ["secret", b"secret", ["secret"], {"secret": 1}], ids=named)
def test_no_error_shows_a_cell_or_its_length(small: dict[str, Any], mode: str, cell: Any) -> None:
    del small["seed"]
    frame = as_frame(objects(FEATURES[:, 1], 7, cell))
    sections: list[dict[str, Any]] = [
        {"train": (as_array(objects(FEATURES[:, 1], 7, cell)), CLASSES), "classes": 2},
        {"train": ([[0.0, 1.0], [cell, 2.0]], [0, 1]), "classes": 2},
        {"train": (frame, CLASSES), "classes": 2},
        {"train": frame, "target": "b", "features": ["a"], "classes": 2},
        *({"train": (FEATURES, kind(objects(CLASSES, 8, cell))), "classes": 2} for kind in (itself, as_list, as_series)),
        {"train": (FEATURES, objects(CLASSES, 8, cell)), "labels": [0, 1]},
    ]
    for section in sections:
        said = messages(lambda data=section: privgrad.plan({**small, "mode": mode, "data": {"kind": "memory", **data}}))
        assert not re.search(r"secret|U6|U21|\b(str|bytes|list|texts)\b", said.replace("type list", "")), said


def test_rows_that_say_how_wide_they_are_are_refused_with_fills() -> None:
    with pytest.raises(privgrad.ConfigError, match="^data.train: features: is of type list, as wide as its rows are; with"):
        released(train=(FEATURES.tolist(), CLASSES))


def test_fills_of_overrides_are_fills(small: dict[str, Any], lent: Any) -> None:
    small["data"] = {"kind": "memory", "train": (as_array(objects(FEATURES[:, 1], 7, "secret")), CLASSES), "classes": 2}
    with pytest.raises(privgrad.DataError, match="^data.train: features: holds objects, expected numbers$"):
        privgrad.plan(small)
    assert privgrad.plan(small, overrides={"data.feature_fill": 0})
    assert np.isnan(lent[-1][0][7, 1])
    # In release mode the outcome is the same for all rows, whatever they contain.
    del small["seed"]
    said = []
    for train in (small["data"]["train"], (FEATURES, CLASSES)):
        small["data"]["train"] = train
        with pytest.raises(privgrad.PrivacyError, match="release mode refuses 'that every feature is finite") as raised:
            privgrad.plan(small, overrides=(line for line in ["mode=release"]))
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_model_predicts_of_a_cell_what_it_learned(small: dict[str, Any]) -> None:
    spoilt = as_array(objects(FEATURES[:, 1], 7, "secret"))
    filled = FEATURES.copy()
    filled[7, 1] = 0.5
    small["data"] = {"kind": "memory", "train": (spoilt, CLASSES), "classes": 2, "feature_fill": 0.5, "target_fill": 0}
    run = privgrad.run(small)
    np.testing.assert_array_equal(privgrad.predict(run, spoilt).probabilities, privgrad.predict(run, filled).probabilities)
    assert privgrad.verify(run, data={"train": (spoilt, CLASSES)})
