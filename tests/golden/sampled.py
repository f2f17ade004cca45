#!/usr/bin/env python3
"""Writes sampled.jsonl: exact values of Poisson-sampled Laplace and discrete Gaussian noise.

    python3 -m venv env && env/bin/pip install mpmath==1.3.0
    env/bin/python sampled.py > sampled.jsonl

P = (1 - q) Q + q R against Q, R the noise around 1 (Laplace; scale b) or around the sensitivity
(discrete Gaussian). `remove` is P against Q, `add` is Q against P. The methods differ from the
framework's: a divergence, and delta of one step, is one integral or one sum; delta of two Laplace
steps is an integral over delta of one step; that of a few discrete steps is a sum over all
outcomes; and that of many Laplace steps is the contour integral of README.md.
"""

import itertools
import json
from collections import defaultdict

from mpmath import exp, inf, ln, mp, mpf, quad
from mpmath.calculus.quadrature import GaussLegendre

mp.dps = 40


class Laplace:
    def __init__(self, q, b):
        self.q, self.s = mpf(q), 1 / mpf(b)

    def f(self, l):
        """dP / dQ where the loss before sampling is l."""
        return 1 - self.q + self.q * exp(l)

    def mean(self, g, breaks=()):
        """E_Q g(l): atoms at -s and s, and between them the density e^(-(s + l) / 2) / 4."""
        s = self.s
        points = [-s] + sorted(b for b in breaks if -s < b < s) + [s]
        return (g(-s) / 2 + exp(-s) * g(s) / 2
                + quad(lambda l: exp(-(s + l) / 2) * g(l) / 4, points))

    def kink(self, epsilon, direction):
        """The l at which the loss of a step is epsilon."""
        ratio = exp(epsilon if direction == "remove" else -epsilon)
        inner = (ratio - 1 + self.q) / self.q
        return ln(inner) if inner > 0 else -inf

    def delta1(self, epsilon, direction):
        e = exp(epsilon)
        if direction == "remove":
            g = lambda l: max(mpf(0), self.f(l) - e)
        else:
            g = lambda l: max(mpf(0), 1 - e * self.f(l))
        return self.mean(g, [self.kink(epsilon, direction)])

    def closed1(self, epsilon, direction):
        """delta1 in closed form, from delta of Laplace noise, 1 - e^((epsilon - s) / 2), with sampling."""
        x = exp(epsilon)
        if direction == "remove":
            share, inner = self.q, (x - 1 + self.q) / self.q
        else:
            share = 1 - x * (1 - self.q)
            inner = x * self.q / share if share > 0 else -1
        if direction == "add" and share <= 0:
            return mpf(0)
        if inner <= exp(-self.s):
            return 1 - x
        return share * max(mpf(0), 1 - exp((ln(inner) - self.s) / 2))

    def delta2(self, epsilon, direction):
        s = self.s
        sign = 1 if direction == "remove" else -1
        loss = lambda l: sign * ln(self.f(l))
        weight = (lambda l: self.f(l)) if direction == "remove" else (lambda l: mpf(1))
        # delta1 has a corner where its kink is at an end.
        corners = []
        for end in (-s, s):
            left = epsilon - loss(end)
            corners.append(self.kink(left, direction))
        return self.mean(lambda l: weight(l) * self.closed1(epsilon - loss(l), direction), corners)

    def delta_many(self, epsilon, direction, steps):
        """(1 / 2 pi i) int M(s) e^(-eps s) / (s (s + 1)) ds, along s = c + i t."""
        sign = 1 if direction == "remove" else -1
        power = 1 if direction == "remove" else 0
        s = self.s
        points = [(-s, mpf(1) / 2), (s, exp(-s) / 2)]
        for x, w in GaussLegendre(mp).calc_nodes(5, mp.prec):  # 48 nodes, for a smooth function
            points.append((s * x, s * w * exp(-(s + s * x) / 2) / 4))
        points = [(w, ln(self.f(l))) for l, w in points]

        def m(z):
            return sum(w * exp((sign * z + power) * log_f) for w, log_f in points)

        best = min((steps * ln(abs(m(mpf(c)))) - c * epsilon, c) for c in [2 ** k for k in range(-1, 7)])
        c = mpf(best[1])
        scale = ln(abs(m(c)))

        def integrand(t):
            z = mp.mpc(c, t)
            return (exp(steps * (ln(m(z)) - scale) - mp.mpc(0, 1) * t * epsilon) / (z * (z + 1))).real

        whole = mpf(0)
        width = mpf(2)
        for k in itertools.count():
            piece = quad(integrand, [k * width, (k + 1) * width])
            whole += piece
            if abs(integrand((k + 1) * width)) < mpf(10) ** -25 * abs(whole) and k > 3:
                break
        return exp(steps * scale - c * epsilon) * whole / mp.pi


class Discrete:
    def __init__(self, q, sigma, sensitivity):
        self.q = mpf(q)
        sigma = mpf(sigma)
        reach = int(20 * sigma) + 230 * sensitivity  # the mass of moments of order a is near a * sensitivity
        w = {x: exp(-mpf(x) ** 2 / (2 * sigma ** 2)) for x in range(-reach, reach + 1)}
        z = sum(w.values())
        self.atoms = [(w[x] / z, 1 - self.q + self.q * exp(sensitivity * (2 * x - sensitivity)
                                                        / (2 * sigma ** 2))) for x in w]

    def mean(self, g):
        return sum(p * g(f) for p, f in self.atoms)

    def delta(self, epsilon, direction, steps):
        """All outcomes of the steps, as multisets of non-negligible atoms."""
        atoms = [(p, f) for p, f in self.atoms if p * max(f, 1) > mpf(10) ** -22]
        e = exp(epsilon)
        if steps == 1:
            gain = (lambda f: f - e) if direction == "remove" else (lambda f: 1 - e * f)
            return self.mean(lambda f: max(mpf(0), gain(f)))
        total = mpf(0)
        for chosen in itertools.combinations_with_replacement(range(len(atoms)), steps):
            p, f, ways, run = mpf(1), mpf(1), mp.factorial(steps), defaultdict(int)
            for i in chosen:
                p *= atoms[i][0]
                f *= atoms[i][1]
                run[i] += 1
            for count in run.values():
                ways /= mp.factorial(count)
            gain = f - e if direction == "remove" else 1 - e * f
            if gain > 0:
                total += ways * p * gain
        return total


def text(x):
    return mp.nstr(x, 20)


def moment(mean, order, direction):
    a = mpf(order)
    return ln(mean(lambda f: f ** a if direction == "remove" else f ** (1 - a)))


def main():
    for q, b in [("0.01", "1"), ("0.2", "0.5"), ("0.001", "0.1"), ("0.7", "3"), ("0.9", "0.05")]:
        one = Laplace(q, b)
        for order in ["1.1", "2", "3.7", "16", "200"]:
            both = {d: text(moment(lambda g: one.mean(lambda l: g(one.f(l))), order, d))
                    for d in ("remove", "add")}
            print(json.dumps({"kind": "laplace_moment", "q": q, "scale": b, "order": order, **both}))
        for epsilon in ["0", "0.01", "0.1", "0.5"]:
            both = {d: text(one.delta1(mpf(epsilon), d)) for d in ("remove", "add")}
            for d in ("remove", "add"):
                assert abs(one.delta1(mpf(epsilon), d) - one.closed1(mpf(epsilon), d)) < mpf(10) ** -30
            print(json.dumps({"kind": "laplace_delta", "q": q, "scale": b, "steps": 1,
                              "epsilon": epsilon, **both}))
    for q, b, epsilon in [("0.2", "0.5", "0.3"), ("0.01", "1", "0.005"), ("0.7", "1", "0.9")]:
        one = Laplace(q, b)
        both = {d: text(one.delta2(mpf(epsilon), d)) for d in ("remove", "add")}
        print(json.dumps({"kind": "laplace_delta", "q": q, "scale": b, "steps": 2,
                          "epsilon": epsilon, **both}))
    mp.dps = 25
    for q, b, steps, epsilon in [("0.05", "1", 300, "1.5"), ("0.01", "0.5", 1000, "2")]:
        one = Laplace(q, b)
        both = {d: text(one.delta_many(mpf(epsilon), d, steps)) for d in ("remove", "add")}
        print(json.dumps({"kind": "laplace_delta", "q": q, "scale": b, "steps": steps,
                          "epsilon": epsilon, **both}))
    mp.dps = 40
    for q, sigma, shift in [("0.01", "0.5", 1), ("0.2", "1.3", 1), ("0.05", "6.5", 3), ("0.5", "0.9", 4),
                            ("0.001", "40", 1)]:
        one = Discrete(q, sigma, shift)
        for order in ["1.1", "2", "3.7", "16", "200"]:
            both = {d: text(moment(one.mean, order, d)) for d in ("remove", "add")}
            print(json.dumps({"kind": "discrete_moment", "q": q, "sigma": sigma, "sensitivity": shift,
                              "order": order, **both}))
        for epsilon in ["0", "0.02", "0.3"]:
            both = {d: text(one.delta(mpf(epsilon), d, 1)) for d in ("remove", "add")}
            print(json.dumps({"kind": "discrete_delta", "q": q, "sigma": sigma, "sensitivity": shift,
                              "steps": 1, "epsilon": epsilon, **both}))
    for q, sigma, shift, steps, epsilon in [("0.2", "0.8", 1, 3, "0.5"), ("0.05", "0.6", 1, 4, "0.4"),
                                            ("0.3", "1.1", 2, 3, "1")]:
        one = Discrete(q, sigma, shift)
        both = {d: text(one.delta(mpf(epsilon), d, steps)) for d in ("remove", "add")}
        print(json.dumps({"kind": "discrete_delta", "q": q, "sigma": sigma, "sensitivity": shift,
                          "steps": steps, "epsilon": epsilon, **both}))


main()
