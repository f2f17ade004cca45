"""Tests the parts of bench/compare_journeys.py that need no other library.

usage: journeys_test.py [PROGRAM [PYTHON]]     in the root of the sources

PROGRAM: the built privgrad, for the journey with the command; without it that part is skipped.
PYTHON: an interpreter with onnxruntime, which runs the ONNX file on raw rows.
"""

import csv
import gzip
import os
import pathlib
import sys
import tempfile
import types

sys.path.insert(0, "bench")
import compare_journeys as journeys  # noqa: E402


def check_tables(folder):
    truth = journeys.make_tables(folder)
    first = {name: (folder / f"{name}.csv").read_bytes() for name in ("train", "test")}
    assert journeys.make_tables(folder) == truth
    assert first == {name: (folder / f"{name}.csv").read_bytes() for name in first}
    for name, count in journeys.ROWS.items():
        rows = list(csv.DictReader((folder / f"{name}.csv").read_text().splitlines()))
        assert len(rows) == count
        assert ("readmitted" in rows[0]) == (name == "train")  # rows to predict have no labels
        assert len({row["id"] for row in rows}) == count
        for column in journeys.COLUMNS[1:]:
            assert 0 < sum(row[column] == "" for row in rows) < count / 5, column
    yes = sum(label == "yes" for label in truth.values()) / len(truth)
    assert 0.3 < yes < 0.7  # no constant answer is correct for most rows
    return truth


def check_score(folder, truth):
    def scored(rows):
        (folder / "predictions.csv").write_text("id,class\n" + "".join(f"{who},{label}\n" for who, label in rows))
        return journeys.score(folder, truth)

    right = list(truth.items())
    wrong = [(who, "no" if label == "yes" else "yes") for who, label in right]
    assert scored(right) == (1.0, True)
    assert scored(wrong) == (0.0, True)
    assert scored(right[: len(right) // 2]) == (0.5, False)
    assert scored([(str(number), label) for number, (_, label) in enumerate(right)]) == (0.0, False)


def check_images(folder):
    """Predictions without an id belong to the test images, in order."""
    data = folder / "data"
    (data / "mnist").mkdir(parents=True)
    for name in journeys.IMAGES:
        with gzip.open(data / "mnist" / name, "wb") as file:
            file.write(bytes(8) + bytes([3, 1, 4]))
    os.environ["PRIVGRAD_DATA_DIR"] = str(data)
    taken = folder / "taken"
    taken.mkdir()
    truth = journeys.take_images(taken)
    assert {path.name for path in taken.iterdir()} == set(journeys.IMAGES)
    assert truth == {0: "3", 1: "1", 2: "4"}
    (folder / "predictions.csv").write_text("class\n3\n1\n5\n")
    assert journeys.score(folder, truth) == (2 / 3, True)
    (folder / "predictions.csv").write_text("class\n3\n1\n")
    assert journeys.score(folder, truth) == (2 / 3, False)


def check_words(folder):
    (folder / "typed").write_text("# why\n\na = 1  # one\n  \nb = 2\n")
    assert journeys.lines(folder, "typed", "typed") == 4
    # A standard deviation of 1, times 4.303 (the 97.5 % quantile of Student's t with 2 degrees of
    # freedom), divided by the square root of 3.
    assert journeys.interval([1.0, 2.0, 3.0]) == "2.0 +- 2.5"
    assert journeys.interval([80.0]) == "80.0"


def check_journey(folder, truth, program, python):
    args = types.SimpleNamespace(task="table", repeats=1, program=program, onnxruntime=python)
    files, command = journeys.by_command(program)
    lines, seconds, accuracy, statement, ledger, graph, ids = journeys.go(files, command, folder, truth, args)
    assert lines < 40 and float(seconds) < 60, (lines, seconds)
    assert float(accuracy) > 75, accuracy
    assert (statement, ledger, ids) == ("yes", "yes", "yes"), (statement, ledger, ids)
    rows = journeys.ROWS["test"]
    expected = f"raw rows: {rows} of {rows} as predicted" if python else "not asked: no --onnxruntime"
    assert graph == expected, graph


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    made = place / "made"
    made.mkdir()
    labels = check_tables(made)
    check_score(place, labels)
    check_images(place)
    check_words(place)
    if len(sys.argv) > 1:
        has_python = len(sys.argv) > 2 and os.path.exists(sys.argv[2])
        check_journey(made, labels, sys.argv[1], sys.argv[2] if has_python else None)
