"""Score a law over sizes on the runs of a large model, by how many of them it was fitted to.

losses and mixtures of the small models (with parameters and tokens) and of the large one ->
sizes.csv (runs, large_runs, draw, error, spearman), which plot_learning.py draws
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.judge.law_scores import LEFT, size_scores
from bimix.laws.table import LAWS
from bimix.observations.flags import add_priors
from bimix.observations.observations import observations, with_priors
from bimix.outputs import write_table
from bimix.tables import read_size, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", required=True, choices=list(LAWS), help="to fit and score")
    parser.add_argument("--losses", type=Path, required=True, help="tidy losses of the small models")
    parser.add_argument("--mixtures", type=Path, required=True, help="their tidy mixtures")
    parser.add_argument("--large-losses", type=Path, required=True, help="tidy losses of the large model")
    parser.add_argument("--large-mixtures", type=Path, required=True, help="their tidy mixtures")
    parser.add_argument("--asked", type=Path, required=True, help="run.json, or parameters and tokens, of a large run")
    add_priors(parser)
    parser.add_argument("--counts", nargs="+", type=int, default=[0, 1, 2, 4], help="large runs to fit, if there are")
    parser.add_argument("--draws", required=True, type=int, help="random draws of the fitted large runs")
    parser.add_argument("--seed", required=True, type=int, help="of the draws of large runs")
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)

    parameters, _ = read_size(options.asked)
    small, large = read_table(options.losses), read_table(options.large_losses)
    large = large.with_columns(parameters=pl.lit(parameters))
    mixtures = pl.concat([read_table(path) for path in (options.mixtures, options.large_mixtures)])
    observed = observations(
        pl.concat([small.select(large.columns), large]),
        mixtures.unique(["mixture", "domain"], keep="first", maintain_order=True),
        (f"{options.losses} with {options.large_losses}", f"{options.mixtures} with {options.large_mixtures}"),
        checked=True,
    )
    observed = with_priors(observed, options.prior, options.domain_groups)
    of_large = observed.parameters == parameters
    if of_large.sum() < LEFT:
        raise InputError(f"{options.large_losses} has one run: {LEFT} at least must be left to be predicted.")
    write_table(size_scores(options.law, observed, of_large, options.counts, options.draws, options.seed), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
