"""The optimum of a fitted law (paper Sec. 6.3): a convex program, or by search."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bimix.errors import InputError
from bimix.laws.fitted import at_run
from bimix.laws.table import LAWS
from bimix.mixtures.draws import STRENGTHS, TEMPERATURE
from bimix.mixtures.mixture import read_proportions
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import asked_objective, asked_tokens, limits_of, pools_of, strengths_of
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.objective import Objective
from bimix.optimum.search import AVERAGED, simulate
from bimix.optimum.solve import Solved, certified, power_sum_optimum, solve, without_parts
from bimix.transfer.repetition import LARGER
from bimix.transfer.run import unmeasured, with_harm

UNSOLVED = 1e-5  # a gap, of the objective's value, that is no optimum
LITTLE = 1e-12  # a share that stands for 0, from which there is no divergence
Tokens = Mapping[str, float]  # there are of each domain


class Unattainable(InputError):
    """No mixture within the bounds satisfies the objective's constraints."""


@dataclass(frozen=True)
class Best:
    """The mixture (m,), its objective value, and its duality gap; a search gives no gap."""

    shares: np.ndarray
    value: float
    gap: float | None  # no mixture within the constraints is better by more; None: not known
    binding: tuple[str, ...] = ()  # what keeps it from being better: parts of minimax, constraints that bind

    def loose(self) -> str:
        """A warning where the gap is no proof of an optimum; else nothing."""
        if self.gap is None or self.gap <= UNSOLVED * abs(self.value):
            return ""
        return f"no optimum is proved: another mixture may be better by up to {self.gap:.2g} (kkt_residual)."


@dataclass(frozen=True)
class Sought:
    """A law at a run, and the objective, bounds and centre of its optimum."""

    fitted: dict
    step: int
    objective: Objective
    lower: np.ndarray  # (m,)
    upper: np.ndarray
    pools: dict[str, float] | None = None  # unique tokens of each domain
    run_tokens: float | None = None
    centre: dict[str, float] | None = None

    @classmethod
    def of(cls, options: argparse.Namespace, fitted: dict, step: int) -> "Sought":
        """From flags for bounds, objective, centre, run. Errors: unknown names, no mixture."""
        fitted, objective = fitted | {"strengths": strengths_of(options)}, asked_objective(options)
        objective.target(fitted)  # names that are not known are refused before anything is read at the run
        pools, parameters = pools_of(options), getattr(options, "parameters", None)
        run_tokens = asked_tokens(fitted, getattr(options, "run_tokens", None), step, parameters)
        fitted = at_run(fitted, parameters, run_tokens, pools, step)
        weights = objective.domain_weights()
        bounds = run_bounds(fitted, step, *limits_of(options), options.max_epochs, pools, run_tokens, weights)
        centre = getattr(options, "centre", None)
        return cls(fitted, step, objective, *bounds, pools, run_tokens, read_proportions(centre) if centre else pools)

    @classmethod
    def requested(cls, fitted: dict, request: Mapping) -> "Sought":
        """That of a law, by the JSON of `request`."""
        named = [np.array([request[key][name] for name in fitted["domains"]]) for key in ("lower", "upper")]
        run = {key: request[key] for key in ("pools", "run_tokens", "centre")}
        fitted = fitted | {"strengths": request["strengths"]}
        fitted = at_run(fitted, request["parameters"], run["run_tokens"], run["pools"], request["step"])
        return cls(fitted, request["step"], Objective(**request["objective"]), *named, **run)

    def request(self, parameters: float | None) -> dict:
        """JSON of what an optimum was requested for, of a model of `parameters`."""
        domains = self.fitted["domains"]
        return {
            "step": self.step,
            "parameters": parameters,
            "run_tokens": self.run_tokens,
            "pools": self.pools,
            "centre": self.centre,
            "strengths": list(self.fitted["strengths"]),
            "lower": dict(zip(domains, self.lower.tolist(), strict=True)),
            "upper": dict(zip(domains, self.upper.tolist(), strict=True)),
            "objective": self.objective.model_dump(exclude_defaults=True),
        }

    @property
    def goal(self) -> Goal:
        return Goal(self.fitted, self.step, self.objective)

    def best(self) -> Best:
        return best(self.fitted, self.step, self.objective, self.lower, self.upper, self.centre)

    @cached_property
    def optimum(self) -> np.ndarray:
        """The optimum (m,) of the law."""
        return self.shares(self.fitted)

    def shares(self, fitted: dict) -> np.ndarray:
        """The optimum (m,) of a refit of the law."""
        return best_shares(fitted, self.step, self.objective, self.lower, self.upper, self.centre)

    def by_harm(self) -> dict[float, np.ndarray]:
        """{c: optimum (m,)} at c = 0 and at the prior's, where no run of a larger model measures c
        and one reads a domain more than once; else empty. One that holds no constraint is left out.
        """
        found = {}
        for c in (0.0, LARGER) if unmeasured(self.fitted) else ():
            with suppress(Unattainable):
                found[c] = self.shares(with_harm(self.fitted, c))
        pools = np.array([(self.pools or {}).get(name, np.inf) for name in self.fitted["domains"]])
        repeats = any((shares * self.run_tokens > pools).any() for shares in found.values())
        return found if repeats else {}


def best(
    fitted: dict, step: int, objective: Objective, lower: np.ndarray, upper: np.ndarray, tokens: Tokens | None = None
) -> Best:
    """The mixture within the bounds that minimises the objective.

    Errors: a constraint that no mixture satisfies, with the domain; an unknown weight; a duality
    gap that is too large, but of a plain average, where it is in `loose`.
    """
    law, goal = LAWS[fitted["law"]], Goal(fitted, step, objective)
    if objective.plain or not goal.convex:
        shares = best_shares(fitted, step, objective, lower, upper, tokens)
        if law.trust or law.optimum == "simulated":  # it minimises more, or is not convex
            return Best(shares, float(goal.value(shares)), None)
        return certificate(goal, shares, lower, upper)
    program = goal.program()
    if law.trust:  # its penalty is in nats, minimax in losses of the reference
        trust = law.trust / (goal.before @ goal.weights if goal.groups else 1.0), _centre(fitted, tokens)
        program = program._replace(at=trusting(program.at, *trust))
    found = solve(program, lower, upper, _feasible(goal, lower, upper) if goal.held else None)
    if not found.gap <= UNSOLVED * abs(found.value) or found.violation > HELD:
        raise InputError(
            f"no optimum was found: the best mixture may be worse than another by {found.gap:.3g} and misses its constraints"
            f" by {found.violation:.3g}; widen the margin or the bounds."
        )
    return replace(_as_best(goal, found), gap=None) if law.trust else _as_best(goal, found)


def best_shares(
    fitted: dict, step: int, objective: Objective, lower: np.ndarray, upper: np.ndarray, tokens: Tokens | None = None
) -> np.ndarray:
    """The mixture (m,) of `best` without a certificate, faster for a weighted average.

    The sum of Eq. 15 in the paper has the optimum of the average. A domain of weight 0 need not
    have a defined loss there. RegMix simulates around the shares of `tokens`, and Olmix is
    penalised by the distance from them; where they are not known, the mean of the fitted mixtures
    replaces them. Errors: those of `best`, and fewer runs than the law needs.
    """
    law = LAWS[fitted["law"]]
    if not objective.plain and law.optimum != "simulated":
        return best(fitted, step, objective, lower, upper, tokens).shares
    enough_runs(fitted)
    if law.optimum == "simulated":
        return _simulated(Goal(fitted, step, objective), lower, upper, tokens)
    target = objective.target(fitted)
    problem = law.code.objective(fitted, step, target)
    if law.optimum == "power_sum":
        return power_sum_optimum(*problem, lower, upper)
    if law.trust:
        problem = trusting(problem, law.trust * target.sum(), _centre(fitted, tokens))
    return solve(without_parts(problem), lower, upper).shares


def enough_runs(fitted: dict) -> None:
    """Errors: fewer runs than the law's optimum needs."""
    law, m = LAWS[fitted["law"]], len(fitted["domains"])
    least = law.least_runs(m)
    if law.refuses_few and len(fitted["mixtures"]) < least:
        raise InputError(
            f"the law {fitted['law']!r} was fitted to {len(fitted['mixtures'])} mixtures of {m} domains, and its"
            f" optimum needs {least} at least: train more of them, or use bimix or transfer."
        )


def certificate(goal: Goal, shares: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Best:
    """The certificate of a mixture that has no constraints besides bounds."""
    return _as_best(goal, certified(goal.program(), shares, None, lower, upper))


def _as_best(goal: Goal, found: Solved) -> Best:
    most = max(found.multipliers.max(initial=0.0), 1e-300)
    names = [name for name, one in zip(goal.parts, found.multipliers, strict=True) if one > 1e-4 * most]
    return Best(found.shares, float(goal.value(found.shares)), max(found.gap, 0.0), tuple(names) if most > 1e-9 else ())


def _feasible(goal: Goal, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The mixture that violates the constraints least. Errors: it violates one."""
    found = solve(goal.program(only_feasible=True), lower, upper)
    if found.value <= 0:
        return found.shares
    blame = [name for name, one in zip(goal.held, found.multipliers, strict=True) if one > 1e-3]
    raise Unattainable(_cannot(goal.objective, blame, found.value))


def _cannot(objective: Objective, blame: list[str], miss: float) -> str:
    wanted = "no loss above the reference's"
    if objective.margin:
        wanted = f"no loss more than {objective.margin:.3g} above the reference's (relative)"
    return (
        f"the objective needs {wanted}, and {', '.join(blame)} cannot be held"
        f" {'together' if len(blame) > 1 else 'within the bounds'}: the best mixture misses by {miss:.3g}; raise the margin,"
        f" or widen the bounds (lower, upper, max_epochs)."
    )


def _simulated(goal: Goal, lower: np.ndarray, upper: np.ndarray, tokens: Tokens | None) -> np.ndarray:
    """The mean (m,) of the best simulated feasible mixtures, or the best. Errors: there is none."""
    fitted = goal.fitted
    # Without tokens, around the shares whose draws have the mean of the fitted mixtures.
    centre = mean_seen(fitted) ** (1 / TEMPERATURE) if tokens is None else token_shares(fitted, tokens)
    drawn = simulate(centre, lower, upper, fitted.get("strengths", STRENGTHS))
    excess = goal.excess(drawn)
    holds = (excess <= 0).all(axis=1)
    if not holds.any():
        least = int(excess.max(axis=1).argmin())
        blame = [name for name, one in zip(goal.held, excess[least], strict=True) if one > 0]
        raise Unattainable(_cannot(goal.objective, blame, float(excess[least].max())))
    drawn = drawn[holds]
    ranked = drawn[np.argsort(goal.value(drawn), kind="stable")]
    shares = ranked[:AVERAGED].mean(axis=0)
    return ranked[0] if (goal.excess(shares) > 0).any() else shares


def token_shares(fitted: dict, tokens: Tokens) -> np.ndarray:
    """Token shares (m,). Errors: a domain without tokens."""
    missing = [domain for domain in fitted["domains"] if not tokens.get(domain)]
    if missing:
        raise InputError(
            f"the token counts do not name {missing[0]!r}: the optimum of the law {fitted['law']} needs the shares of tokens:"
            " give --tokens with every domain."
        )
    counts = np.array([tokens[domain] for domain in fitted["domains"]], dtype=float)
    return counts / counts.sum()


def mean_seen(fitted: dict) -> np.ndarray:
    """The mean (m,) of the fitted mixtures."""
    return np.array([fitted["proportions_seen"][domain]["mean"] for domain in fitted["domains"]])


def _centre(fitted: dict, tokens: Tokens | None) -> np.ndarray:
    """The shares (m,) that Olmix' penalty is from; little, not 0, of what no fitted run trains on."""
    return np.maximum(mean_seen(fitted), LITTLE) if tokens is None else token_shares(fitted, tokens)


def trusting(objective: Callable, weight: float, shares: np.ndarray) -> Callable:
    """The objective plus weight x KL(r || shares), as in Olmix, which preserves convexity; it gives
    value and gradient, or the four of a program.
    """

    def at(r):
        value, gradient, *rest = objective(r)
        r = np.maximum(r, 1e-300)
        log = np.log(r / shares)
        return value + weight * (r @ log), gradient + weight * (log + 1), *rest

    return at
