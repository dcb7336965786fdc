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
from bimix.laws.fitted import at_run
from bimix.mixtures.mixture import read_proportions
from bimix.observations.observations import proportions_of
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import add_flags, asked_objective, asked_tokens
from bimix.optimum.intervals import INTERVALS
from bimix.outputs import replacing
from bimix.results.explore import DRAWN, Explored, page
from bimix.search.by_hand import Wanted
from bimix.tables import read_json, read_numbers, read_table, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, nargs="+", required=True, help="written by fit_law.py")
    parser.add_argument("--optimised", type=Path, nargs="*", default=[], help="mixture of each law, in the same order")
    parser.add_argument("--intervals", type=Path, nargs="*", default=[], help="written by estimate_intervals.py")
    parser.add_argument(
        "--runs", type=Path, nargs="+", required=True, help="tidy mixtures, of the runs fitted at least"
    )
    parser.add_argument("--buttons", nargs="*", default=[], help="further mixtures of these tables that have a button")
    parser.add_argument("--optima", type=Path, nargs="*", default=[], help="mixtures of laws that are no formula")
    parser.add_argument("--reference-mixture", type=Path, required=True, help="what changes are counted from, likewise")
    parser.add_argument("--start", help="the mixture shown first; without it the first optimum, or the reference")
    parser.add_argument("--recommended", type=Path, help="written by summarize_results.py: shown first, with a button")
    parser.add_argument("--step", type=int, help="of the predicted run; without it the last one fitted")
    parser.add_argument("--title", default="your runs", help="what the page is of (%(default)s)")
    add_flags(parser, "bounds", "objective", "run-tokens", "parameters")
    parser.add_argument("--out", type=Path, required=True, help="explore.html")
    options = parser.parse_args(argv)
    if options.optimised and len(options.optimised) != len(options.coefficients):
        raise InputError(
            f"--optimised names {len(options.optimised)} mixtures and --coefficients {len(options.coefficients)} laws: give one of each."
        )

    objective = asked_objective(options)
    tokens = read_tokens(options.tokens) if options.tokens else None
    spans = pl.concat(
        [pl.DataFrame(schema=INTERVALS), *(read_table(path).cast(INTERVALS) for path in options.intervals)]
    )
    laws, mixtures, bounds, run_tokens, step = [], {}, None, None, options.step
    reference = options.reference_mixture.stem
    mixtures[reference] = read_proportions(options.reference_mixture)
    for number, path in enumerate(options.coefficients):
        fitted = checked_law(path)
        name = options.optimised[number].stem if options.optimised else fitted["law"]
        if options.optimised:
            mixtures[name] = read_proportions(options.optimised[number])
        if fitted["law"] in DRAWN and bounds is None:
            step = fitted["steps"][-1] if step is None else step
            run_tokens = asked_tokens(fitted, options.run_tokens, step, options.parameters)
        fitted = at_run(fitted, options.parameters, run_tokens, tokens, step)
        if fitted["law"] in DRAWN and bounds is None:
            limits = (options.lower and read_numbers(options.lower), options.upper and read_numbers(options.upper))
            bounds = run_bounds(
                fitted, step, *limits, options.max_epochs, tokens, run_tokens, objective.domain_weights()
            )
            domains = tuple(fitted["domains"])
        laws.append(Explored(name, fitted, spans.filter(pl.col("law") == fitted["law"])))
    if bounds is None:
        raise InputError(f"none of the laws is a formula: the page needs one of {', '.join(DRAWN)}.")
    tables = [proportions_of(read_table(path), domains, str(path)) for path in options.runs]
    known = {
        name: dict(zip(domains, row.tolist(), strict=True))
        for names, rows in tables
        for name, row in zip(names, rows, strict=True)
    }
    mixtures |= {name: known[name] for name in options.buttons if name in known}
    mixtures |= {path.stem: read_proportions(path) for path in options.optima}
    weights = objective.domain_weights()
    wanted = Wanted(domains, laws[0].fitted["loss_domains"], weights, tokens or {}, run_tokens, bounds)
    mixtures |= {
        name: dict(zip(domains, own.tolist(), strict=True))
        for name, own in wanted.every_rule().items()
        if name not in mixtures
    }
    runs = {name: known[name] for name in laws[0].fitted["mixtures"] if name in known}
    start = options.start
    if options.recommended:
        taken = read_json(options.recommended)
        start, mixtures = start or taken["mixture"], mixtures | {taken["mixture"]: taken["proportions"]}
    start = start or (options.optimised[0].stem if options.optimised else reference)
    if start not in mixtures:
        raise InputError(f"--start is {start!r}: it must be one of {', '.join(mixtures)}.")
    level = spans["level"][0] if spans.height else None
    text = page(
        f"{options.title}: move the shares",
        laws,
        mixtures,
        runs,
        reference,
        start,
        objective,
        step,
        bounds,
        tokens,
        run_tokens,
        level,
    )
    with replacing(options.out) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run(main))
