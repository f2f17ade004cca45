#!/usr/bin/env python3
"""Runs clang-tidy on the sources that a change affects, according to the include graph.

    scripts/lint.py BUILD JOBS [--all | --quick | FILE...]    BUILD holds compile_commands.json (the preset lint); exits
                                                              with 1 on a finding

scripts/changed.sh defines the change. --all checks every source (make test-long). --quick leaves
out the path analyzer (clang-analyzer-*), which takes two thirds of the time, for the continuous
checks.

Clean sources are not checked again on this machine: the user's cache has an empty file for each
clean text, named by a hash of its code, of .clang-tidy and of the version of clang-tidy. Comments
and the paths of includes are not part of the code, so that moving a file or improving its comments
causes no new check. A header is checked through a source that includes it, because findings in
headers are reported there; a changed header is thus checked once, and not from every source that
includes it. FILE... are checked whatever the cache says.

Most of the time is spent on headers. Sources of one folder with the same compiler options are
therefore checked together; each is checked alone only if they do not compile together because two
of them use the same name, or if a header has a finding.

Tests are only compiled with Clang, the compiler of the sanitizer builds.

PRIVGRAD_LINT_SECONDS: after this time no further checks begin, and the number of remaining ones is
printed.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "privgrad/lint"
COMPILER = "clang++-14"
LIMIT = 600  # seconds for one call
TOGETHER = 8  # sources
DEADLINE = time.monotonic() + float(os.environ.get("PRIVGRAD_LINT_SECONDS", "inf"))


def run(*words):
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def tracked(*patterns):
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def code_of(text):
    """The text on which findings depend. A comment inside a function keeps its lines, which count for
    the function's length; comments for clang-tidy stay."""
    outside = r"^(?:[ \t]*///|//)(?![^\n]*NOLINT)[^\n]*\n"
    includes = r'^#include "[^\n]*\n'
    text = re.sub(f"{outside}|{includes}", "", text, flags=re.M)
    return re.sub(r"(?:^|[ \t])[ \t]*//(?![^\n]*NOLINT)[^\n]*$", "", text, flags=re.M)


def hashes(files, tool, left_out):
    version = re.search(r"LLVM version \S+", run(tool, "--version"))[0]
    settings = f"{version}\n{left_out}{(ROOT / '.clang-tidy').read_text()}".encode()
    return {name: hashlib.sha256(code_of((ROOT / name).read_text()).encode() + settings).hexdigest()[:16] for name in files}


def seen_by(files):
    """{source: headers that it includes, directly or indirectly}, for the given files."""
    named = {}
    for name in files:
        parts = name.split("/")
        for at in range(len(parts)):
            named.setdefault("/".join(parts[at:]), []).append(name)
    direct = {}
    for name in files:
        direct[name] = set()
        for text in re.findall(r'^\s*#\s*include\s+"([^"]+)"', (ROOT / name).read_text(), flags=re.M):
            beside = str(pathlib.PurePosixPath(name).parent / text)
            direct[name].update([beside] if beside in direct or (ROOT / beside).exists() else named.get(text, []))

    def all_of(name):
        reached, left = set(), [name]
        while left:
            for other in direct.get(left.pop(), ()):
                if other not in reached:
                    reached.add(other)
                    left.append(other)
        return reached

    return {name: all_of(name) for name in files if name.endswith(".cpp")}


def what_to_run(stale, compiled, includes):
    """The stale sources, and a few sources that include the stale headers."""
    sources = {name for name in stale if name in compiled}
    headers = {name for name in stale if name.endswith(".hpp")}
    for source in sources:
        headers -= includes.get(source, set())
    for header in sorted(headers):
        if any(header in includes[source] for source in sources):
            continue
        seeing = [source for source in compiled if header in includes.get(source, ())]
        if seeing:
            own = header.rsplit("/", 1)[-1][:-4] + ".cpp"
            sources.add(min(seeing, key=lambda s: (not s.endswith("/" + own), (ROOT / s).stat().st_size)))
    return sorted(sources)


def flags_of(commands):
    """{source: its compiler options, without those about this one file}."""
    flags = {}
    for entry in commands:
        path = pathlib.Path(entry["file"]).resolve()
        if path.is_relative_to(ROOT):
            words = shlex.split(entry["command"])[1:]
            out = words.index("-o")
            flags[str(path.relative_to(ROOT))] = [w for w in words[:out] if w != "-c"]
    return flags


def batches_of(sources, flags):
    """Sources that can be checked together: from one folder, with the same compiler options."""
    groups = {}
    for source in sources:
        groups.setdefault((str(pathlib.PurePosixPath(source).parent), *flags[source]), []).append(source)
    return [group[at:at + TOGETHER] for group in groups.values() for at in range(0, len(group), TOGETHER)]


def tidy(tool, *words):
    """The findings of clang-tidy; empty if there are none."""
    try:
        done = subprocess.run([tool, "--quiet", *words], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"clang-tidy took longer than {LIMIT} s\n"
    return "" if done.returncode == 0 else done.stdout + done.stderr


def compiled_by_clang(source, flags):
    """The errors of Clang for a source that does not compile; empty if it does."""
    try:
        done = subprocess.run([COMPILER, *flags[source], "-w", "-fsyntax-only", source], cwd=ROOT, capture_output=True,
                              text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"Clang took longer than {LIMIT} s\n"
    return "" if done.returncode == 0 else done.stderr


def look_at(tool, left_out, build, batch, flags):
    """{source: its findings; empty if there are none}; nothing after the deadline."""
    if time.monotonic() > DEADLINE:
        return {}
    if batch[0].startswith("tests/"):
        return {source: compiled_by_clang(source, flags) for source in batch}
    if len(batch) > 1:
        name = hashlib.sha256(" ".join(batch).encode()).hexdigest()[:16]
        together = pathlib.Path(build).resolve() / f"lint-{name}.cpp"
        together.write_text("".join(f'#include "{ROOT / source}"\n' for source in batch))
        seen = r"(framework|plugins|tools|bench|fuzz)/.*\.(hpp|cpp)$"
        said = tidy(tool, *left_out, f"--header-filter={seen}", str(together), "--", *flags[batch[0]])
        together.unlink()
        found = {str(pathlib.Path(path).resolve().relative_to(ROOT))
                 for path in re.findall(r"^(/\S+?):\d+:\d+: error:", said, flags=re.M)
                 if pathlib.Path(path).resolve().is_relative_to(ROOT)}
        # A finding in a header, or a compilation error, may come from any of the sources.
        if not said or (found and found <= set(batch) and "clang-diagnostic-error" not in said):
            return {source: said if source in found else "" for source in batch}
    return {source: tidy(tool, *left_out, "-p", build, source) for source in batch}


def main(build, jobs, chosen):
    tool = run(ROOT / "scripts/environment.sh", "lint", ROOT / "scripts/lint-packages.txt").strip() + "/bin/clang-tidy"
    files = tracked("*.cpp", "*.hpp", ":!examples/plugin_template")
    left_out = ["--checks=-clang-analyzer-*"] if chosen == ["--quick"] else []
    now = hashes(files, tool, "".join(left_out))
    flags = flags_of(json.loads((pathlib.Path(build) / "compile_commands.json").read_text()))
    compiled = flags.keys() & set(files)
    includes = seen_by(files)
    CACHE.mkdir(parents=True, exist_ok=True)
    named = [name for name in chosen if not name.startswith("--")]
    asked = set(named) or {*run(ROOT / "scripts/changed.sh").splitlines()}
    stale = {name for name in files if name in asked or chosen == ["--all"]}
    if not named:
        stale = {name for name in stale if not (CACHE / now[name]).exists()}
    sources = what_to_run(stale, compiled, includes)
    print(f"clang-tidy: {len(sources)} of {len(compiled)} sources, "
          "the others have not changed or are known to be clean", flush=True)

    bad, looked_at = 0, 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = [pool.submit(look_at, tool, left_out, build, batch, flags) for batch in batches_of(sources, flags)]
        for found in concurrent.futures.as_completed(done):
            looked_at += len(found.result())
            for source, said in found.result().items():
                if said:
                    bad += 1
                    print(f"-- {source}\n{said}", flush=True)
                    continue
                for name in {source, *(includes[source] & stale)}:
                    (CACHE / now[name]).touch()
    if looked_at < len(sources):
        print(f"not run: clang-tidy of {len(sources) - looked_at} sources: its time was over; make lint goes on with them")
    if bad:
        sys.exit(f"clang-tidy: findings in {bad} source(s)")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
