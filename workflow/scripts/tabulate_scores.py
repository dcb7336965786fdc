"""Put the scores of the laws into the paper's tables: mean, worst and best over domains
for each law and mixture.

extrapolation.csv, generalization.csv of one or more laws -> tables/extrapolation.csv (Table 2),
tables/generalization.csv (Table 3)
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.digests import check
from bimix.errors import run
from bimix.judge.errors import EXTRAPOLATION, GENERALIZATION, extrapolation_table, generalization_table
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extrapolation", type=Path, required=True, nargs="+", help="extrapolation.csv of each law")
    parser.add_argument("--generalization", type=Path, required=True, nargs="+", help="generalization.csv of each law")
    parser.add_argument("--extrapolation-table", type=Path, required=True, help="csv")
    parser.add_argument("--generalization-table", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    extrapolated = pl.concat(
        [pl.read_csv(check(path), schema=EXTRAPOLATION, glob=False) for path in options.extrapolation]
    )
    generalized = pl.concat(
        [pl.read_csv(check(path), schema=GENERALIZATION, glob=False) for path in options.generalization]
    )
    write_table(extrapolation_table(extrapolated), options.extrapolation_table)
    write_table(generalization_table(generalized), options.generalization_table)


if __name__ == "__main__":
    sys.exit(run(main))
