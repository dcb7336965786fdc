"""Take the mixture of the run with the least measured loss: the best of a search, without a law.

losses and mixtures of a group -> mixtures/best.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture
from bimix.observed.observations import mean_over_seeds
from bimix.tables import read_numbers, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="mixture, step, domain, loss")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion")
    parser.add_argument("--step", type=int, required=True, help="at which the losses are compared")
    parser.add_argument("--weights", help="of the losses in the average, JSON; all alike without it")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    losses = mean_over_seeds(read_table(options.losses)).filter(pl.col("step") == options.step)
    if losses.is_empty():
        raise InputError(f"{options.losses} has no losses at step {options.step}.")
    weights = options.weights and read_numbers(options.weights)
    weigh = pl.col("domain").replace_strict(weights, default=0.0, return_dtype=pl.Float64) if weights else pl.lit(1.0)
    ends = losses.group_by("mixture", maintain_order=True).agg((pl.col("loss") * weigh).sum())
    name = ends.sort("loss", maintain_order=True)["mixture"][0]
    print(f"the best of {ends.height} runs at step {options.step}: {name}")
    rows = read_table(options.mixtures).filter(pl.col("mixture") == name)
    as_mixture(rows["domain"].to_list(), rows["proportion"].to_numpy()).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
