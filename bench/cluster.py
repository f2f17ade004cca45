#!/usr/bin/env python3
"""Compares a run of several processes with the same run on the threads of one process.

    bench/cluster.py [--program build/bin/privgrad] [--data ../data/mnist] [--rounds 5] [--networks mlp,cnn,encoder]

Steps of FedAvg's convolution network and of 784-1000-10, Poisson batches of 1024, on MNIST, and of
an encoder of 2 layers of width 128, Poisson batches of 256 made-up sequences of 64 tokens: one
process with two threads and two processes with one thread alternate, for two numbers of steps whose
difference is timed, so that reading, planning and measuring cancel out. The result is the median
over the rounds. It requires an otherwise idle machine, and ends without figures if they are
impossible: a step that takes no time, or two cores that are more than twice as fast as one.

The kernel counts the bytes on the loopback device, with MPI over TCP, so that they equal those on a
network. The figures for 64 machines are computed, not measured, with the model that bench/README.md
describes. Prints one JSON document.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

PLACES, TOKENS = 64, 1000
MODELS = {"mlp": "{kind: mlp, hidden: [1000]}", "cnn": "{kind: cnn, preset: fedavg_cnn}",
          "encoder": f"{{kind: transformer, preset: encoder, vocabulary: {TOKENS}, layers: 2, width: 128, heads: 4}}"}
# The encoder has a table of tokens and one of places; in each layer two norms, four products of
# attention and two of the feed-forward part; a norm, and the output.
PARAMETERS = {"mlp": 784 * 1000 + 1000 + 1000 * 10 + 10,
              "cnn": 25 * 32 + 32 + 25 * 32 * 64 + 64 + 1024 * 512 + 512 + 512 * 10 + 10,
              "encoder": (TOKENS + PLACES) * 128 + 2 * (2 * 256 + 4 * 129 * 128 + 129 * 512 + 513 * 128) + 256 + 129 * 2}
STEPS = {"mlp": (20, 120), "cnn": (4, 16), "encoder": (2, 8)}
BATCH = {"mlp": 1024, "cnn": 1024, "encoder": 256}
SUM_BYTES, PARAMETER_BYTES = 8, 4
# The network of the model: 25 Gb/s in each direction, the latency of a message, and the time that a
# message costs its sender.
BANDWIDTH, LATENCY, MESSAGE = 25e9 / 8, 50e-6, 5e-6


def npy(type_, shape, content):
    header = f"{{'descr': '{type_}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


def write_sequences(folder, rows=2048):
    draw = random.Random(1)
    tokens = b"".join(draw.randrange(TOKENS).to_bytes(2, "little") for _ in range(rows * PLACES))
    (folder / "tokens.npy").write_bytes(npy("<u2", (rows, PLACES), tokens))
    (folder / "labels.npy").write_bytes(npy("|u1", (rows,), bytes(draw.randrange(2) for _ in range(rows))))


def data_of(model, folder):
    if model == "encoder":
        return "{kind: npy, train: {features: tokens.npy, targets: labels.npy}, classes: 2, size: 2048}"

    def split(name):
        return f"{{images: {folder}/{name}-images-idx3-ubyte.gz, labels: {folder}/{name}-labels-idx1-ubyte.gz}}"

    return f"{{kind: idx, train: {split('train')}, test: {split('t10k')}, classes: 10, size: 60000, test_is_public: true}}"


def manifest(model, data, steps, batch):
    return f"""privgrad: 1
name: cluster-{model}
data: {data_of(model, data)}
model: {MODELS[model]}
sampler: {{kind: poisson, batch_size: {batch}}}
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

    def seconds(self, model, steps, processes=1, threads=1, batch=None, mpi=()):
        """The seconds of a run by its own clock, from the first step on."""
        self.count += 1
        file = self.folder / f"{model}.yaml"
        file.write_text(manifest(model, self.data, steps, batch or BATCH[model]))
        out = self.folder / f"run{self.count}"
        words = [self.program, "run", str(file), "--quiet", "--threads", str(threads), "--out", str(out)]
        if processes > 1:
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *mpi, "-np", str(processes),
                     *words, "--cluster", "mpi"]
        environment = dict(os.environ, XDG_STATE_HOME=str(self.folder / "state"))
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
        return json.loads((out / "summary.json").read_text())["seconds"]

    def step(self, model, **how):
        few, many = STEPS[model]
        return (self.seconds(model, many, **how) - self.seconds(model, few, **how)) / (many - few)

    def medians(self, model, rounds, ways):
        """The seconds of each way; the ways alternate."""
        times = {name: [] for name in ways}
        for _ in range(rounds):
            for name, how in ways.items():
                times[name].append(self.step(model, **how))
        return {name: statistics.median(all_of_it) for name, all_of_it in times.items()}


def refuse_what_cannot_be(model, times):
    """Ends if the times were dominated by other programs."""
    for name, seconds in times.items():
        if seconds <= 0:
            sys.exit(f"cluster: {model}: a step of {name} took {seconds:.4f} s: other programs were at work; no figures")
    for name in ("two_threads", "two_processes"):
        gain = times["one_thread"] / times[name]
        if gain > 1.05 * 2:
            sys.exit(f"cluster: {model}: {name} were {gain:.1f} times as fast as one thread, where 2 is the most: other programs "
                     "were at work; no figures")


def loopback_bytes():
    for line in open("/proc/net/dev"):
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise SystemExit("there is no loopback device to count bytes on")


def bytes_per_step(runs, model, processes):
    few, many = STEPS[model]
    mpi = ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
    counts = []
    for steps in (few, many):
        before = loopback_bytes()
        runs.seconds(model, steps, processes, 1, mpi=mpi)
        counts.append(loopback_bytes() - before)
    return (counts[1] - counts[0]) / (many - few)


def least_bytes(model, processes):
    """The bytes of all processes: each sends the others' slices of its sum once, and its own slice of
    the parameters to each."""
    return PARAMETERS[model] * (processes - 1) * (SUM_BYTES + PARAMETER_BYTES)


def modelled(model, fixed, per_row, processes, batch):
    """Seconds of a step, as bench/README.md defines them."""
    share = PARAMETERS[model] * (processes - 1) / processes
    sent = share * (SUM_BYTES + PARAMETER_BYTES) / BANDWIDTH
    # The order is passed down a tree; sums and parameters are exchanged between all pairs.
    waits = LATENCY * (processes - 1).bit_length() + 2 * (LATENCY + MESSAGE * (processes - 1)) if processes > 1 else 0
    return fixed + per_row * batch / processes + sent + waits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bin/privgrad")
    parser.add_argument("--data", default=os.environ.get("PRIVGRAD_DATA_DIR", "../data") + "/mnist")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", default="mlp,cnn,encoder")
    arguments = parser.parse_args()
    result = {"networks": {}}
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(arguments, folder)
        write_sequences(runs.folder)
        for model in arguments.networks.split(","):
            full = BATCH[model]
            times = runs.medians(model, arguments.rounds, {
                "quarter_batch_on_one_thread": {"batch": full // 4},
                "half_batch_on_one_thread": {"batch": full // 2},
                "one_thread": {},
                "two_threads": {"threads": 2},
                "two_processes": {"processes": 2},
            })
            refuse_what_cannot_be(model, times)
            per_row = (times["one_thread"] - times["quarter_batch_on_one_thread"]) / (0.75 * full)
            fixed = max(0.0, times["one_thread"] - per_row * full)
            sent = bytes_per_step(runs, model, 2)
            result["networks"][model] = numbers = {
                "parameters": PARAMETERS[model],
                "batch": full,
                "seconds_per_step": times,
                "speed_of_processes_over_threads": times["two_threads"] / times["two_processes"],
                "strong_scaling": times["one_thread"] / times["two_processes"],
                "weak_scaling": times["half_batch_on_one_thread"] / times["two_processes"],
                "bytes_per_step": sent,
                "bytes_over_least": sent / least_bytes(model, 2),
                "model": {
                    "seconds_per_step_without_rows": fixed,
                    "seconds_per_row": per_row,
                    "two_processes_modelled_over_measured":
                        modelled(model, fixed, per_row, 2, full) / times["two_processes"],
                    "speedup_of_64_at_batch": {
                        str(batch): modelled(model, fixed, per_row, 1, batch) / modelled(model, fixed, per_row, 64, batch)
                        for batch in (full, 16 * full, 64 * full)},
                },
            }
            print(json.dumps({model: numbers}), file=sys.stderr)
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
