#!/usr/bin/env python3
"""Prints what the last tests of CTest did not check, and why: a line for each reason, "not run: WHAT: WHY".

    scripts/not-run.py BUILD
"""

import collections
import pathlib
import re
import sys


def main(build):
    log = pathlib.Path(build) / "Testing/Temporary/LastTest.log"
    reasons = collections.defaultdict(list)
    name = None
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        if begun := re.match(r"\d+/\d+ Testing: (.*)", line):
            name = begun[1]
        elif said := re.search(r"SKIPPED: (.*)", line):
            reasons[said[1].strip()].append(name)
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        what = f"the test \"{names[0]}\"" if len(names) == 1 else f"{len(names)} tests, the first \"{names[0]}\""
        print(f"not run: {what}: {why}")


main(sys.argv[1])
