#!/usr/bin/env python3
"""Makes runs.tar.gz and answers.json: runs of this build, and this build's answers about them.

    make.py PRIVGRAD runs      the rows, every run of runs.toml and study.yaml, and the answers about them
    make.py PRIVGRAD answers   the answers alone, about the runs of the archive

README.md says when to do which.
"""

import gzip
import io
import json
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# Where runs are made. They record the paths of their data, which must not reveal who made them.
MAKING = pathlib.Path("/tmp/privgrad-kept-runs")

# The rows that a model is applied to, points/NAME.yaml; those with four features are
# points/four.yaml.
POINTS = {
    "models/data-table": "table",
    "models/cnn": "images",
    "models/cnn-augmented": "images",
    "statistics/scattering": "images",
    "statistics/whiten": "images",
    "models/data-memory": "sample",
    "models/regression": "reals",
    "federated/by-column": "hospitals",
    "resumed/federated": "many",
    "resumed/plain": "many",
    "stopped/interrupted": "many",
}


def call(program, *words, expected=0, **options):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, **options)
    if done.returncode != expected:
        sys.exit(f"make.py: exit code {done.returncode}: {' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


# ---- rows


def make_rows():
    """Meaningless rows: tables, and images of 6 x 6 whose left or right half is brighter."""
    coins = random.Random(1)
    folder = HERE / "data"
    folder.mkdir(exist_ok=True)
    lines = ["id,age,sex,smoker,since,outcome"]
    for i in range(60):
        age = "" if i % 17 == 5 else str(coins.randint(18, 99))
        day = f"{coins.randint(2020, 2027)}-{coins.randint(1, 12):02}-{coins.randint(1, 28):02}"
        sex, smoker = coins.choice("fm?"), coins.choice(["yes", "no"])
        lines.append(f"{i},{age},{sex},{smoker},{day},{'yes' if coins.random() < 0.4 else 'no'}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    lines = ["hospital,a,b,outcome"]
    for i in range(40):
        label = coins.randint(0, 1)
        lines.append(f"{int(i >= 24)},{label + coins.gauss(0, 1):.3f},{coins.gauss(0, 1):.3f},{label}")
    (folder / "hospitals.csv").write_text("\n".join(lines) + "\n")
    labels = [coins.randint(0, 1) for _ in range(24)]
    pixels = bytes(
        coins.randint(0, 99) + (150 if (column < 3) == bool(label) else 0)
        for label in labels for _ in range(6) for column in range(6))
    (folder / "images.idx").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 24, 6, 6) + pixels)
    (folder / "labels.idx").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 24) + bytes(labels))
    lines = ["a,b,c,d"] + [",".join(f"{coins.gauss(0, 2):.3f}" for _ in range(4)) for _ in range(5)]
    (HERE / "points" / "four.csv").write_text("\n".join(lines) + "\n")


# ---- runs


def words_of(changes):
    return [word for change in changes for word in ("--set", change)]


def stop(program, run, words, by):
    """Ends the run by a signal after some of its steps have been charged."""
    process = subprocess.Popen([program, *map(str, words)], stderr=subprocess.DEVNULL, cwd=MAKING)
    while sum(len(file.read_text().splitlines()) for file in run.rglob("*.jsonl")) < 10:
        if process.poll() is not None:
            sys.exit(f"make.py: {run.name} ended before it could be stopped")
        time.sleep(0.001)
    process.send_signal(by)
    if process.wait() not in (1, -by):
        sys.exit(f"make.py: {run.name} ended before it was stopped")


def make_run(program, kind, name, changes, state):
    run = MAKING / kind / name
    base = MAKING / ("unseeded.yaml" if kind == "release" else "base.yaml")
    words = ["run", base, *words_of(["name=" + name, *changes]), "--out", run, "--state", state, "--quiet"]
    if kind == "stopped":
        return stop(program, run, words, signal.SIGKILL if name == "killed" else signal.SIGINT)
    if kind == "resumed":
        stop(program, run, words, signal.SIGINT)
        words = ["run", "--resume", run, "--state", state, "--quiet"]
    call(program, *words, cwd=MAKING)
    if kind == "audited":
        call(program, "audit", run, "--canaries", 20, cwd=MAKING)


def make_runs(program):
    make_rows()
    MAKING.mkdir()
    shutil.copytree(HERE / "data", MAKING / "data")
    base = (HERE / "base.yaml").read_text()
    (MAKING / "base.yaml").write_text(base)
    (MAKING / "unseeded.yaml").write_text(base.replace("seed: 1\n", ""))  # release mode refuses a seed
    shutil.copy(HERE / "study.yaml", MAKING)
    with tempfile.TemporaryDirectory() as state:
        for kind, runs in tomllib.loads((HERE / "runs.toml").read_text()).items():
            for name, changes in runs.items():
                make_run(program, kind, name, changes, state)
    call(program, "ablate", "study.yaml", "--out", "studies/schedules", cwd=MAKING)
    pack([file for file in sorted(MAKING.glob("*/**/*")) if file.is_file() and not is_made_again(file)])
    shutil.rmtree(MAKING)


def is_made_again(file):
    """Pages are large, and are made from the other files."""
    return file.name == "report.html" or file.is_relative_to(MAKING / "data")


def pack(files):
    """The archive does not reveal who made it, where, or when."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for file in files:
            entry = tarfile.TarInfo(str(file.relative_to(MAKING)))
            entry.size = file.stat().st_size
            archive.addfile(entry, io.BytesIO(file.read_bytes()))
    (HERE / "runs.tar.gz").write_bytes(gzip.compress(tar.getvalue(), mtime=0))


# ---- answers


# The beginning of a note that appears only if another build made the run than the one that answers.
OF_OTHER_CODE = "the plugins or the program are not the files"


def answers_about(program, folder):
    answers = {}
    names = {str(file.parent.relative_to(folder)) for file in folder.rglob("manifest.yaml")}
    names = {name for name in names if "/arms/" not in name} | {"studies/schedules"}
    for name in sorted(names):
        run = folder / name
        verified = subprocess.run([program, "verify", run, "--json"], capture_output=True, text=True)
        said = json.loads(verified.stdout)
        said["notes"] = [note for note in said["notes"] if not note.startswith(OF_OTHER_CODE)]
        answer = {"verify": said}
        if (run / "model.safetensors").exists():
            answer["points"] = POINTS.get(name, "four")
            points = HERE / "points" / (answer["points"] + ".yaml")
            predicted = json.loads(call(program, "predict", run, "--data", points, "--json"))
            answer["predict"] = {key: predicted[key] for key in ("values", "probabilities") if key in predicted}
            statement = call(program, "report", run, "--statement")
            answer["report"] = [" ".join(part.split()) for part in statement.split("\n\n")]
        answers[name] = answer
    return answers


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("runs", "answers"):
        sys.exit("usage: make.py PRIVGRAD runs|answers")
    program = str(pathlib.Path(sys.argv[1]).resolve())
    if sys.argv[2] == "runs":
        make_runs(program)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(HERE / "runs.tar.gz") as archive:
            archive.extractall(folder)
        answers = answers_about(program, pathlib.Path(folder))
    text = json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False)
    rows = re.compile(r"\[[-+\de.,\s]+\]")
    text = rows.sub(lambda row: " ".join(row[0].split()), text)
    (HERE / "answers.json").write_text(text + "\n")


main()
