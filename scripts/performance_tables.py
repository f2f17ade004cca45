#!/usr/bin/env python3
"""Makes the tables of docs/performance.md anew, each with the commit, the date, the machine and its load.

    scripts/performance_tables.py --build build [TABLE...]   # all that can be made here, or these
    scripts/performance_tables.py --stale                    # which tables are older than what they measure

A table stands between `<!-- table NAME COMMIT -->` and `<!-- end -->`. One of COMMIT was measured when the code was that of
COMMIT; the line below it says where. A working tree with changes is refused: nobody could make its figures again. Each
program's own clocks and ratios count, so that others at work on the machine do little harm, and their load is stated.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance.md"
TABLE = re.compile(r"<!-- table (\w+) (\w+) -->\n\n(.*?)\n\n<!-- end -->", re.S)
STEPS = ["bench", "plugins/backends/cpu", "plugins/aggregators", "framework/trust"]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def two(value):
    """About two digits: more are not the same on the next day."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# What private over plain should be, for each batch, and one thread over two.
GOALS = {("784-1000-10", 256): 1.00, ("784-1000-10", 1024): 0.95, ("conv", 256): 1.05, ("784-1000-10", 64): 1.2,
         ("784-1000-10", 16): 1.4}
GOAL_OF_THREADS = 1.85


def steps(json_of):
    rows = []
    for one in json_of("training")["steps"]:
        alone = one["threads"][0]
        rows.append([one["network"], one["batch"], two(alone["plain_step_ms"]), two(alone["private_step_ms"]),
                     two(alone["private_over_plain"]), GOALS.get((one["network"].split()[0], one["batch"]), ""),
                     two(one["one_thread_over_two_plain"]), two(one["one_thread_over_two_private"]), GOAL_OF_THREADS])
    for one in json_of("training", "batches")["steps"]:
        if one["batch"] < 256:
            rows.append([one["network"], one["batch"], two(one["plain_step_ms"]), two(one["private_step_ms"]),
                         two(one["private_over_plain"]), GOALS.get((one["network"], one["batch"]), ""), "", "", ""])
    return table(["network", "batch", "plain, ms", "private, ms", "private over plain, one thread", "goal",
                  "two threads over one, plain", "private", "goal"], rows)


def growth(json_of):
    found = json_of("training", "growth")
    parts = []
    for title, key, name in (("784-1000-10, batch", "by_batch", lambda one: one["batch"]),
                             ("hidden layers of 500, batch 256", "by_depth", lambda one: one["network"].split("-")[1][:-4]),
                             ("784-width-10, batch 256", "by_width", lambda one: one["network"].split("-")[1])):
        cases = found[key]
        parts.append(table([title, *map(name, cases)],
                           [["private over plain", *(f"{one['private_over_plain']:.2f}" for one in cases)],
                            ["us an example", *(f"{one['private_us_per_example']:.0f}" for one in cases)]]))
    return "\n\n".join(parts)


def noise_terms(json_of):
    parts = []
    for level, rows in json_of("noise", "terms")["rounded_gaussian_by_terms"].items():
        terms = sorted(rows, key=int)
        parts.append(table([f"terms, {level}", *terms],
                           [["ns an element", *(two(rows[one]["nanoseconds"]) for one in terms)]]))
    return "\n\n".join(parts)


def clients(json_of):
    rows = [[one["local_iterations"], two(one["central_step_ms"]), two(one["local_step_ms"]),
             f"{one['local_over_central']:.3f}"] for one in json_of("federated")["rounds"]]
    return table(["local steps a round", "central step, ms", "local step, ms", "local over central"], rows)


# What makes each table, and the folders whose changes may change its figures.
TABLES = {
    "steps": (steps, STEPS),
    "growth": (growth, STEPS),
    "noise_terms": (noise_terms, ["bench/noise.cpp", "framework/trust"]),
    "clients": (clients, [*STEPS, "framework/federated", "framework/train"]),
}


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*: (.*)$", text, re.M)
    return (found[1] if found else "unknown processor") + f", {os.cpu_count()} cores"


def stale():
    for name, commit, _ in TABLE.findall(PAGE.read_text()):
        folders = TABLES[name][1] if name in TABLES else ["bench", "framework", "plugins"]
        later = git("log", "--oneline", f"{commit}..HEAD", "--", *folders).splitlines()
        print(f"{name}: of {commit}, {len(later)} later commits to {' '.join(folders)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="the build folder whose bench/ has the programs")
    parser.add_argument("--stale", action="store_true", help="list the tables with what was changed since")
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="default: all")
    words = parser.parse_args()
    if words.stale:
        return stale()
    if words.build is None:
        parser.error("--build FOLDER is missing")
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("performance_tables: the working tree has changes; commit them, so that figures belong to a commit")
    commit = git("rev-parse", "--short=8", "HEAD")
    for name in words.tables or TABLES:
        before = os.getloadavg()[0]

        def json_of(program, *arguments):
            run = subprocess.run([words.build / "bench" / program, *arguments], check=True, stdout=subprocess.PIPE)
            return json.loads(run.stdout)

        made = TABLES[name][0](json_of)
        date = datetime.date.today().isoformat()
        origin = (f"Commit {commit}, {date}, {processor()}; load {before:.1f} before and {os.getloadavg()[0]:.1f} after, this "
                  f"program included.")
        lines = re.findall(r".{1,99}(?:\s|$)", origin)
        text = f"<!-- table {name} {commit} -->\n\n{made}\n\n" + "\n".join(line.strip() for line in lines)
        page = PAGE.read_text()
        whole = re.compile(rf"<!-- table {name} \w+ -->\n\n.*?\n\n<!-- end -->", re.S)
        if len(whole.findall(page)) != 1:
            sys.exit(f"performance_tables: {PAGE.name} has no table '{name}', or several")
        PAGE.write_text(whole.sub(lambda _: text + "\n\n<!-- end -->", page))
        print(f"{name}: made")


if __name__ == "__main__":
    main()
