#!/usr/bin/env python3
"""Makes each mutant of tests/mutants, and checks that the intended test fails (tests/mutants/README.md).

    scripts/mutants.py BUILD JOBS [--check | ID...]    --check: only whether each change finds its place, and its test

Works in its own checkout of the last commit, BUILD/mutants/source. BUILD/mutants/results.jsonl has
a line for each mutant that was tried: a repeated call tries mutants without a line, mutants whose
record or source has changed, and mutants that were not caught. Exits with 1 if a mutant was not
caught, and names it.
"""

import fnmatch
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD_LIMIT, TEST_LIMIT = 1800, 900  # seconds
KEYS = {"id", "what", "file", "from", "to", "target", "test"}


def matches(wanted, tests):
    """Whether a test has that name, in which * stands for anything, or all of these tags."""
    if wanted.startswith("["):
        return any(set(re.findall(r"\[[^]]*\]", wanted)) <= set(re.findall(r"\[[^]]*\]", tags)) for _, tags in tests)
    return any(fnmatch.fnmatchcase(name, wanted.replace("[", "[[]")) for name, _ in tests)


def tests_of_programs():
    """The name and the tags of each test in C++."""
    text = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.cpp")))
    string = r'((?:\s*"(?:[^"\\]|\\.)*")+)'
    return [tuple("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part or "")) for part in found)
            for found in re.findall(rf"TEST_CASE\({string}(?:,{string})?\)", text)]


def mutants():
    found = []
    for path in sorted((ROOT / "tests/mutants").glob("*.yaml")):
        found += yaml.safe_load(path.read_text())
    problems = [f"{one.get('id')}: its keys are {sorted(one)}, not {sorted(KEYS)}" for one in found if set(one) != KEYS]
    names = [one["id"] for one in found]
    problems += [f"{name}: is there twice" for name in set(names) if names.count(name) > 1]
    for one in found:
        source = ROOT / one["file"]
        count = source.read_text().count(one["from"]) if source.is_file() else 0
        if count != 1:
            problems.append(f"{one['id']}: its text is found {count} times in {one['file']}, and should be once")
    tests = tests_of_programs()
    for one in found:
        if one["target"].split()[-1] != "python" and not any(matches(wanted.strip(), tests) for wanted in one["test"].split(",")):
            problems.append(f"{one['id']}: there is no test {one['test']}")
    if problems:
        sys.exit("\n".join(problems))
    return found


def run(words, cwd, limit):
    """The exit code of a command, or "late", and the end of its output."""
    try:
        done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return "late", ""
    return done.returncode, done.stdout[-2000:]


class Workshop:
    """A checkout of the last commit, and its build."""

    def __init__(self, build, jobs):
        self.source = pathlib.Path(build).resolve() / "mutants/source"
        self.build = self.source / "build-ci"
        self.jobs = jobs
        self.baseline = {}
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
        if not self.source.exists():
            subprocess.run(["git", "worktree", "add", "--detach", str(self.source), head], cwd=ROOT, check=True)
        subprocess.run(["git", "reset", "-q", "--hard", head], cwd=self.source, check=True)
        subprocess.run(["cmake", "--preset", "ci"], cwd=self.source, check=True, stdout=subprocess.DEVNULL)
        self.make(["privgrad_runtime"])

    def make(self, targets):
        return run(["cmake", "--build", str(self.build), "-j", str(self.jobs), "--target", *targets], self.source, BUILD_LIMIT)

    def test(self, one):
        program = one["target"].split()[-1]
        if program == "python":
            return run(["scripts/python-test.sh", "build-ci", str(self.jobs), "-k", one["test"]], self.source, TEST_LIMIT)
        return run([str(self.build / "tests" / program), one["test"]], self.source, TEST_LIMIT)

    def targets(self, one):
        """The plugins and their records are built once; a mutant of a plugin names that plugin."""
        words = {"privgrad_runtime": "privgrad", "python": "privgrad"}
        return [words.get(word, word) for word in one["target"].split()]

    def try_one(self, one):
        """The result of a mutant: "caught", or why not."""
        which = (one["target"], one["test"])
        if which not in self.baseline:
            made, said = self.make(self.targets(one))
            passed, said = self.test(one) if made == 0 else (made, said)
            # Catch2 2 exits with success if no test has the name.
            self.baseline[which] = passed == 0 and "No test cases matched" not in said and "no tests ran" not in said
        if not self.baseline[which]:
            return "its test does not pass without it, or there is none of that name"
        path = self.source / one["file"]
        before = path.read_text()
        try:
            path.write_text(before.replace(one["from"], one["to"]))
            made, said = self.make(self.targets(one))
            if made != 0:
                return f"it does not compile: {said[-600:]}"
            return "survived" if self.test(one)[0] == 0 else "caught"
        finally:
            path.write_text(before)


def fingerprint(one):
    return hashlib.sha256(json.dumps([one, (ROOT / one["file"]).read_text()], sort_keys=True).encode()).hexdigest()[:16]


def main(build, jobs, chosen):
    found = mutants()
    if chosen == ["--check"]:
        print(f"{len(found)} mutants, each with its place and its test")
        return
    results = pathlib.Path(build) / "mutants/results.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        known[json.loads(line)["id"]] = json.loads(line)
    workshop = None
    for one in found:
        if chosen and not any(fnmatch.fnmatch(one["id"], name) for name in chosen):
            continue
        before = known.get(one["id"])
        if not chosen and before and before["became"] == "caught" and before["fingerprint"] == fingerprint(one):
            continue
        workshop = workshop or Workshop(build, jobs)
        begin = time.monotonic()
        became = workshop.try_one(one)
        known[one["id"]] = {"id": one["id"], "became": became, "fingerprint": fingerprint(one),
                            "seconds": round(time.monotonic() - begin)}
        with results.open("a") as out:
            out.write(json.dumps(known[one["id"]]) + "\n")
        print(f"{one['id']}: {became}", flush=True)
    escaped = [one["id"] for one in found if one["id"] in known and known[one["id"]]["became"] != "caught"]
    print(f"{len(found)} mutants, {sum(one['id'] in known for one in found)} tried, {len(escaped)} not caught: {' '.join(escaped)}")
    if escaped:
        sys.exit(1)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
