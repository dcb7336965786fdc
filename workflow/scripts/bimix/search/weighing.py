"""The mixture that the runs prefer: measured mixtures, rules by hand and a law's optimum, by the
posterior of the law and all runs.

A run that ended lowest did so by its luck as well, and an optimum lies where its law errs most. So
the lowest run as measured is not what an optimum has to beat: both are compared by the posterior,
and the optimum is taken where it is below the best run and the best rule by hand, also at the lower
one-sided 80 % end of the difference.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from bimix.judge.comparison import Comparison
from bimix.judge.evidence import NEAR, noise_between
from bimix.judge.measured import criterion_of
from bimix.judge.noise import seeds_needed
from bimix.judge.verdict import UPPER, Promise, Verdict, by_law, decide, trusted
from bimix.observations.observations import Observations, joined, read_observations
from bimix.optimum.flags import number_or_none
from bimix.optimum.intervals import left_out
from bimix.optimum.optimum import Sought
from bimix.plan.sources import GIVEN, SEARCHED, plain
from bimix.search.posterior import Posterior, once, whole
from bimix.tables import read_table
from bimix.transfer.run import size_read

LEVEL = 0.9  # of the gain over a rule by hand
SURE = 0.95  # that the best of measured mixtures is below all others


@dataclass(frozen=True)
class Believed:
    """The posterior at the law's run, its optimum (m,) with what the law promises for it, and
    mixtures (m,): of the runs, and rules by hand, run or not.
    """

    posterior: Posterior
    optimum: np.ndarray
    promise: Promise
    ran: Mapping[str, np.ndarray]
    hand: Mapping[str, np.ndarray]


def with_rules(ran: Mapping[str, np.ndarray], rules: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rules by hand: runs of a rule's name or proportions, and the other `rules`, not run."""

    def alike(one: np.ndarray, others: Mapping[str, np.ndarray]) -> bool:
        return any(np.abs(one - other).max() <= NEAR for other in others.values())

    known = {name: one for name, one in ran.items() if plain(name) or alike(one, rules)}
    return known | {name: one for name, one in rules.items() if name not in ran and not alike(one, ran)}


def over_hand(posterior: Posterior, name: str, shares: np.ndarray, hand: Mapping[str, np.ndarray]) -> str:
    """The gain of a mixture (m,) over the best of rules by hand, with its interval, in words."""
    best = min(hand, key=lambda rule: float(posterior.posterior(hand[rule][None])[0][0]))
    if name == best:
        return f"no searched mixture is better than {best}, a rule that needs no search"
    gain, deviation = posterior.refitted_gain(hand[best], shares)
    width = float(stdtrit(freedom(posterior), (1 + LEVEL) / 2)) * deviation
    low, middle, high = (100 * (abs(gain) + part * width) for part in (-1, 0, 1))
    said = f"{middle:.2f} % ({low:.2f} to {high:.2f}, {100 * LEVEL:.0f} %) {'above' if gain < 0 else 'below'}"
    if gain > width:
        return f"it is {said} {best}, the best rule by hand"
    return f"not better than {best}, the best rule by hand: {said} it"


def freedom(posterior: Posterior) -> int:
    """Degrees of freedom of a gain's interval: the runs less one."""
    return max(len(set(posterior.seen.names)) - 1, 1)


def verdict(
    target: Comparison | None,
    proxies: Comparison | None,
    promises: Sequence[Promise],
    ranks: Mapping[str, int],
    believed: Believed | None,
) -> Verdict:
    """What is measured at a target of another model than was fitted decides where a searched
    mixture is among it, the posterior in all other cases in which there is one.
    """
    if believed is None or proxies is None:
        return decide(target, proxies, promises, ranks)
    sizes = believed.posterior.observed.parameters
    apart = target is not proxies or (sizes is not None and len(set(sizes)) > 1)
    if target is not None and apart and any(ranks.get(one, GIVEN) >= SEARCHED for one in target.mixtures):
        return decide(target, proxies, promises, ranks)
    return weigh(believed, proxies, promises)


def weigh(believed: Believed, runs: Comparison, promises: Sequence[Promise]) -> Verdict:
    """The lowest posterior that holds the objective; or the optimum, where it is surely below with
    the law taken as known: with the jackknife the mixture taken is no better (bench_verdicts.py).
    """
    posterior, own = believed.posterior, believed.promise
    law = by_law(own, list(promises))
    # without runs on domains that the law does not know
    ran = {name: believed.ran[name] for name in runs.mixtures if runs.holds(name) and name in believed.ran}
    hand = {
        name: one
        for name, one in believed.hand.items()
        if (name in ran if name in believed.ran else posterior.goal.holds(one))
    }
    candidates = ran | hand
    if not candidates:
        why = f"no run and no rule by hand holds the objective and the bounds; {law}"
        return Verdict("promised", own.mixture, why, promise=own, measured=runs)
    means = dict(zip(candidates, posterior.posterior(np.array(list(candidates.values())))[0].tolist(), strict=True))
    best, *others = sorted(means, key=means.get)
    others = [name for name in others if np.abs(candidates[name] - candidates[best]).max() > NEAR]
    gain, deviation = posterior.gain(candidates[best], believed.optimum)
    surely = gain - float(stdtrit(freedom(posterior), UPPER)) * deviation
    said = f"{100 * abs(gain):.2f} % {'above' if gain < 0 else 'below'} {best} by the law and all runs together"
    if surely > 0:
        over = f"; {over_hand(posterior, own.mixture, believed.optimum, hand)}" if hand else ""
        why = f"{said}, {100 * surely:.2f} % at the lower 80 % end{over}; {law}"
        return Verdict("promised", own.mixture, why, best, own, measured=runs)
    same = np.abs(believed.optimum - candidates[best]).max() <= NEAR
    unsure = f"; {own.mixture}, {said}, is not surely better" if not same else ""
    if best not in ran:
        return Verdict("promised", best, f"a rule by hand{unsure}; {law}", own.mixture, own, measured=runs)
    seen = tuple(name for name in runs.ranked() if name in ran and runs.value(name) < own.value and gain <= 0)
    wins = all(surely_below(posterior, runs, best, name, candidates) for name in others)
    rival = others[0] if others else own.mixture
    seeds = None
    if runs.noise is not None and others and not wins:
        seeds = seeds_needed(means[rival] - means[best], runs.noise.deviation, runs.noise.mixtures)
    over = f"; {over_hand(posterior, best, candidates[best], hand)}" if hand else ""
    why = f"it is lowest by the law and all runs together{over}{unsure}"
    return Verdict("wins" if wins and others else "ties", best, why, rival, own, seen, seeds, runs)


def surely_below(
    posterior: Posterior, runs: Comparison, best: str, other: str, candidates: Mapping[str, np.ndarray]
) -> bool:
    """Whether a run is below another mixture with SURE: by the law also without any one run, or,
    where both were run, by the noise of runs, as the law without the better run knows little of it.
    """
    gain, deviation = posterior.refitted_gain(candidates[other], candidates[best])
    if gain > float(stdtrit(freedom(posterior), SURE)) * deviation:
        return True
    return other in runs.mixtures and runs.below(best, other)


def add_fitted(parser: argparse.ArgumentParser) -> None:
    """Add what `read_believed` needs besides the flags of `add_evidence`."""
    parser.add_argument("--fitted", type=Path, help="tidy losses that the laws were fitted to; without it none weighs")
    parser.add_argument("--objective-reference", nargs="?", help="mixture.json that the objective is measured against")
    parser.add_argument("--optimum-tokens", type=number_or_none, help="of the run that optima are for, or none")


def read_believed(
    options: argparse.Namespace,
    laws: Mapping[str, dict],
    optima: Mapping[str, Mapping[str, float]],
    promises: Sequence[Promise],
    ran: Mapping[str, Mapping[str, float]],
    called: Mapping[str, str],
    rules: Mapping[str, np.ndarray],
) -> Believed | None:
    """What all runs say at the run of the law with the least error, from the files of a dataset;
    None where it promises nothing or was fitted to other runs, as those of a swarm.

    `laws` and `optima` by mixture; `ran` {name: proportions} of the runs, which are `called`
    otherwise where they have the name of an optimum and other proportions. `options.mixtures` are
    those of the runs compared, of the runs fitted, and of the further proxies. `rules` by hand.
    """
    own = trusted(promises)
    if own is None or options.fitted is None:
        return None
    law, (of_compared, of_fitted, *of_others) = laws[own.mixture], options.mixtures
    observed = read_observations(options.fitted, of_fitted)
    if list(observed.mixtures) != law["mixtures"] or list(observed.loss_domains) != law["loss_domains"]:
        return None
    left = left_out(law, observed, options.step)
    groups = [read_observations(*pair) for pair in zip(options.proxies[1:], of_others, strict=False)]
    if options.compared_model == options.asked_model:
        groups.append(at_own_size(read_observations(options.compared, of_compared), law))
    groups = [*reversed(groups), observed]  # of two the compared, with its seeds
    if size_read(law) is not None:
        groups = [one for one in groups if one.parameters is not None]
    groups = [one for one in groups if not one.proportions[:, ~np.isin(one.domains, observed.domains)].any()]
    every = joined(observed.take([]), groups)
    every = replace(every, mixtures=tuple(called.get(name, name) for name in every.mixtures))
    tokens = options.tokens[0] if options.tokens else None
    flags = {"tokens": tokens, "run_tokens": options.optimum_tokens, "reference": options.objective_reference}
    sought = Sought.of(argparse.Namespace(**{**vars(options), **flags}), law, options.step)
    known = noise_between(read_table(options.fitted), criterion_of(options))

    def array(shares: Mapping[str, float]) -> np.ndarray:
        return np.array([shares.get(name, 0.0) for name in observed.domains])

    arrays = {called.get(name, name): array(one) for name, one in ran.items() if abs(array(one).sum() - 1) < NEAR}
    trained, limits = whole(sought.goal, once(every)), (sought.lower, sought.upper)
    posterior = Posterior(sought.goal, law, trained, *limits, known and known.deviation, left)
    return Believed(posterior, array(optima[own.mixture]), own, arrays, with_rules(arrays, rules))


def at_own_size(compared: Observations, law: dict) -> Observations:
    """Runs of the model that a law over sizes is read at, whose table may not have its size."""
    if compared.parameters is not None or (size := size_read(law)) is None:
        return compared
    tokens, n = next(iter(law["coefficients"].values()))["run"]["tokens"], len(compared.mixtures)
    if compared.tokens is None and tokens is not None:
        compared = replace(compared, tokens=np.full(n, float(tokens)))
    return replace(compared, parameters=np.full(n, size))
