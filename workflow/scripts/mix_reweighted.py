"""Take the mixture that a reweighting run has found in among the others.

reweighting/{model}/{method}/mixture.json -> mixtures/{method}.json
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.mixtures.mixture import Mixture
from bimix.training.artefacts import check


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--domains", nargs="+", required=True, help="domains of the dataset")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    Mixture.read(check(options.mixture), options.domains).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
