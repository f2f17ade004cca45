#!/usr/bin/python3
"""Compares training steps of PrivGrad's engine with PyTorch's, and private steps with Opacus's.

    pip install torch opacus
    bench/compare_torch.py [--program build/bench/training] [--rounds 5]

Plain and private steps on one thread (also for OMP and BLAS), with the same shapes: forward and
backward passes and the update by plain gradient descent; private steps clip to 1 and add noise with
multiplier 1. Opacus clips by ghost norms and by its hooks; without it, private steps of PyTorch are
left empty. All alternate in rounds, the time is processor time, and the fastest step of each
counts. Prints one JSON document.
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

try:
    import opacus
except ImportError:
    opacus = None


def dense():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


def conv():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))


class Torch:
    """A PyTorch network with the batch for its measurement."""

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


class Opacus(Torch):
    """The same network made private."""

    def __init__(self, make, batch, repeats, mode):
        super().__init__(make, batch, repeats)
        data = torch.utils.data.TensorDataset(self.images, self.labels)
        engine = opacus.PrivacyEngine()
        settings = {"module": self.network, "optimizer": torch.optim.SGD(self.network.parameters(), lr=1e-6),
                    "data_loader": torch.utils.data.DataLoader(data, batch_size=batch), "noise_multiplier": 1.0,
                    "max_grad_norm": 1.0, "poisson_sampling": False, "grad_sample_mode": mode}
        if mode == "ghost":
            made = engine.make_private(criterion=self.loss, **settings)
            self.network, self.optimizer, self.loss, _ = made
        else:
            self.network, self.optimizer, _ = engine.make_private(**settings)


def best_of_ours(program):
    answer = subprocess.run([program, "plain"], check=True, capture_output=True, text=True)
    rows = json.loads(answer.stdout)
    return [row["plain_step_ms"] for row in rows], [row["private_step_ms"] for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bench/training", help="PrivGrad's bench")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        sys.exit(f"compare_torch: {arguments.program} is no program; build with -DPRIVGRAD_BUILD_BENCH=ON")
    torch.set_num_threads(1)

    names = ["784-1000-10", "conv 5x5x32, pool, conv 5x5x64, pool, 512, 10"]
    shapes = [(dense, 256, 25), (conv, 256, 8)]
    rivals = {"torch": [Torch(*shape) for shape in shapes]}
    if opacus is not None:
        rivals["opacus_ghost"] = [Opacus(*shape, "ghost") for shape in shapes]
        rivals["opacus_hooks"] = [Opacus(*shape, "hooks") for shape in shapes]
    plain, private = [float("inf")] * 2, [float("inf")] * 2
    best = {name: [float("inf")] * 2 for name in rivals}
    for _ in range(arguments.rounds):
        now_plain, now_private = best_of_ours(arguments.program)
        plain, private = [[min(pair) for pair in zip(*pairs)] for pairs in ((plain, now_plain), (private, now_private))]
        for name, pair in rivals.items():
            best[name] = [min(old, one.best_ms()) for old, one in zip(best[name], pair)]

    report = {"torch": torch.__version__, "opacus": getattr(opacus, "__version__", None), "threads": 1, "networks": []}
    for i, name in enumerate(names):
        row = {"network": name, "batch": 256, "privgrad_ms": plain[i], "privgrad_private_ms": private[i],
               "torch_ms": best["torch"][i], "privgrad_over_torch": plain[i] / best["torch"][i]}
        for rival in ("opacus_ghost", "opacus_hooks"):
            theirs = best[rival][i] if rival in best else None
            row[rival + "_ms"] = theirs
            row[rival + "_over_privgrad_private"] = theirs and theirs / private[i]
        report["networks"].append(row)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
