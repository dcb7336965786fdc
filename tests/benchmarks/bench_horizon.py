"""Measure how often intervals of steps beyond those fitted hold the truth (no test: run it by
hand).

python tests/benchmarks/bench_horizon.py [--draws 14] -> a table on standard output. Eight runs of a
made curve that is not quite of any law's form, fitted to four steps, noise 0.4 %; 90 % intervals of
a ninth mixture, at so many times the last step.
"""

import sys

import bench
import numpy as np

from bimix.laws import fitted as laws
from bimix.observations.observations import Observations
from bimix.optimum.intervals import left_out, losses_of

NAMES, STEPS = ("a", "b", "c", "d"), np.array([250, 500, 750, 1000])
RUNS, NOISE, LEVEL = 8, 0.004, 0.9
TIMES = (1, 4, 10, 100)


def truth(shares: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Losses (n, k, d) at shares (n, d): floor and fall have exponents of their own."""
    near = shares[:, None] + 0.05
    floor = (1.5 + 0.3 * np.arange(shares.shape[1])) * near**-0.05
    return floor + 1.2 * near**-0.15 * (np.asarray(steps, dtype=float)[:, None] / 100) ** -0.3


def held(law: str, seed: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """{times: whether the interval of each loss (d,) holds the truth, half its width in logs}."""
    draw = np.random.default_rng(seed)
    shares = 0.9 * draw.dirichlet(np.full(len(NAMES), 2.0), RUNS + 1) + 0.1 / len(NAMES)
    losses = truth(shares[:RUNS], STEPS)
    losses = losses * np.exp(NOISE * draw.standard_normal(losses.shape))
    names = tuple(f"m{n}" for n in range(RUNS))
    observed = Observations(names, NAMES, STEPS, NAMES, shares[:RUNS], losses)
    fitted, found = laws.fit(law, observed), {}
    for times in TIMES:
        step, new = int(times * STEPS[-1]), shares[RUNS:]
        guess = losses_of([fitted], new, step)[0]
        low, high = left_out(fitted, observed, step).ends(guess, new, step, None, LEVEL)
        there = truth(new, [step])[:, 0]
        found[times] = ((low <= there) & (there <= high))[0], np.log(high / guess)[0]
    return found


def main(argv=None):
    parser = bench.parser(__doc__, numbers={"--draws": 14})
    options = parser.parse_args(argv)
    print(f"{'law':9s} {'times the last step':>20s} {'holds':>6s} {'half width, %':>14s}")
    for law in ("bimix", "transfer"):
        found = [held(law, seed) for seed in range(options.draws)]
        for times in TIMES:
            inside, width = (np.mean([one[times][part] for one in found]) for part in (0, 1))
            print(f"{law:9s} {times:20d} {inside:6.2f} {100 * width:14.2f}")


if __name__ == "__main__":
    sys.exit(main())
