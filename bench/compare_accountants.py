#!/usr/bin/env python3
"""Times the epsilon of 100 sampled steps with 100 noise multipliers, by one library a call.

    bench/compare_accountants.py LIBRARY     dp_accounting, opacus or opake, which `python3` has
    bench/compare_accountants.py PROGRAM     privgrad: the whole command, start-up included

Sampling rate 0.01, noise multipliers from 2 to 0.8, delta 1e-5, add or remove one. Prints epsilon and
the seconds of processor time of a first call, without imports, as JSON.
"""

import json
import os
import subprocess
import sys
import time

STEPS, RATE, DELTA = 100, 0.01, 1e-5
SIGMAS = [2.0 - 1.2 * step / (STEPS - 1) for step in range(STEPS)]


def by_dp_accounting():
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def answer():
        accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
        for sigma in SIGMAS:
            accountant.compose(dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(sigma)))
        return accountant.get_epsilon(DELTA)

    return answer


def by_opacus():
    from opacus.accountants import PRVAccountant

    def answer():
        accountant = PRVAccountant()
        for sigma in SIGMAS:
            accountant.step(noise_multiplier=sigma, sample_rate=RATE)
        return accountant.get_epsilon(DELTA)

    return answer


def by_opake():
    import opake.accounting
    import opake.dpsgd.accounting as dpsgd

    def answer():
        process = None
        for sigma in SIGMAS:
            step = dpsgd.poisson(dpsgd.gaussian(sigma), sample_rate=RATE)
            process = step if process is None else opake.accounting.compose(process, step)
        return process.epsilon_at(DELTA)

    return answer


def by_command(program):
    event = {"event": "composed", "of": [
        {"event": "poisson_sampled", "sampling_probability": RATE,
         "of": {"event": "gaussian", "noise_multiplier": sigma}} for sigma in SIGMAS]}

    def answer():
        call = [program, "account", "--accountant", "pld", "--event", "-", "--delta", str(DELTA), "--json"]
        done = subprocess.run(call, input=json.dumps(event), text=True, capture_output=True, check=True)
        return json.loads(done.stdout)["epsilon"]

    return answer


def seconds():
    spent = time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
    children = sum(os.times()[2:4])
    return spent + children


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    known = {"dp_accounting": by_dp_accounting, "opacus": by_opacus, "opake": by_opake}
    answer = known[sys.argv[1]]() if sys.argv[1] in known else by_command(sys.argv[1])
    before = seconds()
    epsilon = answer()
    print(json.dumps({"library": sys.argv[1], "epsilon": epsilon, "seconds": seconds() - before}))


if __name__ == "__main__":
    main()
