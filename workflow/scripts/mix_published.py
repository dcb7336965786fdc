"""Take one column of a published table of mixtures.

resources/mixtures/*.csv -> mixtures/published_{column}.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import Mixture

ROUNDING = 1e-3  # printed columns sum to 1 to within 2.1e-5 (paper's Table 5, DoReMi); more would be a typing error


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, required=True, help="domain and one column per mixture, csv")
    parser.add_argument("--column", required=True, help="of the table's proportions")
    parser.add_argument("--domains", nargs="+", required=True, help="domains of the dataset")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    table = pl.read_csv(options.table, glob=False)
    if options.column not in table.columns[1:]:
        raise InputError(f"{options.table} has no column {options.column!r}; it has {', '.join(table.columns[1:])}.")
    shares = table[options.column].to_numpy()
    if abs(shares.sum() - 1) > ROUNDING:
        raise InputError(f"{options.table}: column {options.column!r} sums to {shares.sum():.6g}, not to 1.")
    scaled = dict(zip(table["domain"], (shares / shares.sum()).tolist(), strict=True))
    Mixture.parse(scaled, options.table, options.domains).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
