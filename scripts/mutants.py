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
import os
import pathlib
import re
import subprocess
import sys
import time

import yaml

from mutant_switch import HEAD, switched

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD_LIMIT, TEST_LIMIT = 7200, 900  # seconds
NO_TEST = "its test does not pass without it, or there is none of that name"
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


def run(words, cwd, limit, mutant=""):
    """The exit code of a command, or "late", and what it said."""
    try:
        done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              text=True, errors="replace", timeout=limit, env=os.environ | {"PRIVGRAD_MUTANT": mutant})
    except subprocess.TimeoutExpired:
        return "late", ""
    return done.returncode, done.stdout


class Workshop:
    """A checkout of the last commit, and its build."""

    def __init__(self, build, jobs):
        self.source = pathlib.Path(build).resolve() / "mutants/source"
        self.build = self.source / "build-ci"
        self.jobs = jobs
        self.baseline = {}
        self.changed = set()  # the sources that have mutants now
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
        if not self.source.exists():
            subprocess.run(["git", "worktree", "add", "--detach", str(self.source), head], cwd=ROOT, check=True)
        subprocess.run(["git", "reset", "-q", "--hard", head], cwd=self.source, check=True)
        subprocess.run(["cmake", "--preset", "ci"], cwd=self.source, check=True, stdout=subprocess.DEVNULL)

    def make(self, todo):
        """Builds what these mutants name, and the plugins, which tests load and no test program builds."""
        targets = sorted({"privgrad_runtime"} | {word for one in todo for word in one["target"].split() if word != "python"})
        return run(["cmake", "--build", str(self.build), "-j", str(self.jobs), "--target", *targets, "--", "-k", "0"],
                   self.source, BUILD_LIMIT)

    def test(self, one, mutant=""):
        program = one["target"].split()[-1]
        if program == "python":
            return run(["scripts/python-test.sh", "build-ci", str(self.jobs), "-k", one["test"]], self.source, TEST_LIMIT, mutant)
        return run([str(self.build / "tests" / program), one["test"], "--abort"], self.source, TEST_LIMIT, mutant)

    def passes_without(self, one):
        which = (one["target"], one["test"])
        if which not in self.baseline:
            passed, said = self.test(one)
            # Catch2 2 exits with success if no test has the name.
            self.baseline[which] = passed == 0 and "No test cases matched" not in said and "no tests ran" not in said
        return self.baseline[which]

    def result(self, one, mutant=""):
        return "survived" if self.test(one, mutant)[0] == 0 else "caught"

    def try_all(self, todo):
        """Each mutant with its result, "caught" or why not: as many as possible by one build."""
        alone = []
        while todo:
            batch, later = self.put_in(todo, alone)
            todo = later
            # Tests that need only one program first.
            groups = sorted({one["target"] for one in batch}, key=lambda target: (len(target.split()), target))
            while groups:
                group = [one for one in batch if one["target"] == groups[0]]
                made, said = self.make(group) if group else (0, "")
                if made != 0:
                    faulty = self.blamed(batch, said)
                    alone += faulty
                    batch, lost = self.put_in([one for one in batch if one not in faulty], alone)
                    todo += lost
                    continue
                for one in group:
                    yield one, self.result(one, one["id"]) if self.passes_without(one) else NO_TEST
                del groups[0]
        for one in alone:
            yield one, self.try_alone(one)

    def put_in(self, todo, alone):
        """Writes sources that have as many of these mutants as possible, and says which; and which only another build can
        have. Appends those to `alone` that are not understood."""
        texts, batch, later = {}, [], []
        for one in todo:
            plain = (ROOT / one["file"]).read_text()
            if (text := switched(texts.get(one["file"], plain), one)) is not None:
                texts[one["file"]] = text
                batch.append(one)
            else:
                (alone if switched(plain, one) is None else later).append(one)
        wanted = {file: (ROOT / file).read_text() for file in self.changed} | {file: HEAD + text for file, text in texts.items()}
        self.changed = set(texts)
        for file, text in wanted.items():
            path = self.source / file
            if path.read_text() != text:
                path.write_text(text)
        return batch, later

    def blamed(self, batch, said):
        """The mutants because of which sources do not compile: those of the lines that the compiler names; else of the files."""
        # Sources that are compiled together are named from the build folder: framework/trust/../../../framework/...
        lines = {(re.sub(r"^(\.\./)+", "", os.path.normpath(file)), int(line))
                 for file, line in re.findall(r"((?:framework|plugins)/[\w/.]+):(\d+):", said)}
        found = []
        for one in batch:
            text = (self.source / one["file"]).read_text().splitlines()
            places = [i for i, line in enumerate(text, 1) if f'privgrad_is_mutant("{one["id"]}")' in line]
            if any((one["file"], line) in lines for place in places for line in range(place, place + 4)):
                found.append(one)
        return found or [one for one in batch if any(file == one["file"] for file, _ in lines)] or batch

    def try_alone(self, one):
        path = self.source / one["file"]
        before = path.read_text()
        try:
            made, said = self.make([one])
            if made != 0 or not self.passes_without(one):
                return NO_TEST
            path.write_text((ROOT / one["file"]).read_text().replace(one["from"], one["to"]))
            made, said = self.make([one])
            return self.result(one) if made == 0 else f"it does not compile: {said[-600:]}"
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
    todo = []
    for one in found:
        before = known.get(one["id"])
        is_known = before and before["became"] == "caught" and before["fingerprint"] == fingerprint(one)
        if any(fnmatch.fnmatch(one["id"], name) for name in chosen) if chosen else not is_known:
            todo.append(one)
    begin = time.monotonic()
    for one, became in Workshop(build, jobs).try_all(todo) if todo else ():
        known[one["id"]] = {"id": one["id"], "became": became, "fingerprint": fingerprint(one),
                            "seconds": round(time.monotonic() - begin)}
        with results.open("a") as out:
            out.write(json.dumps(known[one["id"]]) + "\n")
        print(f"{one['id']}: {became}", flush=True)
        begin = time.monotonic()
    escaped = [one["id"] for one in found if one["id"] in known and known[one["id"]]["became"] != "caught"]
    print(f"{len(found)} mutants, {sum(one['id'] in known for one in found)} tried, {len(escaped)} not caught: {' '.join(escaped)}")
    if escaped:
        sys.exit(1)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
