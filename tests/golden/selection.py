#!/usr/bin/env python3
"""Writes selection.jsonl: the cost of choosing the best of a random number of runs, by the theorems' formulas.

    python3 -m venv env && env/bin/pip install mpmath==1.4.1
    env/bin/python selection.py > selection.jsonl

`law`: ln(1 / gamma) of the truncated negative binomial distribution with this mean. Its generating
function is ((1 - (1 - gamma) x)^-eta - 1) / (gamma^-eta - 1), whose derivative at 1 is the mean; the
equation for gamma is solved by bisection. `rdp`: epsilon by Papernot and Steinke 2022, Theorems 2
and 6, over a list of orders; the second order is from the same list, or 1, which the theorem allows.
With a Poisson number of runs, `theorem` has the divergence D as the theorem states it, and `epsilon`
also counts the case of no run: ln(e^-m + e^((a - 1) D)) / (a - 1). `profile`: epsilon by the profile
of one run, a Gaussian, with the best second epsilon found by its derivative.
"""

import json

from mpmath import diff, exp, findroot, ln, mp, mpf, ncdf

mp.dps = 40


def out(**members):
    print(json.dumps({k: mp.nstr(v, 25) if isinstance(v, mpf) else v for k, v in members.items()}))


def log_inverse_gamma(mean, shape):
    mean, shape = mpf(mean), mpf(shape)
    if mean == 1:
        return mpf(0)

    def mean_at(l):
        g = exp(-l)
        return (1 / g - 1) / l if shape == 0 else shape * (1 / g - 1) / (1 - g ** shape)

    low, high = mpf("1e-12"), mpf(1)
    while mean_at(high) < mean:
        high *= 2
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_at(middle) < mean else (low, middle)
    if mean < 100:  # compares the closed form with the generating function
        g = exp(-high)
        f = ((lambda x: ln(1 - (1 - g) * x) / ln(g)) if shape == 0 else
             (lambda x: ((1 - (1 - g) * x) ** -shape - 1) / (g ** -shape - 1)))
        assert abs(diff(f, mpf(1), h=mpf("1e-15") * g) / mean - 1) < mpf("1e-9"), (mean, shape)
    return high


def moment(base, a):
    """(a - 1) D_a of what is composed: [(kind, number, count)]."""
    total = mpf(0)
    for kind, number, count in base:
        x = mpf(number)
        if kind == "gaussian":
            one = a * (a - 1) / (2 * x * x)
        elif kind == "zcdp":
            one = a * (a - 1) * x
        else:  # laplace: Mironov 2017, Proposition 6
            one = ln(a / (2 * a - 1) * exp((a - 1) / x) + (a - 1) / (2 * a - 1) * exp(-a / x))
        total += count * one
    return total


def epsilon_at(conversion, a, k, delta):
    if conversion == "classic":
        return k / (a - 1) + ln(1 / delta) / (a - 1)
    return k / (a - 1) + ln(1 - 1 / a) + (ln(1 / delta) - ln(a)) / (a - 1)


def delta_at(conversion, a, k, eps):
    if conversion == "classic":
        return exp(k - (a - 1) * eps)
    return exp(k - (a - 1) * eps) / (a - 1) * (1 - 1 / a) ** a


def rdp(candidates, mean, shape, count, beside, orders, conversion, delta):
    orders = [mpf(a) for a in orders]
    mean, delta = mpf(mean), mpf(delta)
    run = {a: max(moment(c, a) for c in candidates) for a in orders}
    plain, whole = [], []
    if shape != "poisson":
        eta = mpf(shape)
        l = log_inverse_gamma(mean, eta)
        c = (1 + eta) * min([l] + [(1 - 1 / b) * (run[b] / (b - 1)) + l / b for b in orders])
    for a in orders:
        d = run[a] / (a - 1)
        if shape == "poisson":
            hat = ln(1 + 1 / (a - 1))
            small = min(mpf(1), min(delta_at(conversion, b, run[b], hat) for b in orders))
            bound = d + mean * small + ln(mean) / (a - 1)
            counted = ln(exp(-mean) + exp((a - 1) * bound)) / (a - 1)
        else:
            bound = counted = d + c + ln(mean) / (a - 1)
        rest = moment(beside, a)
        plain.append(epsilon_at(conversion, a, count * bound * (a - 1) + rest, delta))
        whole.append(epsilon_at(conversion, a, count * counted * (a - 1) + rest, delta))
    out(kind="rdp", candidates=candidates, mean=mp.nstr(mean, 17), shape=shape, count=count,
        beside=beside, orders=[float(a) for a in orders], conversion=conversion,
        delta=float(delta), epsilon=max(mpf(0), min(whole)), theorem=max(mpf(0), min(plain)))


def profile(sigma, mean, shape, delta):
    mu, mean, delta = 1 / mpf(sigma), mpf(mean), mpf(delta)
    d = lambda x: ncdf(mu / 2 - x / mu) - exp(x) * ncdf(-mu / 2 - x / mu)
    if shape == "poisson":
        log_c = mean * d(mpf(0))
    else:
        l = log_inverse_gamma(mean, shape)
        others = exp(l) - 1
        # d'(x) = -e^x Phi(-mu/2 - x/mu), so e^x + others d(x) is smallest if others Phi(...) = 1.
        if others * ncdf(-mu / 2) <= 1:
            x = mpf(0)
        else:
            x = findroot(lambda x: ln(others * ncdf(-mu / 2 - x / mu)), (mpf(0), mpf(20) * mu),
                         solver="anderson")
        log_c = (1 + mpf(shape)) * min(l, ln(exp(x) + others * d(x)))
    target = delta / mean
    at = findroot(lambda x: ln(d(x) / target), (mpf(0), mpf(60) * mu), solver="anderson")
    out(kind="profile", sigma=sigma, mean=mp.nstr(mean, 17), shape=shape, delta=float(delta),
        epsilon=at + log_c)


def main():
    for shape in ("-0.5", "0", "1e-7", "0.5", "1", "3"):
        for mean in ("1.001", "2", "30", "100000"):
            out(kind="law", mean=mean, shape=shape, log_inverse_gamma=log_inverse_gamma(mean, shape))
    some = [1.1, 1.5, 2, 3.3, 5, 8, 12, 20, 32, 64, 256]
    few = [2, 4, 9]
    gaussian = [["gaussian", "2", 1]]
    steps = [["gaussian", "20", 100], ["laplace", "25", 3]]
    noisy = [["zcdp", "0.001", 1]]
    for shape in ("-0.5", "0", "0.5", "1", "3", "poisson"):
        for candidates, mean, count, beside, orders, conversion, delta in (
                ([gaussian], "10", 1, [], some, "improved", "1e-5"),
                ([gaussian], "1.5", 1, [], some, "classic", "1e-8"),
                ([steps], "300", 1, [], some, "improved", "1e-6"),
                ([noisy, gaussian], "4", 3, [["gaussian", "5", 2]], some, "improved", "1e-5"),
                ([noisy], "1000", 1, [], some, "classic", "1e-5"),
                ([steps, noisy], "25", 2, [["laplace", "3", 1]], few, "improved", "1e-4")):
            rdp(candidates, mean, shape, count, beside, orders, conversion, delta)
    for shape in ("-0.5", "0", "1", "3", "poisson"):
        for sigma, mean, delta in (("2", "10", "1e-5"), ("0.7", "3", "1e-3"), ("10", "200", "1e-8")):
            profile(sigma, mean, shape, delta)


main()
