"""Propose the next runs: mixtures, and sizes within a budget, that are most informative for the law
transfer.

Optional mixtures already run (mixture, domain, proportion), with their losses (mixture, step,
domain, loss) and a prior from text -> the next mixtures (mixture, domain, proportion, information,
pool) and runs (mixture, seed, model, parameters, tokens, flops, information)

The information of a run is given by the slopes of the law: at the fit to the losses, else where a
fit starts from. With --harm the runs are those that settle what it costs to repeat a domain.
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.observations.flags import add_priors
from bimix.optimum.flags import add_flags
from bimix.outputs import write_table
from bimix.search.harm import harm_lines, harm_runs
from bimix.search.proposals import ladder_lines, mixture_table, propose, run_lines, run_table
from bimix.search.setting import read_setting
from bimix.search.sizes import add_models

LEAST = 0.25  # of a domain's share of the tokens: nobody trains on one domain alone
FLOPS_PER_SECOND = 1.25e14


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mixtures",
        nargs="?",
        type=Path,
        help="tidy mixtures already run, parquet or csv; without them --tokens name the domains",
    )
    parser.add_argument("--losses", nargs="?", type=Path, help="of these mixtures, parquet or csv")
    add_priors(parser)
    parser.add_argument(
        "--count",
        type=int,
        help="mixtures to propose, at most; where no mixture has a further seed, one of them is to have one",
    )
    parser.add_argument(
        "--budget",
        help="FLOPs of all proposed runs at most, as 2e18, or a share of the large run, as 5%%: without --count a ladder of"
        " numbers of runs is printed, and the knee proposed",
    )
    add_models(parser)
    parser.add_argument(
        "--flops-per-second",
        type=float,
        default=FLOPS_PER_SECOND,
        help="of a GPU, for hours of GPUs (%(default)s: an A100 at 40 %% of its peak)",
    )
    parser.add_argument(
        "--least",
        type=float,
        default=LEAST,
        help="no domain has less than this part of its share of --tokens, but for a bound --lower of its own (%(default)s)",
    )
    parser.add_argument("--seed", required=True, type=int, help="of the candidates, and of the draws of the law")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last of the losses")
    add_flags(parser, "bounds", "objective", "run-tokens")
    parser.add_argument(
        "--match-epochs",
        action="store_true",
        help="small runs have smaller pools, so that they repeat as the large one",
    )
    parser.add_argument(
        "--harm",
        metavar="DOMAIN",
        help="propose runs that settle what it costs to repeat this domain (three, or --count), with pools to cut it to",
    )
    parser.add_argument("--out", type=Path, required=True, help="the mixtures, csv or parquet")
    parser.add_argument("--runs", type=Path, help="the runs, csv or parquet")
    options = parser.parse_args(argv)
    asked = read_setting(options)
    print(f"choosing among mixtures of {len(asked.domains)} domains ...", file=sys.stderr)
    if options.harm:
        proposed, ladder = harm_runs(asked, options.harm), []
    else:
        proposed, ladder = propose(asked)
    write_table(mixture_table(proposed, asked.domains), options.out)
    if options.runs:
        write_table(run_table(proposed), options.runs)
    lines = harm_lines(proposed, options.harm, asked) if options.harm else run_lines(proposed, asked)
    if ladder:
        lines += ladder_lines(ladder, asked.large, len(asked.done.mixtures), options.flops_per_second)
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(run(main))
