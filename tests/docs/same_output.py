#!/usr/bin/env python3
"""usage: same_output.py "output" | "similar output" EXPECTED ACTUAL

Fails unless the program printed what the page shows: exactly, or, if noise and times differ, up to
numbers and widths. A page may show only the end of an output.
"""
import difflib
import re
import sys
from pathlib import Path


def lines_of(file, similar):
    lines = Path(file).read_text().rstrip().splitlines()
    if not similar:
        return lines
    return [re.sub(r"\s+", " ", re.sub(r"[0-9.]+", "N", line)).rstrip() for line in lines]


kind, expected_file, actual_file = sys.argv[1:]
expected = lines_of(expected_file, kind == "similar output")
actual = lines_of(actual_file, kind == "similar output")
if actual[-len(expected):] != expected:
    print(*difflib.unified_diff(expected, actual, "the page", "the program", lineterm=""), sep="\n")
    sys.exit(1)
