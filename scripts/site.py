#!/usr/bin/env python3
"""Builds the site from the repository's pages, and fails for a link that leads nowhere.

    scripts/site.py OUT     the environment's Python, with scripts/site-packages.txt

Pages link to each other and to sources by their places in the repository, so that a clone reads as
well as the site. The site therefore has the same places: this script copies README.md, docs/, and
whatever they link to, directly or through others, and nothing else. A link to a folder leads to its
README.md, or to a list of its files.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGINNINGS = ["README.md", "docs"]
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def versioned():
    """The files that git knows, by their places."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    return {pathlib.PurePosixPath(name) for name in listed.stdout.decode().split("\0") if name}


def links_of(page):
    """The local targets of a page's links, as written; code is passed over."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return {found[1] for found in LINK.finditer(text) if "://" not in found[1]}


def target_of(page, link):
    return pathlib.PurePosixPath(os.path.normpath(page.parent / link))


def closure(files):
    """All files that the site holds, and the folders that links lead to."""
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
    """A page whose links to folders lead to the file that stands for each."""

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
