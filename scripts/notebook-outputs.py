#!/usr/bin/env python3
"""Runs the notebooks, and keeps what their cells show for the pages of the site.

    scripts/notebook-outputs.py [NAME...]     a Python with the package privgrad, and tqdm; default: all notebooks

Writes docs/notebooks/outputs/NAME.json: what each cell shows, as HTML or text, by the cell's place.
The notebooks themselves have no outputs, which are made by whoever runs them.
"""

import ast
import contextlib
import html
import io
import json
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOKS = ROOT / "docs" / "notebooks"


def shown(source, names):
    """What a cell prints and shows at its end, as HTML."""
    body = ast.parse(source)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(body, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    text = f"<pre>{html.escape(printed.getvalue())}</pre>" if printed.getvalue() else ""
    if hasattr(value, "_repr_html_"):
        return text + value._repr_html_()
    return text if value is None else f"{text}<pre>{html.escape(repr(value))}</pre>"


def main():
    (BOOKS / "outputs").mkdir(exist_ok=True)
    books = sorted(BOOKS.glob("*.ipynb"))
    for book in [book for book in books if book.stem in sys.argv[1:]] or books:
        cells = json.loads(book.read_text(encoding="utf-8"))["cells"]
        with tempfile.TemporaryDirectory() as folder:
            there = pathlib.Path(folder, "docs", "notebooks")  # as in a clone
            there.mkdir(parents=True)
            pathlib.Path(folder, "examples").symlink_to(ROOT / "examples")
            os.chdir(there)
            names = {"__name__": "__main__"}
            made = {str(place): shown("".join(cell["source"]), names)
                    for place, cell in enumerate(cells) if cell["cell_type"] == "code"}
            os.chdir(ROOT)
        kept = {place: output for place, output in made.items() if output}
        (BOOKS / "outputs" / f"{book.stem}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
