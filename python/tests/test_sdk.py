"""What authors of plugins need comes with the package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import privgrad

HOME = Path(privgrad.__file__).parent / "_home"
SOURCES = Path(__file__).parents[2]


def files_of(folder: Path) -> set[Path]:
    return {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("source", "place"),
    [("framework/sdk/include", "include"),
     ("examples/plugin_template", "share/privgrad/plugin_template")],
)
def test_headers_and_template_are_those_of_the_sources(source: str, place: str) -> None:
    assert files_of(HOME / place) == files_of(SOURCES / source)


def test_cmake_finds_the_package_where_the_command_says(tmp_path: Path) -> None:
    def call(*words: str | Path) -> str:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    if shutil.which("cmake") is None:
        pytest.skip("CMake is not installed")
    program = HOME / "bin" / "privgrad"
    assert Path(call(program, "--prefix")) == HOME.resolve()
    call(program, "plugins", "new", "suite", "schedule", "accountant")
    call("cmake", "-S", "suite", "-B", "build", f"-DCMAKE_PREFIX_PATH={HOME}")
