#!/usr/bin/env python3
"""Repeats some of the studies of docs/experiments, and compares the effects with those of the pages.

    scripts/papers.sh --quick [PROGRAM [FOLDER]]

The results of a study are stored with its page, docs/experiments/studies/PAPER/STUDY.json: the settings of
each arm, including those found by searches, and the value of each run. The arms of PARTS are run
again with the first seeds. Runs have the same bits on every machine, so chance plays no part: if a
value differs, the program, the study or the page has changed it. An effect counts if its interval
on the page excludes 0; the check fails if its sign differs from that on the page.
"""

import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Paper, study, level (None: the study has none), and the number of its seeds.
PARTS = [
    ("hong2022", "mnist35", None, 4),
    ("hong2022", "mnist", None, 2),
    ("hong2022", "data-efficiency", "500", 6),
    ("hong2022", "epsilon", "0.5", 8),
    ("hong2022", "epsilon", "1", 8),
    ("hong2022", "data-scale", "25", 4),
    ("hong2022", "data-scale-squared", "25", 4),
    ("hong2022", "momentum", "25", 6),
    ("hong2022", "synthetic", "squared", 4),
    ("hong2022", "theorem", None, 20),
    ("improvements", "best-steps-kappa-2", "2.5", 20),
    ("improvements", "trees", "1", 4),
]


def block(text, key):
    """The lines of a top-level key of a study file; "" if the key is missing."""
    found = re.search(rf"^{key}:.*\n(?:[ #].*\n|\n)*", text, flags=re.M)
    return found[0] if found else ""


def study_of(paper, results, level, seeds):
    """A study of the arms at a level, each with its settings from the results."""
    source = ROOT / "examples/studies" / paper / f"{results['name']}.yaml"
    text = source.read_text()
    base = re.sub(r"^base: (\S.*)$", lambda m: f"base: {source.parent / m[1]}", block(text, "base"), flags=re.M)
    more = {
        "study": 1,
        "name": results["name"],
        "arms": {arm["variant"]: arm["set"] for arm in arms_at(results, level)},
        "baseline": results["baseline"],
        "seeds": results["seeds"][:seeds],
        "metrics": [metric["name"] for metric in results["metrics"]],
    }
    kept = block(text, "set") + block(text, "equal_privacy")
    return base + kept + "".join(f"{key}: {json.dumps(value)}\n" for key, value in more.items())


def arms_at(results, level):
    return [arm for arm in results["arms"] if arm["level"] == level]


def sure_effects(results, level):
    """{(variant, metric): difference} on the page, for intervals that exclude 0."""
    effects = {}
    for arm in arms_at(results, level):
        for metric, versus in arm["versus_baseline"].items():
            low, high = versus["ci95"] or (0, 0)
            if low > 0 or high < 0:
                effects[arm["variant"], metric] = versus["difference"]
    return effects


def equal_values(results, level, again):
    """How many values of runs equal those of the page, and how many there are."""
    made = {arm["variant"]: arm["metrics"] for arm in again["arms"]}
    pairs = [
        (old, new)
        for arm in arms_at(results, level)
        for metric, said in arm["metrics"].items()
        for old, new in zip(said["values"], made[arm["variant"]][metric]["values"])
    ]
    return sum(old == new for old, new in pairs), len(pairs)


def redo(program, folder, paper, name, level, seeds):
    """Runs one part. \\returns the number of effects with another sign."""
    began = time.monotonic()
    results = json.loads((ROOT / "docs/experiments/studies" / paper / f"{name}.json").read_text())
    place = folder / paper / (name if level is None else f"{name}-{level}")
    place.parent.mkdir(parents=True, exist_ok=True)
    file = place.with_suffix(".yaml")
    file.write_text(study_of(paper, results, level, seeds))
    subprocess.run([program, "ablate", file, "--quiet", "--out", place], check=True, stdout=subprocess.DEVNULL)
    again = json.loads((place / "results.json").read_text())
    seen = {
        (arm["name"], metric): versus["difference"]
        for arm in again["arms"]
        for metric, versus in arm["versus_baseline"].items()
    }
    effects = sure_effects(results, level)
    wrong = [key for key, said in effects.items() if said * seen[key] <= 0]
    for variant, metric in wrong:
        here = seen[variant, metric]
        print(f"  {variant}: {metric}: {effects[variant, metric]:+g} on the page, {here:+g} here")
    same, values = equal_values(results, level, again)
    at = "" if level is None else f" at {level}"
    print(
        f"{paper}/{name}{at}: {len(effects) - len(wrong)} of {len(effects)} signs and {same} of {values} values"
        f" as on the page, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return len(wrong)


def main(program, folder):
    wrong = sum(redo(program, folder, *part) for part in PARTS)
    if wrong:
        sys.exit(f"{wrong} effect(s) have another sign than on the page")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve())
