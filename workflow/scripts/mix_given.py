"""Check a mixture that a file has and take it in.

{domain: proportion} or stages of them as JSON, or a table -> mixtures/{name}.json

A table has the columns domain and proportion, or mixtures by rows or columns, as those that were run
elsewhere, published or proposed by propose_first.py: that of --name counts.
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.mixtures.mixture import Mixture
from bimix.mixtures.names import REWEIGHTING
from bimix.observations.tables import tidy_mixtures
from bimix.tables import TEXTS, read_table, renamed
from bimix.training.artefacts import check


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixture", type=Path, required=True, help="JSON, csv or parquet")
    parser.add_argument("--name", required=True, help="the mixture's, in a table of several")
    parser.add_argument("--domains", nargs="*", help="domains of the dataset; without it those of the mixture")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    domains = sorted(options.domains) if options.domains else None
    # a training's has its digest in run.json; a user's file may stand next to any run.json
    path = check(options.mixture) if options.name in REWEIGHTING else options.mixture
    if path.suffix not in (*TEXTS, ".parquet"):
        mixture = Mixture.read(path, domains)
    else:
        table = renamed(read_table(path), str(path))
        if "proportion" not in table.columns:
            table = tidy_mixtures(table, str(path)).table
        mixture = Mixture.of_table(table, path, domains, options.name)
    mixture.naming(domains or ()).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
