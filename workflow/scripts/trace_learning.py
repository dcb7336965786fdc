"""How many runs a law needs: its error and rank correlation on unseen mixtures against the number
of mixtures fitted.

losses and mixtures, optionally of held-out groups -> learning.csv (law, runs, draw, mre, mre_worst,
spearman, note)
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.judge.law_scores import learning_curve
from bimix.laws.table import LAWS
from bimix.observations.observations import joined, read_observations
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", required=True, nargs="+", choices=list(LAWS))
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--mixtures", type=Path, required=True)
    parser.add_argument(
        "--held-out-losses", type=Path, nargs="*", default=[], help="without them the mixtures not drawn are predicted"
    )
    parser.add_argument(
        "--held-out-mixtures", type=Path, nargs="*", default=[], help="of the same groups, in the same order"
    )
    parser.add_argument(
        "--counts", required=True, nargs="+", type=int, help="numbers of mixtures to fit, as far as there are so many"
    )
    parser.add_argument("--draws", required=True, type=int, help="random draws of the fitted mixtures for each number")
    parser.add_argument("--seed", required=True, type=int)
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
    new = joined(observed, held_out)
    # Three mixtures at least are left to predict where none is held out; the numbers above are for
    # larger groups.
    most = len(observed.mixtures) - (0 if new else 3)
    counts = [count for count in options.counts if count <= most] or options.counts
    write_table(learning_curve(options.laws, observed, new, counts, options.draws, options.seed), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
