"""Fails if a test has no time limit of its own, or an excessive one.

usage: time_limits.py CTEST BUILD LONGEST     LONGEST: the seconds that no limit exceeds
"""

from __future__ import annotations

import json
import subprocess
import sys


def main() -> int:
    ctest, build, longest = sys.argv[1], sys.argv[2], float(sys.argv[3])
    shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"],
                           check=True, capture_output=True, text=True, timeout=60)
    tests = json.loads(shown.stdout)["tests"]
    wrong = []
    for test in tests:
        limits = [one["value"] for one in test.get("properties", []) if one["name"] == "TIMEOUT"]
        if not limits or not 0 < float(limits[0]) <= longest:
            wrong.append(f"{test['name']}: {limits[0] if limits else 'no'} time limit")
    print("\n".join(wrong))
    print(f"{len(tests)} tests, {len(wrong)} without a time limit of at most {longest:g} s "
          "(privgrad_add_test, cmake/test_time.cmake)")
    return 1 if wrong or len(tests) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
