"""Propose the mixtures to run next in a search by rounds, best first.

losses, mixtures (tidy), optional prior, objective and bounds -> next.csv (mixture, domain,
proportion); with --candidates one of these that was not measured. Prints what is promised, and the
gain that is expected of one more run; with --report the same as JSON
"""

import argparse
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.laws import LAWS, at_run, fit
from bimix.mixtures.mixture import as_mixture
from bimix.observations.observations import Observations, proportions_of, read_observations
from bimix.observations.observed_flags import add_allowed
from bimix.optimum.bounds import run_bounds, with_least
from bimix.optimum.flags import add_bounds, add_parameters, add_run_tokens, asked_tokens
from bimix.optimum.goal import Goal
from bimix.optimum.optimum import target_weights
from bimix.optimum.report import add_objective, asked_objective
from bimix.outputs import write_json, write_table
from bimix.search.kriging import USUAL_NOISE
from bimix.search.regret import noise_of_average
from bimix.search.rounds import DISTANCE, Ended, Search
from bimix.tables import read_json, read_numbers, read_table, read_tokens

NAMED = re.compile(r"round(\d+)")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_search(parser)
    parser.add_argument("--candidates", type=Path, help="mixtures to choose among: mixture, domain, proportion")
    parser.add_argument("--count", type=int, default=1, help="mixtures to propose (%(default)s)")
    parser.add_argument(
        "--round", type=int, help="from 1; among candidates the law proposes first in odd ones, the shares in even ones;"
        " without it the number of runs says it"
    )  # fmt: skip
    parser.add_argument(
        "--reports",
        type=Path,
        nargs="*",
        default=[],
        help="of the rounds before: where the search has ended, the last round's mixtures are proposed again",
    )
    parser.add_argument("--out", type=Path, required=True, help="next.csv or .parquet")
    parser.add_argument("--report", type=Path, help="JSON of what is expected of each")
    options = parser.parse_args(argv)
    if options.count < 1:
        raise InputError(f"--count is {options.count}: it must be 1 or more.")
    if options.reports and options.round != len(options.reports) + 1:
        raise InputError(f"--reports are of {len(options.reports)} rounds: --round must be the next one.")

    search, noise = read_search(options)
    before = [read_json(path) for path in options.reports]
    names, candidates = _candidates(options, search)
    # Among candidates both voices take turns over rounds; where anything may be run, the law goes
    # first in each: near the best runs the shares say little that these do not.
    turn = 0 if candidates is None else (options.round or len(set(search.seen.names))) - 1
    found, others, ended = [], np.zeros((0, len(search.lower))), None
    try:
        for number in range(options.count):
            found.append(search.next(turn + number, candidates, others))
            others = np.concatenate([others, found[-1].shares[None]])
    except Ended as error:
        if not before:
            raise
        ended = str(error)
    known = [int(one[1]) for one in map(NAMED.fullmatch, search.seen.names) if one]
    first = options.round or max(known, default=0) + 1
    if names is not None:
        named = [names[one.candidate] for one in found]
    elif options.round:
        named = [f"round{first}" + (f"_{place}" if place > 1 else "") for place in range(1, options.count + 1)]
    else:
        named = [f"round{first + number}" for number in range(options.count)]
    best = search.best
    report = {
        "best": search.seen.names[best],
        "best_measured": float(np.exp(search.seen.levels[best])),
        "best_posterior": float(np.exp(search.posterior(search.seen.shares[[best]])[0][0])),
        "noise": noise,
        "left_out": search.law.left,
        "expected_gain": max((one.gain for one in found), default=0.0),
        "proposals": [
            {
                "mixture": name,
                "voice": one.voice,
                "promised": float(np.exp(one.promised)),
                "deviation": one.deviation,
                "expected_gain": one.gain,
            }
            for name, one in zip(named, found, strict=False)
        ],
    }
    report["stopped"] = stopped([*before, report], ended)
    if report["stopped"]:
        again = [f"round{first - 1}{name.removeprefix(f'round{first}')}" for name in named]
        listed, table = proportions_of(read_table(options.mixtures), search.observed.domains, str(options.mixtures))
        shares = table[[listed.index(name) for name in again]]
        report["proposals"] = []
    else:
        shares = others
    given = names is not None
    write_table(mixture_table(named, shares, search.observed.domains, given), options.out)
    if options.report:
        write_json(options.report, report)
    print("\n".join(sentences(report)))


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add what says what was measured and what is sought, to be read by `read_search`."""
    parser.add_argument("--losses", type=Path, required=True, help="mixture, step, domain, loss of the runs")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion of the runs")
    parser.add_argument("--prior", type=Path, nargs="?", help="cross_entropy.csv, for the law transfer")
    parser.add_argument("--law", default="transfer", choices=list(LAWS), help="what is corrected (%(default)s)")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last of the losses")
    add_bounds(parser)
    add_objective(parser)
    add_run_tokens(parser)
    add_parameters(parser)
    add_allowed(parser)
    parser.add_argument(
        "--distance", type=float, default=DISTANCE, help="total variation from all runs, at least (%(default)s)"
    )
    parser.add_argument(
        "--least",
        type=float,
        default=0.0,
        help="no domain has less than this part of its share of --tokens, but for a bound --lower of its own (%(default)s)",
    )
    parser.add_argument(
        "--noise", type=float, help="of a run's log objective; without it that of repeated seeds, if any"
    )


def stopped(reports: list[dict], ended: str | None) -> str | None:
    """Why the search has ended before the round of the last report; None: it has not."""
    *before, now = reports
    for one in before:
        if one["stopped"]:
            return one["stopped"]
    if ended:
        return ended
    noise = now["noise"] or USUAL_NOISE
    gains = [one["expected_gain"] for one in reports[-2:]]
    if before and max(gains) < noise:
        return (
            f"two rounds expected gains of {100 * gains[0]:.2g} and {100 * gains[1]:.2g} %, less than the noise of a run,"
            f" {100 * noise:.2g} %."
        )
    return None


def read_search(options: argparse.Namespace) -> tuple[Search, float | None]:
    """What the runs say, by the flags; and the noise of a run where it is known."""
    observed = once(read_observations(options.losses, options.mixtures, options.prior, options.allow_unmeasured))
    fitted = fit(options.law, observed)
    for sentence in (*observed.remarks, *fitted["warnings"]):
        print(f"warning: {sentence}", file=sys.stderr)
    step = fitted["steps"][-1] if options.step is None else options.step
    objective = asked_objective(options)
    weights = objective.domain_weights()
    objective.target(fitted)  # names that are not known are refused before anything is read at the run
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(fitted, options.run_tokens, step, options.parameters)
    asked = at_run(fitted, options.parameters, run_tokens, tokens, step)
    limits = (options.lower and read_numbers(options.lower), options.upper and read_numbers(options.upper))
    lower, upper = run_bounds(asked, step, *limits, options.max_epochs, tokens, run_tokens, weights)
    lower = with_least(lower, upper, observed.domains, options.least, tokens, limits[0] or {})
    noise = options.noise
    if noise is None:
        target = dict(zip(fitted["loss_domains"], target_weights(fitted, weights).tolist(), strict=True))
        noise = noise_of_average(read_table(options.losses), str(options.losses), list(observed.domains), target)
    goal = Goal(asked, step, objective, tokens)
    return Search(goal, fitted, observed, lower, upper, noise, options.distance), noise


def once(observed: Observations) -> Observations:
    """The runs without those that are another again: two names of one mixture are one training."""
    keys = [
        (row.tobytes(), losses.tobytes()) for row, losses in zip(observed.proportions, observed.losses, strict=True)
    ]
    return observed.take([row for row, key in enumerate(keys) if keys.index(key) == row])


def _candidates(options, search) -> tuple[tuple[str, ...] | None, np.ndarray | None]:
    """Names and shares of the candidates that were not measured. Errors: none is left."""
    if options.candidates is None:
        return None, None
    names, shares = proportions_of(read_table(options.candidates), search.observed.domains, str(options.candidates))
    rows = [row for row, name in enumerate(names) if name not in search.seen.names]
    if not rows:
        raise InputError(
            f"{options.candidates}: all of its {len(names)} mixtures were measured: none is left to propose."
        )
    return tuple(names[row] for row in rows), shares[rows]


def mixture_table(names, shares: np.ndarray, domains, given: bool) -> pl.DataFrame:
    """mixture, domain, proportion; a candidate as it was given, what was found with six
    decimals.
    """
    rows = [
        (name, domain, share)
        for name, one in zip(names, shares, strict=True)
        for domain, share in (
            zip(domains, one.tolist(), strict=True) if given else as_mixture(domains, one).document().items()
        )
    ]
    return pl.DataFrame(
        rows, schema={"mixture": pl.String, "domain": pl.String, "proportion": pl.Float64}, orient="row"
    )


def sentences(report: dict) -> list[str]:
    """What a person reads of a round."""
    noise = report["noise"]
    said = [
        f"best of the runs: {report['best']}, {report['best_measured']:.4f} measured,"
        f" {report['best_posterior']:.4f} by the law and all runs together"
    ]
    for one in report["proposals"]:
        said.append(
            f"next: {one['mixture']}, proposed by the {one['voice']}: promised {one['promised']:.4f}"
            f" +- {100 * one['deviation']:.2g} %, expected gain {100 * one['expected_gain']:.2g} %"
        )
    beside = f"{100 * noise:.2g} %" if noise is not None else f"not known, {100 * USUAL_NOISE:.2g} % is taken"
    left = report["expected_gain"]
    verdict = "below it: stop after two such rounds" if left < (noise or USUAL_NOISE) else "above it: go on"
    said.append(f"expected gain left {100 * left:.2g} %; noise of a run {beside}; {verdict}")
    return [*said, f"The search has ended: {report['stopped']}"] if report["stopped"] else said


if __name__ == "__main__":
    sys.exit(run(main))
