#!/usr/bin/env python3
"""Builds the site from the repository's pages, and fails if a link is broken.

    scripts/site.py OUT     the environment's Python, with scripts/site-packages.txt

Pages link to each other and to sources by their paths in the repository, so that links work in a
clone and on the site. The site therefore has the same paths: this script copies README.md, docs/,
and everything to which they link, directly or indirectly, and nothing else. A link to a folder
leads to its README.md, or to a list of its files. Two pages are generated from sources: that of the
Python package from its docstrings, and that of the SDK from its headers, by Doxygen if it is
installed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGINNINGS = ["README.md", "docs", "scripts/iframe-worker.js"]
MODULES = ["privgrad", "privgrad.sklearn", "privgrad.torch", "privgrad.flower",
           "privgrad.federated", "privgrad.prototypes", "privgrad.trackers"]
HEADERS = pathlib.PurePosixPath("framework/sdk/include/privgrad")
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def versioned():
    """The files that git knows, by their paths."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    return {pathlib.PurePosixPath(name) for name in listed.stdout.decode().split("\0") if name}


def links_of(page):
    """The local targets of a page's links, as written; code is ignored."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return {found[1] for found in LINK.finditer(text) if "://" not in found[1]}


def target_of(page, link):
    return pathlib.PurePosixPath(os.path.normpath(page.parent / link))


def closure(files):
    """All files of the site, and the folders to which links lead."""
    folders = {parent for file in files for parent in file.parents}
    held, asked = set(), set()
    left = [file for file in files for begin in BEGINNINGS if file.is_relative_to(begin)]
    while left:
        file = left.pop()
        if file in held:
            continue
        held.add(file)
        if file.suffix != ".md":
            continue
        for link in links_of(file):
            target = target_of(file, link)
            if target in files:
                left.append(target)
            elif target in folders:
                asked.add(target)
                if target / "README.md" in files:
                    left.append(target / "README.md")
    return held, asked


def with_folders_as_files(page, text, folders):
    """A page in which links to folders lead to the folder's index file."""

    def replaced(found):
        target = target_of(page, found[1])
        if "://" in found[1] or target not in folders:
            return found[0]
        return f"]({found[1].rstrip('/')}/README.md{found[2] or ''})"

    return LINK.sub(replaced, text)


def list_of(folder, files):
    names = sorted({file.relative_to(folder).parts[0] for file in files
                    if file.is_relative_to(folder)})
    return f"# {folder}\n\n" + "".join(f"- `{name}`\n" for name in names)


def stage(place):
    files = versioned()
    held, folders = closure(files)
    for file in held:
        to = place / file
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = (ROOT / file).read_text(encoding="utf-8")
            to.write_text(with_folders_as_files(file, text, folders), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / file, to)
    for folder in folders:
        readme = place / folder / "README.md"
        if not readme.exists():
            readme.parent.mkdir(parents=True, exist_ok=True)
            readme.write_text(list_of(folder, files), encoding="utf-8")
    python_page(place)
    sdk_page(place, files)


def python_page(place):
    """The page of the package, which mkdocstrings fills by reading the modules without importing them."""
    if not (ROOT / "python").is_dir():
        return
    page = place / "api" / "python.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("# The Python package\n\nMade of its docstrings; [Python](../docs/python.md) says how "
                    "it is used.\n\n" + "".join(f"::: {module}\n\n" for module in MODULES),
                    encoding="utf-8")


def doxygen(out):
    """Writes the HTML of the SDK's headers below `out`."""
    settings = {
        "PROJECT_NAME": '"PrivGrad SDK"', "INPUT": HEADERS, "RECURSIVE": "YES",
        "OUTPUT_DIRECTORY": out.parent, "HTML_OUTPUT": out.name, "GENERATE_LATEX": "NO",
        "STRIP_FROM_PATH": HEADERS.parent, "STRIP_FROM_INC_PATH": HEADERS.parent,
        "EXTRACT_ALL": "YES", "EXCLUDE_SYMBOLS": "*detail*", "BUILTIN_STL_SUPPORT": "YES",
        "MACRO_EXPANSION": "YES", "EXPAND_ONLY_PREDEF": "YES", "PREDEFINED": "PRIVGRAD_API=",
        "HTML_DYNAMIC_SECTIONS": "YES", "HAVE_DOT": "NO", "QUIET": "YES", "WARN_IF_UNDOCUMENTED": "NO",
        "WARN_IF_INCOMPLETE_DOC": "NO",
    }
    subprocess.run(["doxygen", "-"], cwd=ROOT, check=True, text=True,
                   input="".join(f"{key} = {value}\n" for key, value in settings.items()))


def sdk_page(place, files):
    """The page of the SDK: the purpose of each header, from its first line."""
    headers = sorted(file for file in files if file.parent == HEADERS)
    if not headers:
        return
    has_doxygen = shutil.which("doxygen") is not None
    text = "# The SDK, in C++\n\nAll that a plugin may see; [writing a plugin]" \
           "(../docs/writing-a-plugin.md) says how it is used.\n\n"
    if has_doxygen:
        doxygen(place / "api" / "sdk")
        text += "[All classes and functions](sdk/annotated.html), made of the headers by Doxygen.\n\n"
    else:
        print("site: Doxygen is not installed: the SDK's classes are left out", file=sys.stderr)
        text += "Doxygen was not installed when this site was built, so that classes are left out.\n\n"
    text += "| header | |\n|---|---|\n"
    for header in headers:
        first = (ROOT / header).read_text(encoding="utf-8").split("\n", 1)[0]
        name = f"privgrad/{header.name}"
        page = f"sdk/{header.stem.replace('_', '__')}_8hpp.html"
        text += f"| [{name}]({page}) " if has_doxygen else f"| {name} "
        text += f"| {first.removeprefix('//').strip()} |\n"
    page = place / "api" / "sdk.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as pages:
        stage(pathlib.Path(pages))
        build = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file",
             str(ROOT / "mkdocs.yml"), "--site-dir", os.path.abspath(sys.argv[1])],
            env={**os.environ, "PRIVGRAD_SITE_PAGES": pages, "NO_MKDOCS_2_WARNING": "1"})
    sys.exit(build.returncode)


if __name__ == "__main__":
    main()
