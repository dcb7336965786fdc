"""Measure the errors of laws of metrics (no test: run it by hand).

python tests/benchmarks/bench_metrics.py {made,olmix} [folder of olmix/] [--kinds ...] [--seeds ...]
[--tables ...] [--counts ...] [--first N] -> tables on standard output

`made`: tables of made_metrics.py, 19 domains, 17 error rates, 64 runs; new mixtures without noise.
`olmix`: single benchmarks, every sixth from --first
on, of three swarms (resources/reproductions/olmix), at a quarter, a half and all of the runs
that are not asked for (16, 32 and 128 are). A cell is the error of unseen mixtures in %,
Spearman x 100 by loss domain, and that of the mean over loss domains; means over the draws.
"""

from pathlib import Path

import bench
import made_metrics
import numpy as np
from print_rows import in_order
from public_tables import from_wide, olmix

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
    parser = bench.parser(__doc__, numbers={"--first": 0})
    parser.add_argument("what", choices=["made", "olmix"])
    parser.add_argument("folder", type=Path, nargs="?", help="of the public runs")
    parser.add_argument("--kinds", nargs="+", default=made_metrics.KINDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(100, 104))
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--counts", type=int, nargs="+", help="of runs that are fitted, of public tables")
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    options = parser.parse_args(argv)
    print("error, Spearman by loss, of the mean: " + ", ".join(options.ways))
    ways = [WAYS[name] for name in options.ways]
    if options.what == "made":
        for kind in options.kinds:
            rows = []
            for seed in options.seeds:
                shares, seen, new, truth = made_metrics.table(kind, seed)
                names = [f"d{j:02d}" for j in range(shares.shape[1])], [f"metric{i:02d}" for i in range(seen.shape[1])]
                observed = from_wide(names[0], shares, names[1], seen)
                rows.append([cell(truth, way(observed, new)) for way in ways])
            line(kind, rows)
        return
    for name, (released, joined, asked, counts) in SWARMS.items():
        if options.tables and name not in options.tables:
            continue
        runs = benchmarks(options.folder, released, joined, options.first)
        for count in options.counts or counts:
            rows = []
            for draw in options.seeds:
                order = np.random.default_rng([77, draw]).permutation(len(runs.mixtures))
                new, fitted = runs.take(order[-asked:]), runs.take(order[:count])
                rows.append([cell(new.losses[:, 0], way(fitted, new.proportions)) for way in ways])
            line(f"{name}, {count} runs", rows)


if __name__ == "__main__":
    main()
