"""Propose the next runs: mixtures, and sizes within a budget, that tell most of the law transfer.

Optional mixtures already run (mixture, domain, proportion), with their losses (mixture, step,
domain, loss) and a prior from text -> the next mixtures (mixture, domain, proportion, information,
pool) and runs (mixture, seed, model, parameters, tokens, flops, information)

What a run tells is told by the slopes of the law: at the fit to the losses, else where a fit starts
from. With losses one sentence on standard output says whether to go on or to stop.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.judge.evidence import noise_between
from bimix.judge.measured import Criterion
from bimix.laws.fitted import at_run, fit
from bimix.laws.transfer import own_domains
from bimix.mixtures.mixture import decimals
from bimix.observations.observations import proportions_of, read_observations
from bimix.observations.observed_flags import add_allowed
from bimix.observations.prior import offsets, read_gaps
from bimix.observations.wide import read_mixtures
from bimix.optimum.bounds import feasible_bounds, with_least
from bimix.optimum.flags import add_bounds, add_centre, add_run_tokens, centre_of, run_tokens_of
from bimix.optimum.goal import Goal
from bimix.optimum.optimum import target_weights
from bimix.optimum.report import add_objective, asked_objective
from bimix.outputs import write_table
from bimix.search.criterion import CRITERIA
from bimix.search.proposals import Done, Setting, knee, mixture_table, propose, run_table
from bimix.search.rounds import Search, advice
from bimix.search.sensitivity import fitted_numbers, guessed
from bimix.search.sizes import add_models, read_budget, read_large, read_models
from bimix.tables import read_numbers, read_table, read_tokens
from bimix.transfer.repetition import PUBLISHED_R, counted
from bimix.transfer.sized import form_of

LEAST_RUNS = 3  # of which one can be left out
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
    parser.add_argument("--prior", nargs="?", type=Path, help="who speaks like whom (domain, under, nats)")
    parser.add_argument(
        "--count",
        type=int,
        help="mixtures to propose, at most; where no run was repeated, one of them is to be run again with another seed",
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
    parser.add_argument("--criterion", choices=CRITERIA, default="I", help="I: predictions, D: coefficients")
    parser.add_argument("--floor", type=float, default=0.0, help="proportions below count as this")
    parser.add_argument("--seed", required=True, type=int, help="of the candidates, and of the draws of the law")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last of the losses")
    add_bounds(parser)
    add_objective(parser)
    add_centre(parser)
    add_run_tokens(parser)
    parser.add_argument(
        "--match-epochs",
        action="store_true",
        help="small runs have smaller pools, so that they repeat as the large one",
    )
    parser.add_argument("--out", type=Path, required=True, help="the mixtures, csv or parquet")
    parser.add_argument("--runs", type=Path, help="the runs, csv or parquet")
    add_allowed(parser)
    options = parser.parse_args(argv)
    _refuse(options)

    tokens = read_tokens(options.tokens) if options.tokens else None
    objective = asked_objective(options)
    weights = objective.domain_weights()
    models = tuple(read_models(options.models, options.offered)) if options.models else ()
    large = read_large(options.large, options.models) if options.large else None
    run_tokens = options.run_tokens or (large and large.tokens)
    domains, loss_domains, observed, fitted = _told(options, tokens)
    if fitted is not None and "rows" not in fitted:
        # As the optimum has it: a step and the tokens of one say how long the run is.
        run_tokens = run_tokens_of(fitted, run_tokens, _step(options, fitted))
    bounds = _bounds(options, domains, tokens, run_tokens)
    own = np.array([domains.index(name) if name in domains else -1 for name in loss_domains])
    names = {"loss_domains": list(loss_domains)}
    form = None
    if fitted is None:
        gaps = read_gaps(options.prior, domains, loss_domains) if options.prior else None
        at = guessed(len(domains), own, offsets(gaps))
    else:
        at, form = fitted_numbers(fitted, own_domains(observed)), form_of(fitted["coefficients"])
    done = _done(options, domains, observed, form)
    asked = Setting(
        domains,
        *bounds,
        options.criterion,
        target_weights(names, weights),
        options.seed,
        options.count,
        np.inf if options.budget is None else read_budget(options.budget, large),
        models,
        large,
        None if tokens is None else np.array([tokens.get(name, np.inf) for name in domains]),
        run_tokens,
        options.match_epochs,
        options.floor,
        PUBLISHED_R if form is None else form.R,
    )
    noise = None
    if options.losses and (known := noise_between(read_table(options.losses), Criterion("", weights=weights))):
        noise = known.deviation
    print(f"choosing among mixtures of {len(domains)} domains ...", file=sys.stderr)
    proposed, ladder = propose(at, done, asked, noise is None)
    proposed = [replace(one, shares=rounded(one.shares)) if one.new else one for one in proposed]
    write_table(mixture_table(proposed, domains), options.out)
    if options.runs:
        write_table(run_table(proposed), options.runs)
    _say(proposed, asked)
    if ladder:
        print("\n".join(ladder_lines(ladder, asked, len(done.mixtures), options.flops_per_second)))
    if fitted is not None:
        print(_advice(options, fitted, observed, asked, objective, tokens, noise))


def _step(options, fitted) -> int:
    return fitted["steps"][-1] if options.step is None else options.step


def _refuse(options) -> None:
    """Flags that belong together."""
    if options.mixtures is None and options.tokens is None:
        raise InputError("neither --mixtures nor --tokens is given: one of them names the domains.")
    for flag, needed in (("losses", "mixtures"), ("budget", "models"), ("models", "runs"), ("offered", "models")):
        if getattr(options, flag) and not getattr(options, needed):
            raise InputError(f"--{flag} needs --{needed}.")
    if options.count is not None and options.count < 1:
        raise InputError(f"--count is {options.count}: it must be 1 or more.")


def _told(options, tokens):
    """Domains, loss domains, and where there are losses the observations with the law fitted to
    them.
    """
    if options.losses:
        observed = read_observations(options.losses, options.mixtures, options.prior, options.allow_unmeasured)
        return observed.domains, observed.loss_domains, observed, fit("transfer", observed)
    if options.mixtures is None:
        domains = tuple(sorted(tokens))
        return domains, domains, None, None
    domains = tuple(sorted(read_mixtures(options.mixtures).names("domain")))
    return domains, domains, None, None


def _bounds(options, domains, tokens, run_tokens):
    epochs = options.max_epochs
    if epochs not in (None, np.inf) and (tokens is None or run_tokens is None):
        raise InputError(
            "--max-epochs needs --tokens, and the tokens of the large run: --run-tokens, --large, or losses with tokens."
        )
    lower, upper = (text and read_numbers(text) for text in (options.lower, options.upper))
    low, high = feasible_bounds(domains, lower, upper, epochs, tokens, run_tokens)
    return with_least(low, high, domains, options.least, tokens, lower), high


def rounded(shares: np.ndarray) -> np.ndarray:
    """Shares (m,) in ten thousandths, as a person would write them; they sum to 1."""
    kept = decimals({j: float(one) for j, one in enumerate(shares) if one >= 5e-5}, 4)
    return np.array([kept.get(j, 0.0) for j in range(len(shares))])


def ladder_lines(ladder, asked, done: int, flops_per_second: float) -> list[str]:
    """The ladder for a person, and the rung to take."""
    large = asked.large.flops if asked.large else None
    head = f"{'runs':>6} {'of the large run':>17} {'GPU hours':>10} {'information':>12} {'expected regret':>16}"
    lines = [head]
    for rung in ladder:
        share = "-" if large is None else f"{100 * rung.flops / large:.2g} %"
        hours = rung.flops / flops_per_second / 3600
        lines.append(
            f"{rung.runs:>6} {share:>17} {hours:>10,.3g} {rung.information:>12.2f} {100 * rung.regret:>14.2g} %"
        )
    chosen, last = knee(ladder, done), ladder[-1]
    return [
        *lines,
        f"{chosen.runs} runs are proposed: {last.runs} would lower the expected regret from {100 * chosen.regret:.2g} to"
        f" {100 * last.regret:.2g} %, for {last.flops / chosen.flops:.2g} times the FLOPs. --count takes another number.",
        "The regret is of the law as it is known before these runs; one that misfits loses more.",
    ]


def _done(options, domains, observed, form) -> Done:
    """The runs that are done; of mixtures without losses one each, of unknown size."""
    if observed is not None:
        shares = observed.proportions
        per_share = None if observed.pools is None else observed.tokens[:, None] / observed.pools
        own = shares if per_share is None else counted(shares, per_share, PUBLISHED_R if form is None else form.R)[0]
        return Done(observed.mixtures, shares, own, observed.parameters)
    if options.mixtures is None:
        return Done()
    names, shares = proportions_of(read_mixtures(options.mixtures).table, domains, str(options.mixtures))
    return Done(names, shares, shares)


def _say(proposed, asked) -> None:
    repeated = [one.mixture for one in proposed if one.seed > 1]
    print(
        f"{len(proposed)} runs of {len({one.mixture for one in proposed})} mixtures by {asked.criterion}-optimality"
        + (f": {repeated[0]} with two seeds, which tell the noise of a run." if repeated else ".")
    )
    if asked.models:
        spent = sum(one.model.flops for one in proposed)
        sizes = pl.Series([one.model.name for one in proposed]).value_counts().sort("count", descending=True)
        parts = ", ".join(f"{count} of {name}" for name, count in sizes.iter_rows())
        of = f" of {asked.budget:.3g}" if np.isfinite(asked.budget) else ""
        print(f"{spent:.3g} FLOPs{of}: {parts}.")


def _advice(options, fitted, observed, asked, objective, tokens, noise) -> str:
    """Whether to go on, by what is left to gain for the large run."""
    mixtures = len(set(observed.mixtures))
    if mixtures < LEAST_RUNS:
        return f"Go on: {mixtures} mixtures are too few to say what more may gain."
    step = _step(options, fitted)
    sized = "size" in next(iter(fitted["coefficients"].values()))
    parameters = asked.large.parameters if sized and asked.large else None
    large = at_run(fitted, parameters, asked.run_tokens, tokens, step)
    goal = Goal(large, step, objective, centre_of(options, tokens))
    return advice(Search(goal, fitted, observed, asked.lower, asked.upper, noise), len(observed.mixtures))


if __name__ == "__main__":
    sys.exit(run(main))
