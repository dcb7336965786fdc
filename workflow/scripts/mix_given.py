"""Check a mixture file of the user's own, or a column of a published table, and take it in.

{domain: proportion} or stages of them as JSON, or a table with the columns domain and proportion ->
mixtures/{name}.json

The proportions may stand in a column called --name. A table may have the column mixture, and further
ones, as the mixtures that propose_first.py proposes: the rows of --name count.
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.mixtures.mixture import Mixture
from bimix.mixtures.names import REWEIGHTING
from bimix.training.artefacts import check


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="JSON or csv")
    parser.add_argument("--name", required=True, help="the mixture's, in a table of several")
    parser.add_argument("--domains", nargs="+", required=True, help="domains of the dataset")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    domains = sorted(options.domains)
    # a training's has its digest in run.json; a user's file may stand next to any run.json
    path = check(options.mixture) if options.name in REWEIGHTING else options.mixture
    mixture = Mixture.read(path, domains, options.name)
    mixture.naming(domains).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
