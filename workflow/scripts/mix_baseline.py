"""Mix the domains by their share of the training tokens.

tokens/train.parquet -> mixtures/baseline.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.mixtures.mixture import as_mixture
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    tokens = read_table(options.index).group_by("domain").agg(pl.col("tokens").sum()).sort("domain")
    as_mixture(tokens["domain"].to_list(), tokens["tokens"].to_numpy()).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
