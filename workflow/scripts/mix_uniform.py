"""Give every domain the same proportion.

names of domains -> mixtures/uniform.json
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import run
from bimix.mixtures.mixture import as_mixture


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", nargs="+", required=True, help="names")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    as_mixture(options.domains, np.ones(len(options.domains))).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
