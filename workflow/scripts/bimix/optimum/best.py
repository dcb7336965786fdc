"""The best mixture by an objective: a convex program where the law's losses are convex, else by
search among simulated mixtures.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.optimum.constrained import Solved, certified, solve
from bimix.optimum.convex import minimum
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import enough_runs, optimum, simulation_centre, simulation_strengths, trusting
from bimix.optimum.simulation import AVERAGED, simulate

UNSOLVED = 1e-5  # a gap, of the objective's value, that is no optimum


class Unattainable(InputError):
    """No mixture within the bounds holds the objective's constraints."""


@dataclass(frozen=True)
class Best:
    """The mixture (m,), its objective, and what certifies it: by a search there is no gap."""

    shares: np.ndarray
    value: float
    gap: float | None  # no mixture within the constraints is better by more; None: not known
    binding: tuple[str, ...] = ()  # what keeps it from being better: parts of minimax, constraints that bind


def best(
    fitted: dict,
    step: int,
    objective: Objective,
    lower: np.ndarray,
    upper: np.ndarray,
    tokens: Mapping[str, float] | None = None,
) -> Best:
    """The mixture within the bounds that the objective is least at.

    A plain weighted average goes the way of `optimum`. Errors: those of `optimum`; a constraint
    that no mixture holds, with the domain; another objective of a law that is searched; a size at
    which losses are not convex.
    """
    enough_runs(fitted)
    law = LAWS[fitted["law"]]
    if law.optimum == "searched" and not objective.plain:
        raise InputError(
            f"the law {fitted['law']} is not convex, and its optimum is searched for the weighted average alone: take a"
            f" convex law or regmix for the objective {objective.kind}{' with a trust region' if objective.trusted else ''}."
        )
    goal = Goal(fitted, step, objective, tokens)
    turned = [name for name in goal.names if fitted["coefficients"][name].get("run", {}).get("nu", 1.0) <= 0]
    if turned:
        raise InputError(
            f"at the size asked the law has the effect of a mixture on {', '.join(turned)} the other way round (nu is 0 or"
            " below): such losses are not convex, so nothing certifies an optimum; fit the law again."
        )
    if not goal.convex:
        return _searched(goal, lower, upper, tokens)
    if objective.plain:
        shares = optimum(fitted, step, objective.domain_weights(), lower, upper, tokens)
        if law.trust or law.optimum == "searched":  # it minimises more than the objective, or is not convex
            return Best(shares, float(goal.value(shares)), None)
        return certificate(goal, shares, lower, upper)
    if not goal.parts:  # a penalty alone
        average = trusting(goal.losses.average(goal.weights), objective.kl_penalty, goal.centre)
        return certificate(goal, minimum(average, lower, upper), lower, upper)
    start = _feasible(goal, lower, upper) if goal.constraints else None
    found = solve(goal.program(), lower, upper, start)
    if not found.gap <= UNSOLVED * abs(found.value) or found.violation > HELD:
        raise InputError(
            f"no optimum was found: the best mixture may be worse than another by {found.gap:.3g} and misses its constraints"
            f" by {found.violation:.3g}; widen the margin, the trust region or the bounds."
        )
    return _as_best(goal, found)


def best_shares(
    fitted: dict,
    step: int,
    objective: Objective,
    lower: np.ndarray,
    upper: np.ndarray,
    tokens: Mapping[str, float] | None = None,
) -> np.ndarray:
    """The mixture (m,) of `best`, where nothing need certify it: a weighted average goes the short
    way.
    """
    if objective.plain:
        return optimum(fitted, step, objective.domain_weights(), lower, upper, tokens)
    return best(fitted, step, objective, lower, upper, tokens).shares


def certificate(goal: Goal, shares: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Best:
    """A mixture without constraints but its bounds, with its gap."""
    return _as_best(goal, certified(goal.program(), shares, np.zeros(len(goal.parts)), lower, upper))


def _as_best(goal: Goal, found: Solved) -> Best:
    most = max(found.multipliers.max(initial=0.0), 1e-300)
    names = [name for name, one in zip(goal.parts, found.multipliers, strict=True) if one > 1e-4 * most]
    return Best(found.shares, float(goal.value(found.shares)), max(found.gap, 0.0), tuple(names) if most > 1e-9 else ())


def _feasible(goal: Goal, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The mixture that misses the constraints least. Errors: it misses one."""
    found = solve(goal.program(only_feasible=True), lower, upper)
    if found.value <= 0:
        return found.shares
    blame = [name for name, one in zip(goal.constraints, found.multipliers, strict=True) if one > 1e-3]
    raise Unattainable(_cannot(goal.objective, blame, found.value))


def _cannot(objective: Objective, blame: list[str], miss: float) -> str:
    what = "together" if len(blame) > 1 else "within the bounds"
    said = (
        f"no loss more than {objective.margin:.3g} above the reference's (relative)"
        if objective.margin
        else ("no loss above the reference's")
    )
    if objective.kind != "no_worse_than":
        said = f"a KL divergence of at most {objective.most_kl:g}"
    return (
        f"the objective asks for {said}, and {', '.join(blame)} cannot be held {what}: the best mixture misses by"
        f" {miss:.3g}; raise the margin, or widen the bounds (lower, upper, max_epochs) or the trust region."
    )


def _searched(goal: Goal, lower: np.ndarray, upper: np.ndarray, tokens: Mapping[str, float] | None) -> Best:
    """The mean of the best simulated mixtures that hold the constraints; where it does not hold
    them itself, the best of them.
    """
    objective, fitted = goal.objective, goal.fitted
    if objective.plain:
        shares = optimum(fitted, goal.step, objective.domain_weights(), lower, upper, tokens)
        return Best(shares, float(goal.value(shares)), None)
    shares = _mean_of_best(goal, _allowed(goal, lower, upper, tokens))
    return Best(shares, float(goal.value(shares)), None)


def _allowed(goal: Goal, lower: np.ndarray, upper: np.ndarray, tokens: Mapping[str, float] | None) -> np.ndarray:
    """Simulated mixtures (n, m) that hold the constraints, the best first. Errors: none does."""
    drawn = simulate(simulation_centre(goal.fitted, tokens), lower, upper, simulation_strengths(goal.fitted))
    excess = goal.excess(drawn)
    if excess.shape[1]:
        holds = (excess <= 0).all(axis=1)
        if not holds.any():
            least = int(excess.max(axis=1).argmin())
            blame = [name for name, one in zip(goal.constraints, excess[least], strict=True) if one > 0]
            raise Unattainable(_cannot(goal.objective, blame, float(excess[least].max())))
        drawn = drawn[holds]
    return drawn[np.argsort(goal.value(drawn), kind="stable")]


def _mean_of_best(goal: Goal, ranked: np.ndarray) -> np.ndarray:
    """The mean (m,) of the first of the mixtures (n, m), or the first itself where the mean misses
    a constraint.
    """
    shares = ranked[:AVERAGED].mean(axis=0)
    return ranked[0] if (goal.excess(shares) > 0).any() else shares
