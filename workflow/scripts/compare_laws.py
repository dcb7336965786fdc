"""Score several laws on the same rows.

losses and mixtures, optionally of held-out groups -> comparison.csv (law, score, domain, value,
runs, coefficients, note)
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.judge.law_scores import compare
from bimix.laws.table import LAWS
from bimix.observations.observations import joined, read_observations
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", required=True, nargs="+", choices=list(LAWS))
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--mixtures", type=Path, required=True)
    parser.add_argument("--held-out-losses", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--held-out-mixtures", type=Path, nargs="*", default=[], help="of the same groups, in the same order"
    )
    parser.add_argument(
        "--prior",
        type=Path,
        nargs="?",
        help="who speaks like whom (domain, under, nats), for the law transfer; none: without",
    )
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)

    observed = read_observations(options.losses, options.mixtures, options.prior)
    pairs = zip(options.held_out_losses, options.held_out_mixtures, strict=True)
    held_out = [read_observations(losses, mixtures) for losses, mixtures in pairs]
    write_table(compare(options.laws, observed, joined(observed, held_out)), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
