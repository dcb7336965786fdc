"""Mix the domains by a rule over the tokens there are: their shares, temperature or UniMax.

tokens/train.parquet -> mixtures/baseline.json, mixtures/temperature.json, mixtures/unimax.json
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import finite, run
from bimix.mixtures.by_hand import temperature, unimax
from bimix.mixtures.mixture import as_mixture
from bimix.tables import read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--rule", choices=("baseline", "temperature", "unimax"), required=True, help="of the shares")
    parser.add_argument("--exponent", type=finite, required=True, help="of the shares; of temperature")
    parser.add_argument(
        "--run-tokens", type=finite, required=True, help="of the run that the mixture is for; of unimax"
    )
    parser.add_argument("--most-epochs", type=finite, required=True, help="of any domain; of unimax")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    domains, counts = zip(*sorted(read_tokens(options.index).items()), strict=True)
    tokens = np.array(counts)
    if options.rule == "unimax":
        shares = unimax(tokens, options.run_tokens, options.most_epochs)
    else:
        shares = temperature(tokens, options.exponent if options.rule == "temperature" else 1.0)
    as_mixture(domains, shares).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
