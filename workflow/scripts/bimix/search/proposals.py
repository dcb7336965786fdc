"""The runs to make next: mixtures and sizes that are most informative for the law within a budget,
and one of them twice where the noise of a run is not known.
"""

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.mixtures.mixture import decimals
from bimix.search import design
from bimix.search.design import candidates
from bimix.search.sensitivity import slopes
from bimix.search.setting import Setting
from bimix.search.sizes import Model, at_sizes, known_at_sizes

NAMED = re.compile(r"proposed_(\d+)")
RUNGS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of the ladder of a budget
MOST = RUNGS[-1]
LEAST_RUNS = 12  # below, a law that fits well may fit by chance
DECIDED, REGRET_DRAWS = 400, 40  # mixtures and draws of the law, for the regret of a rung
SMALL = 1e-4  # of a regret, or a difference of two, that decides nothing
FURTHEST = 100.0  # errors of a run that a drawn law is off at a mixture, at most


@dataclass(frozen=True)
class Proposed:
    """A run to make: of a mixture that may be known already, at a size, with a seed from 1."""

    mixture: str
    shares: np.ndarray
    new: bool  # whether the mixture is none of those done
    model: Model | None
    pools: np.ndarray | None  # (m,)
    seed: int
    information: float


@dataclass(frozen=True)
class Rung:
    """So many runs: FLOPs, what is known after them, and the pick's expected regret in nats."""

    runs: int
    flops: float
    information: float
    regret: float


def propose(asked: Setting) -> tuple[list[Proposed], list[Rung]]:
    """The runs to make next, in the order in which they were picked; where the noise of a run is
    not known, the last is one of them with another seed. Without a count: as many as the `knee` of
    the ladder of rungs, which is empty with one.

    Errors: a budget in which no run fits; without a budget several sizes, or no count.
    """
    models, done = asked.offered, asked.done
    if len(models) > 1 and not np.isfinite(asked.budget):
        raise InputError("--models has several sizes, and without --budget the largest would always win: name one.")
    if asked.count is None and not np.isfinite(asked.budget):
        raise InputError("neither --count nor --budget says how many runs are to be proposed: give one of them.")
    costs = np.array([1.0 if one is None else one.flops for one in models])
    if costs.min() > asked.budget:
        raise InputError(
            f"the budget of {asked.budget:.3g} FLOPs holds no run: the cheapest model, {models[int(costs.argmin())].name}, takes"
            f" {costs.min():.3g}; raise it, or offer a smaller model."
        )
    fresh = candidates(asked.centre(), asked.lower, asked.upper, asked.seed)
    names = list(dict.fromkeys(done.mixtures))
    first = [done.mixtures.index(name) for name in names]
    shares = np.concatenate([done.shares[first], fresh])
    sizes, of_done = _sizes(asked)
    offer = _offer(asked, len(sizes), of_done, shares, names, costs)
    aim = _aim(asked, sizes, of_done, fresh)
    linked = frozenset(range(len(names)))
    # The run that is made again is paid before the others, where two fit.
    twice = asked.noise is None and 2 * costs.min() <= asked.budget * (1 + 1e-12)
    left = asked.budget - costs.min() * twice
    ladder: list[Rung] = []
    if asked.count is None:
        chosen = design.choose(offer, aim, left, MOST, linked, exchange=False)
        ladder = _ladder(asked, offer, aim, chosen, fresh[:DECIDED], len(sizes))
        chosen = design.exchanged(offer, aim, chosen[: knee(ladder, len(done.mixtures)).runs], linked)
    else:
        chosen = design.choose(offer, aim, left, asked.count, linked)
    if twice and chosen:
        chosen.append(design.repeated(offer, aim, chosen))
    return _named(offer, aim, chosen, shares, names, asked), ladder


def knee(ladder: Sequence[Rung], done: int = 0) -> Rung:
    """The rung after which more runs gain least for their cost: the farthest below the line from
    the first to the last, regret by FLOPs. With those that are `done` at least 12 runs, where the
    ladder has them.
    """
    first, last = ladder[0], ladder[-1]
    enough = [rung for rung in ladder if rung.runs + done >= LEAST_RUNS] or [last]
    if first.regret <= last.regret or first.flops >= last.flops:
        return enough[0]

    def below(rung: Rung) -> float:
        spent = (rung.flops - first.flops) / (last.flops - first.flops)
        return (first.regret - rung.regret) / (first.regret - last.regret) - spent

    return max(enough, key=below)


def _ladder(asked, offer, aim, chosen, decided, groups) -> list[Rung]:
    """The rungs of a growing number of the runs chosen."""
    counts = [*(count for count in RUNGS if count < len(chosen)), len(chosen)]
    known = design.informations(offer, aim, chosen)
    counting = asked.counting_of_large(decided)
    of_large, levels = at_sizes(asked.at, counting, None, groups), slopes(asked.at, counting)[0]
    draws = np.random.default_rng(asked.seed).standard_normal((REGRET_DRAWS, *aim.precision.shape[:2]))
    rungs, precision, last = [], aim.precision, 0
    for count in counts:
        precision = precision + design.outer(offer.slopes[chosen[last:count]])
        last = count
        # A precision L L' has draws L^-T z, in units of a run's error.
        factors = np.linalg.cholesky(precision).transpose(0, 2, 1)
        moves = np.stack([np.linalg.solve(factors, one[:, :, None])[:, :, 0] for one in draws])
        moved = np.sqrt(asked.at.ridge) * np.clip(np.einsum("ndp,sdp->snd", of_large, moves), -FURTHEST, FURTHEST)
        losses = np.exp(levels + moved) @ aim.weights
        pick = int((np.exp(levels) @ aim.weights).argmin())
        regret = float((np.log(losses[:, pick]) - np.log(losses.min(axis=1))).mean())
        rungs.append(Rung(count, float(offer.cost[chosen[:count]].sum()), known[count - 1], regret))
    return rungs


def _sizes(asked: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Parameters (groups,) of the groups of runs of one size, those offered first, then those that
    only done runs have; and the group (n,) of each run that is done.
    """
    own, done = [1.0 if one is None else one.parameters for one in asked.offered], asked.done
    there = [own[0]] * len(done.mixtures) if done.parameters is None else done.parameters.tolist()
    every = own + sorted(set(there) - set(own))
    return np.array(every), np.array([every.index(one) for one in there], dtype=int)


def _offer(asked, groups, of_done, shares, names, costs) -> design.Offer:
    """Fresh mixtures at every size, and done ones at the sizes at which they were not run."""
    slopes, mixture, size = [], [], []
    for number, one in enumerate(asked.offered):
        there = {name for name, group in zip(asked.done.mixtures, of_done, strict=True) if group == number}
        rows = [row for row in range(len(shares)) if row >= len(names) or names[row] not in there]
        tokens = None if one is None else one.tokens
        own = asked.counting(shares[rows], tokens, asked.pools_of(one))
        group = np.full(len(rows), number)
        slopes.append(at_sizes(asked.at, own, group, groups))
        mixture.append(np.array(rows))
        size.append(group)
    group = np.concatenate(size)
    return design.Offer(np.concatenate(slopes), np.concatenate(mixture), group, costs[group])


def _aim(asked, sizes, of_done, fresh) -> design.Aim:
    decided = design.wanted(at_sizes(asked.at, asked.counting_of_large(fresh), None, len(sizes)))
    large = asked.large.parameters if asked.large else sizes[: len(asked.offered)].max()
    before = known_at_sizes(asked.at, sizes, large)
    made = design.outer(at_sizes(asked.at, asked.done.counted, of_done, len(sizes)))
    return design.Aim(before + made, decided, asked.weights / asked.weights.sum())


def _named(offer, aim, chosen, shares, names, asked) -> list[Proposed]:
    """The runs with names that no mixture has yet.

    Where each size has pools of its own, a mixture has a name at each size.
    """
    number = last_number(names)
    known: dict[tuple, str] = {}
    runs: list[Proposed] = []
    apart = asked.match_epochs and asked.pools is not None
    for row, information in zip(chosen, design.informations(offer, aim, chosen), strict=True):
        mixture, model = int(offer.mixture[row]), asked.offered[offer.size[row]]
        new = mixture >= len(names) or apart
        key = (mixture, int(offer.size[row]) if apart else None)
        if key not in known and new:
            number += 1
            known[key] = f"proposed_{number:03d}"
        name = known[key] if new else names[mixture]
        seed = 1 + sum(one.mixture == name and one.model == model for one in runs)
        own = rounded(shares[mixture]) if mixture >= len(names) else shares[mixture]
        runs.append(Proposed(name, own, new, model, asked.pools_of(model), seed, information))
    return runs


def last_number(names: Sequence[str]) -> int:
    """That of the last mixture that was proposed before."""
    return max((int(found[1]) for found in map(NAMED.fullmatch, names) if found), default=0)


def rounded(shares: np.ndarray) -> np.ndarray:
    """Shares (m,) in ten thousandths, as a person would write them; they sum to 1."""
    kept = decimals({j: float(one) for j, one in enumerate(shares) if one >= 5e-5}, 4)
    return np.array([kept.get(j, 0.0) for j in range(len(shares))])


def mixture_table(runs: Sequence[Proposed], domains: Sequence[str]) -> pl.DataFrame:
    """mixture, domain, proportion, information, pool if known: a row a domain of a new mixture."""
    rows, seen = [], set()
    for one in runs:
        if one.new and one.mixture not in seen:
            seen.add(one.mixture)
            for j, domain in enumerate(domains):
                pool = () if one.pools is None else (None if np.isinf(one.pools[j]) else float(one.pools[j]),)
                rows.append((one.mixture, domain, float(one.shares[j]), one.information, *pool))
    schema = {"mixture": pl.String, "domain": pl.String, "proportion": pl.Float64, "information": pl.Float64}
    if runs and runs[0].pools is not None:
        schema["pool"] = pl.Float64
    return pl.DataFrame(rows, schema=schema, orient="row")


def run_table(runs: Sequence[Proposed]) -> pl.DataFrame:
    """mixture, seed, model, parameters, tokens, flops, information: one row for a run, in order."""
    models = [(None,) * 4 if one.model is None else astuple(one.model) for one in runs]
    rows = [(one.mixture, one.seed, *model, one.information) for one, model in zip(runs, models, strict=True)]
    schema = {"mixture": pl.String, "seed": pl.Int64, "model": pl.String}
    schema |= dict.fromkeys(("parameters", "tokens", "flops", "information"), pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def run_lines(proposed: Sequence[Proposed], asked: Setting) -> list[str]:
    """How many runs are proposed, and what they cost."""
    repeated = [one.mixture for one in proposed if one.seed > 1]
    head = f"{len(proposed)} runs of {len({one.mixture for one in proposed})} mixtures by I-optimality"
    lines = [head + (f": {repeated[0]} with a further seed, which gives the noise of a run." if repeated else ".")]
    if asked.models:
        spent = sum(one.model.flops for one in proposed)
        sizes = pl.Series([one.model.name for one in proposed]).value_counts().sort("count", descending=True)
        parts = ", ".join(f"{count} of {name}" for name, count in sizes.iter_rows())
        of = f" of {asked.budget:.3g}" if np.isfinite(asked.budget) else ""
        lines.append(f"{spent:.3g} FLOPs{of}: {parts}.")
    return lines


def ladder_lines(ladder: Sequence[Rung], large: Model | None, done: int, flops_per_second: float) -> list[str]:
    """The ladder for a person, and the rung to take."""
    head = f"{'runs':>6} {'of the large run':>17} {'GPU hours':>10} {'information':>12} {'expected regret':>16}"
    lines = [head]
    for rung in ladder:
        share = "-" if large is None else f"{100 * rung.flops / large.flops:.2g} %"
        hours = rung.flops / flops_per_second / 3600
        lines.append(
            f"{rung.runs:>6} {share:>17} {hours:>10,.3g} {rung.information:>12.2f} {100 * rung.regret:>14.2g} %"
        )
    chosen, last = knee(ladder, done), ladder[-1]
    before, after = (f"{100 * one.regret:.2g} %" for one in (chosen, last))
    gain = f"would lower the expected regret from {before} to {after}"
    if chosen.regret - last.regret < SMALL:
        gain = (
            f"would hardly lower the expected regret, which is {before if chosen.regret >= SMALL else 'below 0.01 %'}"
        )
    more = f"{last.runs} {gain}, for {last.flops / chosen.flops:.2g} times the FLOPs. " if last is not chosen else ""
    return [
        *lines,
        f"{chosen.runs} runs are proposed{': ' + more if more else ', all that the budget holds. '}--count takes another number.",
        "The regret is of the law as it is known before these runs; one that misfits loses more.",
    ]
