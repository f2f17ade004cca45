"""Uses an installed wheel in an otherwise empty environment; wheel_test.sh starts it.

usage: use_wheel.py NAME...     schedules in folders of these names, each built and tested there
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import privgrad

MANIFEST = {
    "privgrad": 1,
    "mode": "release",
    "data": {"kind": "synthetic", "rows": 200, "dimensions": 4},
    "model": {"kind": "mlp", "hidden": [4], "loss": "cross_entropy"},
    "sampler": "full_batch",
    "optimizer": "sgd",
    "schedules": {"clip_norm": 1, "learning_rate": 0.5, "noise_multiplier": "uniform"},
    "privacy": {"target_epsilon": 3, "target_delta": 1e-5, "adjacency": "zero_out",
                "accountant": "zcdp"},
    "steps": 10,
}


def mapped(name: str) -> set[str]:
    """The files with this name that the process has mapped."""
    return {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()
        if Path(line.split()[-1]).name.startswith(name)
    }


def main() -> None:
    package = Path(privgrad.__file__).parent
    assert sys.prefix in str(package), package

    # Every plugin has a record of tests for its current hash, so release mode accepts it.
    plugins = privgrad.plugins()
    assert len(plugins) > 50, len(plugins)
    assert [p.name for p in plugins if not p.tested] == []
    run = privgrad.run(MANIFEST, out="run")
    assert run.status == "completed", run
    assert privgrad.verify(run)

    # One SDK, the wheel's own, and no libraries of the machine except those of the platform.
    assert mapped("libprivgrad_sdk") == {str(package / "_home/lib/libprivgrad_sdk.so.0.1")}
    for name in ("libtbb", "libsodium", "libyaml", "libmpfr", "libgmp", "libcrypto", "libopenblas"):
        found = mapped(name)
        assert len(found) <= 1, found
        assert all(file.startswith(sys.prefix) for file in found), found
    assert mapped("libtbb"), "nothing was computed"

    # The command of the wheel: the same plugins, the same verdict.
    done = subprocess.run([Path(sys.prefix) / "bin" / "privgrad", "verify", "run"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    # The exporter finds the libraries in the wheel.
    privgrad.export(run, "model.onnx")
    assert b"probabilities" in Path("model.onnx").read_bytes()

    # Plugins that were built with the wheel are loaded with its SDK; release mode accepts them,
    # because they are tested, but not an untested copy.
    for name in sys.argv[1:]:
        folder = Path(name) / "build/lib/privgrad/plugins"
        rate = {"schedules.learning_rate": {"kind": name, "from": 0.5, "to": 0.05}}
        assert privgrad.describe(f"schedule/{name}", plugin_dirs=[folder])["version"] == "0.1.0"
        plan = privgrad.plan(MANIFEST, plugin_dirs=[folder], overrides=rate)
        assert (plan.learning_rate[0], plan.learning_rate[9]) == (0.5, 0.05)
        untested = Path("untested", name)
        untested.mkdir(mode=0o755, parents=True)
        shutil.copy(folder / "schedules" / f"{name}.privgrad.so", untested)
        try:
            privgrad.plan(MANIFEST, plugin_dirs=[untested], overrides=rate)
        except privgrad.PrivacyError as refused:
            assert name in str(refused)
        else:
            raise AssertionError("release mode took a plugin that nobody has tested")
    assert len(mapped("libprivgrad_sdk")) == 1
    print("the wheel works")


if __name__ == "__main__":
    main()
