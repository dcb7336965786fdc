"""Take one mixture out of a table of mixtures that were trained elsewhere.

mixtures (mixture, domain, proportion) -> mixtures/{mixture}.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures import as_mixture
from bimix.outputs import write_json
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixtures", type=Path, required=True, help="csv or parquet")
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    rows = read_table(options.mixtures).filter(pl.col("mixture").cast(pl.String) == options.name)
    if rows.is_empty():
        raise InputError(f"{options.mixtures} has no mixture {options.name!r}.")
    write_json(options.out, as_mixture(rows["domain"].to_list(), rows["proportion"].to_numpy()))


if __name__ == "__main__":
    sys.exit(run(main))
