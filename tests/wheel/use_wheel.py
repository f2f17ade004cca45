"""Uses an installed wheel in an environment that has nothing else; wheel_test.sh starts it.

usage: use_wheel.py PLUGINS     a folder with halves.privgrad.so, which was built elsewhere
"""

from __future__ import annotations

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
    """The files of this name that are in the process."""
    return {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()
        if Path(line.split()[-1]).name.startswith(name)
    }


def main() -> None:
    package = Path(privgrad.__file__).parent
    assert sys.prefix in str(package), package

    # Every plugin is on record as tested, by the hash that it has now: release mode takes them.
    plugins = privgrad.plugins()
    assert len(plugins) > 50, len(plugins)
    assert [p.name for p in plugins if not p.tested] == []
    run = privgrad.run(MANIFEST, out="run")
    assert run.status == "completed", run
    assert privgrad.verify(run)

    # One SDK, the wheel's own, and no library of the machine's but those of the platform.
    assert mapped("libprivgrad_sdk") == {str(package / "_home/lib/libprivgrad_sdk.so.0.1")}
    for name in ("libtbb", "libsodium", "libyaml", "libmpfr", "libgmp", "libcrypto", "libopenblas"):
        found = mapped(name)
        assert len(found) <= 1, found
        assert all(file.startswith(sys.prefix) for file in found), found
    assert mapped("libtbb"), "nothing was computed"

    # The command beside it: the same plugins, the same verdict.
    done = subprocess.run([Path(sys.prefix) / "bin" / "privgrad", "verify", "run"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    # The exporter finds the libraries that the wheel brings.
    privgrad.export(run, "model.onnx")
    assert b"probabilities" in Path("model.onnx").read_bytes()

    # A plugin that was built elsewhere is loaded, against the SDK of the wheel.
    halves = privgrad.describe("schedule/halves", plugin_dirs=[sys.argv[1]])
    assert halves["version"] == "0.1.0"
    plan = privgrad.plan(
        MANIFEST, plugin_dirs=[sys.argv[1]],
        overrides={"mode": "research",
                   "schedules.learning_rate": {"kind": "halves", "first": 0.5, "period": 5}},
    )
    assert plan.learning_rate[0] == 0.5
    assert plan.learning_rate[9] == 0.25
    try:
        privgrad.plan(MANIFEST, plugin_dirs=[sys.argv[1]],
                      overrides={"schedules.learning_rate": {"kind": "halves"}})
    except privgrad.PrivacyError as refused:
        assert "halves" in str(refused)
    else:
        raise AssertionError("release mode took a plugin that nobody has tested")
    assert len(mapped("libprivgrad_sdk")) == 1
    print("the wheel works")


if __name__ == "__main__":
    main()
