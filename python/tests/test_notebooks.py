"""The notebooks of docs/notebooks, cell after cell."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import SOURCES

NOTEBOOKS = sorted((SOURCES / "docs" / "notebooks").glob("*.ipynb"))


def show(thing: Any) -> None:
    """Displays the last value of a cell, like a notebook."""
    if hasattr(thing, "_repr_html_"):
        assert thing._repr_html_().startswith("<div>")


def run_cell(source: str, names: dict[str, Any], where: str) -> None:
    import ast

    body = ast.parse(source, where)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, where, "exec"), names)
    if last is not None:
        show(eval(compile(ast.Expression(last.value), where, "eval"), names))


def test_there_are_notebooks() -> None:
    assert {file.stem for file in NOTEBOOKS} == {
        "a-schedule-of-ones-own", "accounting", "an-ablation", "fine-tuning", "quickstart",
        "texts",
    }


@pytest.mark.parametrize("file", [
    # It downloads a model and texts.
    pytest.param(file, marks=[pytest.mark.long, pytest.mark.timeout(1200)] if file.stem == "texts" else [])
    for file in NOTEBOOKS
], ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    folder = tmp_path / "docs" / "notebooks"  # as in a clone
    folder.mkdir(parents=True)
    (tmp_path / "examples").symlink_to(SOURCES / "examples")
    monkeypatch.chdir(folder)
    book = json.loads(file.read_text())
    assert book["nbformat"] == 4
    names: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place, cell in enumerate(book["cells"]):
            if cell["cell_type"] != "code":
                continue
            assert cell["outputs"] == [], "outputs are made by whoever runs it"
            run_cell("".join(cell["source"]), names, f"{file.name}, cell {place}")


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_for_the_site_are_of_cells(file: Path) -> None:
    cells = json.loads(file.read_text())["cells"]
    kept = json.loads((file.parent / "outputs" / f"{file.stem}.json").read_text())
    assert kept
    assert all(cells[int(place)]["cell_type"] == "code" for place in kept)
