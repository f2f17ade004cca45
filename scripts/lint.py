#!/usr/bin/env python3
"""Runs clang-tidy on every source that is not known to be clean, and keeps the list of those that are.

    scripts/lint.py BUILD JOBS [FILE...]    BUILD holds compile_commands.json (the preset lint); exits with 1 on a finding

scripts/lint-clean.txt has a line for each clean file: its path, and a hash of its text, of .clang-tidy and of the version
of clang-tidy. A header is looked at through a source that includes it, because findings in headers are reported there; so
a header that changed is looked at once and not from every source that sees it. With FILE..., these are looked at whatever
the list says. The list is sorted, a line a file, so that branches merge.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts/lint-clean.txt"
TOOL = "clang-tidy-14"
LIMIT = 600  # seconds for one source


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def read_list():
    if not LIST.exists():
        return {}
    return dict(line.split() for line in LIST.read_text().splitlines())


def hashes(files):
    version = subprocess.run([TOOL, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"LLVM version \S+", version)[0]
    settings = f"{version}\n{(ROOT / '.clang-tidy').read_text()}".encode()
    return {name: hashlib.sha256((ROOT / name).read_bytes() + settings).hexdigest()[:16] for name in files}


def seen_by(files):
    """{source: headers that it includes, also through others}, of the files given."""
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
    """The stale sources, and sources through which the stale headers are seen: few of them."""
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


def look_at(build, source):
    """What clang-tidy has to say of a source; empty if nothing."""
    try:
        done = subprocess.run([TOOL, "--quiet", "-p", build, source], cwd=ROOT, capture_output=True, text=True,
                              timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"{source}: clang-tidy took longer than {LIMIT} s\n"
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main(build, jobs, chosen):
    files = tracked("*.cpp", "*.hpp", ":!tests", ":!examples/plugin_template")
    now, clean = hashes(files), read_list()
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    compiled = {str(pathlib.Path(entry["file"]).resolve().relative_to(ROOT)) for entry in commands
                if pathlib.Path(entry["file"]).resolve().is_relative_to(ROOT)} & set(files)
    includes = seen_by(files)
    stale = set(chosen) or {name for name in files if clean.get(name) != now[name]}
    sources = what_to_run(stale, compiled, includes)
    print(f"clang-tidy: {len(sources)} of {len(compiled)} sources, the others are known to be clean", flush=True)

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for source, said in zip(sources, pool.map(lambda source: look_at(build, source), sources)):
            if said:
                bad += 1
                print(f"-- {source}\n{said}", flush=True)
                continue
            for name in {source, *(includes[source] & stale)}:
                clean[name] = now[name]
    kept = {name: value for name, value in clean.items() if name in now}
    text = "".join(f"{name} {value}\n" for name, value in sorted(kept.items()))
    if not LIST.exists() or LIST.read_text() != text:
        LIST.write_text(text)
        print("clang-tidy: scripts/lint-clean.txt was brought up to date: commit it with what it is about")
    if bad:
        sys.exit(f"clang-tidy: findings in {bad} source(s)")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
