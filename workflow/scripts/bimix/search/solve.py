"""The mixture that two tables prefer: laws fitted and scored, rules by hand, and what all runs and
the best of the laws believe of each.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.comparison import Comparison, compared
from bimix.judge.evidence import known_from, moved, noise_between, outside, promise, proxies_at, renamed
from bimix.judge.law_scores import COMPARISON
from bimix.judge.measured import Criterion, criterion_of
from bimix.judge.verdict import Promise, Verdict, trusted
from bimix.laws.fitted import at_run, fit
from bimix.observations.observations import Observations
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import asked_tokens
from bimix.optimum.goal import Goal
from bimix.optimum.intervals import LeftOut, intervals, left_out, objective_rows
from bimix.optimum.objective import objective_of
from bimix.optimum.optimum import best_shares
from bimix.plan.sources import SEARCHED, observed_rank
from bimix.search.by_hand import EPOCHS, Wanted
from bimix.search.posterior import Posterior, once, whole
from bimix.search.weighing import Believed, verdict, with_rules
from bimix.tables import read_numbers, read_tokens
from bimix.transfer.run import size_read

LEVEL = 0.9  # of intervals


@dataclass(frozen=True)
class Solved:
    """A law fitted to the runs, read at the requested run; bounds and optimum (m,)."""

    fitted: dict
    goal: Goal
    lower: np.ndarray
    upper: np.ndarray
    optimum: np.ndarray
    errors: LeftOut
    scores: pl.DataFrame  # of runs left out, as compare_laws.py writes them
    spans: pl.DataFrame  # in the columns of INTERVALS
    promise: Promise | None

    def shares(self) -> dict[str, float]:
        return dict(zip(self.fitted["domains"], self.optimum.tolist(), strict=True))


def solved(law: str, options: argparse.Namespace, observed: Observations, before: Mapping[str, float]) -> Solved:
    """A law with its optimum, errors and promise; `before` is the reference {domain: share}."""
    judging, step = criterion_of(options), options.step
    fitted = fit(law, observed)
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(fitted, options.run_tokens, step, options.parameters)
    fitted = at_run(fitted, options.parameters, run_tokens, tokens, step)
    reference = {name: share for name, share in before.items() if share > 0}
    kept = None if judging.kind == "weighted" else json.dumps(reference)
    objective = objective_of(options.objective, judging.weights, None, kept)
    limits = (read_numbers(given) if given else None for given in (options.lower, options.upper))
    weights = objective.domain_weights()
    lower, upper = run_bounds(fitted, step, *limits, options.max_epochs, tokens, run_tokens, weights)

    def find(one: dict) -> np.ndarray:
        return best_shares(one, step, objective, lower, upper, tokens)

    errors = left_out(fitted, observed, step, ahead=True)
    more = objective_rows(fitted, step, objective, find, errors, LEVEL, tokens)
    named = {judging.reference: np.array([before.get(name, 0.0) for name in fitted["domains"]])}
    spans = intervals(
        *(fitted, LEVEL, step, named, judging.reference, weights, lower, upper, errors, None), find=find, more=more
    )
    scores = left_out_scores(fitted, errors)
    goal = Goal(fitted, step, objective, tokens)
    promised = promise(fitted, law, "observed", spans, scores, judging)
    return Solved(fitted, goal, lower, upper, find(fitted), errors, scores, spans, promised)


def left_out_scores(fitted: dict, errors: LeftOut) -> pl.DataFrame:
    """Mean relative errors on runs left out, as compare_laws.py writes them."""
    relative = np.nanmean(np.abs(errors.predicted / errors.observed - 1), axis=0)
    rows = [
        (fitted["law"], "left_out_mre", name, float(one), len(fitted["mixtures"]), None, None)
        for name, one in zip(fitted["loss_domains"], relative, strict=True)
    ]
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


@dataclass(frozen=True)
class Answer:
    """The verdict on two tables, and what it rests on: mixtures are {domain: share}."""

    verdict: Verdict
    runs: Comparison | None  # at the step; None: there is none
    criterion: Criterion
    law: dict  # with the least error on runs left out
    size: float | None  # of the model that laws over sizes are read at
    promises: list[Promise]
    refused: list[tuple[str, str]]  # laws, and why
    ran: dict[str, dict[str, float]]
    optima: dict[str, dict[str, float]]  # by law
    called: dict[str, str]  # how a run is called that has the name of an optimum of other proportions
    shares: dict[str, dict[str, float]]  # of runs as they are called, and of rules by hand
    searched: tuple[str, ...]
    fits: dict[str, Solved]  # by law


def _comparable(losses: pl.DataFrame, judging: Criterion) -> pl.DataFrame:
    """The losses without reused runs that lack one that counts, as of text that came after them:
    laws are fitted to them, and they are compared with no other.
    """
    if "source" not in losses.columns:
        return losses
    count = (
        pl.col("domain").is_in([name for name, one in judging.weights.items() if one > 0]) if judging.weights else True
    )
    counted = losses.filter(count)
    own = counted.group_by("mixture").agg(pl.col("domain").n_unique().alias("own"))
    whole = own.filter(pl.col("own") == counted["domain"].n_unique())["mixture"].to_list()
    return losses.filter(pl.col("mixture").cast(pl.String).is_in(whole))


def solve_tables(options: argparse.Namespace, losses: pl.DataFrame, observed: Observations) -> Answer:
    """The answer of tidy losses. Errors: the reference was not run; no law could be fitted."""
    judging = criterion_of(options)
    shares = {
        name: dict(zip(observed.domains, own.tolist(), strict=True))
        for name, own in zip(observed.mixtures, observed.proportions, strict=True)
    }
    if judging.reference not in shares:
        raise InputError(f"--reference {judging.reference!r} is none of the mixtures: {', '.join(shares)}.")
    fits, refused = {}, []
    for law in options.laws:
        try:
            fits[law] = solved(law, options, observed, shares[judging.reference])
        except InputError as refusal:
            refused.append((law, str(refusal)))
    if not fits:
        raise InputError(f"no law could be fitted: {' '.join(f'{law}: {why}' for law, why in refused)}")
    promises = [one.promise for one in fits.values() if one.promise]
    best = trusted(promises)
    first = fits[best.law if best else next(iter(fits))]
    law, optima = first.fitted, {name: one.shares() for name, one in fits.items()}
    size = next((size_read(one.fitted) for one in fits.values()), None)
    called = moved(shares, optima)
    ran, shares = shares, {called.get(name, name): own for name, own in shares.items()}
    losses = _comparable(renamed(losses, called), judging)
    ranks = {name: observed_rank(name, own) for name, own in shares.items()}
    judging = replace(judging, reference=called.get(judging.reference, judging.reference))
    measured_at = proxies_at([losses], options.step, size)
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(law, options.run_tokens, options.step, options.parameters)
    forbidden = outside(shares, options, tokens, run_tokens)
    runs = measured_at and compared(measured_at, judging, known_from(losses, judging, promises), forbidden)
    wanted = Wanted.of(options, law, judging.weights, tokens, run_tokens)
    if options.hand:
        wanted.requested()
    arrays = {name: np.array([own[domain] for domain in law["domains"]]) for name, own in shares.items()}
    hand, believed = with_rules(arrays, wanted.every_rule(options.hand or EPOCHS, options.max_epochs)), None
    if first.promise is not None:
        noise, trained = noise_between(losses, judging), whole(first.goal, once(observed))
        limits = (first.lower, first.upper, noise and noise.deviation)
        posterior = Posterior(first.goal, law, trained, *limits, first.errors)
        believed = Believed(posterior, first.optimum, first.promise, arrays, hand)
    every = {name: dict(zip(law["domains"], own.tolist(), strict=True)) for name, own in hand.items()} | shares
    searched = tuple(name for name, one in ranks.items() if one >= SEARCHED)
    found = verdict(runs, runs, promises, ranks, believed)
    return Answer(found, runs, judging, law, size, promises, refused, ran, optima, called, every, searched, fits)
