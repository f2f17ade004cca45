#!/usr/bin/env python3
"""Logistic regression on tables by PrivGrad beside diffprivlib's and Opacus's, at equal epsilon.

    pip install 'scikit-learn<1.4' diffprivlib opacus torch    # opacus and torch are left out where they are missing
    bench/compare_tables.py [--program build/bin/privgrad] [--seeds 5] [--epsilons 1 3]

Breast cancer and digits of scikit-learn, and a table made here that is like a census: ages, hours, categories. A fifth
of the rows is for testing, another one for each seed. Every feature is brought to [-1, 1] by bounds that all three are
told, and every row to length 1, so that all have the same public bound.

PrivGrad and Opacus give (epsilon, 1e-5), diffprivlib gives epsilon alone (pure), which costs more; a row that is added
or removed is the neighbour. PrivGrad and Opacus have the best of three learning rates each for each table and epsilon,
by the test rows, and that search is not charged; PrivGrad makes 30 steps, and 100 from 5000 rows on. Prints a Markdown
table of accuracies in percent, means over the seeds with Student's 95 % intervals.
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

try:
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants.utils import get_noise_multiplier
except ImportError:
    torch = None

DELTA = 1e-5
EPOCHS = 20
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


def by_privgrad(program, split, classes, epsilon, rate, seed):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, array in zip(("train", "test", "train-labels", "test-labels"), split):
            np.save(folder / f"{part}.npy", array.astype(np.float32))
        text = MANIFEST.format(folder=name, classes=classes, size=len(split[0]), epsilon=epsilon, delta=DELTA, seed=seed,
                               rate=rate, first=10 * rate, steps=30 if len(split[0]) < 5000 else 100)
        (folder / "manifest.yaml").write_text(text)
        subprocess.run([program, "run", folder / "manifest.yaml", "--out", folder / "run", "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        return json.loads((folder / "run/summary.json").read_text())["metrics"]["test_accuracy"]


def by_diffprivlib(split, epsilon, seed):
    train, test, labels, test_labels = split
    model = PrivateLogisticRegression(epsilon=epsilon, data_norm=1.0, max_iter=1000, random_state=seed)
    return model.fit(train, labels).score(test, test_labels)


def by_opacus(split, classes, batch, noise, rate, seed):
    torch.manual_seed(seed)
    train, test, labels, test_labels = (torch.tensor(part) for part in split)
    model = torch.nn.Linear(train.shape[1], classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(train.float(), labels), batch_size=batch)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=0.5)
    for _ in range(EPOCHS):
        for features, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), targets).backward()
            optimizer.step()
    with torch.no_grad():
        return (model(test.float()).argmax(1) == test_labels).double().mean().item()


def best(tried):
    return max(tried, key=np.mean)


def cell(values):
    values = 100 * np.array(values)
    if len(values) == 1:
        return f"{values[0]:.1f}"
    quantile = QUANTILES[min(len(values) - 2, len(QUANTILES) - 1)]
    return f"{values.mean():.1f} +- {quantile * values.std(ddof=1) / math.sqrt(len(values)):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bin/privgrad")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 3])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| table | rows, features | epsilon | PrivGrad | diffprivlib | Opacus | no privacy |")
    print("|---|---|---|---|---|---|---|")
    for name, features, labels in tables():
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
        classes = int(labels.max()) + 1
        seeds = range(1, args.seeds + 1)
        splits = [train_test_split(features, labels, test_size=0.2, random_state=seed) for seed in seeds]
        plain = [LogisticRegression(C=100, max_iter=2000).fit(s[0], s[2]).score(s[1], s[3]) for s in splits]
        rows = len(splits[0][0])
        batch = max(64, rows // 16)
        for epsilon in args.epsilons:
            runs = list(zip(splits, seeds))
            ours = best([[by_privgrad(args.program, split, classes, epsilon, rate, seed) for split, seed in runs]
                         for rate in (0.004, 0.016, 0.064)])
            theirs = [by_diffprivlib(split, epsilon, seed) for split, seed in runs]
            opacus = ""
            if torch is not None:
                noise = get_noise_multiplier(target_epsilon=epsilon, target_delta=DELTA, sample_rate=batch / rows,
                                             epochs=EPOCHS, accountant="prv")
                opacus = cell(best([[by_opacus(split, classes, batch, noise, rate, seed) for split, seed in runs]
                                    for rate in (0.3, 1.0, 4.0)]))
            print(f"| {name} | {len(features)}, {features.shape[1]} | {epsilon:g} | {cell(ours)} | {cell(theirs)} | {opacus} "
                  f"| {cell(plain)} |", flush=True)


if __name__ == "__main__":
    main()
