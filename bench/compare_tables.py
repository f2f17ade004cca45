#!/usr/bin/env python3
"""Compares logistic regression on tables by PrivGrad, diffprivlib and Opacus, at equal epsilon.

    scripts/environment.sh journey-diffprivlib bench/journey/diffprivlib-packages.txt   # prints the folder that it makes
    scripts/environment.sh journey-opacus bench/journey/opacus-packages.txt
    PYTHON bench/compare_tables.py --opacus PYTHON [--program build/bin/privgrad] [--splits 10] [--epsilons 1 3]

The first PYTHON is the interpreter of diffprivlib's environment, the second that of Opacus's
environment; without it, its column is left empty. The tables are breast cancer and digits of
scikit-learn, and a generated table like a census: ages, hours, categories. A fifth of the rows is
for testing, a different fifth in each split. Every feature is scaled to [-1, 1] by bounds that all
three receive, and every row to length 1, so that all have the same public bound.

PrivGrad and Opacus guarantee (epsilon, 1e-5), diffprivlib a pure epsilon, which costs more;
neighbours differ by one added or removed row. For each library, table and epsilon, one number is
chosen in the same way: the learning rate, or diffprivlib's C, the inverse of the regularisation.
Among five values a factor of 4 apart (C: 10), the choice is the one with the best mean over three
other splits on a fifth of the training rows, which is not used for training then; some of these
rows are test rows of the ten. The search is not charged. PrivGrad makes 30 steps, and 100 from 5000
rows on, Opacus 20 epochs of 16 batches or fewer, with momentum 0.9 in both. Prints a Markdown table
of accuracies in percent, means over the splits with Student's 95 % intervals, and a line on what
was chosen.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression as PrivateLogisticRegression
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

BY_OPACUS = pathlib.Path(__file__).resolve().parent / "tables_by_opacus.py"
DELTA = 1e-5
SEARCH = range(101, 104)  # the splits used for the choice
VALUES = {
    "PrivGrad": [0.001 * 4**power for power in range(5)],
    "diffprivlib": [0.01 * 10**power for power in range(5)],
    "Opacus": [0.0625 * 4**power for power in range(5)],
}
# 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom, from tables.
QUANTILES = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]

MANIFEST = """\
privgrad: 1
data:
  kind: npy
  train: {{features: {folder}/train.npy, targets: {folder}/train-labels.npy}}
  test: {{features: {folder}/test.npy, targets: {folder}/test-labels.npy}}
  classes: {classes}
  size: {size}
  test_is_public: true
  transforms:
    - {{kind: max_norm, to: 16, exactly: true}}
model: linear
sampler: full_batch
optimizer: {{kind: momentum, beta: 0.9, variant: heavy_ball}}
schedules:
  noise_multiplier: {{kind: list, as_shape: true, hold: true, values: [0.4, 1]}}
  clip_norm: 8
  learning_rate: {{kind: list, hold: true, values: [{first}, {rate}]}}
privacy: {{target_epsilon: {epsilon}, target_delta: {delta}, adjacency: add_or_remove_one, accountant: gdp}}
steps: {steps}
evaluate_every: {steps}
seed: {seed}
"""


def census(rows=20000):
    random = np.random.default_rng(0)
    age = random.integers(17, 81, rows)
    hours = np.clip(random.normal(40, 12, rows), 0, 100)
    education = np.clip(random.normal(10, 2.5, rows), 1, 16)
    gain = np.minimum(np.where(random.random(rows) < 0.08, random.exponential(8000, rows), 0), 20000)
    sex = random.integers(0, 2, rows)
    sizes = (6, 12, 4)  # of categories: kind of work, occupation, marital status
    chosen = [random.integers(0, size, rows) for size in sizes]
    weights = [random.normal(0, 0.7, size) for size in sizes]
    score = 0.04 * (age - 40) - 0.001 * (age - 48) ** 2 + 0.04 * (hours - 40) + 0.38 * (education - 10) - 2
    score += 0.3 * sex + gain / 3000 + sum(weight[of] for weight, of in zip(weights, chosen))
    labels = (random.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    numbers = np.stack([(age - 17) / 31.5 - 1, hours / 50 - 1, (education - 1) / 7.5 - 1, gain / 10000 - 1, 2 * sex - 1])
    return np.concatenate([numbers.T] + [np.eye(size)[of] for size, of in zip(sizes, chosen)], 1), labels


def tables():
    cancer, digits = load_breast_cancer(), load_digits()
    least, most = cancer.data.min(0), cancer.data.max(0)
    yield "breast cancer", 2 * (cancer.data - least) / (most - least) - 1, cancer.target
    yield "digits", digits.data / 8 - 1, digits.target
    yield "census-like", *census()


def by_privgrad(program, table, split, epsilon, rate, seed):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, array in zip(("train", "test", "train-labels", "test-labels"), split):
            np.save(folder / f"{part}.npy", array.astype(np.float32))
        text = MANIFEST.format(folder=name, classes=table.classes, size=len(split[0]), epsilon=epsilon, delta=DELTA, seed=seed,
                               rate=rate, first=10 * rate, steps=30 if len(split[0]) < 5000 else 100)
        (folder / "manifest.yaml").write_text(text)
        subprocess.run([program, "run", folder / "manifest.yaml", "--out", folder / "run", "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        return json.loads((folder / "run/summary.json").read_text())["metrics"]["test_accuracy"]


def by_diffprivlib(_, split, epsilon, c, seed):
    train, test, labels, test_labels = split
    model = PrivateLogisticRegression(epsilon=epsilon, data_norm=1.0, C=c, max_iter=1000, random_state=seed)
    return model.fit(train, labels).score(test, test_labels)


class Opacus:
    """A separate process with its own packages: a line of JSON asks for a run, and a line with the
    accuracy is the answer."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, "-W", "ignore", BY_OPACUS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def __call__(self, table, split, epsilon, rate, seed):
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file, **dict(zip(("train", "test", "labels", "test_labels"), split)))
            file.flush()
            asked = {"file": file.name, "classes": table.classes, "epsilon": epsilon, "delta": DELTA}
            print(json.dumps({**asked, "rate": rate, "seed": seed}), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("compare_tables: the process of Opacus has ended; what it said is above")
        return float(answer)


class Table:
    def __init__(self, name, features, labels):
        self.name, self.labels = name, labels
        self.features = features / np.linalg.norm(features, axis=1, keepdims=True)
        self.classes = int(labels.max()) + 1

    def split(self, number):
        return train_test_split(self.features, self.labels, test_size=0.2, random_state=number)

    def split_of_training_rows(self, number):
        train, _, labels, _ = self.split(number)
        return train_test_split(train, labels, test_size=0.2, random_state=number)


def accuracies(run, values, table, epsilon, splits):
    """The value chosen on training rows only, and its accuracies on the test rows of each split."""
    chosen = max(values, key=lambda value: np.mean(
        [run(table, table.split_of_training_rows(number), epsilon, value, number) for number in SEARCH]))
    return chosen, [run(table, table.split(number), epsilon, chosen, number) for number in splits]


def cell(values):
    values = 100 * np.array(values)
    if len(values) == 1:
        return f"{values[0]:.1f}"
    quantile = QUANTILES[min(len(values) - 2, len(QUANTILES) - 1)]
    return f"{values.mean():.1f} +- {quantile * values.std(ddof=1) / math.sqrt(len(values)):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bin/privgrad")
    parser.add_argument("--opacus")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 3])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = {"PrivGrad": lambda *asked: by_privgrad(args.program, *asked), "diffprivlib": by_diffprivlib}
    if args.opacus:
        runs["Opacus"] = Opacus(args.opacus)
    print("| table | rows, features | epsilon | PrivGrad | diffprivlib | Opacus | no privacy |\n" + "|---" * 7 + "|")
    notes = []
    for table in [Table(*parts) for parts in tables()]:
        splits = range(1, args.splits + 1)
        plain = [LogisticRegression(C=100, max_iter=2000).fit(s[0], s[2]).score(s[1], s[3]) for s in map(table.split, splits)]
        for epsilon in args.epsilons:
            found = {who: accuracies(run, VALUES[who], table, epsilon, splits) for who, run in runs.items()}
            cells = [cell(found[who][1]) if who in found else "" for who in VALUES]
            notes.append(f"{table.name} at {epsilon:g}: " + ", ".join(f"{who} {value:g}" for who, (value, _) in found.items()))
            print(f"| {table.name} | {len(table.features)}, {table.features.shape[1]} | {epsilon:g} | "
                  + " | ".join([*cells, cell(plain)]) + " |", flush=True)
    print("\nChosen: " + "; ".join(notes) + ".")


if __name__ == "__main__":
    main()
