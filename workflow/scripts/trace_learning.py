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
from bimix.observations.flags import add_tables, read_held_out, read_tables
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", required=True, nargs="+", choices=list(LAWS), help="to fit and score")
    add_tables(parser, held_out=True)  # with none held out the mixtures not drawn are predicted
    parser.add_argument("--counts", required=True, nargs="+", type=int, help="mixtures to fit, if there are so many")
    parser.add_argument("--draws", required=True, type=int, help="random draws of the fitted mixtures for each number")
    parser.add_argument("--seed", required=True, type=int, help="of the draws of runs")
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)

    observed = read_tables(options)
    new = read_held_out(options, observed)
    # Three mixtures at least are left to predict where none is held out; the numbers above are for
    # larger groups.
    most = len(observed.mixtures) - (0 if new else 3)
    counts = [count for count in options.counts if count <= most] or options.counts
    write_table(learning_curve(options.laws, observed, new, counts, options.draws, options.seed), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
