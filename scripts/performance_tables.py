#!/usr/bin/env python3
"""Makes the tables of docs/performance.md, each with the commit, the date, the machine and its load.

    scripts/performance_tables.py --build build [--torch PYTHON] [--kymatio PYTHON] [TABLE...]   # all, or these
    scripts/performance_tables.py --build build --torch PYTHON front      # the first table: `make bench-table`
    scripts/performance_tables.py --stale                    # which tables are older than what they measure

PYTHON: an interpreter with torch and opacus, for the tables `torch`, `encoders` and `front` (which also compares
dp_accounting and opake where it has them), and one with kymatio, for `scattering`. A table is between `<!-- table NAME COMMIT -->` and `<!-- end -->`; it was measured
with the code of COMMIT, and the line below it names the machine. A working tree with changes is
refused, because nobody could reproduce its figures. The figures come from each program's own clocks
and ratios, so that other programs on the machine do little harm; their load is stated.
"""

import argparse
import datetime
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance.md"
TABLE = re.compile(r"<!-- table (\w+) (\w+) -->\n\n(.*?)\n\n<!-- end -->", re.S)
STEPS = ["bench", "plugins/backends/cpu", "plugins/aggregators", "framework/trust"]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def three(value):
    """Three digits, because further digits are not reproducible."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# The project's goals for the ratio of private to plain steps on one thread, for each network and
# batch, based on measurements on quiet machines. At batch 16 the goal is 1.3 times the minimum set
# by drawing the noise (docs/performance.md).
GOALS = {
    "avx512": {("784-1000-10", 16): "2.1", ("784-1000-10", 64): "1.25", ("784-1000-10", 256): "1.05",
               ("784-1000-10", 1024): "0.90", ("conv", 256): "1.00"},
    "avx2": {("784-1000-10", 256): "1.05", ("conv", 256): "1.00"},
}
GOAL_OF_THREADS = 1.88


@functools.cache
def levels():
    """The instruction levels of the processor that have goals, the best first; otherwise the plain one."""
    flags = set(" ".join(re.findall(r"^flags\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)).split())
    return [level for level, flag in (("avx512", "avx512f"), ("avx2", "avx2")) if flag in flags] or ["plain"]


def yardstick(machine):
    """One line: the kernels of plain steps, and how far they are from the core's peak."""
    other = machine["onednn_gflops"]
    return (f"Instructions {machine['instructions']}; OpenBLAS's {machine['openblas_kernels']} kernels make "
            f"{machine['openblas_gflops']:.0f} of {machine['peak_gflops']:.0f} GFLOP/s, oneDNN "
            + (f"{other:.0f}." if other else "is not there."))


def steps(json_of):
    return "\n\n".join(steps_at(level, json_of) for level in levels())


def steps_at(level, json_of):
    trained, batches = json_of("training", level=level), json_of("training", "batches", level=level)["steps"]
    goals, rows = GOALS.get(level, {}), []

    def goal(one):
        return goals.get((one["network"].split()[0], one["batch"]), "")

    for one in trained["steps"]:
        alone = one["threads"][0]
        rows.append([one["network"], one["batch"], three(alone["plain_step_ms"]), three(alone["private_step_ms"]),
                     three(alone["private_over_plain"]), goal(one),
                     three(one["one_thread_over_two_plain"]), three(one["one_thread_over_two_private"]), GOAL_OF_THREADS])
    for one in batches:
        if one["batch"] < 256:
            rows.append([one["network"], one["batch"], three(one["plain_step_ms"]), three(one["private_step_ms"]),
                         three(one["private_over_plain"]), goal(one), "", "", ""])
    return table([f"network, {level}", "batch", "plain, ms", "private, ms", "private over plain, one thread", "goal",
                  "two threads over one, plain", "private", "goal"], rows) + "\n\n" + yardstick(trained["machine"])


def front(json_of):
    """What users ask first, beside other libraries; empty: the interpreter lacks it, or it has no such thing."""
    networks = json_of("compare_torch.py", "--rounds", "2")["networks"]
    rows = []
    for one in networks[:2]:
        rows.append([f"private step, {one['network']}, one thread", f"{three(one['privgrad_private_ms'])} ms",
                     f"{three(one['opacus_ghost_ms'])} ms", "", ""])
        rows.append(["the same over the library's plain step", three(one["privgrad_private_ms"] / one["privgrad_ms"]),
                     three(one["opacus_ghost_ms"] / one["torch_ms"]), "", ""])
    answers = [json_of("compare_accountants.py", name) for name in ("privgrad", "opacus", "dp_accounting", "opake")]
    rows.append(["epsilon of 100 different sampled steps", *(one and f"{three(one['seconds'])} s" for one in answers)])
    rows.append(["the same, epsilon", *(one and f"{one['epsilon']:.5f}" for one in answers)])
    rows.append(["a first model: the whole command", f"{three(json_of('quickstart')['seconds'])} s", "", "", ""])
    return table(["", "PrivGrad", "Opacus", "dp_accounting", "Opake"], rows)


def floors(json_of):
    rows = [[one["network"], one["batch"], f"{three(one['floor_products_ms'])} ms", f"{three(one['floor_parameters_ms'])} ms",
             f"{three(one['threads'][0]['plain_step_ms'])} ms", three(one["threads"][0]["plain_over_floor_products"])]
            for one in json_of("training", level=levels()[0])["steps"]]
    return table(["network", "batch", "products", "parameters", "plain step", "plain over the products' floor"], rows)


def parts(json_of):
    best = levels()[0]
    rows = [(one, one["threads"][0]) for one in json_of("training", level=best)["steps"]]
    rows += [(one, one) for one in json_of("training", "batches", level=best)["steps"] if one["batch"] < 256]
    return table(["network", "batch", "to whole numbers, ms", "adding up and draws, ms", "update and loading, ms"],
                 [[one["network"], one["batch"], *(three(times[key]) for key in ("clip_ms", "noise_ms", "optimizer_ms"))]
                  for one, times in rows])


def growth(json_of):
    found = json_of("training", "growth")
    made = []
    for title, key, name in (("784-1000-10, batch", "by_batch", lambda one: one["batch"]),
                             ("hidden layers of 500, batch 256", "by_depth", lambda one: one["network"].split("-")[1][:-4]),
                             ("784-width-10, batch 256", "by_width", lambda one: one["network"].split("-")[1])):
        cases = found[key]
        made.append(table([title, *map(name, cases)],
                          [["private over plain", *(f"{one['private_over_plain']:.2f}" for one in cases)],
                           ["us an example", *(f"{one['private_us_per_example']:.0f}" for one in cases)]]))
    return "\n\n".join(made)


def noise_terms(json_of):
    made = []
    for level, rows in json_of("noise", "terms")["rounded_gaussian_by_terms"].items():
        terms = sorted(rows, key=int)
        made.append(table([f"terms, {level}", *terms],
                          [["ns an element", *(three(rows[one]["nanoseconds"]) for one in terms)],
                           ["left to 96 bits", *(f"{rows[one]['undecided_by_vectors']:.1e}" for one in terms)]]))
    return "\n\n".join(made)


def torch(json_of):
    networks = json_of("compare_torch.py", "--rounds", "2")["networks"]
    rows = [["plain step, PyTorch", *(f"{three(one['torch_ms'])} ms" for one in networks)],
            ["plain step here (OpenBLAS)", *(f"{three(one['privgrad_ms'])} ms" for one in networks)],
            ["exact private step here", *(f"{three(one['privgrad_private_ms'])} ms" for one in networks)]]
    for title, key in (("ghost clipping", "opacus_ghost"), ("hooks", "opacus_hooks")):
        rows.append([f"private step, Opacus, {title}", *(
            f"{three(one[key + '_ms'])} ms ({three(one[key + '_over_privgrad_private'])} times ours)" for one in networks)])
    return table(["", *(one["network"] for one in networks)], rows)


# The project's goals for the ratio of a private step to PyTorch's plain one.
GOALS_OF_ENCODERS = {"2 x 128, 64 places, batch 32": "1.2", "6 x 384, 64 places, batch 32, LoRA 8": "1.03",
                     "6 x 384, 64 places, batch 32, 22 M parameters": "1.15"}


def encoders(json_of):
    rows = []
    for one in json_of("compare_encoders.py")["networks"]:
        over = (f"{three(one[key + '_ms'])} ms, {three(one[key + '_over_torch'])}"
                for key in ("privgrad", "opacus_ghost", "opacus_hooks"))
        rows.append([one["network"], f"{three(one['torch_ms'])} ms", *over, GOALS_OF_ENCODERS[one["network"]]])
    return table(["layers x width", "plain step, PyTorch", "private here, over it", "Opacus, ghost clipping", "Opacus, hooks",
                  "goal here"], rows)


def scattering(json_of):
    titles = {"mnist": "28 x 28 (MNIST)", "cifar10": "32 x 32 x 3 (CIFAR-10)", "three_scales": "32 x 32"}
    compared = json_of("compare_kymatio.py")["microseconds_per_image"]
    rows = []
    for one in json_of("scattering")["images"]:
        times = compared[one["name"]]
        rows.append([titles[one["name"]], one["scales"], f"{three(one['million_operations'])} million",
                     f"{three(one['floor_microseconds'])} us", f"{three(times['privgrad'])} us",
                     three(times["privgrad"] / one["floor_microseconds"]), f"{three(times['kymatio_numpy'])} us",
                     three(times["kymatio_numpy_over_privgrad"])])
    return table(["image", "J", "operations", "floor", "here", "over the floor", "kymatio, numpy", "kymatio over ours"], rows)


def correlated(json_of):
    found = json_of("correlated")
    names = ("a million examples once each", "100 000 examples in ten fresh permutations, momentum 0.999",
             "the same with variance reduction")
    rows = [[f"accounting 1 000 000 steps, {name}: recipes, order and cost",
             f"{three(one['seconds'])} s, {one['peak_megabytes']:.0f} MB so far",
             "5 s, 2 GB" if one is found["accounting"][0] else ""]
            for name, one in zip(names, found["accounting"])]
    for one in found["steps"]:
        threads = "one thread" if one["threads"] == 1 else "two threads"
        for key, title in (("tree", "`tree` with momentum"), ("tree_of_prefix_sums", "prefix sums"),
                           ("tree_with_variance_reduction", "momentum and variance reduction")):
            goal = 3 if one["threads"] == 1 and key != "tree_with_variance_reduction" else ""
            rows.append([f"an exact step of {title} over one of independent noise, a million parameters, {threads}",
                         f"{three(one[key + '_over_independent'])} ({three(one[key + '_ms'])} ms and "
                         f"{three(one[key + '_independent_ms'])} ms)", goal])
    rows.append(["a step of `tree_reduced` at t = 100 000 over one at t = 1000, releases and reconstruction",
                 three(found["reduced"]["late_over_early"]), 1.5])
    return table(["", "here", "target"], rows)


def clients(json_of):
    rows = [[one["local_iterations"], three(one["central_step_ms"]), three(one["local_step_ms"]),
             f"{one['local_over_central']:.3f}"] for one in json_of("federated")["rounds"]]
    return table(["local steps a round", "central step, ms", "local step, ms", "local over central"], rows)


# The function for each table that can be made here.
TABLES = {"front": front, "floors": floors, "steps": steps, "parts": parts, "growth": growth, "noise_terms": noise_terms, "torch": torch,
          "encoders": encoders,
          "scattering": scattering, "correlated": correlated, "clients": clients}
# For a Python program of bench/: the option that names its interpreter, and the program that it
# receives.
PEERS = {"compare_torch.py": ("torch", "training"), "compare_encoders.py": ("torch", "../bin/privgrad"), "compare_kymatio.py": ("kymatio", "scattering")}
# The folders whose changes may affect a table's figures; ALL for other tables.
ALL = ["bench", "framework", "plugins"]
FOLDERS = {
    "front": ALL,
    **{name: STEPS for name in ("floors", "steps", "parts", "growth", "torch", "encoders")},
    "noise_terms": ["bench/noise.cpp", "framework/trust"],
    "correlated": ["bench/correlated.cpp", "plugins/aggregators", "framework/trust"],
    "clients": [*STEPS, "framework/federated", "framework/train"],
    "scattering": ["bench/scattering.cpp", "bench/compare_kymatio.py", "plugins/transforms/scattering"],
    "gpu": ["plugins/backends/cuda"],
    "gpu_parts": ["plugins/backends/cuda"],
}


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    facts = dict(re.findall(r"^(vendor_id|cpu family|model|model name)\s*: (.*)$", text, re.M))
    return (f"{facts.get('model name', 'unknown processor')} (family {facts.get('cpu family')}, model {facts.get('model')}), "
            f"{os.cpu_count()} cores")


def best_of_five(program):
    """The shortest time of a whole run of the quickstart."""
    times = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            subprocess.run([program, "run", ROOT / "examples/manifests/quickstart.yaml", "--out", f"{folder}/run", "--quiet"],
                           check=True, stdout=subprocess.DEVNULL)
            times.append(time.monotonic() - begin)
    return {"seconds": min(times)}, (os.getloadavg()[0],)


def stale():
    for name, commit, _ in TABLE.findall(PAGE.read_text()):
        later = git("log", "--oneline", f"{commit}..HEAD", "--", *FOLDERS.get(name, ALL)).splitlines()
        print(f"{name}: of {commit}, {len(later)} later commits to {' '.join(FOLDERS.get(name, ALL))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="the build folder whose bench/ has the programs")
    parser.add_argument("--torch", help="an interpreter with torch and opacus")
    parser.add_argument("--kymatio", help="an interpreter with kymatio")
    parser.add_argument("--stale", action="store_true", help="list the tables with what was changed since")
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="default: all")
    words = parser.parse_args()
    if words.stale:
        return stale()
    if words.build is None:
        parser.error("--build FOLDER is missing")
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("performance_tables: the working tree has changes; commit them, so that figures belong to a commit")
    commit = git("rev-parse", "--short=8", "HEAD")

    @functools.cache
    def run_of(program, *arguments, level):
        """A program's output, and the loads before and after. LEVEL: the instructions; None: the best."""
        bench = words.build.resolve() / "bench"
        command = [bench / program]
        if program == "quickstart":
            return best_of_five(bench.parent / "bin/privgrad")
        if program == "compare_accountants.py":
            own = arguments[0] == "privgrad"
            command = [sys.executable if own else words.torch, ROOT / "bench" / program]
            arguments = [bench.parent / "bin/privgrad"] if own else arguments
            if not own and subprocess.run([words.torch, "-c", f"import {arguments[0]}"], stderr=subprocess.DEVNULL).returncode:
                return "", (os.getloadavg()[0],)
        elif program in PEERS:
            option, measured = PEERS[program]
            command = [getattr(words, option), ROOT / "bench" / program, "--program", os.path.normpath(bench / measured)]
        before = os.getloadavg()[0]
        chosen = {} if level is None else {"PRIVGRAD_INSTRUCTIONS": level}
        run = subprocess.run([*command, *arguments], check=True, stdout=subprocess.PIPE, timeout=1200, env=os.environ | chosen)
        return json.loads(run.stdout), (before, os.getloadavg()[0])

    given = {"torch": words.torch, "encoders": words.torch, "front": words.torch, "scattering": words.kymatio}
    for name in words.tables or (name for name in TABLES if given.get(name, True)):
        if not given.get(name, True):
            parser.error(f"the table {name} needs the interpreter that compares")
        loads = []

        def json_of(*call, level=None):
            found, seen = run_of(*call, level=level)
            loads.extend(seen)
            return found

        made = TABLES[name](json_of)
        date = datetime.date.today().isoformat()
        origin = (f"Commit {commit}, {date}, {processor()}; load {min(loads):.1f} to {max(loads):.1f}, these programs "
                  f"included.")
        lines = re.findall(r".{1,99}(?:\s|$)", origin)
        text = f"<!-- table {name} {commit} -->\n\n{made}\n\n" + "\n".join(line.strip() for line in lines)
        page = PAGE.read_text()
        whole = re.compile(rf"<!-- table {name} \w+ -->\n\n.*?\n\n<!-- end -->", re.S)
        if len(whole.findall(page)) != 1:
            sys.exit(f"performance_tables: {PAGE.name} has no table '{name}', or several")
        PAGE.write_text(whole.sub(lambda _: text + "\n\n<!-- end -->", page))
        print(f"{name}: made")


if __name__ == "__main__":
    main()
