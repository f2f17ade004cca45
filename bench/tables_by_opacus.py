"""Logistic regression by Opacus, for compare_tables.py: a line of JSON on the standard input asks for a
run, with the file of
its split, and a line of the standard output answers with the accuracy on the split's test rows."""

import functools
import json
import sys

import numpy
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier

EPOCHS = 20


@functools.cache
def noise_multiplier(epsilon, delta, batches):
    """The noise that Opacus needs: it draws each row with probability 1 / batches, in as many steps per
    epoch."""
    return get_noise_multiplier(target_epsilon=epsilon, target_delta=delta, sample_rate=1 / batches, steps=EPOCHS * batches,
                                accountant="prv")


def accuracy(file, classes, epsilon, delta, rate, seed):
    torch.manual_seed(seed)
    split = {name: torch.tensor(part) for name, part in numpy.load(file).items()}
    train = split["train"].float()
    batch = max(64, len(train) // 16)
    model = torch.nn.Linear(train.shape[1], classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(train, split["labels"]), batch_size=batch)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=0.5,
        noise_multiplier=noise_multiplier(epsilon, delta, len(loader)))
    for _ in range(EPOCHS):
        for features, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), targets).backward()
            optimizer.step()
    with torch.no_grad():
        return (model(split["test"].float()).argmax(1) == split["test_labels"]).double().mean().item()


for line in sys.stdin:
    print(accuracy(**json.loads(line)), flush=True)
