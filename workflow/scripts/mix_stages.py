"""Put mixtures one after the other: a mixture in stages, each with its share of the run's tokens.

mixtures {domain: proportion} in their order, shares -> {"stages": [{"share", "mixture"}, ...]}
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import finite, run
from bimix.mixtures.mixture import Mixture, read_proportions


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--shares", type=finite, nargs="+", required=True, help="of the run, in the same order")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    parts = zip(options.shares, map(read_proportions, options.mixtures), strict=True)
    document = {"stages": [{"share": share, "mixture": proportions} for share, proportions in parts]}
    Mixture.parse(document, "--shares").write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
