#!/usr/bin/env python3
"""Runs the fragments of a page of documentation, in the order of the page, as a reader would.

usage: run_page.py [--twice] RULES SOURCE BUILD PAGE...

With --twice all of it runs a second time in the same folder, in a new shell. If that needs something, the page says so in
the sentence "To run these commands again, first `COMMAND`", and that is run in between.

A reader has what every Debian has, PrivGrad, and what the page asks for: its text must name Python or CMake before a
fragment may use them, and Python has no package.

Fragments are the fenced and the indented blocks of a page. All shell fragments run in one shell, so
that `cd` and `export` affect later ones; a manifest, a part of one, or a study is written to a file
and checked. A fragment that begins with a comment of a path of the repository quotes that file, whose
lines it must have; `...` leaves some out. RULES (fragments.toml) says what is not run and why, what is run with a smaller
setting, and what a page assumes. A fragment of an unknown kind, or a rule without a fragment, is an
error.
"""
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

SHELL = re.compile(r"(privgrad|cmake|ctest|make|export|cd|[A-Z_]+=\S*|(build|bench|scripts|\.ci)/\S+)( |$)")
QUOTE = re.compile(r"(?://|#) ((?:framework|plugins|examples)/\S+)$")
YAML = re.compile(r"[a-z_]+:( |$)")
AGAIN = re.compile(r"[Tt]o\s+run\s+(?:these\s+commands|them)\s+again,\s+first\s+`([^`]+)`")
DEBIAN = """awk basename bash cat chmod cmp cp cut date diff dirname du echo env expr false find grep gzip head hostname id ln
ls mkdir mktemp mv nproc od paste printf pwd readlink realpath rm rmdir sed seq sh sha256sum sleep sort stat tail tar tee
test touch tr true uname uniq wc which xargs zcat""".split()
COMPILER = """ar as c++ ccache clang++ cmake cpp ctest g++ gcc ld ldd make ninja nm objdump ranlib readelf strip""".split()
ASKED_FOR = {"Python": ["python3"], "CMake": COMPILER}
# The variables of the tests' environment that readers do not have, and that fragments keep.
KEPT = re.compile(r"(CXX|CXXFLAGS|CMAKE_GENERATOR|LANG|TMPDIR|[ALUT]+SAN_OPTIONS|CCACHE_\w+|PRIVGRAD_INSTRUCTIONS)$")
RULE_KEYS = {"page", "begins", "not_run", "as", "replace", "before", "command", "base", "set", "file", "frame", "key"}


@dataclass
class Fragment:
    page: str
    line: int
    language: str  # "" if the page does not say.
    text: str
    rule: dict = field(default_factory=dict)

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def first_line(self):
        return self.text.splitlines()[0]


def fragments_of(page, text):
    lines = text.splitlines() + [""]
    found = []
    at = 0
    while at < len(lines):
        fence = re.match(r" *```(\w*)", lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            found.append(Fragment(page, at + 2, fence[1], textwrap.dedent("\n".join(lines[at + 1:end]))))
            at = end + 1
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            found.append(Fragment(page, at + 1, "", textwrap.dedent("\n".join(lines[at:end])).rstrip()))
            at = end
        else:
            at += 1
    return found


def kind_of(fragment):
    """The kind of a fragment: shell, manifest, section, component, study, output, cpp, file,
    quote; None if unknown."""
    if "as" in fragment.rule:
        return fragment.rule["as"]
    if QUOTE.match(fragment.first_line):
        return "quote"
    if fragment.language in ("", "sh") and SHELL.match(fragment.first_line):
        return "shell"
    if fragment.language == "yaml" or (fragment.language == "" and YAML.match(fragment.first_line)):
        keys = re.findall(r"^(\w+):", fragment.text, re.MULTILINE)
        return "manifest" if "privgrad" in keys else "study" if "study" in keys else "section"
    return None


def with_section(base, section):
    """The manifest `base`, with its top-level keys replaced by those of the section."""
    keys = set(re.findall(r"^(\w+):", section, re.MULTILINE))
    kept, keep = [], True
    for line in base.splitlines():
        key = re.match(r"(\w+):", line)
        if key:
            keep = key[1] not in keys
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n" + section + "\n"


def quote_problems(fragment, source):
    """What a quoting fragment says that its file does not say, in the order of the file."""
    name = QUOTE.match(fragment.first_line)[1]
    if not (source / name).is_file():
        return [f"{fragment.place}: {name} does not exist"]
    lines = [line.strip() for line in (source / name).read_text().splitlines()]
    at = 0
    for part in re.split(r"^\s*\.\.\.\s*$", fragment.text.split("\n", 1)[1], flags=re.MULTILINE):
        quoted = [line.strip() for line in part.strip("\n").splitlines()]
        found = [i for i in range(at, len(lines)) if lines[i:i + len(quoted)] == quoted]
        if not quoted or not found:
            return [f"{fragment.place}: {name} no longer has, after line {at}, the lines that begin with "
                    f"'{(quoted or [''])[0]}'"]
        at = found[0] + len(quoted)
    return []


class Page:
    """Makes one shell script of a page."""

    def __init__(self, tests, source, scratch):
        self.tests, self.source, self.scratch = tests, source, scratch
        self.count = 0

    def write(self, name, text):
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        return path

    def script(self, fragment):
        rule, text = fragment.rule, fragment.text
        for old, new in rule.get("replace", []):
            if old not in text:
                raise SystemExit(f"{fragment.place}: the rule replaces '{old}', which the fragment does not have")
            text = text.replace(old, new)
        self.count += 1
        lines = [f"echo '== {fragment.place}'"]
        if "before" in rule:
            lines.append(rule["before"].strip())
        settings = " ".join("--set " + shlex.quote(one) for one in rule.get("set", []))
        name = rule.get("file", f"fragment-{self.count}")
        kind = kind_of(fragment)
        if kind == "shell":
            lines.append(text)
        elif kind == "manifest":
            lines.append(f"privgrad validate {self.write(name, text)} {settings}")
        elif kind == "section":
            base = (self.source / rule.get("base", "examples/manifests/quickstart.yaml")).read_text()
            lines.append(f"privgrad validate {self.write(name, with_section(base, text))} {settings}")
        elif kind == "component":
            base = self.source / rule.get("base", "examples/manifests/quickstart.yaml")
            lines.append(f"privgrad validate {base} {settings} --set {shlex.quote(rule['key'] + '=' + text)}")
        elif kind == "study":
            lines.append(f"privgrad ablate {self.write(name, text)} --dry-run {settings}")
        elif kind in ("output", "similar output"):
            expected = self.write(f"fragment-{self.count}.expected", text)
            lines.append(f"( {rule['command'].strip()} ) > fragment.out 2>&1 || true")
            lines.append(f"{sys.executable} {self.tests}/same_output.py '{kind}' {expected} fragment.out")
        elif kind == "cpp":
            frame = (self.tests / rule["frame"]).read_text()
            file = self.write(f"fragment-{self.count}.cpp", frame.replace("FRAGMENT", text))
            lines.append(f"$CXX -std=c++20 -fsyntax-only -I{self.source}/framework/sdk/include {file}")
        elif kind == "file":
            lines.append(f"FRAGMENT={self.write(name, text)}")
            lines.append(rule["command"].strip())
        else:
            raise SystemExit(f"{fragment.place}: there is no way to run what is '{kind}'")
        return "\n".join(lines)


def attach_rules(fragments, rules, pages):
    """Gives each fragment its rule, the last one that fits. \\returns all problems with rules and fragments."""
    problems = []
    for rule in rules:
        unknown = set(rule) - RULE_KEYS
        if unknown or "page" not in rule or "begins" not in rule:
            problems.append(f"a rule has the keys {sorted(rule)}, allowed are {sorted(RULE_KEYS)}")
            continue
        if not fnmatch.filter(pages, rule["page"]):
            continue
        named = [f for f in fragments
                 if fnmatch.fnmatch(f.page, rule["page"]) and f.first_line.startswith(rule["begins"])]
        if not named:
            problems.append(f"{rule['page']}: no fragment begins with '{rule['begins']}', which a rule names")
        for fragment in named:
            fragment.rule = rule
    for fragment in fragments:
        if "not_run" not in fragment.rule and kind_of(fragment) is None:
            problems.append(f"{fragment.place}: '{fragment.first_line}' is neither shell nor YAML, and no rule says what "
                            "it is (tests/docs/fragments.toml)")
    return problems


def make_path(folder, page_text):
    """A folder of the programs that a reader of the page has."""
    folder.mkdir()
    python = f"#!/bin/sh\nexec {sys.executable} -s -S \"$@\"\n"
    for name in DEBIAN + [name for word, names in ASKED_FOR.items() if word in page_text for name in names]:
        found = shutil.which(name)
        if name == "python3":
            (folder / name).write_text(python)
            (folder / name).chmod(0o755)
        elif found:
            (folder / name).symlink_to(found)
    return folder


def run(script, scratch, build, path):
    environment = {name: value for name, value in os.environ.items() if KEPT.match(name)} | {
        "HOME": str(scratch / "home"),
        "PATH": f"{build}/bin:{path}",
        "BUILD": str(build),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "XDG_STATE_HOME": str(scratch / "state"),
    }
    log = scratch / "log"
    with log.open("w") as out:
        done = subprocess.run(["bash", "-e", "-c", script], cwd=scratch, env=environment, stdout=out,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return []
    output = log.read_text()
    at = output.rfind("\n== ") if "\n== " in output else 0
    return ["this fragment fails:\n" + textwrap.indent(output[at:].strip(), "  ")]


def main():
    twice = sys.argv[1] == "--twice"
    given = sys.argv[2 if twice else 1:]
    rules_file, source, build = (Path(name).resolve() for name in given[:3])
    pages = given[3:]
    rules = tomllib.loads(rules_file.read_text())["fragment"]
    tests = rules_file.parent
    fragments = [f for page in pages for f in fragments_of(page, (source / page).read_text())]
    problems = attach_rules(fragments, rules, pages)
    problems += [f"{rules_file.name} has a rule for {rule['page']}, which does not exist"
                 for rule in rules if not list(source.glob(rule["page"]))]
    quotes = [f for f in fragments if kind_of(f) == "quote"]
    problems += [problem for quote in quotes for problem in quote_problems(quote, source)]
    to_run = [f for f in fragments if "not_run" not in f.rule and f not in quotes]
    if not problems and to_run:
        with tempfile.TemporaryDirectory(prefix="privgrad-docs-") as folder:
            scratch = Path(folder)
            (scratch / "home").mkdir()
            (scratch / "build").mkdir()
            (scratch / "build/bin").symlink_to(build / "bin")
            shutil.copytree(source / "examples", scratch / "examples")
            page = Page(tests, source, scratch)
            text = "\n".join((source / name).read_text() for name in pages)
            path = make_path(scratch / "path", text)
            start = f"""fake_mnist() {{ {sys.executable} {tests}/fake_mnist.py "$@"; }}\n"""
            script = start + "\n".join(page.script(fragment) for fragment in to_run)
            problems += run(script, scratch, build, path)
            if twice and not problems:
                between = "".join(f"echo '== again'\n{' '.join(command.split())}\n" for command in AGAIN.findall(text))
                problems += ["the second time, " + problem
                             for problem in run(between, scratch, build, path) or run(script, scratch, build, path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    for fragment in fragments:
        if "not_run" in fragment.rule:
            print(f"{fragment.place}: not run: {fragment.rule['not_run']}")
    print(f"{len(to_run)} of {len(fragments)} fragments run, {len(quotes)} quotes compared")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
