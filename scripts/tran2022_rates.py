#!/usr/bin/env python3
"""Means of the gradient norm over runs, which Tran and Cutkosky's Theorems 6 and 9 bound, and how they fall.

    scripts/tran2022_rates.py collect FOLDER COPIES    writes COPIES/STUDY-norms.csv for each finished study in FOLDER
    scripts/tran2022_rates.py tables COPIES            prints the tables of those in Markdown
    scripts/tran2022_rates.py bounds                   prints the theorems' bounds, with their constants

A theorem's expectation is over a uniformly drawn step, so it is the mean over a run of the norms
that the run measured, one every `evaluate_every` steps. A rate is the slope of the least-squares
line through the logarithms, for each seed; its interval is Student's, over seeds.
"""

import csv
import json
import math
import pathlib
import statistics
import sys

# The slope that a theorem gives in each level, without the term 1/sqrt(N); by variant.
RATES = {
    "privacy.target_epsilon": {"tree": -1 / 2, "tree-vr": -1 / 2, "reduced": -2 / 3, "reduced-best": -2 / 3},
    "data.rows": {"tree": -1 / 2, "tree-vr": -1 / 2, "reduced": -2 / 3, "reduced-best": -2 / 3},
    "model.hidden": {"tree": 1 / 4, "tree-vr": 1 / 4, "reduced": 1 / 3, "reduced-best": 1 / 3},
}


def student_tail(t, freedom):
    """The probability that Student's t is beyond +-t, by Simpson's rule over its density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    parts = 2000
    width = abs(t) / parts
    values = [scale * (1 + (i * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for i in range(parts + 1)]
    inside = width / 3 * (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2]))
    return max(0.0, 1 - 2 * inside)


def student_quantile(freedom):
    """The quantile of Student's t for 95 % intervals."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 0.05 else (low, middle)
    return low


def interval(values):
    """(mean, low, high, p) of independent values."""
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    reach = student_quantile(len(values) - 1) * error
    p = student_tail(mean / error, len(values) - 1) if error > 0 else float(mean == 0)
    return mean, mean - reach, mean + reach, p


def slope(xs, ys):
    """The slope of log y over log x."""
    xs, ys = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mx, my = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / sum((x - mx) ** 2 for x in xs)


def norms_of(run):
    """The norms that a run measured; the last one."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["gradient_norm"] for line in lines if line["step"] > 0], lines[-1]["step"]


def collect(folder, copies):
    for place in sorted(folder.iterdir()):
        if not (place / "results.json").exists():
            continue
        results = json.loads((place / "results.json").read_text())
        if results["metrics"][0]["name"] != "gradient_norm":
            continue
        with open(copies / f"{place.name}-norms.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["arm", "level", "variant", "seed", "steps", "measured", "mean_norm", "last_norm"])
            for arm in results["arms"]:
                for seed in results["seeds"]:
                    norms, steps = norms_of(place / "runs" / arm["name"] / f"seed-{seed}")
                    row = [arm["name"], arm["level"] or "", arm["variant"], seed, steps, len(norms)]
                    writer.writerow(row + [f"{statistics.fmean(norms):.6g}", f"{norms[-1]:.6g}"])


def read(path):
    """{level: {variant: {seed: row}}}, in the order of the file."""
    table = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            table.setdefault(row["level"], {}).setdefault(row["variant"], {})[row["seed"]] = row
    return table


def shown(values, digits=3):
    mean, low, high, _ = interval(values)
    return f"{mean:.{digits}g} [{low:.{digits}g}, {high:.{digits}g}]"


def has_mean(rows):
    """Whether runs measured often enough for a mean over them."""
    return min(int(row["measured"]) for row in rows.values()) >= 10


def table_of(study, copies):
    results = json.loads((copies / f"{study}.json").read_text())
    table = read(copies / f"{study}-norms.csv")
    baseline = results["baseline"]
    key = results["levels"]["keys"][0] if results["levels"] else None
    print(f"\n### {study}\n")
    print(f"| {key or 'level'} | arm | steps | mean along the run | less {baseline} | p |", end="")
    print(f" last iterate | less {baseline} | p |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for level, variants in table.items():
        for variant, rows in variants.items():
            cells = [level, variant, next(iter(rows.values()))["steps"]]
            for column in ("mean_norm", "last_norm"):
                if column == "mean_norm" and not (has_mean(rows) and has_mean(variants[baseline])):
                    cells += [shown([float(row[column]) for row in rows.values()]) if has_mean(rows) else "-", "-", "-"]
                    continue
                values = {seed: float(row[column]) for seed, row in rows.items()}
                cells.append(shown(list(values.values())))
                if variant == baseline:
                    cells += ["-", "-"]
                    continue
                pairs = [values[seed] - float(variants[baseline][seed][column]) for seed in values]
                cells += [shown(pairs), f"{interval(pairs)[3]:.2g}"]
            print("| " + " | ".join(cells) + " |")
    if key and len(table) > 2:
        slopes_of(table, key, baseline)


def slopes_by_seed(table, variant, column):
    levels = [level for level in table if variant in table[level]]
    xs = [float(level) for level in levels]
    seeds = table[levels[0]][variant]
    return [slope(xs, [float(table[level][variant][seed][column]) for level in levels]) for seed in seeds]


def slopes_of(table, key, baseline):
    print(f"\n| arm | slope in {key}, of the mean along the run | less {baseline}'s | of the last iterate |", end="")
    print(f" less {baseline}'s | the theorem's |")
    print("|---|---:|---:|---:|---:|---:|")
    for variant in next(iter(table.values())):
        cells = [variant]
        for column in ("mean_norm", "last_norm"):
            found = slopes_by_seed(table, variant, column)
            of_baseline = slopes_by_seed(table, baseline, column)
            cells += [shown(found), "-" if variant == baseline else shown([a - b for a, b in zip(found, of_baseline)])]
        rate = RATES.get(key, {}).get(variant)
        print("| " + " | ".join(cells + ["-" if rate is None else f"{rate:.3g}"]) + " |")


def steps_of_6(facts):
    """T log2(T) = epsilon N^2 / sqrt(d ln(1/delta))."""
    product = facts["epsilon"] * facts["N"] ** 2 / math.sqrt(facts["d"] * math.log(1 / facts["delta"]))
    low, high = 2.0, 2 + product
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.log2(middle) <= product else (low, middle)
    return low


def steps_of_9(facts):
    return facts["N"] ** (7 / 3) * facts["epsilon"] ** (4 / 3) / facts["d"] ** (2 / 3)


def printed_6(facts):
    n, d, epsilon, log = facts["N"], facts["d"], facts["epsilon"], math.log(1 / facts["delta"])
    g, l, r, log_t = facts["G"], facts["L"], facts["R"], math.log2(steps_of_6(facts))
    first = 1.5 * r + 6 * l * math.sqrt(log_t * log) + 12 * g * math.sqrt(log_t) * log**0.25
    return (
        first * d**0.25 / math.sqrt(epsilon * n)
        + 3 * l * (d * log) ** 0.25 * math.sqrt(log_t) / (4 * math.sqrt(epsilon) * n**1.5)
        + 6 * g / math.sqrt(n)
        + 6 * g * log_t * math.sqrt(d * log) / (epsilon * n)
    )


def printed_9(facts):
    n, d, epsilon, g, l = (facts[key] for key in ("N", "d", "epsilon", "G", "L"))
    k = 16 * math.log2(steps_of_9(facts)) * math.log(1 / facts["delta"])
    first = 1.5 * facts["R"] + 24 * k * (g + 2 * l) + 12 * l
    return first * d ** (1 / 3) / (epsilon * n) ** (2 / 3) + 6 * g / math.sqrt(n) + (
        (36 * g + 9 * l) * k * math.sqrt(d) / (epsilon * n)
    )


def by_lemmas(facts, steps, alpha, noise):
    """Lemmas 5 and 11, corrected (docs/algorithms/momentum-aggregation.md), at the theorems' learning rate."""
    n, g, l = facts["N"], facts["G"], facts["L"]
    eta = 1 / math.sqrt(n * steps)
    start, order = g * (1 - alpha) / (alpha * steps), g * math.sqrt(alpha / (2 - alpha))
    epoch, memory = 2 * eta * l * (n - 1), eta * l * (1 - alpha) / alpha
    return facts["R"] / (eta * steps) + eta * l / 2 + 2 * (start + order + epoch + memory + noise)


def proved_6(facts):
    """Lemmas 5, 11 and 12 at the theorem's values; V is at most (log2(N) + 3) T/N."""
    n, d, epsilon, steps = facts["N"], facts["d"], facts["epsilon"], steps_of_6(facts)
    log = math.log(1 / facts["delta"])
    alpha = epsilon * n / (steps * math.log2(steps) * math.sqrt(d * log))
    sigma, nodes, v = 2 * math.sqrt(log) / epsilon, math.log2(steps) + 1, (math.log2(n) + 3) * steps / n
    return by_lemmas(facts, steps, alpha, 4 * alpha * facts["G"] * sigma * math.sqrt(d * v * nodes))


def proved_9(facts):
    """Lemmas 5 and 11, and 7 as printed, at the theorem's values."""
    n, d, epsilon, g, l = (facts[key] for key in ("N", "d", "epsilon", "G", "L"))
    steps = steps_of_9(facts)
    alpha = (n / steps) ** 0.75 * epsilon / math.sqrt(d)
    eta = 1 / math.sqrt(n * steps)
    unit = alpha * math.log2(steps) * math.sqrt(d * math.log(1 / facts["delta"])) / epsilon
    noise = 192 * g + 128 * (g + 2 * l) * math.sqrt(eta * steps) + 16 * eta * l * math.sqrt(3 * steps * n)
    return by_lemmas(facts, steps, alpha, noise * unit)


def least_examples(facts, holds):
    """The smallest number of examples 10^(i/50) for which a condition holds."""
    return next(n for n in (10 ** (i / 50) for i in range(100, 2000)) if holds({**facts, "N": n}))


def bounds():
    constants = {"delta": 1e-5, "G": 1.0, "L": 1.0, "R": math.log(2)}
    print("G = L = 1, R = ln 2, delta = 1e-5, batches of one; as printed, and as its lemmas give it\n")
    print("| d | epsilon | N | Theorem 6: T | printed | proved | Theorem 9: T | printed | proved |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for d, epsilon, n in ((106, 1, 200), (106, 4, 400), (106, 8, 800), (12730, 4, 10000), (12730, 4, 10**6)):
        facts = {**constants, "d": d, "epsilon": epsilon, "N": n}
        cells = [d, epsilon, n]
        for steps, *formulas in ((steps_of_6, printed_6, proved_6), (steps_of_9, printed_9, proved_9)):
            cells += [f"{steps(facts):.3g}"] + [f"{formula(facts):.3g}" for formula in formulas]
        print("| " + " | ".join(map(str, cells)) + " |")
    facts = {**constants, "d": 106, "epsilon": 4}
    print("\nd 106, epsilon 4: the least N from which on a bound is below G, and Theorem 9's below Theorem 6's\n")
    for name, six, nine in (("printed", printed_6, printed_9), ("proved", proved_6, proved_9)):
        least = [least_examples(facts, lambda f, b=bound: b(f) < f["G"]) for bound in (six, nine)]
        cross = least_examples(facts, lambda f, a=nine, b=six: a(f) < b(f))
        print(f"{name}: {least[0]:.2g} (Theorem 6), {least[1]:.2g} (Theorem 9); {cross:.2g}")


def main(verb, *folders):
    if verb == "bounds":
        bounds()
        return
    places = [pathlib.Path(folder) for folder in folders]
    if verb == "collect":
        collect(*places)
        return
    for path in sorted(places[0].glob("*-norms.csv")):
        table_of(path.name.removesuffix("-norms.csv"), places[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
