#!/usr/bin/env python3
"""Runs clang-tidy on every source that is not known to be clean, and keeps the list of those that are.

    scripts/lint.py BUILD JOBS [FILE...]    BUILD holds compile_commands.json (the preset lint); exits with 1 on a finding

scripts/lint-clean.txt has a line for each clean file: its path, and a hash of its code, of .clang-tidy and of the version
of clang-tidy. Comments and the paths of includes are no part of the code, so that nothing is looked at again because it was
moved or explained better. A header is looked at through a source that includes it, because findings in headers are reported
there; so a header that changed is looked at once and not from every source that sees it. With FILE..., these are looked at
whatever the list says. The list is sorted, a line a file, so that branches merge.

Most of the time goes into headers. Sources of one folder that are compiled alike are therefore looked at together; only
where they do not compile because two of them use one name, or a header has a finding, each is looked at alone.

Of tests it is only asked whether Clang compiles them, which the sanitizers are built with.

PRIVGRAD_LINT_SECONDS: after these no more are begun, and how many are left is said: after a change of .clang-tidy, or of a
header that many see, the whole takes longer than a part of the continuous checks may.
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
LIST = ROOT / "scripts/lint-clean.txt"
TOOL = "clang-tidy-14"
COMPILER = "clang++-14"
LIMIT = 600  # seconds for one call
TOGETHER = 8  # sources
DEADLINE = time.monotonic() + float(os.environ.get("PRIVGRAD_LINT_SECONDS", "inf"))


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def read_list():
    if not LIST.exists():
        return {}
    return dict(line.split() for line in LIST.read_text().splitlines())


def write_list(clean, now):
    """After each result, so that what was found is kept if the rest is cut off."""
    LIST.write_text("".join(f"{name} {value}\n" for name, value in sorted(clean.items()) if name in now))


def code_of(text):
    """What findings depend on. A comment inside a function keeps its lines, which count for the function's length; one
    that speaks to clang-tidy stays."""
    outside = r"^(?:[ \t]*///|//)(?![^\n]*NOLINT)[^\n]*\n"
    includes = r'^#include "[^\n]*\n'
    text = re.sub(f"{outside}|{includes}", "", text, flags=re.M)
    return re.sub(r"(?:^|[ \t])[ \t]*//(?![^\n]*NOLINT)[^\n]*$", "", text, flags=re.M)


def hashes(files):
    version = subprocess.run([TOOL, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"LLVM version \S+", version)[0]
    settings = f"{version}\n{(ROOT / '.clang-tidy').read_text()}".encode()
    return {name: hashlib.sha256(code_of((ROOT / name).read_text()).encode() + settings).hexdigest()[:16] for name in files}


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


def flags_of(commands):
    """{source: how it is compiled, without what is about this one file}."""
    flags = {}
    for entry in commands:
        path = pathlib.Path(entry["file"]).resolve()
        if path.is_relative_to(ROOT):
            words = shlex.split(entry["command"])[1:]
            out = words.index("-o")
            flags[str(path.relative_to(ROOT))] = [w for w in words[:out] if w != "-c"]
    return flags


def batches_of(sources, flags):
    """Sources that can be looked at together: of one folder, compiled alike."""
    groups = {}
    for source in sources:
        groups.setdefault((str(pathlib.PurePosixPath(source).parent), *flags[source]), []).append(source)
    return [group[at:at + TOGETHER] for group in groups.values() for at in range(0, len(group), TOGETHER)]


def tidy(*words):
    """What clang-tidy has to say; empty if nothing."""
    try:
        done = subprocess.run([TOOL, "--quiet", *words], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"clang-tidy took longer than {LIMIT} s\n"
    return "" if done.returncode == 0 else done.stdout + done.stderr


def compiled_by_clang(source, flags):
    """What Clang has to say of a source that does not compile; empty if it does."""
    try:
        done = subprocess.run([COMPILER, *flags[source], "-w", "-fsyntax-only", source], cwd=ROOT, capture_output=True,
                              text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"Clang took longer than {LIMIT} s\n"
    return "" if done.returncode == 0 else done.stderr


def look_at(build, batch, flags):
    """{source: what is to be said of it; empty if nothing}; nothing after the deadline."""
    if time.monotonic() > DEADLINE:
        return {}
    if batch[0].startswith("tests/"):
        return {source: compiled_by_clang(source, flags) for source in batch}
    if len(batch) > 1:
        name = hashlib.sha256(" ".join(batch).encode()).hexdigest()[:16]
        together = pathlib.Path(build).resolve() / f"lint-{name}.cpp"
        together.write_text("".join(f'#include "{ROOT / source}"\n' for source in batch))
        seen = r"(framework|plugins|tools|bench|fuzz)/.*\.(hpp|cpp)$"
        said = tidy(f"--header-filter={seen}", str(together), "--", *flags[batch[0]])
        together.unlink()
        found = {str(pathlib.Path(path).resolve().relative_to(ROOT))
                 for path in re.findall(r"^(/\S+?):\d+:\d+: error:", said, flags=re.M)
                 if pathlib.Path(path).resolve().is_relative_to(ROOT)}
        # What is found in a header, or does not compile, may be any source's.
        if not said or (found and found <= set(batch) and "clang-diagnostic-error" not in said):
            return {source: said if source in found else "" for source in batch}
    return {source: tidy("-p", build, source) for source in batch}


def main(build, jobs, chosen):
    files = tracked("*.cpp", "*.hpp", ":!examples/plugin_template")
    now, clean = hashes(files), read_list()
    flags = flags_of(json.loads((pathlib.Path(build) / "compile_commands.json").read_text()))
    compiled = flags.keys() & set(files)
    includes = seen_by(files)
    known = set(clean.values())  # also under another path
    stale = set(chosen) or {name for name in files if now[name] not in known}
    clean.update({name: now[name] for name in files if name not in stale})
    sources = what_to_run(stale, compiled, includes)
    print(f"clang-tidy: {len(sources)} of {len(compiled)} sources, the others are known to be clean", flush=True)

    write_list(clean, now)
    bad, looked_at = 0, 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = [pool.submit(look_at, build, batch, flags) for batch in batches_of(sources, flags)]
        for found in concurrent.futures.as_completed(done):
            looked_at += len(found.result())
            for source, said in found.result().items():
                if said:
                    bad += 1
                    print(f"-- {source}\n{said}", flush=True)
                    continue
                for name in {source, *(includes[source] & stale)}:
                    clean[name] = now[name]
            write_list(clean, now)
    if sources:
        print("clang-tidy: scripts/lint-clean.txt was brought up to date: commit it with what it is about")
    if looked_at < len(sources):
        print(f"clang-tidy: {len(sources) - looked_at} sources are LEFT: `make lint` goes on with them")
    if bad:
        sys.exit(f"clang-tidy: findings in {bad} source(s)")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
