#!/usr/bin/env python3
"""Writes the times of the parts of .ci/run into CONTRIBUTING.md.

    .ci/run >log 2>&1; scripts/parts_table.py log "warm, 2 cores, nothing else at work" [COLD_LOG "cold, ..."]

Each log gives a column of minutes; its heading is the text that follows it. The table is between
the two comments `<!-- parts -->`.
"""

import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "CONTRIBUTING.md"
ROW = re.compile(r"^(\S.*?) +(\d+) min +(\d+) min (\d\d) s", re.M)


def parts(log):
    """{name: (budget, actual time)} from the last table in a log."""
    table = pathlib.Path(log).read_text().rsplit("\npart   ", 1)[1]
    return {m[1].strip(): (int(m[2]), f"{int(m[3])}:{m[4]}") for m in ROW.finditer(table)}


def main(words):
    columns = [(parts(log), heading) for log, heading in zip(words[::2], words[1::2])]
    head = ["part", "budget, min", *(heading for _, heading in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, (budget, _) in columns[0][0].items():
        lines.append("| " + " | ".join([name, str(budget), *(took.get(name, (0, ""))[1] for took, _ in columns)]) + " |")
    before, _, after = PAGE.read_text().split("<!-- parts -->")
    PAGE.write_text(before + "<!-- parts -->\n\n" + "\n".join(lines) + "\n\n<!-- parts -->" + after)


if __name__ == "__main__":
    main(sys.argv[1:])
