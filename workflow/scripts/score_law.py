"""Score a law on losses that it was not fitted to: the last step of each mixture, and mixtures held
out (paper Tables 2 and 3).

losses and mixtures of the fitted group and of held-out groups ->
extrapolation.csv, generalization.csv

extrapolation:  law, mixture, domain, step, observed, predicted, relative_error   (each mixture
fitted by itself without its last step) generalization: law, mixture, domain, r2_log, mre
(over the steps of each held-out mixture)
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.judge.errors import extrapolation, generalization
from bimix.laws.document import checked_law
from bimix.laws.table import LAWS
from bimix.observations.flags import add_tables, held_out_pairs
from bimix.observations.observations import proportions_of, read_observations
from bimix.outputs import write_table
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="of the group's law, written by fit_law.py")
    add_tables(parser, held_out=True, prior=False)
    parser.add_argument("--extrapolation", type=Path, required=True, help="csv")
    parser.add_argument("--generalization", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    fitted = checked_law(options.coefficients)
    extrapolated, generalized = [], []
    for losses, mixtures in [(options.losses, options.mixtures), *held_out_pairs(options)]:
        observed = read_observations(losses, mixtures)
        extrapolated.append(extrapolation(fitted["law"], observed))
        new = [n for n, mixture in enumerate(observed.mixtures) if mixture not in fitted["mixtures"]]
        names, proportions = proportions_of(read_table(mixtures), tuple(fitted["domains"]), str(mixtures))
        held_out = observed.take(new)
        generalized.append(
            generalization(fitted, held_out, proportions[[names.index(name) for name in held_out.mixtures]])
        )
    key = ["law", "mixture", "domain"]
    write_table(pl.concat(extrapolated).unique(key, keep="first", maintain_order=True), options.extrapolation)
    write_table(pl.concat(generalized).unique(key, keep="first", maintain_order=True), options.generalization)
    if not LAWS[fitted["law"]].over_steps:
        print(f"{fitted['law']} is fitted at single steps: it extrapolates to no other step", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
