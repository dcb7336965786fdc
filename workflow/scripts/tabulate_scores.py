"""Put the scores of the laws into one of the paper's tables: mean, worst and best over domains.

extrapolation.csv of one or more laws -> tables/extrapolation.csv (Table 2); generalization.csv of
these -> tables/generalization.csv (Table 3)
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.digests import check
from bimix.errors import run
from bimix.judge.errors import EXTRAPOLATION, GENERALIZATION, extrapolation_table, generalization_table
from bimix.outputs import write_table

TABLES = {
    "extrapolation": (EXTRAPOLATION, extrapolation_table),
    "generalization": (GENERALIZATION, generalization_table),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=TABLES, required=True, help="which table")
    parser.add_argument("--scores", type=Path, required=True, nargs="+", help="the csv of that name of each law")
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    schema, tabulate = TABLES[options.table]
    scores = pl.concat([pl.read_csv(check(path), schema=schema, glob=False) for path in options.scores])
    write_table(tabulate(scores), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
