"""Shared fixtures: the example manifests, and the command in the package."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import privgrad
from privgrad._framework import HOME

SOURCES = Path(__file__).resolve().parents[2]
QUICKSTART = SOURCES / "examples" / "manifests" / "quickstart.yaml"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def quickstart() -> Path:
    """The manifest of the quickstart."""
    return QUICKSTART


@pytest.fixture
def small() -> dict[str, Any]:
    """A manifest as a dict, for a short run."""
    return {
        "privgrad": 1,
        "data": {"kind": "synthetic", "rows": 200, "dimensions": 4, "distance": 4},
        "model": {"kind": "linear", "loss": "cross_entropy"},
        "sampler": "full_batch",
        "optimizer": "sgd",
        "schedules": {"clip_norm": 1, "learning_rate": 0.5, "noise_multiplier": "uniform"},
        "privacy": {
            "target_epsilon": 3,
            "target_delta": 1e-5,
            "adjacency": "zero_out",
            "accountant": "zcdp",
        },
        "steps": 20,
        "seed": 7,
    }


class Command:
    """The command of the package, for comparison."""

    program = HOME / "bin" / "privgrad"

    def __call__(self, *words: str | os.PathLike[str], given: str | None = None) -> Any:
        """The JSON that the command prints."""
        done = subprocess.run(
            [os.fspath(word) for word in (self.program, *words)],
            input=given, capture_output=True, text=True, check=False, timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fails(self, *words: str | os.PathLike[str]) -> tuple[int, str]:
        """The exit code and the output."""
        done = subprocess.run(
            [os.fspath(word) for word in (self.program, *words)],
            capture_output=True, text=True, check=False, timeout=120,
        )
        return done.returncode, done.stderr


@pytest.fixture
def command() -> Command:
    """Calls the command with the same plugins."""
    return Command()


assert privgrad.__version__
