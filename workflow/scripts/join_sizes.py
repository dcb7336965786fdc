"""Put the losses of a group by models of several sizes into one tidy table.

losses/{model}/{group}.parquet ..., sizes/{model}.json ... -> the same rows with model and
parameters
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.outputs import write_table
from bimix.tables import read_size, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses by each model")
    parser.add_argument("--sizes", type=Path, nargs="+", required=True, help="of the models, in the same order")
    parser.add_argument("--out", type=Path, required=True, help="tidy losses, parquet or csv")
    options = parser.parse_args(argv)
    tables: dict[float, pl.DataFrame] = {}
    for path, place in zip(options.losses, options.sizes, strict=True):
        parameters = read_size(place)[0]
        if parameters in tables:
            raise InputError(f"{place}: another model has its {parameters:,.0f} parameters too: take one away.")
        tables[parameters] = read_table(path).with_columns(model=pl.lit(place.stem), parameters=pl.lit(parameters))
    write_table(pl.concat(tables.values()), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
