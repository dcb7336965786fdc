"""Compare how the runs of several mixtures answer questions.

answers of each run, losses (mixture, step, domain, loss) -> tables/downstream.csv, one row per
mixture, step, task and metric
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.downstream.accuracy import BITS, compare_accuracy
from bimix.errors import InputError, run
from bimix.observations.averages import average_losses
from bimix.observations.observations import mean_over_seeds
from bimix.outputs import write_table
from bimix.tables import read_table

GOLD = ("gold_bits", "gold_bytes")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, nargs="+", required=True, help="of each run, parquet")
    parser.add_argument("--names", nargs="+", required=True, help="the mixture of each run, in the same order")
    parser.add_argument("--losses", type=Path, required=True, help="tidy losses of the same runs, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture that the others are measured against")
    parser.add_argument("--resamples", type=int, required=True, help="of the bootstrap over items")
    parser.add_argument("--level", type=float, required=True, help="of the intervals, such as 0.95")
    parser.add_argument("--seed", type=int, required=True, help="of the bootstrap")
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    answers = []
    for number, (name, path) in enumerate(zip(options.names, options.answers, strict=True)):
        item = pl.int_range(pl.len()).over("task", "step").alias("number")
        table = read_table(path)
        if not set(GOLD) <= set(table.columns):
            raise InputError(f"{path} has no {GOLD[0]}: an earlier version of this project wrote it; score it again.")
        bits = (pl.col(GOLD[0]) / pl.col(GOLD[1])).alias(BITS)
        table = table.select("task", "step", "prompt_hash", "exact", "normalised", bits, item)
        answers.append(table.with_columns(mixture=pl.lit(name), run=pl.lit(number)))
    chosen = options.reference, options.resamples, options.level, options.seed
    accuracies = compare_accuracy(pl.concat(answers), *chosen)
    losses = average_losses(mean_over_seeds(read_table(options.losses))).rename({"loss": "average_loss"})
    table = accuracies.join(losses, on=["mixture", "step"], how="left", maintain_order="left")
    write_table(table, options.out)


if __name__ == "__main__":
    sys.exit(run(main))
