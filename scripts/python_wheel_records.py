#!/usr/bin/env python3
"""Tests the plugins of an unpacked wheel in their current form, and writes the records beside them.

usage: python_wheel_records.py WHEEL PARAMS SAMPLES

WHEEL is the unpacked folder; PARAMS a file with lines "PLUGIN NAME=YAML" (the parameters of
components for the suite, if their declarations do not give them); SAMPLES the folder to which
relative paths in them refer.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    wheel, given, samples = (Path(word).resolve() for word in sys.argv[1:4])
    params: dict[str, list[str]] = {}
    for line in given.read_text().splitlines():
        name, param = line.split(" ", 1)
        params.setdefault(name, []).extend(["--params", param])
    home = wheel / "privgrad" / "_home"
    suite = home / "lib" / "privgrad" / "privgrad-conformance"
    suite.chmod(0o755)

    def test(plugin: Path) -> str:
        plugin.with_name(plugin.name + ".tested.json").unlink(missing_ok=True)
        name = plugin.name.removesuffix(".privgrad.so")
        done = subprocess.run(
            [suite, "--quiet", "--time-limit", "600", *params.get(name, []), plugin],
            cwd=samples, env={**os.environ, "PRIVGRAD_DATA_DIR": str(samples)},
            capture_output=True, text=True, check=False,
        )
        made = plugin.with_name(plugin.name + ".tested.json").exists()
        return "" if done.returncode == 0 and made else f"{name}: {done.stdout}{done.stderr}"

    plugins = sorted(home.glob("lib/privgrad/plugins/*/*.privgrad.so"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [said for said in pool.map(test, plugins) if said]
    for said in failed:
        print(said, file=sys.stderr)
    print(f"{len(plugins) - len(failed)} of {len(plugins)} plugins are tested")
    return 1 if failed or not plugins else 0


if __name__ == "__main__":
    sys.exit(main())
