#!/usr/bin/env python3
"""Writes a CycloneDX list of the parts of a release: scripts/sbom.py VERSION FILE...

Components are the Debian packages that the build needs (scripts/install-dependencies.sh --list,
without compilers and tools), with their versions on this machine, and each FILE with its SHA-256. A
package's licence comes from the list; if the list gives none, all licences in the package's
copyright file count, which include those of its build scripts.
"""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

#: In the list, but in no released file.
TOOLS = {"g++", "cmake", "ninja-build", "ccache", "pkg-config", "ca-certificates", "catch2"}


def needed() -> dict[str, str]:
    """Package -> its purpose according to the list."""
    listed = subprocess.run(
        ["scripts/install-dependencies.sh", "--list"], check=True, capture_output=True, text=True
    ).stdout
    lines = (line.split(maxsplit=1) for line in listed.splitlines())
    return {name: purpose for name, purpose in lines if name not in TOOLS}


def licences(package: str, purpose: str) -> list[str]:
    """The names of the licences, sorted."""
    in_list = re.search(r"\(([A-Za-z-]+-[0-9][^,)]*|MIT|BSD|curl licence)[,)]", purpose)
    if in_list:
        return [in_list.group(1)]
    text = Path("/usr/share/doc", package, "copyright")
    found = set()
    if text.exists():
        found = set(re.findall(r"^License: *(\S.*?) *$", text.read_text(errors="replace"), re.M))
    return sorted(found) or ["see /usr/share/doc/" + package + "/copyright"]


def component(package: str, purpose: str) -> dict:
    version = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package], check=True, capture_output=True, text=True
    ).stdout
    return {
        "type": "library",
        "name": package,
        "version": version,
        "description": purpose,
        "purl": f"pkg:deb/debian/{package}@{version}",
        "licenses": [{"license": {"name": name}} for name in licences(package, purpose)],
    }


def main(version: str, files: list[str]) -> None:
    """Print it."""
    released = [
        {
            "type": "file",
            "name": Path(file).name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(Path(file).read_bytes()).hexdigest()}],
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }
        for file in sorted(files)
    ]
    libraries = [component(package, purpose) for package, purpose in sorted(needed().items())]
    json.dump(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {"component": {"type": "application", "name": "privgrad", "version": version}},
            "components": released + libraries,
        },
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
