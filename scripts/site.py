#!/usr/bin/env python3
"""Builds the site from the repository's pages, and fails if a link is broken.

    scripts/site.py OUT     the environment's Python, with scripts/site-packages.txt

Pages link to each other and to sources by their paths in the repository, so that links work in a
clone and on the site. The site therefore has the same paths: this script copies README.md, docs/,
and everything to which they link, directly or indirectly, and nothing else. A link to a folder
leads to its README.md, or to a list of its files. Some pages are generated from sources: those of
the Python package from its docstrings, one for each module, and that of the SDK from its headers,
by Doxygen if it is installed. Notebooks become pages with outputs, and code without a language gets
that of its first line. The link to the repository is PRIVGRAD_REPOSITORY, or the address of git's
`origin`. The sections that a script has written below a page are folded.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import griffe

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGINNINGS = ["README.md", "docs", "scripts/iframe-worker.js"]
MODULES = ["privgrad", "privgrad.sklearn", "privgrad.torch", "privgrad.flower",
           "privgrad.federated", "privgrad.prototypes", "privgrad.text", "privgrad.trackers"]
HEADERS = pathlib.PurePosixPath("framework/sdk/include/privgrad")
WRITTEN = re.compile(r"<!-- Below, .* Above, a person does\. -->\n(?:\n## .*\n(?=\n### ))?")
NOTEBOOK = re.compile(r"\]\(([^)\s#:]+)\.ipynb\)")
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
SHELL = re.compile(r"(privgrad|cmake|ctest|make|export|cd|git|pip|python3|apt-get|mpirun|srun|sed|cat|for"
                   r"|docker|[A-Z_]+=\S*|(build|bench|scripts|tests|examples|\.ci)/\S+)( |$)")
YAML = re.compile(r"(- )?[\"a-z_.]+:( |$)")
PARAMETERS = re.compile(r"^\|.*\| meaning \|\n(?:\|.*\n)+", re.MULTILINE)
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


def language_of(code):
    first = next((line for line in code if line.strip()), "").strip()
    if SHELL.match(first):
        return "sh"
    if YAML.match(first) and ": error:" not in first:
        return "yaml"
    return "c++" if first.startswith(("///", "//", "#include", "struct ", "class ")) else "text"


def with_languages(text):
    """A page whose code is fenced, and names its language."""
    out, lines, at = [], text.split("\n"), 0
    while at < len(lines):
        fence = re.match(r"( *)```(.*)$", lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            language = fence[2] or language_of(lines[at + 1:end])
            out += [f"{fence[1]}```{language}", *lines[at + 1:end + 1]]
            at = end + 1
        elif lines[at].startswith("    ") and (not out or not out[-1].strip()) and not in_list(out):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            code = [line[4:] for line in lines[at:end]]
            while not code[-1].strip():
                code.pop()
            out += [f"```{language_of(code)}", *code, "```", ""]
            at = end
        else:
            out.append(lines[at])
            at += 1
    return "\n".join(out)


def in_list(lines):
    """Whether the last paragraph is of a list, whose continuation is indented, too."""
    for line in reversed(lines):
        if line.strip():
            return bool(re.match(r" *([-*]|\d+\.) ", line)) or line.startswith("  ")
    return False


def folded(title, text):
    return f'<details class="folded" markdown="1"><summary>{title}</summary>\n\n{text}\n</details>\n\n'


def with_folded_sections(text):
    """A page whose sections that a script wrote open one by one."""
    written = WRITTEN.search(text)
    if not written:
        return text
    title = written[0].strip().partition("\n\n## ")[2]
    level = "###" if title else "##"
    parts = re.split(f"^{level} (.+)$", text[written.end():], flags=re.MULTILINE)
    return text[:written.start()] + f"## {title or 'Studies'}\n\nEach section opens with a click.\n\n" + "".join(
        folded(name, f"{level} {name}\n{section}") for name, section in zip(parts[1::2], parts[2::2]))


def with_marked_parameters(text):
    """A page whose tables of parameters have a class, because they wrap on narrow screens."""
    return PARAMETERS.sub(r'<div class="parameters" markdown="1">\n\n\g<0>\n</div>\n', text)


def page_of_notebook(file):
    """The cells of a notebook as a page, with what scripts/notebook-outputs.py has kept of them."""
    outputs = json.loads((ROOT / file.parent / "outputs" / f"{file.stem}.json").read_text(encoding="utf-8"))
    text = ""
    for place, cell in enumerate(json.loads((ROOT / file).read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"]).rstrip()
        text += f"{source}\n\n" if cell["cell_type"] == "markdown" else f"```python\n{source}\n```\n\n"
        if str(place) in outputs:
            text += f'<div class="output">{outputs[str(place)]}</div>\n\n'
    return text


def repository():
    """The address for the link to the repository; "" if there is none that a browser opens."""
    address = os.environ.get("PRIVGRAD_REPOSITORY")
    if address is None:
        asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, text=True, capture_output=True)
        address = re.sub(r"^git@([^:]+):", r"https://\1/", asked.stdout.strip()).removesuffix(".git")
    return address if address.startswith("https://") else ""


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
            text = with_languages(with_folders_as_files(file, text, folders))
            text = with_marked_parameters(with_folded_sections(text))
            to.write_text(NOTEBOOK.sub(r"](\1.md)", text), encoding="utf-8")
        elif file.suffix == ".ipynb":
            to.with_suffix(".md").write_text(page_of_notebook(file), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / file, to)
    for folder in folders:
        readme = place / folder / "README.md"
        if not readme.exists():
            readme.parent.mkdir(parents=True, exist_ok=True)
            readme.write_text(list_of(folder, files), encoding="utf-8")
    python_pages(place)
    sdk_page(place, files)


def python_pages(place):
    """A page for each module, which mkdocstrings fills by reading the modules without importing them."""
    if not (ROOT / "python").is_dir():
        return
    (place / "api").mkdir(exist_ok=True)
    package = griffe.load("privgrad", search_paths=[str(ROOT / "python")])
    text = "# The Python package\n\nMade of its docstrings; [Python](../docs/python.md) says how it is used.\n\n"
    for module in MODULES:
        held = package[module.removeprefix("privgrad").lstrip(".")] if module != "privgrad" else package
        text += f"- [{module}]({module}.md): {purpose_of(held)}\n"
        page = f"::: {module}\n"
        if held is package:  # Has many names, whose texts are long: each opens.
            page += "    options: {members: false}\n\n" + "".join(
                folded(f"<code>{name}</code>: {purpose_of(package[name])}", f"::: privgrad.{name}\n    options: {{heading_level: 2}}\n")
                for name in sorted(package.exports, key=lambda name: (package[name].is_class, name)))
        (place / "api" / f"{module}.md").write_text(page, encoding="utf-8")
    (place / "api" / "python.md").write_text(text, encoding="utf-8")


def purpose_of(thing):
    return re.sub("``(.*?)``", r"<code>\1</code>", thing.docstring.value.partition("\n")[0])


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
            env={**os.environ, "PRIVGRAD_SITE_PAGES": pages, "PRIVGRAD_REPOSITORY": repository(),
                 "NO_MKDOCS_2_WARNING": "1"})
    sys.exit(build.returncode)


if __name__ == "__main__":
    main()
