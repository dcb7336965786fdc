"""Mix the domains by their share of the training tokens.

tokens/train.parquet -> mixtures/baseline.json
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import run
from bimix.mixtures.mixture import as_mixture
from bimix.tables import read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    tokens = read_tokens(options.index)
    as_mixture(list(tokens), np.array(list(tokens.values()))).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
