#!/usr/bin/env python3
"""A run that several processes make together, beside the same run on threads of one.

    bench/cluster.py [--program build/bin/privgrad] [--data ../data] [--rounds 5] [--processes 2] [--network]

Steps of FedAvg's convolution network and of 784-1000-10, batches of 1024, on MNIST: by
one process with P threads and by P processes with one, in turns, for two numbers of steps whose difference is timed, so
that reading, planning and measuring cancel out. The fastest round of each counts; it wants an otherwise idle machine.

Bytes are counted by the kernel on the loopback device, with MPI over TCP (--network): what a step sends beside the
least that it could. The model of scaling is fitted to what was measured; its assumptions are in bench/README.md. Prints
one JSON document.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODELS = {"mlp": "{kind: mlp, hidden: [1000]}", "cnn": "{kind: cnn, preset: fedavg_cnn}"}
BATCH = 1024


def manifest(model, data, steps):
    def split(name):
        return f"{{images: {data}/{name}-images-idx3-ubyte.gz, labels: {data}/{name}-labels-idx1-ubyte.gz}}"

    return f"""privgrad: 1
name: cluster-{model}
data: {{kind: idx, train: {split("train")}, test: {split("t10k")}, classes: 10, size: 60000, test_is_public: true}}
model: {MODELS[model]}
sampler: {{kind: poisson, batch_size: {BATCH}}}
optimizer: {{kind: momentum, beta: 0.9}}
schedules: {{noise_multiplier: 1, clip_norm: 0.1, learning_rate: 1}}
privacy: {{target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}}
steps: {steps}
evaluate_every: {steps}
checkpoint: off
seed: 1
"""


class Runs:
    def __init__(self, arguments, folder):
        self.program = os.path.abspath(arguments.program)
        self.data = os.path.abspath(arguments.data)
        self.folder = pathlib.Path(folder)
        self.count = 0

    def seconds(self, model, steps, processes, threads, mpi=()):
        """Of a run's own clock, from the first step on."""
        self.count += 1
        file = self.folder / f"{model}-{steps}.yaml"
        file.write_text(manifest(model, self.data, steps))
        out = self.folder / f"run{self.count}"
        words = [self.program, "run", str(file), "--quiet", "--threads", str(threads), "--out", str(out)]
        if processes > 1:
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *mpi, "-np", str(processes), *words,
                     "--cluster", "mpi"]
        environment = dict(os.environ, XDG_STATE_HOME=str(self.folder / "state"))
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
        return json.loads((out / "summary.json").read_text())["seconds"]

    def step(self, model, few, many, **how):
        return (self.seconds(model, many, **how) - self.seconds(model, few, **how)) / (many - few)


def loopback_bytes():
    for line in open("/proc/net/dev"):
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise SystemExit("there is no loopback device to count bytes on")


def bytes_per_step(runs, model, few, many, processes):
    mpi = ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
    counts = []
    for steps in (few, many):
        before = loopback_bytes()
        runs.seconds(model, steps, processes, 1, mpi)
        counts.append(loopback_bytes() - before)
    return (counts[1] - counts[0]) / (many - few)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bin/privgrad")
    parser.add_argument("--data", default=os.environ.get("PRIVGRAD_DATA_DIR", "../data") + "/mnist")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--network", action="store_true", help="count the bytes, by TCP over loopback")
    arguments = parser.parse_args()
    result = {"processes": arguments.processes, "batch": BATCH, "networks": {}}
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(arguments, folder)
        for model, few, many in (("mlp", 20, 100), ("cnn", 4, 14)):
            one, threads, processes = [], [], []
            for _ in range(arguments.rounds):
                one.append(runs.step(model, few, many, processes=1, threads=1))
                threads.append(runs.step(model, few, many, processes=1, threads=arguments.processes))
                processes.append(runs.step(model, few, many, processes=arguments.processes, threads=1))
            numbers = {
                "seconds_on_one_thread": min(one),
                "seconds_on_threads": min(threads),
                "seconds_on_processes": min(processes),
                "speed_of_processes_over_threads": min(threads) / min(processes),
            }
            if arguments.network:
                numbers["bytes_per_step"] = bytes_per_step(runs, model, few, many, arguments.processes)
            result["networks"][model] = numbers
            print(json.dumps({model: numbers}), file=sys.stderr)
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
