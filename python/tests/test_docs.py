"""The Python fragments of the pages, in order, as a reader would run them: twice, with the packages that it names."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import SOURCES

DOCS = SOURCES / "docs"
IMPORTED_AS = {"scikit-learn": "sklearn", "mlflow-skinny": "mlflow"}
START = """
import sys
import warnings

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden!r}:
            raise ModuleNotFoundError("the page does not ask for " + name, name=name)


sys.meta_path.insert(0, Hidden())
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # Debian's PyTorch was built for another NumPy
"""


def module_of(requirement: str) -> str:
    name = re.split(r"[>=<]", requirement)[0]
    return IMPORTED_AS.get(name, name)


def hidden_from(text: str) -> list[str]:
    """Modules that are installed for tests, and that the page does not ask for."""
    extras = tomllib.loads((SOURCES / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {module_of(one) for extra in extras.values() for one in extra} | {"onnxruntime"}
    asked = set()
    for words in re.findall(r"pip\s+install\s+([^`\n]+)", text):
        for word in words.replace("'", "").split():
            if "[" in word:
                names = word[word.index("[") + 1:word.index("]")].split(",")
                asked |= {module_of(one) for name in names for one in extras[name]}
            else:
                asked.add(module_of(word))
    return sorted(known - asked - {"pytest"})


def run_twice(page: Path, start: str = "") -> None:
    text = page.read_text()
    fragments = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(fragments) > 1
    script = START.format(hidden=hidden_from(text)) + start
    for _ in range(2):
        script += "names = {}\n"
        for fragment in fragments:
            if "privgrad.torch" in fragment and importlib.util.find_spec("torch") is None:
                continue
            script += f"exec(compile({fragment!r}, {page.name!r}, 'exec'), names)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["python.md", "sklearn.md"])
def test_the_page_runs_twice_with_what_it_asks_for(name: str) -> None:
    for module in ("sklearn", "tqdm", "pandas", "pyarrow"):
        pytest.importorskip(module)
    run_twice(DOCS / name)


def test_the_tutorial_of_a_table_runs_twice_with_what_it_asks_for() -> None:
    pytest.importorskip("onnxruntime")
    Path("examples").symlink_to(SOURCES / "examples")
    # The refusal concerns rows that were read.
    run_twice(DOCS / "tutorials" / "table.md",
              "import privgrad\nwarnings.filterwarnings('ignore', category=privgrad.PrivgradWarning)\n")
