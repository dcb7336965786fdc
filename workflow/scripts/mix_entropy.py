"""Mix the domains by the softmax of one of their entropies.

entropy.csv -> mixtures/{se,je,ce,vne}.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture, softmax
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entropy", type=Path, required=True, help="one row per domain and measure, csv")
    parser.add_argument("--measure", required=True, help="se, je, ce or vne")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    measure = options.measure.upper()
    rows = read_table(options.entropy).filter(pl.col("measure") == measure).sort("domain")
    if rows.is_empty():
        raise InputError(f"{options.entropy} has no row of the measure {options.measure.upper()}.")
    as_mixture(rows["domain"].to_list(), softmax(rows["nats"].to_numpy())).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
