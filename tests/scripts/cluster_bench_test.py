"""Fails if bench/cluster.py prints impossible figures.

usage: cluster_bench_test.py     in the root of the sources
"""

import sys

sys.path.insert(0, "bench")
import cluster  # noqa: E402

CAN_BE = {"one_thread": 1.0, "two_threads": 0.52, "two_processes": 0.5, "half_batch_on_one_thread": 0.5}
CANNOT_BE = {
    "two_processes were 5.9 times": {"two_processes": 1.0 / 5.9},
    "two_threads were 2.5 times": {"two_threads": 0.4},
    "a step of half_batch_on_one_thread took -0.1": {"half_batch_on_one_thread": -0.1},
    "a step of one_thread took 0.0": {"one_thread": 0.0},
}

cluster.refuse_what_cannot_be("mlp", CAN_BE)
for what, times in CANNOT_BE.items():
    try:
        cluster.refuse_what_cannot_be("mlp", {**CAN_BE, **times})
    except SystemExit as refused:
        assert what in str(refused.code), f"expected {what!r} in {refused.code!r}"
    else:
        sys.exit(f"not refused: {what}")
