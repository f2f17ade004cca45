#!/usr/bin/env python3
"""Recomputes the exact values of `pld` in cases.jsonl: sampled Gaussians, many steps.

    python3 -m venv env && env/bin/pip install mpmath==1.3.0
    env/bin/python contour.py [ID...]      # pld_sgm_eps/000 ...; all of them if none is given: an hour

Prints a line for each case: its id, and the relative difference between the delta computed here and
that of the case; for kinds that ask for epsilon, at the stored epsilon. Fails if a difference
exceeds 1e-6: most agree to 1e-15, but if losses are rare, the integrand falls slowly along a
straight line.

The method is the contour integral of README.md along the vertical line through the saddle point, by
the trapezoid rule, whose error falls exponentially with the number of nodes; the moment of a step
is computed by the same rule over the real line. The framework uses a different method, which adds
up losses on a grid.
"""

import json
import pathlib
import sys

from mpmath import exp, ln, mp, mpc, mpf, pi, sqrt

mp.dps = 40
HERE = pathlib.Path(__file__).resolve().parent
KINDS = {"pld_sgm_eps", "pld_sgm_delta", "pld_sgm_eps_replace", "pld_het_eps", "pld_het_delta"}


class Step:
    """The logarithm of E_P(exp(s L)), L the loss of one step, at complex s."""

    def __init__(self, q, sigma, direction, reach):
        q, sigma = mpf(q), mpf(sigma)
        # Moments of order a shift a Gaussian by a; nodes far below the largest weight are left out.
        # The rule's error falls with the distance of the nearest singularity, pi sigma^2, divided
        # by the step.
        step = min(sigma / 8, sigma ** 2 / 12)
        first = int(-(14 * sigma + reach + 1) / step)
        self.nodes = []
        for k in range(first, -first + 1):
            x = k * step
            near = exp(-x * x / (2 * sigma * sigma)) / (sigma * sqrt(2 * pi)) * step
            up = ln(1 - q + q * exp((2 * x - 1) / (2 * sigma * sigma)))
            if direction == "replace":
                down = ln(1 - q + q * exp((-2 * x - 1) / (2 * sigma * sigma)))
                self.nodes.append((ln(near) + up, up - down))
            elif direction == "remove":
                self.nodes.append((ln(near) + up, up))
            else:
                self.nodes.append((ln(near), -up))

    def log_moment(self, s):
        total = mpc(0)
        for weight, loss in self.nodes:
            total += exp(weight + s * loss)
        return ln(total)


def delta(steps, epsilon):
    """\\param steps  pairs of a Step and how often it is made."""

    def log_integrand(s):
        return sum(count * one.log_moment(s) for one, count in steps) - s * epsilon - ln(s) - ln(s + 1)

    # The saddle point: the minimum on the real line, found by golden-section search on its
    # logarithm.
    low, high, golden = ln(mpf("0.01")), ln(mpf(400)), (sqrt(mpf(5)) - 1) / 2
    value = lambda u: log_integrand(exp(u)).real
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = value(a), value(b)
    for _ in range(20):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = value(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = value(b)
    c = exp((low + high) / 2)
    top = log_integrand(c).real
    # The distance of the pole at 0 bounds the step: the error is exp(-2 pi c / step).
    bend = (value(ln(c) + mpf("1e-3")) + value(ln(c) - mpf("1e-3")) - 2 * top) / (mpf("1e-3") * c) ** 2
    step = min(c / 6, 1 / sqrt(max(bend, mpf("1e-20"))) / 3)
    whole, k = mpf("0.5"), 1
    while True:
        here = exp(log_integrand(mpc(c, k * step)) - top)
        whole += here.real
        if abs(here) < mpf(10) ** -18 * abs(whole) or k == 2000:
            break
        k += 1
    return exp(top) * whole * step / pi


def parts_of(inputs, definitions, direction):
    if "schedule" in inputs:
        listed = definitions["schedules"][inputs["schedule"]]
    else:
        listed = [(inputs["q"], inputs["sigma"], inputs["steps"])]
    return [(Step(q, sigma, direction, 60), count) for q, sigma, count in listed]


def main(chosen):
    definitions = json.loads((HERE / "definitions.json").read_text())
    worst = mpf(0)
    for line in (HERE / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["id"].split("/")[0] not in KINDS or (chosen and case["id"] not in chosen):
            continue
        inputs, expected = case["inputs"], case["expected"]
        asks_epsilon = "delta" in inputs
        points = [(expected, inputs["delta"])] if asks_epsilon else zip(inputs["eps"], expected)
        directions = {"max": ("remove", "add")}.get(inputs["direction"], (inputs["direction"],))
        largest = mpf(0)
        for epsilon, known in points:
            if mpf(known) == 0 or mpf(epsilon) == 0:
                continue  # only rounding errors are left
            found = max(delta(parts_of(inputs, definitions, way), mpf(epsilon)) for way in directions)
            largest = max(largest, abs(found / mpf(known) - 1))
        worst = max(worst, largest)
        print(f"{case['id']} {mp.nstr(largest, 3)}", flush=True)
    if worst > mpf("1e-6"):
        sys.exit(f"contour: a value differs by {mp.nstr(worst, 3)}")


main(sys.argv[1:])
