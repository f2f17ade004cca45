"""The Python fragments of the pages, in order, as a reader would run them."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path

import pytest
from conftest import SOURCES

import privgrad

PAGES = [SOURCES / "docs" / "python.md", SOURCES / "docs" / "sklearn.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("tqdm")
    fragments = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(fragments) > 5
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # Debian's PyTorch was
                                                                         # built for another NumPy
        for fragment in fragments:
            if "privgrad.torch" in fragment and importlib.util.find_spec("torch") is None:
                continue
            exec(compile(fragment, str(page), "exec"), names)  # noqa: S102


def test_the_tutorial_of_a_table_runs() -> None:
    pytest.importorskip("onnxruntime")
    Path("examples").symlink_to(SOURCES / "examples")
    page = SOURCES / "docs" / "tutorials" / "table.md"
    fragments = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(fragments) == 2
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=privgrad.PrivgradWarning)  # about rows that were
                                                                              # read
        for fragment in fragments:
            exec(compile(fragment, str(page), "exec"), names)  # noqa: S102
