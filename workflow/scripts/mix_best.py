"""Take the mixture of the run that is measured to be best: the best of a search, without a law.

losses and mixtures of a group -> mixtures/best.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.judge.comparison import compared
from bimix.judge.measured import add_criterion, criterion_of, measured
from bimix.mixtures.mixture import as_mixture
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="mixture, step, domain, loss")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion")
    parser.add_argument("--step", type=int, required=True, help="at which the losses are compared")
    parser.add_argument("--reference", help="the mixture that an objective with a reference is measured against")
    add_criterion(parser)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    runs = measured(read_table(options.losses), step=options.step)
    options.reference = options.reference or runs.mixtures[0]  # a weighted average has none
    name = compared(runs, criterion_of(options)).ranked()[0]
    print(f"the best of {len(runs.mixtures)} mixtures at step {options.step}: {name}")
    rows = read_table(options.mixtures).filter(pl.col("mixture") == name)
    as_mixture(rows["domain"].to_list(), rows["proportion"].to_numpy()).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
