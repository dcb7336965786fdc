"""Draw the mixtures of a swarm of small runs around the token shares, as RegMix does.

mixtures/baseline.json (token shares), names, seed -> mixtures/swarm.parquet (mixture, domain,
proportion)
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import run
from bimix.mixtures import draws
from bimix.mixtures.mixture import as_mixture, read_proportions
from bimix.optimum.flags import add_flags, strengths_of
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", type=Path, required=True, help="{domain: share of the tokens}, JSON")
    parser.add_argument("--names", nargs="+", required=True, help="of the mixtures; the first is number 1")
    parser.add_argument("--seed", type=int, required=True, help="of the draws")
    add_flags(parser, "strengths")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)

    shares = read_proportions(options.baseline)
    domains = sorted(shares)
    tokens = np.array([shares[domain] for domain in domains])
    between = strengths_of(options)
    numbers = range(1, len(options.names) + 1)
    drawn = [as_mixture(domains, draws.mixture(tokens, options.seed, number, between)) for number in numbers]
    drawn = np.concatenate([mixture.over(domains) for mixture in drawn])
    draws.check_drawn(options.names, domains, drawn)
    columns = {
        "mixture": np.repeat(options.names, len(domains)),
        "domain": domains * len(options.names),
        "proportion": drawn.ravel(),
    }
    write_table(pl.DataFrame(columns), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
