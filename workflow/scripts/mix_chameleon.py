"""Mix the domains by the ridge leverage scores of their embeddings (Chameleon).

{domain: [width numbers]} -> mixtures/chameleon.json
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import run
from bimix.mixtures.by_hand import chameleon
from bimix.mixtures.mixture import as_mixture
from bimix.tables import read_json


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embeddings", type=Path, required=True, help="written by embed_domains.py")
    parser.add_argument("--ridge", type=float, required=True, help="times the number of domains, added to the kernel")
    parser.add_argument("--softness", type=float, required=True, help="temperature of the softmax")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    embeddings = read_json(options.embeddings)
    shares = chameleon(np.array(list(embeddings.values())), options.ridge, options.softness)
    as_mixture(list(embeddings), shares).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
