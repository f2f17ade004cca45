"""Fails if docs/trust.md contradicts the sources of the trust base: which sources make and open what,
the number of lines, the headers, and which tests guard which claim.

usage: trust_page_test.py     in the root of the sources
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path("docs/trust.md")
TRUST = Path("framework/trust")
RECORD = Path("framework/record")
MAKES = {"bounded": "Bounded", "bounded_on_grid": "BoundedOnGrid", "released": "Released", "noise_order": "NoiseOrder"}
TAKES = {"take", "take_parts", "copy"}


def part(page: str, begin: str, end: str) -> str:
    """The part of the page between two texts."""
    at = page.index(begin)
    return page[at:page.index(end, at)]


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in a text, without their headings."""
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    rules = [i for i, row in enumerate(tables) if set("".join(row)) == {"-"}]
    return [row for i, row in enumerate(tables) if i not in rules and i + 1 not in rules]


def in_code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def makers_in_tree() -> dict[str, tuple[set[str], bool]]:
    """For each source that includes trust_base.hpp: what it makes, and whether it opens sums."""
    found = {}
    for source in sorted(TRUST.rglob("*.?pp")):
        text = source.read_text()
        if not re.search(r'#include ".*trust_base.hpp"', text):
            continue
        used = set(re.findall(r"TrustBase::(\w+)\(", text))
        unknown = used - set(MAKES) - TAKES
        assert not unknown, f"{source}: uses TrustBase::{unknown}, which this test does not know"
        found[source.name] = ({MAKES[name] for name in used & set(MAKES)}, bool(used & TAKES))
    return found


def makers_on_page(page: str) -> dict[str, tuple[set[str], bool]]:
    listed = {}
    for sources, makes, takes in rows(part(page, "Only the class in `sums/src/trust_base.hpp`", "\nA receipt is made")):
        for source in in_code(sources):
            listed[source] = (set(in_code(makes)), takes != "")
    return listed


def differences(what: str, on_page: dict, in_tree: dict) -> list[str]:
    return [f"{what}: {name}: the page says {on_page.get(name)}, the sources {in_tree.get(name)}"
            for name in sorted(on_page.keys() | in_tree.keys()) if on_page.get(name) != in_tree.get(name)]


def makers_of_receipts(page: str) -> list[str]:
    said = set(in_code(part(page, "A receipt is made by", "\n")))
    text = (TRUST / "ledger/include/privgrad/trust/ledger.hpp").read_text()
    found = set(re.findall(r"friend class (\w+);", part(text, "class Receipt", "\n};")))
    return [] if said == found else [f"receipts: the page says {sorted(said)}, the friends are {sorted(found)}"]


def count_of_lines(page: str) -> list[str]:
    said = int(re.search(r"The library has about ([\d ]+) lines", page)[1].replace(" ", ""))
    found = sum(len(file.read_text().splitlines()) for file in TRUST.rglob("*.?pp") if "testing" not in file.parts)
    return [] if abs(said - found) <= found / 20 else [f"lines: the page says about {said}, there are {found}"]


def lines_of_charge(page: str) -> list[str]:
    said = int(re.search(r"`charge\(\)` in `ledger.cpp` is (\d+) lines", page)[1])
    body = re.search(r"^[^\n]* Ledger::charge\(.*?^}\n", (TRUST / "ledger/src/ledger.cpp").read_text(), re.S | re.M)[0]
    return [] if said == body.count("\n") else [f"charge(): the page says {said} lines, there are {body.count(chr(10))}"]


def headers(page: str) -> list[str]:
    private = {file.name for file in TRUST.glob("*/src/*.hpp")}
    return headers_in(part(page, "## In which order to read", "Outside this library, three kinds"), TRUST, private) + \
        headers_in(part(page, "## The record, which", "## Which test guards which claim"), RECORD, set())


def headers_in(text: str, room: Path, optional: set[str]) -> list[str]:
    """Headers of a room that a section of the page omits or invents. It may name the optional ones."""
    listed = {name.removeprefix("src/") for name in in_code(text) if name.endswith(".hpp")}
    public = {file.name for file in room.rglob("*.hpp") if "include" in file.parts and "testing" not in file.parts}
    return [f"headers: {name} is not on the page" for name in sorted(public - listed)] + \
        [f"headers: the page names {name}, which is not in {room}" for name in sorted(listed - public - optional)]


def guards(page: str) -> list[str]:
    """Tests and sources in a row of the table of changes that do not exist."""
    tests = "".join(file.read_text() for file in sorted(Path("tests").rglob("*.cpp")))
    tests = re.sub(r'"\s*\n\s*"', "", tests)
    sources = {file.name for file in Path("framework").rglob("*.?pp")}
    wrong = []
    listed = rows(part(page, "## Which test guards which claim", "## What is looked at"))
    for _, source, guarding in listed:
        wrong += [f"changes: {name} is not there" for name in in_code(source) if name not in sources]
        wrong += [f'tests: "{name}" is no test' for name in re.findall(r'"([^"]+)"', guarding)
                  if f'TEST_CASE("{name}"' not in tests and f'TEST_CASE( "{name}"' not in tests
                  and not re.search(r'TEST_CASE\(\s*"' + re.escape(name) + '"', tests)]
    return wrong if len(listed) > 30 else [*wrong, f"changes: only {len(listed)} rows were found"]


def main() -> int:
    page = PAGE.read_text()
    found = makers_in_tree()
    wrong = differences("trust_base.hpp", makers_on_page(page), found)
    wrong += makers_of_receipts(page) + count_of_lines(page) + lines_of_charge(page) + headers(page) + guards(page)
    print("\n".join(wrong))
    print(f"{len(found)} sources include trust_base.hpp; {len(wrong)} differences between {PAGE} and the sources")
    return 1 if wrong or len(found) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
