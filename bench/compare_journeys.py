#!/usr/bin/env python3
"""From files to a private model and predictions, with PrivGrad and its peers: a mixed table or the
images of MNIST.

    scripts/environment.sh journey-opacus bench/journey/opacus-packages.txt             # prints the folder that it makes
    scripts/environment.sh journey-jax-privacy bench/journey/jax-privacy-packages.txt
    scripts/environment.sh journey-diffprivlib bench/journey/diffprivlib-packages.txt
    bench/compare_journeys.py table --python PYTHON --opacus PYTHON --jax-privacy PYTHON --diffprivlib PYTHON
    PRIVGRAD_DATA_DIR=~/data bench/compare_journeys.py images --repeats 1 ...

Each PYTHON is an interpreter: one with the packages privgrad, pandas and onnxruntime, and those of
the three environments. Without an interpreter, its rows are left empty. `table` is generated: 6000
rows for training and 2000 for testing, with an id, numbers, categories, yes and no, dates and
missing values; a linear model at epsilon 1, and an ONNX file if the library can make one. `images`:
the files of MNIST in PRIVGRAD_DATA_DIR/mnist; a network of 26 010 parameters at epsilon 3, or a
linear model for diffprivlib, which has no networks. All receive the same facts about the data, and
write predictions.csv; delta is 1e-5, except for diffprivlib, which needs none. Lines are those in
journey/ that a user writes, without empty lines and comments; lines that all peers need count for
each. Seconds are those of the fastest repeat, by the clock, including the start of each program.
Prints a Markdown table.
"""

import argparse
import csv
import gzip
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

JOURNEY = pathlib.Path(__file__).resolve().parent / "journey"
COLUMNS = ("id", "age", "sex", "city", "smoker", "admitted", "bmi")
ROWS = {"train": 6000, "test": 2000}
# 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom, from tables.
QUANTILES = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
HEAD = ("by", "lines", "seconds", "accuracy, %", "statement", "ledger verifies", "ONNX file", "ids")
IMAGES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def row(number, dice):
    """An invented patient, as texts; some of them are missing."""
    age, bmi = dice.randint(18, 95), min(max(dice.gauss(27, 5), 15), 55)
    city = dice.choice(("Basel", "Bern", "Geneva", "Zurich"))
    smokes, month = dice.random() < 0.3, dice.randint(1, 12)
    score = 0.05 * (age - 55) + 1.2 * smokes + 0.1 * (bmi - 27) + 0.8 * (month in (12, 1, 2)) + 0.6 * (city == "Bern") - 0.7
    label = "yes" if dice.random() < 1 / (1 + math.exp(-2 * score)) else "no"
    patient = {
        "id": f"P{number:05}", "age": str(age), "sex": dice.choice("fm"), "city": city, "smoker": "yes" if smokes else "no",
        "admitted": f"{dice.randint(2020, 2024)}-{month:02}-{dice.randint(1, 28):02}", "bmi": f"{bmi:.1f}",
    }
    for column in COLUMNS[1:]:
        if dice.random() < (0.1 if column == "bmi" else 0.01):
            patient[column] = ""
    return patient, label


def make_tables(folder):
    """Writes train.csv, test.csv, which has no labels, and returns the labels of test.csv by id."""
    dice = random.Random(1)
    truth = {}
    for name, count in ROWS.items():
        with open(folder / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS + (("readmitted",) if name == "train" else ()))
            for number in range(count):
                patient, label = row(number + (ROWS["train"] if name == "test" else 0), dice)
                table.writerow([*patient.values()] + ([label] if name == "train" else []))
                if name == "test":
                    truth[patient["id"]] = label
    return truth


def take_images(folder):
    """Copies the files of MNIST, and returns the labels of the test images by number."""
    place = os.environ.get("PRIVGRAD_DATA_DIR")
    if place is None or not all((pathlib.Path(place) / "mnist" / name).exists() for name in IMAGES):
        sys.exit("compare_journeys: PRIVGRAD_DATA_DIR/mnist does not hold " + ", ".join(IMAGES))
    for name in IMAGES:
        shutil.copy(pathlib.Path(place) / "mnist" / name, folder)
    return {number: str(label) for number, label in enumerate(gzip.open(folder / IMAGES[-1]).read()[8:])}


TASKS = {"table": make_tables, "images": take_images}


def lines(folder, *names):
    """How many lines a user writes, without empty ones and comments."""
    texts = [line.strip() for name in names for line in (folder / name).read_text().splitlines()]
    return sum(1 for text in texts if text and not text.startswith("#"))


def score(folder, truth):
    """The share of correct classes in predictions.csv, and whether each test row has its id there; rows
    without an id have their number."""
    with open(folder / "predictions.csv", newline="") as file:
        given = {entry.get("id", number): entry["class"] for number, entry in enumerate(csv.DictReader(file))}
    return sum(given.get(who) == label for who, label in truth.items()) / len(truth), set(given) == set(truth)


def interval(values):
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.1f}"
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return f"{mean:.1f} +- {QUANTILES[min(len(values), 10) - 2] * deviation / math.sqrt(len(values)):.1f}"


def left_behind(folder, program, python):
    """Three of the last four columns, for the folder of a finished journey."""
    statement = "yes" if (folder / "run/statement.json").exists() else "no"
    ledger = (folder / "run/ledger.jsonl").exists() and subprocess.run(
        [program, "verify", folder / "run"], stdout=subprocess.DEVNULL, check=False).returncode == 0
    graph = "none"
    if (folder / "model.onnx").exists():
        rows = ["test.csv", "predictions.csv"] if (folder / "test.csv").exists() else []
        graph = "not asked: no --onnxruntime" if python is None else subprocess.run(
            [python, JOURNEY / "onnx_answers.py", "model.onnx", *rows], cwd=folder, check=True, capture_output=True,
            text=True).stdout.strip()
    return statement, "yes" if ledger else "no", graph


def go(files, command, made, truth, args):
    """Makes a journey the given number of times, each in its own folder; returns its row of the table,
    without its name.

    made: the folder with the data; files: the journey's own files, in JOURNEY/TASK."""
    seconds, right = [], []
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for source in [*(JOURNEY / args.task / file for file in files), *made.iterdir()]:
                shutil.copy(source, folder)
            begin = time.monotonic()
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            seconds.append(time.monotonic() - begin)
            if done.returncode != 0:
                sys.exit(f"compare_journeys: {files[-1]} failed:\n{done.stderr[-2000:]}")
            share, has_ids = score(folder, truth)
            right.append(100 * share)
            left = left_behind(folder, args.program, args.onnxruntime)
    return lines(JOURNEY / args.task, *files), f"{min(seconds):.1f}", interval(right), *left, "yes" if has_ids else "no"


def by_command(program):
    """The files of PrivGrad's journey with the command, and the command line."""
    path = f"PATH={pathlib.Path(program).resolve().parent}:/usr/bin:/bin"
    return ("manifest.yaml", "by_command.sh"), ["env", path, "sh", "by_command.sh"]


def peers(args):
    """For each journey of a peer: its name, its files, and the command line, which is None without an
    interpreter."""
    common = {"table": "features.py", "images": "images.py"}[args.task]
    for who, file, python in (("Opacus", "by_opacus.py", args.opacus), ("JAX Privacy", "by_jax_privacy.py", args.jax_privacy),
                              ("diffprivlib", "by_diffprivlib.py", args.diffprivlib)):
        yield who, (common, file), python and [python, file]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--program", default="build/bin/privgrad")
    parser.add_argument("--python")
    parser.add_argument("--onnxruntime", help="an interpreter that has it, if that of --python is not to ask the ONNX files")
    parser.add_argument("--opacus")
    parser.add_argument("--jax-privacy")
    parser.add_argument("--diffprivlib")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    args.onnxruntime = args.onnxruntime or args.python
    args.program = str(pathlib.Path(args.program).resolve())
    journeys = [("PrivGrad, by command", *by_command(args.program))]
    if args.task == "table":
        journeys.append(("PrivGrad, by Python", ("by_python.py",), args.python and [args.python, "by_python.py"]))
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    with tempfile.TemporaryDirectory() as name:
        made = pathlib.Path(name)
        truth = TASKS[args.task](made)
        for who, files, command in [*journeys, *peers(args)]:
            empty = [lines(JOURNEY / args.task, *files)] + [""] * (len(HEAD) - 2)
            cells = go(files, command, made, truth, args) if command else empty
            print("| " + " | ".join(str(cell) for cell in (who, *cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
