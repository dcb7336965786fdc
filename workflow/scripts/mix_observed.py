"""Take one mixture out of a table of mixtures that were trained elsewhere.

mixtures (mixture, domain, proportion; or one column a domain) -> mixtures/{mixture}.json
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture
from bimix.observations.observations import proportions_of
from bimix.observations.tables import read_mixtures


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixtures", type=Path, required=True, help="csv or parquet")
    parser.add_argument("--name", required=True, help="the mixture's name in the table")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    tidy = read_mixtures(options.mixtures)
    rows = tidy.table.filter(pl.col("mixture").cast(pl.String) == options.name)
    if rows.is_empty():
        raise InputError(
            f"{options.mixtures} has no mixture {options.name!r}; it has {', '.join(tidy.names('mixture')[:20])}."
        )
    domains = tuple(rows["domain"].cast(pl.String).unique(maintain_order=True).to_list())
    _, shares = proportions_of(rows, domains, str(options.mixtures))
    as_mixture(domains, shares[0]).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
