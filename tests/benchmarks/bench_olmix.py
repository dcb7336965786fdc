"""Measure laws on Olmix' public swarm: 512 runs of 30M models on 64 domains (no test: run it by
hand).

python tests/benchmarks/bench_olmix.py olmix_64.csv olmix_64_pools.json -> a table on standard
output. The csv has run, w_{domain} and bpb_{metric} (allenai/olmix, full_recomputation); the JSON
the metrics of the families, and those that its authors drop as noise. Laws are fitted to the means
of the families and asked for runs that they have not seen.
"""

import argparse
import json
import sys
from pathlib import Path
from time import process_time

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from public_runs import from_wide

from bimix.judge.errors import rank_correlation
from bimix.laws import fitted as laws

ASKED = 256


def read(table: Path, pools: Path):
    """Runs with the mean of each family's metrics, without those that are dropped."""
    rows, said = pl.read_csv(table), json.loads(pools.read_text(encoding="utf-8"))
    dropped = set(next(iter(said.values())).get("drop_metrics", []))
    families = {name: [one for one in kept if one not in dropped] for name, kept in said["families"].items()}
    own = [name for name in rows.columns if name.startswith("w_")]
    means = [rows.select(f"bpb_{one}" for one in kept).to_numpy().mean(axis=1) for kept in families.values()]
    names = [name.removeprefix("w_") for name in own]
    print(
        f"{rows.height} runs, {len(own)} domains;", ", ".join(f"{name} {len(kept)}" for name, kept in families.items())
    )
    return from_wide(names, rows.select(own).to_numpy(), list(families), np.stack(means, axis=1))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("pools", type=Path)
    parser.add_argument("--counts", type=int, nargs="+", default=[64, 195])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument(
        "--laws", nargs="+", default=["transfer", "olmix", "mariner", "regmix"], choices=list(laws.LAWS)
    )
    options = parser.parse_args(argv)
    runs = read(options.table, options.pools)
    print("law, runs fitted: error %, Spearman x 100 by family, of their mean, regret %; each draw's; CPU s a fit")
    for count in options.counts:
        for law in options.laws:
            found, spent = [], process_time()
            for draw in range(options.draws):
                order = np.random.default_rng([draw, count]).permutation(len(runs.mixtures))
                fitted, new = laws.fit(law, runs.take(order[:count])), runs.take(order[-ASKED:])
                guess, truth = laws.predict(fitted, new.proportions, [1])[:, 0], new.losses[:, 0]
                averages = guess.mean(axis=1), truth.mean(axis=1)
                found.append(
                    [
                        100 * np.abs(guess / truth - 1).mean(),
                        100 * rank_correlation(truth, guess).mean(),
                        100 * rank_correlation(averages[1][:, None], averages[0][:, None]).mean(),
                        100 * (averages[1][averages[0].argmin()] / averages[1].min() - 1),
                    ]
                )
            mean, each = np.mean(found, axis=0), "; ".join(" ".join(f"{one:.2f}" for one in row) for row in found)
            seconds = (process_time() - spent) / options.draws
            print(f"{law:10s} {count:4d}", *(f"{one:7.2f}" for one in mean), f"  ({each})  {seconds:.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
