"""The mixture that the runs prefer: measured mixtures, rules by hand and a law's optimum, by the
posterior of the law and all runs.

A run that ended lowest did so by its luck as well, and an optimum lies where its law errs most. So
the lowest run as measured is not what an optimum has to beat: both are compared by the posterior,
and the optimum is taken where the 90 % interval of its gain over the best run and over the best rule
by hand is above 0.
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
from bimix.judge.verdict import OBSERVED, Gain, Promise, Verdict, decide, trusted
from bimix.laws.fitted import defined
from bimix.mixtures.names import GIVEN, SEARCHED, plain
from bimix.observations.observations import Observations, joined, read_observations
from bimix.optimum.flags import number_or_none
from bimix.optimum.intervals import left_out
from bimix.optimum.optimum import Sought
from bimix.search.posterior import Posterior, once, whole
from bimix.tables import read_table
from bimix.transfer.run import size_read

LEVEL = 0.9  # of gains, two-sided
RENAMED = {"uniform": "equal shares", "baseline": "token shares"}  # rules whose name another run has


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


def with_rules(
    ran: Mapping[str, np.ndarray], rules: Mapping[str, np.ndarray], reserved: bool = False
) -> dict[str, np.ndarray]:
    """Rules that need no run: the runs with a rule's proportions, and the `rules` that were not run.

    `reserved`: the names of rules are the workflow's own, so that a run with such a name is a rule. In a
    user's table a name says nothing: a rule whose name a run of other proportions has gets another.
    """

    def alike(one: np.ndarray, others: Mapping[str, np.ndarray]) -> bool:
        return any(np.abs(one - other).max() <= NEAR for other in others.values())

    found = {name: one for name, one in ran.items() if alike(one, rules) or (reserved and plain(name))}
    for name, one in rules.items():
        if not alike(one, ran) and not (reserved and name in ran):
            found[name if name not in ran else RENAMED.get(name, f"{name} (rule)")] = one
    return found


def gain_over(posterior: Posterior, name: str, shares: np.ndarray, over: str, others: np.ndarray) -> Gain:
    """The gain of a mixture (m,) over another by the law and all runs, with the jackknife's interval."""
    gain, deviation = posterior.refitted_gain(others, shares)
    freedom = max(len(set(posterior.seen.names)) - 1, 1)
    width = float(stdtrit(freedom, (1 + LEVEL) / 2)) * deviation
    return Gain(name, over, *(100 * (gain + part * width) for part in (0, -1, 1)), LEVEL)


def over_hand(posterior: Posterior, name: str, shares: np.ndarray, hand: Mapping[str, np.ndarray]) -> str:
    """The gain of a mixture (m,) over the best of rules by hand, with its interval, in words."""
    best = min(hand, key=lambda rule: float(posterior.posterior(hand[rule][None])[0][0]))
    if name == best:
        return f"no searched mixture is better than {best}, a rule that needs no search"
    gain = gain_over(posterior, name, shares, best, hand[best])
    if gain.low > 0:
        return f"it is {gain}, the best rule by hand"
    return f"not better than {best}, the best rule by hand: {str(gain).removesuffix(best)}it"


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
    return weigh(believed, proxies)


def weigh(believed: Believed, runs: Comparison) -> Verdict:
    """The optimum, if it is surely below the best run and the best rule that needs no run; else that
    rule, unless a run is lower and the rule was not run or is surely above it.

    Every difference has one interval, with the jackknife over the runs, for the decision and the text.
    """
    posterior, own = believed.posterior, believed.promise
    law = f"by the law {own.law}"
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
    best, rule = min(means, key=means.get), min(hand, key=means.get, default=None)

    def over(name: str, shares: np.ndarray, other: str) -> Gain:
        return gain_over(posterior, name, shares, other, candidates[other])

    gains = [over(own.mixture, believed.optimum, other) for other in dict.fromkeys((rule, best)) if other]
    lead = gains[-1].percent  # of the optimum over the best of them
    if all(one.low > 0 for one in gains):
        what = ", the best rule that needs no run" if rule else ""
        why = f"predicted {gains[0]}{what}, and below every run; {law}"
        return Verdict("promised", own.mixture, why, best, own, measured=runs, gain=gains[0])
    edge = over(best, candidates[best], rule) if rule not in (None, best) else None
    unclear = edge is not None and not surely_below(edge, runs)
    if unclear and rule in ran:  # both were run, and the rule costs nothing to find
        why = f"it needs no search, and {best} is not surely lower"
        return Verdict("ties", rule, f"{why}; {law}", best, own, measured=runs, gain=edge)
    same = np.abs(believed.optimum - candidates[best]).max() <= NEAR
    if best == rule and lead > 0 and not same:
        why = f"it needs no search, and {own.mixture} is not surely lower"
        return Verdict("rule", rule, f"{why}; {law}", own.mixture, own, measured=runs, gain=gains[0])
    unsure = f"; {own.mixture} is not surely lower" if not same else ""
    if best not in ran:
        return Verdict(
            "rule", best, f"it needs no search{unsure}; {law}", own.mixture, own, measured=runs, gain=gains[0]
        )
    why = "it is lowest by the law and all runs together"
    if unclear:
        return Verdict("ties", best, f"{why}{unsure}; {law}", rule, own, measured=runs, gain=edge)
    others = [name for name in means if np.abs(candidates[name] - candidates[best]).max() > NEAR]
    others.sort(key=means.get)
    wins = bool(others) and all(surely_below(over(best, candidates[best], name), runs) for name in others)
    rival, seeds = others[0] if others else own.mixture, None
    if runs.noise is not None and rival in runs.mixtures and not wins:
        seeds = seeds_needed(means[rival] - means[best], runs.noise.deviation, runs.noise.mixtures)
    why += f"; {edge}, the best rule that needs no run" if edge and edge.low > 0 else ""
    return Verdict("wins" if wins else "ties", best, why + unsure, rival, own, seeds, runs, edge)


def surely_below(gain: Gain, runs: Comparison) -> bool:
    """Whether a run is below another mixture: by the law also without any one run, or, where both were
    run, by the noise of runs, as the law without the better run knows little of it.
    """
    return gain.low > 0 or (gain.over in runs.mixtures and runs.below(gain.mixture, gain.over))


def add_fitted(parser: argparse.ArgumentParser) -> None:
    """Add what `read_believed` needs besides the flags of `add_evidence`."""
    parser.add_argument("--fitted", type=Path, help="tidy losses that the laws were fitted to; without it none weighs")
    parser.add_argument("--objective-reference", nargs="?", help="mixture.json that the objective is measured against")
    parser.add_argument("--optimum-tokens", type=number_or_none, help="of the run that optima are for, or none")


def read_believed(
    options: argparse.Namespace,
    asked: argparse.Namespace,
    laws: Mapping[str, dict],
    optima: Mapping[str, Mapping[str, float]],
    promises: Sequence[Promise],
    ran: Mapping[str, Mapping[str, float]],
    called: Mapping[str, str],
    rules: Mapping[str, np.ndarray],
) -> Believed | None:
    """What all runs say at the run of the law with the least error, from the files of a dataset;
    None where it promises nothing or was fitted to other runs, as those of a swarm.

    `asked`: the flags of the optima; `laws` and `optima` by mixture; `ran` {name: proportions} of the runs, which are `called`
    otherwise where they have the name of an optimum and other proportions. `options.mixtures` are
    those of the runs compared, of the runs fitted, and of the further proxies. `rules` by hand.
    """
    own = trusted(promises)
    if own is None or options.fitted is None:
        return None
    law, (of_compared, of_fitted, *of_others) = laws[own.mixture], options.mixtures
    observed = defined(law["law"], read_observations(options.fitted, of_fitted))
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
    sought = Sought.of(asked, law, options.step)
    known = noise_between(read_table(options.fitted), criterion_of(options))

    def array(shares: Mapping[str, float]) -> np.ndarray:
        return np.array([shares.get(name, 0.0) for name in observed.domains])

    arrays = {called.get(name, name): array(one) for name, one in ran.items() if abs(array(one).sum() - 1) < NEAR}
    trained, limits = whole(sought.goal, once(every)), (sought.lower, sought.upper)
    posterior = Posterior(sought.goal, law, trained, *limits, known and known.deviation, left)
    hand = with_rules(arrays, rules, reserved=options.compared_model != OBSERVED)
    return Believed(posterior, array(optima[own.mixture]), own, arrays, hand)


def at_own_size(compared: Observations, law: dict) -> Observations:
    """Runs of the model that a law over sizes is read at, whose table may not have its size."""
    if compared.parameters is not None or (size := size_read(law)) is None:
        return compared
    tokens, n = next(iter(law["coefficients"].values()))["run"]["tokens"], len(compared.mixtures)
    if compared.tokens is None and tokens is not None:
        compared = replace(compared, tokens=np.full(n, float(tokens)))
    return replace(compared, parameters=np.full(n, size))
