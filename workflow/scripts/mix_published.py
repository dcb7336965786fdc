"""Take one column of a published table of mixtures.

resources/mixtures/*.csv -> mixtures/published_{column}.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import Mixture, proportions_in
from bimix.tables import read_table, renamed


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, required=True, help="domain and one column per mixture, csv")
    parser.add_argument("--column", required=True, help="of the table's proportions")
    parser.add_argument("--domains", nargs="+", required=True, help="domains of the dataset")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    table = renamed(read_table(options.table), str(options.table))
    for column in ("domain", options.column):
        if column not in table.columns or options.column == "domain":
            raise InputError(
                f"{options.table}, line 1: there is no column {column!r}, only {', '.join(table.columns)}."
            )
    shares = proportions_in(table.select("domain", proportion=pl.col(options.column)), options.table)
    Mixture.parse(shares, f"{options.table}, column {options.column!r}", options.domains).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
