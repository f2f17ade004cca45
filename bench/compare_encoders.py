#!/usr/bin/python3
"""Compares private steps of transformers with plain steps of PyTorch, and with Opacus's private ones.

    pip install torch opacus
    bench/compare_encoders.py [--program build/bin/privgrad] [--only NAME ...] [--rounds 3]

One thread, float32, processor time. A private step of PrivGrad (exact sums, noise and update) is the
difference between a run of many steps and one of few, divided by the number of steps between them:
reading and evaluating cancel. A step of PyTorch is forward and backward passes and an update by plain
gradient descent of the same network, made of its own modules; Opacus makes it private by ghost clipping
and by hooks. Rounds alternate, and the fastest of each counts. Prints one JSON document.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402  (reads the variables above)
from torch import nn  # noqa: E402

try:
    import opacus
except ImportError:
    opacus = None

# name: layers, width, heads, places, tokens, batch, rank of adapters, steps between the two runs
CASES = {
    "2 x 128, 64 places, batch 32": (2, 128, 4, 64, 1000, 32, 0, 20),
    "6 x 384, 64 places, batch 32, 22 M parameters": (6, 384, 12, 64, 30522, 32, 0, 3),
    "6 x 384, 64 places, batch 32, LoRA 8": (6, 384, 12, 64, 30522, 32, 8, 5),
}


class Encoder(nn.Module):
    def __init__(self, layers, width, heads, places, tokens):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(torch.zeros(1, places, width))
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.output = nn.Linear(width, 2)

    def forward(self, x):
        return self.output(self.blocks(self.tokens(x) + self.positions).mean(1))


class SplitAttention(nn.Module):
    """Attention from separate layers: what adapters and Opacus's hooks can reach."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        rows, places, width = x.shape
        q, k, v = (layer(x).view(rows, places, self.heads, -1).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(rows, places, width))


class SplitEncoder(nn.Module):
    def __init__(self, layers, width, heads, places, tokens):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "norm": nn.LayerNorm(width), "attention": SplitAttention(width, heads), "second": nn.LayerNorm(width),
            "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device).repeat(x.shape[0], 1)
        y = self.tokens(x) + self.positions(places)
        for block in self.blocks:
            y = y + block["attention"](block["norm"](y))
            y = y + block["down"](nn.functional.gelu(block["up"](block["second"](y))))
        return self.output(self.norm(y).mean(1))


class Adapted(nn.Module):
    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.b(self.a(x))


def adapt(network, rank):
    network.requires_grad_(False)
    for block in network.blocks:
        attention = block["attention"]
        attention.query, attention.value = Adapted(attention.query, rank), Adapted(attention.value, rank)
    return network


class Torch:
    def __init__(self, case, make, mode=None):
        layers, width, heads, places, tokens, batch, rank, _ = case
        torch.manual_seed(1)
        self.network = make(layers, width, heads, places, tokens)
        if rank:
            adapt(self.network, rank)
        self.network.train()
        self.x = torch.randint(0, tokens, (batch, places))
        self.y = torch.randint(0, 2, (batch,))
        self.loss = nn.CrossEntropyLoss()
        trained = [p for p in self.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=1e-6)
        if mode is None:
            return
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(self.x, self.y), batch_size=batch)
        settings = {"module": self.network, "optimizer": self.optimizer, "data_loader": loader,
                    "noise_multiplier": 1.0, "max_grad_norm": 1.0, "poisson_sampling": False, "grad_sample_mode": mode}
        if mode == "ghost":
            made = opacus.PrivacyEngine().make_private(criterion=self.loss, **settings)
            self.network, self.optimizer, self.loss, _ = made
        else:
            self.network, self.optimizer, _ = opacus.PrivacyEngine().make_private(**settings)

    def step_ms(self):
        begin = time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.network(self.x), self.y).backward()
        self.optimizer.step()
        return 1e3 * (time.process_time() - begin)

    def best_ms(self):
        return min(self.step_ms() for _ in range(4))


def manifest(case, steps, weights):
    layers, width, heads, _, tokens, batch, rank, _ = case
    adapters = f", weights: {{file: {weights}, public: true}}, lora: {{rank: {rank}, alpha: {rank}, " \
        "targets: ['*.query', '*.value']}" if rank else ""
    return f"""privgrad: 1
data: {{kind: npy, train: {{features: x.npy, targets: y.npy}}, classes: 2, target_fill: 0}}
model: {{kind: transformer, preset: encoder, vocabulary: {tokens}, layers: {layers}, width: {width}, heads: {heads}{adapters}}}
sampler: {{kind: shuffle, batch_size: {batch}}}
optimizer: sgd
schedules: {{clip_norm: 1, learning_rate: 0.000001, noise_multiplier: 1}}
privacy: {{target_delta: 1e-4, adjacency: replace_one, accountant: zcdp}}
steps: {steps}
evaluate_every: 1000000
"""


class PrivGrad:
    """Runs of the command in a folder of their own."""

    def __init__(self, program, case, folder):
        self.program, self.case, self.folder = program, case, Path(folder)
        _, _, _, places, tokens, batch, rank, _ = case
        random = np.random.default_rng(1)
        np.save(self.folder / "x.npy", random.integers(0, tokens, (batch, places)))
        np.save(self.folder / "y.npy", random.integers(0, 2, batch))
        self.weights, self.peak_mb = "", 0.0
        if rank:
            self.run(1, (*case[:6], 0, case[7]), "weights")
            self.weights = str(self.folder / "weights/model.safetensors")

    def run(self, steps, case, out):
        path = self.folder / f"{out}.yaml"
        path.write_text(manifest(case, steps, self.weights))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([self.program, "run", path, "--threads", "1", "--out", self.folder / out, "--quiet"],
                       check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def step_ms(self, number):
        steps = self.case[-1]
        few, many = (self.run(n, self.case, f"{number}-{n}") for n in (1, 1 + steps))
        return 1e3 * (many - few) / steps


def measure(program, name, rounds):
    case = CASES[name]
    rivals = {"torch": Torch(case, Encoder if not case[6] else SplitEncoder)}
    if opacus is not None:
        rivals |= {f"opacus_{mode}": Torch(case, SplitEncoder, mode) for mode in ("ghost", "hooks")}
    best = dict.fromkeys(("privgrad", *rivals), float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        ours = PrivGrad(program, case, folder)
        for number in range(rounds):
            best["privgrad"] = min(best["privgrad"], ours.step_ms(number))
            for rival, one in rivals.items():
                best[rival] = min(best[rival], one.best_ms())
    over = {f"{key}_over_torch": value / best["torch"] for key, value in best.items() if key != "torch"}
    return {"network": name, **{f"{key}_ms": value for key, value in best.items()}, **over}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/privgrad", help="the command")
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        sys.exit(f"compare_encoders: {arguments.program} is no program; build it, or name it by --program")
    torch.set_num_threads(1)
    report = {"torch": torch.__version__, "opacus": getattr(opacus, "__version__", None), "threads": 1,
              "networks": [measure(arguments.program, name, arguments.rounds) for name in arguments.only]}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
