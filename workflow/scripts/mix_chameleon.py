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
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    embeddings = read_json(options.embeddings)
    shares = chameleon(np.array(list(embeddings.values())))
    as_mixture(list(embeddings), shares).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
