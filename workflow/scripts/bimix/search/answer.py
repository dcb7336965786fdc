"""What a search by rounds found: the posterior of all runs read from their tables, and the best
measured mixture next to the best rule by hand.
"""

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import finite
from bimix.judge.evidence import noise_between
from bimix.judge.measured import Criterion
from bimix.laws.fitted import asked_at, defined, fit
from bimix.laws.table import LAWS
from bimix.mixtures.names import round_of
from bimix.observations.chosen import read_chosen
from bimix.observations.flags import add_tables
from bimix.optimum.bounds import with_least
from bimix.optimum.flags import add_flags, asked_objective, asked_tokens, note_unlimited
from bimix.optimum.goal import HELD
from bimix.optimum.intervals import left_out
from bimix.optimum.optimum import Sought
from bimix.search.by_hand import Wanted
from bimix.search.posterior import FEWEST, USUAL_NOISE, once, whole
from bimix.search.rounds import DISTANCE, Search
from bimix.search.weighing import over_hand, with_rules
from bimix.tables import read_numbers, read_size, read_tokens

ROUNDS = {
    "round": pl.Int64,
    "mixture": pl.String,
    "voice": pl.String,
    "promised": pl.Float64,
    "measured": pl.Float64,
    "deviation_percent": pl.Float64,
    "expected_gain_percent": pl.Float64,
    "noise_percent": pl.Float64,
    "stopped": pl.String,
}


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add what says what was measured and what is sought, to be read by `read_search`."""
    add_tables(parser)
    parser.add_argument("--law", default="transfer", choices=list(LAWS), help="what is corrected (%(default)s)")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last that most runs share")
    add_flags(parser, "bounds", "objective", "run-tokens", "parameters")
    parser.add_argument("--asked", type=Path, nargs="?", help="JSON of parameters and tokens of a law over sizes")
    parser.add_argument("--distance", type=finite, default=DISTANCE, help="least distance from runs (%(default)s)")
    parser.add_argument(
        "--least",
        type=finite,
        default=0.0,
        help="no domain has less than this part of its share of --tokens, but for a bound --lower of its own (%(default)s)",
    )
    parser.add_argument("--noise", type=finite, help="of a run's log objective; else that of further seeds, if any")


def read_search(options: argparse.Namespace) -> Search:
    """The posterior of the runs, by the flags."""
    observed, chosen = read_chosen(options, asked_objective(options).domain_weights())
    observed, options.step = once(observed), chosen.step
    fitted = fit(options.law, observed)
    observed = defined(options.law, observed)
    if options.asked:
        fitted = asked_at(fitted, *read_size(options.asked))
    for sentence in (*observed.remarks, *fitted["warnings"]):
        print(f"warning: {sentence}", file=sys.stderr)
    sought = Sought.of(options, fitted, options.step)
    note_unlimited(sought.fitted, sought.pools, sought.run_tokens)
    named = read_numbers(options.lower) if options.lower else {}
    lower = with_least(sought.lower, sought.upper, observed.domains, options.least, sought.pools, named)
    noise, criterion = options.noise, Criterion("", weights=sought.objective.domain_weights())
    if noise is None and (known := noise_between(chosen.compared, criterion)):
        noise = known.deviation
    goal = sought.goal
    trained, left = whole(goal, observed), None
    if more := len(observed.mixtures) - len(trained.mixtures):
        # of an older corpus than a loss: the law's errors on the objective are not known of them
        print(f"warning: {more} runs lack a loss that counts: the law alone is fitted to them.", file=sys.stderr)
        left = left_out(fitted, observed, sought.step) if len(set(observed.mixtures)) >= FEWEST else None
    return Search(goal, fitted, trained, lower, sought.upper, noise, left, distance=options.distance)


def read_rules(options: argparse.Namespace, search: Search) -> Wanted:
    """The rules by hand of the run, without the least shares of proposals."""
    fitted, tokens = search.goal.fitted, read_tokens(options.tokens) if options.tokens else {}
    run_tokens = getattr(options, "epoch_tokens", None) or options.run_tokens
    run_tokens = asked_tokens(fitted, run_tokens, options.step, options.parameters)
    return Wanted.of(options, fitted, asked_objective(options).domain_weights(), tokens, run_tokens)


def by_hand(options: argparse.Namespace, search: Search) -> dict[str, np.ndarray]:
    """{name: shares (m,)} of rules by hand that hold the constraints: as measured, or by the law."""
    ran = dict(zip(search.seen.names, search.seen.shares, strict=True))
    rules = read_rules(options, search).every_rule(options.hand, options.max_epochs)
    rules = with_rules(ran, rules, reserved=True).items()
    broken = {name for name, miss in zip(search.seen.names, search.missed.tolist(), strict=True) if miss > HELD}
    return {name: one for name, one in rules if (name not in broken if name in ran else search.goal.holds(one))}


def rounds_table(search: Search, reports: Sequence[dict], hand: Collection[str]) -> pl.DataFrame:
    """A row for each mixture that was run, in round 0 those of the start, and one for the round
    before which the search ended, in the columns of ROUNDS.
    """
    levels = dict(zip(search.seen.names, np.exp(search.seen.levels).tolist(), strict=True))
    proposed = {one["mixture"] for report in reports for one in report["proposals"]}
    rows = [
        {"round": 0, "mixture": name, "voice": "by hand" if name in hand else "start", "measured": level}
        for name, level in levels.items()
        if name not in proposed and round_of(name) is None
    ]
    for number, report in enumerate(reports, start=1):
        left = {
            "round": number,
            # without a run that keeps the constraints a gain is no number
            "expected_gain_percent": 100 * report["expected_gain"] if not report.get("best_missed") else None,
            "noise_percent": 100 * (report["noise"] or USUAL_NOISE),
        }
        if report["stopped"]:
            rows.append(left | {"stopped": report["stopped"]})
            break
        for one in report["proposals"]:
            own = {key: one[key] for key in ("mixture", "voice", "promised")}
            own |= {"measured": levels.get(one["mixture"]), "deviation_percent": 100 * one["deviation"]}
            rows.append(left | own)
    return pl.DataFrame(rows, schema=ROUNDS)


def answer(search: Search, reports: Sequence[dict], hand: Mapping[str, np.ndarray]) -> list[str]:
    """The answer for a person, next to the best rule by `hand`."""
    names, best, noise = search.seen.names, search.best, search.noise or USUAL_NOISE
    posterior = float(np.exp(search.posterior(search.seen.shares[[best]])[0][0]))
    measured = f"measured {np.exp(search.seen.levels[best]):.4f}"
    said = [f"Answer: {names[best]}, {measured}, {posterior:.4f} by the law and all runs together."]
    if hand:
        over = over_hand(search, names[best], search.seen.shares[best], hand)
        said.append(f"{over[0].upper()}{over[1:]}.")
    if search.missed[best] > HELD:
        said.append("No run keeps all constraints; this one misses them least.")
    ran = sum(not report["stopped"] for report in reports)
    ended = next((report["stopped"] for report in reports if report["stopped"]), None)
    left = reports[-1]["expected_gain"]
    known = "" if search.noise is not None else " (taken: no mixture has a further seed)"
    more = "." if reports[-1].get("best_missed") else f"; the last expected {100 * left:.2g} % more."
    said.append(
        f"{len(set(names))} mixtures in {ran} round{'s' * (ran != 1)}; noise of a run of the search {100 * noise:.2g} %{known}. "
        + (f"It ended since {ended}" if ended else f"All rounds were run{more}")
    )
    return said
