#!/usr/bin/python3
"""Prints the seconds that the compiler took for everything that is compiled again when a file changes.

    scripts/touch_cost.py BUILD FILE...

From Ninja's records of a build that compiled everything (with nothing else on the machine, since they
are seconds of a clock): `cmake --build BUILD` from nothing, CCACHE_DISABLE=1. FILE: a part of a path, such as
sdk/include/privgrad/error.hpp.
"""

import subprocess
import sys
from pathlib import Path


def dependencies(build):
    """The files that each object was compiled from."""
    inputs = {}
    name = None
    for line in subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("    "):
            inputs[name].append(line.strip())
        elif ": #deps" in line:
            name = line.split(": #deps")[0]
            inputs[name] = []
    return inputs


def seconds(build):
    """The last time that each object was compiled took, in seconds."""
    took = {}
    for line in (Path(build) / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        took[output] = (int(end) - int(begin)) / 1000
    return took


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = sys.argv[1]
    inputs, took = dependencies(build), seconds(build)
    print(f"all: {sum(took[name] for name in inputs if name in took):.0f} s, {len(inputs)} objects")
    for file in sys.argv[2:]:
        names = [name for name, files in inputs.items() if any(one.endswith(file) for one in files)]
        print(f"{file}: {sum(took.get(name, 0) for name in names):.0f} s, {len(names)} objects")


if __name__ == "__main__":
    main()
