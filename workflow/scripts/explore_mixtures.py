"""Make the page on which a person moves the shares of the domains and sees what the laws predict.

coefficients.json of each law with its optimum, intervals.csv, mixtures -> explore.html, one file
that needs nothing else
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.laws.document import checked_law
from bimix.mixtures.mixture import read_proportions
from bimix.observations.observations import proportions_of
from bimix.optimum.flags import add_flags, asked_objective, asked_tokens
from bimix.optimum.intervals import INTERVALS
from bimix.outputs import write_text
from bimix.results.explore import DRAWN, page
from bimix.search.by_hand import Wanted, add_rules
from bimix.tables import read_table, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, nargs="+", required=True, help="written by fit_law.py")
    parser.add_argument("--optimised", type=Path, nargs="*", default=[], help="mixture of each law, in the same order")
    parser.add_argument("--intervals", type=Path, nargs="*", default=[], help="written by estimate_intervals.py")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="tidy mixtures, the fitted at least")
    parser.add_argument("--reference-mixture", type=Path, required=True, help="mixture.json that gains are over")
    parser.add_argument("--start", help="the mixture shown first; without it the first optimum, or the reference")
    parser.add_argument("--step", type=int, help="of the predicted run; without it the last one fitted")
    parser.add_argument("--title", default="your runs", help="what the page is of (%(default)s)")
    add_flags(parser, "bounds", "objective", "run-tokens", "parameters")
    parser.add_argument("--prior", type=Path, nargs="?", help="cross-entropies between domains, of the rules kin")
    add_rules(parser)
    parser.add_argument("--out", type=Path, required=True, help="explore.html")
    options = parser.parse_args(argv)
    if options.optimised and len(options.optimised) != len(options.coefficients):
        raise InputError(
            f"--optimised names {len(options.optimised)} mixtures and --coefficients {len(options.coefficients)} laws: give one of each."
        )

    spans = pl.concat(
        [pl.DataFrame(schema=INTERVALS), *(read_table(path).cast(INTERVALS) for path in options.intervals)]
    )
    laws = [checked_law(path) for path in options.coefficients]
    if not any(law["law"] in DRAWN for law in laws):
        raise InputError(f"none of the laws is a formula: the page needs one of {', '.join(DRAWN)}.")
    names = [path.stem for path in options.optimised] or [law["law"] for law in laws]
    ran = {}
    for path in options.runs:
        labels, shares = proportions_of(read_table(path), laws[0]["domains"], str(path))
        ran |= {
            name: dict(zip(laws[0]["domains"], row, strict=True))
            for name, row in zip(labels, shares.tolist(), strict=True)
        }
    mixtures = {path.stem: read_proportions(path) for path in (options.reference_mixture, *options.optimised)}
    tokens = read_tokens(options.tokens) if options.tokens else {}
    run_tokens = asked_tokens(laws[0], options.run_tokens, options.step or laws[0]["steps"][-1], options.parameters)
    rules = Wanted.of(options, laws[0], asked_objective(options).domain_weights(), tokens, run_tokens)
    for name, own in rules.every_rule(options.hand, options.max_epochs).items():
        mixtures.setdefault(name, dict(zip(laws[0]["domains"], own.tolist(), strict=True)))
    text = page(
        options,
        title=f"{options.title}: move the shares",
        laws=dict(zip(names, laws, strict=True)),
        spans=spans,
        mixtures=mixtures,
        ran=ran,
        reference=options.reference_mixture.stem,
        start=options.start or (names[0] if options.optimised else options.reference_mixture.stem),
        step=options.step,
    )
    write_text(options.out, text)


if __name__ == "__main__":
    sys.exit(run(main))
