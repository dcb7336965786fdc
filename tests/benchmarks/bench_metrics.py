"""Measure the errors of laws of metrics (no test: run it by hand).

python tests/benchmarks/bench_metrics.py FOLDER [--seeds ...] [--tables ...] [--counts ...] [--first N]
-> tables on standard output; FOLDER holds olmix/

Single benchmarks, every sixth from --first on, of three swarms (resources/reproductions/olmix), at a
quarter, a half and all of the runs that are not predicted (16, 32 and 128 are). A cell is the error of
unseen mixtures in %, Spearman x 100 by loss domain, and that of the mean over loss domains; means over
the draws.
"""

import bench
import numpy as np
from print_rows import in_order
from public_tables import olmix

from bimix.judge.errors import rank_correlation
from bimix.laws import fitted as laws


def of_law(observed, new, law="transfer"):
    return laws.predict(laws.fit(law, observed), new, [1])[:, 0]


# Olmix' swarms: the names of their files, runs that are asked for, and runs that are fitted.
SWARMS = {
    "24 topics": ("dclm", "olmix_dclm24", 32, (24, 48, 95)),
    "reuse": ("full_reuse_update_5_seed_0", "olmix_reuse", 16, (12, 24, 48)),
    "64 domains": ("full_recomputation", "olmix_64", 128, (96, 192, 384)),
}
EVERY = 6


def benchmarks(folder, released, joined, first):
    """Runs with single benchmarks as loss domains."""
    runs = in_order(olmix(folder / "olmix", released, joined, each=True))
    return runs.of_domains(np.arange(len(runs.loss_domains))[first::EVERY])


WAYS = {
    "transfer": of_law,
    "lightgbm": lambda observed, new: of_law(observed, new, "regmix"),
}


def cell(truth, guess):
    mean = rank_correlation(truth.mean(axis=1)[:, None], guess.mean(axis=1)[:, None]).mean()
    return 100 * np.nanmean(np.abs(guess / truth - 1)), 100 * np.nanmean(rank_correlation(truth, guess)), 100 * mean


def line(name, rows):
    cells = [f"{error:5.2f} {by:5.1f} {mean:5.1f}" for error, by, mean in np.mean(rows, axis=0)]
    print(f"{name:38s} " + "   ".join(cells), flush=True)


def main(argv=None):
    parser = bench.parser(__doc__, "folder", numbers={"--first": 0})
    parser.add_argument("--seeds", type=int, nargs="+", default=range(100, 104))
    parser.add_argument("--tables", nargs="+", default=list(SWARMS), choices=list(SWARMS))
    parser.add_argument("--counts", type=int, nargs="+", help="of runs that are fitted")
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    options = parser.parse_args(argv)
    print("error, Spearman by loss, of the mean: " + ", ".join(options.ways))
    for name in options.tables:
        released, joined, predicted, counts = SWARMS[name]
        runs = benchmarks(options.folder, released, joined, options.first)
        for count in options.counts or counts:
            rows = []
            for draw in options.seeds:
                order = np.random.default_rng([77, draw]).permutation(len(runs.mixtures))
                new, fitted = runs.take(order[-predicted:]), runs.take(order[:count])
                rows.append([cell(new.losses[:, 0], WAYS[way](fitted, new.proportions)) for way in options.ways])
            line(f"{name}, {count} runs", rows)


if __name__ == "__main__":
    main()
