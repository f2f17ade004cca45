"""The command that the package contains."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PROGRAM = Path(__file__).parent / "_home" / "bin" / "privgrad"


def main() -> None:
    """Replace this process by the command."""
    os.execv(_PROGRAM, ["privgrad", *sys.argv[1:]])
