"""The mixture that two tables prefer: laws, rules by hand, and what all runs say of each."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.comparison import compared
from bimix.judge.evidence import (
    known_from,
    moved,
    noise_between,
    outside,
    promise,
    proxies_at,
    ranks_of,
    renamed,
    roles_of,
)
from bimix.judge.facts import Evidence, Fit
from bimix.judge.measured import Criterion, criterion_of
from bimix.judge.verdict import trusted
from bimix.laws.fitted import defined, fit
from bimix.laws.table import LAWS
from bimix.mixtures.names import SEARCHED
from bimix.observations.chosen import LEAST, Chosen
from bimix.observations.observations import Observations
from bimix.observations.tables import few
from bimix.optimum.flags import note_unlimited
from bimix.optimum.intervals import LeftOut, intervals, left_out
from bimix.optimum.optimum import Sought
from bimix.search.by_hand import EPOCHS, Wanted
from bimix.search.posterior import Posterior, once, whole
from bimix.search.weighing import Believed, verdict, with_rules
from bimix.transfer.run import size_read

LEVEL = 0.9  # of intervals
GROUPS = 8  # of runs left out of laws of single steps
# Runs x domains x losses from which on such laws, of some seconds each, are fitted only where named alone.
MUCH = 3000


@dataclass(frozen=True)
class Solved(Fit):
    """A law fitted to runs and read at the requested run."""

    observed: Observations  # that it was fitted to
    errors: LeftOut
    spans: pl.DataFrame  # in the columns of INTERVALS


def solved(
    law: str, asked: argparse.Namespace, judging: Criterion, observed: Observations, before: Mapping[str, float]
) -> Solved:
    """A law with its optimum, errors and promise; `before` is the reference {domain: share}.

    A law of single steps is fitted to the requested one alone, and its runs are left out in at most
    GROUPS groups, since each fit takes tens of milliseconds for each loss.
    """
    quick = LAWS[law].over_steps
    if not quick and asked.step in observed.steps:
        at = observed.steps == asked.step
        observed = replace(observed, steps=observed.steps[at], losses=observed.losses[:, at])
    fitted = fit(law, observed)
    observed = defined(law, observed)
    sought = Sought.of(asked, fitted, asked.step)
    fitted = sought.fitted
    errors = left_out(fitted, observed, sought.step, ahead=True, most=None if quick else GROUPS)
    named = {judging.reference: np.array([before.get(name, 0.0) for name in fitted["domains"]])}
    spans = intervals(sought, LEVEL, named, judging.reference, errors)
    relative = np.nanmean(np.abs(errors.predicted / errors.observed - 1), axis=0).tolist()
    left_out_errors = dict(zip(fitted["loss_domains"], relative, strict=True))
    promised = promise(fitted, law, "observed", spans, left_out_errors, judging)
    optimum = dict(zip(fitted["domains"], sought.optimum.tolist(), strict=True))
    return Solved(sought, optimum, promised, observed, errors, spans)


@dataclass(frozen=True)
class Answer:
    """The verdict on two tables with what it rests on, and the flags, with the reference as a mixture.

    `ran`: the runs as they are called in the tables; `called` {name: another} where they have the name of an
    optimum of other proportions.
    """

    evidence: Evidence
    asked: argparse.Namespace
    ran: dict[str, dict[str, float]]
    called: dict[str, str]


def solve_tables(options: argparse.Namespace, chosen: Chosen, observed: Observations) -> Answer:
    """The answer of the runs chosen, which are `observed`. Errors: fewer than LEAST mixtures; the
    reference was not run, or is not compared; no law could be fitted.
    """
    judging, domains = criterion_of(options), observed.domains
    if (mixtures := len(np.unique(observed.proportions.round(6), axis=0))) < LEAST:
        raise InputError(f"the runs have {mixtures} mixtures that differ: a law and its errors need {LEAST} or more.")
    ran = {
        name: dict(zip(domains, own.tolist(), strict=True))
        for name, own in zip(observed.mixtures, observed.proportions, strict=True)
    }
    if judging.reference not in chosen.mixtures or judging.reference not in ran:
        raise InputError(
            f"--reference {judging.reference!r} is no mixture that has every loss that counts at step {chosen.step:,} (with"
            f" several sizes, at that of the comparison): name another, as {few(chosen.mixtures)}, or another --step."
        )
    before = ran[judging.reference]
    kept = None if judging.kind == "weighted" else json.dumps({name: one for name, one in before.items() if one > 0})
    asked = argparse.Namespace(**vars(options) | {"reference": kept})
    fits, refused = _fits(asked, judging, observed, before)
    optima = {name: one.optimum for name, one in fits.items()}
    called = moved(ran, optima)
    shares = {called.get(name, name): own for name, own in ran.items()}
    losses = renamed(chosen.compared, called)
    judging = replace(judging, reference=called.get(judging.reference, judging.reference))
    first = next(iter(fits.values()))
    sought, promises = first.sought, [one.promise for one in fits.values() if one.promise]
    note_unlimited(sought.fitted, sought.pools, sought.run_tokens)
    measured_at = proxies_at([losses], options.step, size_read(sought.fitted))
    forbidden = outside(shares, options, sought.pools, sought.run_tokens)
    runs = measured_at and compared(measured_at, judging, known_from(losses, judging, promises), forbidden)
    wanted = Wanted.of(options, sought.fitted, judging.weights, sought.pools, sought.run_tokens)
    if options.hand:
        wanted.requested()
    arrays = {name: np.array(list(own.values())) for name, own in shares.items()}
    hand, believed = with_rules(arrays, wanted.every_rule(options.hand or EPOCHS, options.max_epochs)), None
    if first.promise is not None:
        noise, trained = noise_between(losses, judging), whole(sought.goal, once(first.observed))
        limits = (sought.lower, sought.upper, noise and noise.deviation)
        posterior = Posterior(sought.goal, sought.fitted, trained, *limits, first.errors)
        fitted = {called.get(name, name) for name in first.observed.mixtures}
        known = {name: one for name, one in arrays.items() if name in fitted}
        optimum = np.array(list(first.optimum.values()))
        believed = Believed(posterior, optimum, first.promise, known, hand)
    known = optima | {name: dict(zip(domains, own.tolist(), strict=True)) for name, own in hand.items()} | shares
    roles = roles_of(known, sought.pools or {})
    ranks = ranks_of(shares, roles)
    searched = tuple(name for name, one in ranks.items() if one >= SEARCHED)
    found = verdict(runs, runs, promises, ranks, believed)
    evidence = Evidence(
        dataset=options.losses.stem,
        reference=judging.reference,
        verdict=found,
        target=runs,
        shares=known,
        fits=fits,
        trained=len(ran),
        roles=roles,
        searched=searched,
        pools=sought.pools or {},
        run_tokens=sought.run_tokens,
        refused=refused,
    )
    return Answer(evidence, asked, ran, called)


def _fits(
    asked: argparse.Namespace, judging: Criterion, observed: Observations, before: Mapping[str, float]
) -> tuple[dict[str, Solved], list[tuple[str, str]]]:
    """The laws, that with the least error first, and the others with why not. Errors: none is."""
    fits, refused = {}, []
    laws, work = list(asked.laws), observed.proportions.size * len(observed.loss_domains)
    if work > MUCH:
        quick = [law for law in laws if LAWS[law].over_steps]
        laws = quick or laws[:1]
        why = f"left out, as its fits to {work:,} runs x domains x losses take long; name it alone by --laws"
        refused = [(law, why) for law in asked.laws if law not in laws]
    for law in laws:
        try:
            fits[law] = solved(law, asked, judging, observed, before)
        except InputError as refusal:
            refused.append((law, str(refusal)))
    if not fits:
        raise InputError(f"no law could be fitted: {' '.join(f'{law}: {why}' for law, why in refused)}")
    best = trusted([one.promise for one in fits.values() if one.promise])
    return dict(sorted(fits.items(), key=lambda one: best is not None and one[0] != best.law)), refused
