#!/usr/bin/python3
"""Plain training steps of PrivGrad's engine beside PyTorch's, for the networks of `training`.

    sudo apt-get install python3-torch
    bench/compare_torch.py [--program build/bench/training] [--rounds 5]

Both train without privacy, on one thread (OMP and BLAS too), on the same shapes: forwards, backwards and the update by plain
gradient descent. They alternate in rounds, time is the processor's and not the clock's, and the fastest step of each counts.
Prints one JSON document.
"""

import argparse
import json
import os
import subprocess
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[name] = "1"

import torch  # noqa: E402  (reads the variables above)
from torch import nn  # noqa: E402


def dense():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


def conv():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))


class Torch:
    """One network of PyTorch's with the batch that it is measured on."""

    def __init__(self, make, batch, repeats):
        torch.manual_seed(1)
        self.repeats = repeats
        self.network = make()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-6)
        self.loss = nn.CrossEntropyLoss()
        self.images = torch.rand(batch, 1, 28, 28)
        self.labels = torch.randint(0, 10, (batch,))

    def step(self):
        begin = time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.network(self.images), self.labels).backward()
        self.optimizer.step()
        return 1e3 * (time.process_time() - begin)

    def best_ms(self):
        self.step()
        return min(self.step() for _ in range(self.repeats))


def best_of_ours(program):
    answer = subprocess.run([program, "plain"], check=True, capture_output=True, text=True)
    return [row["plain_step_ms"] for row in json.loads(answer.stdout)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bench/training", help="PrivGrad's bench")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        sys.exit(f"compare_torch: {arguments.program} is no program; build with -DPRIVGRAD_BUILD_BENCH=ON")
    torch.set_num_threads(1)

    names = ["784-1000-10", "conv 5x5x32, pool, conv 5x5x64, pool, 512, 10"]
    theirs = [Torch(dense, 256, 25), Torch(conv, 256, 8)]
    ours_ms, theirs_ms = [float("inf")] * 2, [float("inf")] * 2
    for _ in range(arguments.rounds):
        ours_ms = [min(pair) for pair in zip(ours_ms, best_of_ours(arguments.program))]
        theirs_ms = [min(best, one.best_ms()) for best, one in zip(theirs_ms, theirs)]

    print(json.dumps({
        "torch": torch.__version__,
        "threads": 1,
        "networks": [
            {"network": name, "batch": 256, "privgrad_ms": ours, "torch_ms": other, "privgrad_over_torch": ours / other}
            for name, ours, other in zip(names, ours_ms, theirs_ms)
        ],
    }, indent=2))


if __name__ == "__main__":
    main()
