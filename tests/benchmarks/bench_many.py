"""Measure what fits of the law `transfer` to many domains take (no test: run it by hand).

OMP_NUM_THREADS=1 python tests/benchmarks/bench_many.py [case ...] -> CPU seconds, peak memory

Runs are made by a law with transfer and 0.3 % noise, half of their proportions 0 from 50 domains
on. Each case is fitted in a process of its own, whose peak memory is that of all it imports too.
"""

import multiprocessing
import resource
import sys
from time import process_time

import bench
import numpy as np

from bimix.laws import fitted as laws
from bimix.observations.observations import Observations

# training domains, loss domains, runs, steps, topics x formats
CASES = {
    "22 x 64 x 20": (22, 22, 64, 20, False),
    "50 x 128": (50, 50, 128, 1, False),
    "100 x 512": (100, 100, 512, 1, False),
    "576 x 1024": (576, 24, 1024, 1, True),
}


def runs_of(m: int, d: int, n: int, steps: int, crossed: bool) -> Observations:
    """Made runs; losses are of the first domains, or of other text where the domains are
    `crossed`.
    """
    draw = np.random.default_rng(m)
    shares = draw.dirichlet(np.full(m, 2.0), n) * (draw.random((n, m)) < (0.5 if m >= 50 else 1.0)) + 1e-12
    shares /= shares.sum(axis=1, keepdims=True)
    a, k = draw.uniform(0.05, 0.3, d), np.exp(draw.normal(-3, 1, (d, m)))
    side = int(np.sqrt(m))
    if crossed:
        k *= np.exp(draw.normal(0, 1, (d, side, 1)) + draw.normal(0, 1, (d, 1, side))).reshape(d, m)
    else:
        k[np.arange(d), np.arange(d)] = 1
    at = np.linspace(10_000, 200_000, steps) if steps > 1 else np.array([1.0])
    curve = 20 / at**0.4 + 2
    level = (shares @ k.T) ** -a * np.exp(0.003 * draw.standard_normal((n, d)))
    names = tuple(f"t{j // side:02d}:f{j % side:02d}" if crossed else f"d{j:03d}" for j in range(m))
    own = tuple(f"loss{i:02d}" for i in range(d)) if crossed else names[:d]
    runs = tuple(f"run{i}" for i in range(n))
    return Observations(runs, names, at.astype(int), own, shares, level[:, None] * curve[:, None])


def measure(case: str) -> None:
    """Fit, and print."""
    observed = runs_of(*CASES[case])
    begin = process_time()
    choice = laws.fit("transfer", observed)["choice"]
    found = f"ridge {choice['ridge']:g}, error {100 * choice['error']:.3f} %"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{case:20s} {process_time() - begin:8.2f} s CPU {peak:6.2f} GiB   {found}", flush=True)


def main(argv=None):
    parser = bench.parser(__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    for case in parser.parse_args(argv).cases:
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(case,))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{case}: status {process.exitcode}")


if __name__ == "__main__":
    main()
