#!/usr/bin/env python3
"""Compares PrivGrad's scattering coefficients with kymatio's, on one thread.

    pip install kymatio 'scipy<1.15' torch    # torch is left out where it is missing
    bench/compare_kymatio.py [--program build/bench/scattering] [--rounds 5]

Both have the same images and parameters, and one thread (also for OMP and BLAS). All alternate in
rounds, the time is processor time, and the fastest round of each counts; kymatio receives a batch,
as it prefers. Prints one JSON document.
"""

import argparse
import json
import os
import subprocess
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402  (reads the variables above)
from kymatio.numpy import Scattering2D  # noqa: E402

try:
    import torch
    from kymatio.torch import Scattering2D as TorchScattering2D

    torch.set_num_threads(1)
except ImportError:
    torch = None

CASES = {"mnist": (2, 8, 28, 28, 1), "cifar10": (2, 8, 32, 32, 3), "three_scales": (3, 8, 32, 32, 1)}
BATCH = 32


def best(work, rounds):
    work()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def ours(program):
    result = json.loads(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout)
    return result, {one["name"]: one["microseconds_per_image"] for one in result["images"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bench/scattering")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    theirs = {}
    for name, (J, L, height, width, channels) in CASES.items():
        images = np.random.default_rng(1).random((BATCH, channels, height, width)).astype(np.float32)
        frontends = {"kymatio_numpy": (Scattering2D(J=J, shape=(height, width), L=L), images)}
        if torch is not None:
            module = TorchScattering2D(J=J, shape=(height, width), L=L)
            frontends["kymatio_torch"] = (module, torch.from_numpy(images))
        theirs[name] = frontends
    found = {name: {} for name in CASES}
    for _ in range(arguments.rounds):
        about, times = ours(arguments.program)
        for name, frontends in theirs.items():
            measured = {"privgrad": times[name]}
            for frontend, (scattering, images) in frontends.items():
                measured[frontend] = best(lambda: scattering(images), 3) / BATCH * 1e6
            for who, microseconds in measured.items():
                found[name][who] = min(microseconds, found[name].get(who, microseconds))
    for one in found.values():
        for who in [key for key in one if key.startswith("kymatio")]:
            one[who + "_over_privgrad"] = one[who] / one["privgrad"]
    json.dump({"bench": "compare_kymatio", "processor": about["processor"], "instructions": about["instructions"],
               "microseconds_per_image": found}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
