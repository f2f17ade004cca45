"""The fragments of docs/python.md, one after the other, as a reader would run them."""

from __future__ import annotations

import importlib.util
import re
import warnings

import pytest
from conftest import SOURCES

PAGE = SOURCES / "docs" / "python.md"


def test_the_page_runs() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("tqdm")
    fragments = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(fragments) > 5
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # Debian's PyTorch, of another one
        for fragment in fragments:
            if "privgrad.torch" in fragment and importlib.util.find_spec("torch") is None:
                continue
            exec(compile(fragment, str(PAGE), "exec"), names)  # noqa: S102
