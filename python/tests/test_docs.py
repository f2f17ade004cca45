"""The fragments of docs/python.md, one after the other, as a reader would run them."""

from __future__ import annotations

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
        for fragment in fragments:
            exec(compile(fragment, str(PAGE), "exec"), names)  # noqa: S102
