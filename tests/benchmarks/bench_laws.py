"""Measure the laws: CPU seconds of fits, refits and optima, and rank correlation on RegMix's public
runs.

No test: run it by hand, with OMP_NUM_THREADS=1. Seconds are medians of CPU time, which other
programs lengthen less.

python tests/benchmarks/bench_laws.py [folder of the RegMix tables [learning.csv]] ->
tables on standard output

learning.csv holds one row for each law, number of runs and draw: the scores on the 256 test
mixtures of the 1M models, in the columns that plot_learning.py draws.
"""

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import public_tables

from bimix.judge.errors import rank_correlation, relative_error
from bimix.judge.law_scores import LEARNING
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations
from bimix.optimum.intervals import resampled
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best_shares


def median_of(function, repeats):
    """CPU seconds of some calls, their median, and what the last returned."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        result = function()
        seconds.append(time.process_time() - begin)
    return float(np.median(seconds)), result


def paper_sized(m=22, n=4, noise=0.001):
    draw = np.random.default_rng(0)
    shares, steps = draw.dirichlet(np.full(m, 2.0), n) + 1e-4, np.arange(10_000, 200_001, 10_000)
    shares /= shares.sum(axis=1, keepdims=True)
    a, b, beta, c = (
        draw.uniform(0.02, 0.3, m),
        draw.uniform(5, 80, m),
        draw.uniform(0.2, 0.8, m),
        draw.uniform(0.5, 3, m),
    )
    losses = (
        shares[:, None, :] ** -a * (b / steps[:, None] ** beta + c) * np.exp(noise * draw.standard_normal((n, 1, m)))
    )
    names = tuple(f"d{j:02d}" for j in range(m))
    return Observations(tuple(f"run{i}" for i in range(n)), names, steps, names, shares, losses)


def speed():
    observed = paper_sized()
    bounds = np.zeros(22), np.ones(22)
    for law in ("bimix", "transfer"):
        seconds, fitted = median_of(lambda law=law: laws.fit(law, observed), 5)
        print(f"{law}: fit of 22 domains x 4 mixtures x 20 steps          {seconds:8.3f} s")
        seconds, _ = median_of(lambda d=fitted: resampled(d, observed, 200, 0), 1)
        print(f"{law}: 200 refits to drawn residuals                     {seconds:8.3f} s")
    many = paper_sized(22, 60)
    for law in ("bimix", "transfer"):
        fitted = laws.fit(law, many)
        seconds, _ = median_of(lambda d=fitted: best_shares(d, 200_000, Objective(), *bounds), 20)
        print(f"{law}: optimum at m = 22                                  {1000 * seconds:8.3f} ms")


RUNS = (32, 64, 128, 256, 512)
DRAWS = 5  # of fewer runs than there are


def regmix(folder, learning=None):
    train = public_tables.regmix(folder, "train", "1m")
    tests = {model: public_tables.regmix(folder, "test", model) for model in ("1m", "60m", "1B")}
    print(
        "\nmean Spearman (%) over 13 domains, fitted on 1M models; fewer than 512 runs: mean of"
        f" default_rng(seed).choice(512, n), seeds 0-{DRAWS - 1}"
    )
    print("law          runs   1m     60m    1B     error on 1m (%)  CPU seconds a fit")
    lines = []
    own = {}
    for model, test in tests.items():
        shares = -test.proportions[:, [test.domains.index(domain) for domain in test.loss_domains]]
        own[model] = rank_correlation(test.losses[:, 0], shares).mean()
    print("own share       0  " + "  ".join(f"{100 * rank:5.2f}" for rank in own.values()) + "  (no law)", flush=True)
    for law in ("transfer", "regmix", "exponential"):
        for runs in RUNS:
            ranks, errors, begin = [], [], time.process_time()
            for seed in range(1 if runs == 512 else DRAWS):
                rows = np.random.default_rng(seed).choice(512, runs, replace=False)
                fitted = laws.fit(law, train.take(rows))
                predicted = {model: laws.predict(fitted, test.proportions, [1])[:, 0] for model, test in tests.items()}
                ranks.append([rank_correlation(tests[m].losses[:, 0], predicted[m]).mean() for m in tests])
                errors.append(relative_error(tests["1m"].losses[:, 0], predicted["1m"]).mean(axis=0))
                lines.append((law, runs, seed, errors[-1].mean(), errors[-1].max(), ranks[-1][0], None))
            seconds = (time.process_time() - begin) / len(ranks)
            print(
                f"{law:12s} {runs:4d}  "
                + "  ".join(f"{100 * rank:5.2f}" for rank in np.mean(ranks, axis=0))
                + f"  {100 * np.mean(errors):6.2f}  {seconds:6.1f}",
                flush=True,
            )
    if learning:
        pl.DataFrame(lines, LEARNING, orient="row").write_csv(learning)


if __name__ == "__main__":
    speed()
    if len(sys.argv) > 1:
        regmix(Path(sys.argv[1]), *map(Path, sys.argv[2:3]))
