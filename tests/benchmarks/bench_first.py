"""Measure what the choice of the first runs saves: laws fitted to runs that were picked as
`bimix first` does and at random (no test: run it by hand).

python tests/benchmarks/bench_first.py folder [--counts 4 8 --draws 8] -> a table on standard output;
`folder` holds regmix/ (public runs of RegMix). In each draw 256 of the 512 runs are offered, of
which each way picks some; the law `transfer` is fitted to these and predicts RegMix's 256 test
runs. `regret` is the average loss of the test run that the law calls best, less that of the best.
"""

import bench
import numpy as np
from public_tables import regmix

from bimix.judge.errors import rank_correlation
from bimix.laws import fitted as laws
from bimix.search.first import central, maximin

OFFERED = 256
WAYS = ("random", "maximin")


def measured(runs, new):
    """Error in per cent, Spearman of the losses and of the average, regret in nats."""
    document = laws.fit("transfer", runs)
    guess, truth = laws.predict(document, new.proportions, [1])[:, 0], new.losses[:, 0]
    error = 100 * np.nanmean(np.abs(guess / truth - 1))
    averages = guess.mean(axis=1), truth.mean(axis=1)
    rank = rank_correlation(averages[1][:, None], averages[0][:, None]).mean()
    lost = averages[1][averages[0].argmin()] - averages[1].min()
    return error, rank_correlation(truth, guess).mean(), rank, lost


def main(argv=None):
    parser = bench.parser(__doc__, "folder", numbers={"--counts": [4, 8, 16, 32], "--draws": 8})
    options = parser.parse_args(argv)
    runs, new = (regmix(options.folder / "regmix", split, "1m") for split in ("train", "test"))
    print("runs, way: error %, Spearman of losses, of the average x 100, regret in 0.001 nats: mean (worst draw)")
    for count in options.counts:
        table = {}
        for draw in range(options.draws):
            order = np.random.default_rng([draw, 0]).permutation(len(runs.mixtures))[:OFFERED]
            offered = runs.take(order)
            for way in WAYS:
                rows = list(range(count))
                if way == "maximin":
                    near = central(offered.proportions)
                    rows = near[maximin(offered.proportions[near], offered.proportions[:0], count)]
                table.setdefault(way, []).append(measured(offered.take(rows), new))
        for way, rows in table.items():
            error, rank, rank_average, lost = np.array(rows).T
            print(
                f"{count:3d}  {way:16s} {error.mean():6.2f} ({error.max():6.2f})  {100 * rank.mean():5.1f} ({100 * rank.min():5.1f})"
                f"  {100 * rank_average.mean():5.1f} ({100 * rank_average.min():5.1f})"
                f"  {1000 * lost.mean():6.1f} ({1000 * lost.max():6.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
