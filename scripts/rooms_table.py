#!/usr/bin/env python3
"""Prints the size of each room of the product at two commits, as a table in Markdown.

    scripts/rooms_table.py BEFORE AFTER

Lines are counted without blank lines and comments. The last columns are the number of other rooms
whose headers a room includes.
"""

import collections
import io
import re
import subprocess
import sys
import tarfile

PRODUCT = ["framework", "plugins", "tools", "python"]
CODE = re.compile(r"\.(cpp|hpp|cu|py)$")
NO_CODE = re.compile(r"\s*$|\s*(//|#[^i]|\*|/\*)")
RENAMED = {"calls": "api", "neighbours": "falsify", "use": "inference"}


def room_of(path):
    parts = path.split("/")
    if parts[0] == "python":
        return "python"
    if parts[1] == "trust" and parts[2] not in ("include", "src"):
        return "/".join(parts[:3])
    if parts[1:3] == ["studies", "statistics"]:
        return "framework/studies/statistics"
    return "/".join([parts[0], RENAMED.get(parts[1], parts[1])])


def rooms(commit):
    """{room: [lines, files, rooms included]} at a commit."""
    packed = subprocess.run(["git", "archive", commit, *PRODUCT], capture_output=True, check=True)
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        for member in tar:
            if member.isfile() and CODE.search(member.name) and "/tests/" not in member.name:
                texts[member.name] = tar.extractfile(member).read().decode()
    home = {path.split("/include/")[1]: room_of(path) for path in texts if "/include/" in path}
    found = collections.defaultdict(lambda: [0, 0, set()])
    for path, text in texts.items():
        room = found[room_of(path)]
        room[0] += sum(not NO_CODE.match(line) for line in text.splitlines())
        room[1] += 1
        included = {home.get(name) for name in re.findall(r'#include "([^"]+)"', text)}
        room[2] |= included - {None, room_of(path)}
    return {name: [lines, files, len(seen)] for name, (lines, files, seen) in found.items()}


def main(before, after):
    tables = [rooms(before), rooms(after)]
    print(f"| room | lines at {before} | at {after} | files | then | rooms included | then |")
    print("|---|---|---|---|---|---|---|")
    for table in tables:
        table["all"] = [sum(column) for column in zip(*table.values())]
    for name in sorted(tables[0] | tables[1], key=lambda name: (name == "all", name)):
        pairs = zip(*(table.get(name, ["", "", ""]) for table in tables))
        print("| " + " | ".join([name, *(str(n) for pair in pairs for n in pair)]) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
