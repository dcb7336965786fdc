"""The best mixture of a fitted law at a step, in the way that the law's record names (paper Sec.
6.3).
"""

from collections.abc import Callable, Sequence

import numpy as np

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.mixtures.draws import STRENGTHS, TEMPERATURE
from bimix.optimum.convex import minimum
from bimix.optimum.power_sum import power_sum_optimum
from bimix.optimum.search import searched
from bimix.optimum.simulation import best_simulated

# Weights that are named to a person.
MOST_NAMED = 6


def optimum(
    fitted: dict,
    step: int,
    weights: dict[str, float] | None,
    lower: np.ndarray,
    upper: np.ndarray,
    tokens: dict[str, float] | None = None,
) -> np.ndarray:
    """Proportions (m,), in the order of the law's domains, with the least weighted sum of predicted
    losses at `step` within the bounds.

    `weights` per loss domain; none given is the paper's: all 1 (Eq. 15 sums and calls it an
    average: the optimum is the same). A domain left out of them has weight 0, and its loss need not
    be defined at the optimum. `tokens` there are of each domain: RegMix simulates around their
    shares, and Olmix stays near them; where they are not known, near the mean of the fitted
    mixtures.

    Errors: a weight of an unknown domain, no weight above 0, fewer runs than the law needs.
    """
    enough_runs(fitted)
    law = LAWS[fitted["law"]]
    target = target_weights(fitted, weights)
    if law.optimum == "simulated":
        return simulated_optimum(fitted, step, target, lower, upper, tokens)
    problem = law.code.objective(fitted, step, target)
    if law.optimum == "power_sum":
        return power_sum_optimum(*problem, lower, upper)
    if law.optimum == "searched":
        return searched(problem, mean_seen(fitted), lower, upper)
    if law.trust:
        problem = trusting(problem, law.trust * target.sum(), trust_centre(fitted, tokens))
    return minimum(problem, lower, upper)


def enough_runs(fitted: dict) -> None:
    """Errors: fewer runs than the optimum of the law needs."""
    law, m = LAWS[fitted["law"]], len(fitted["domains"])
    least = law.least_runs(m)
    if law.refuses_few and len(fitted["mixtures"]) < least:
        raise InputError(
            f"the law {fitted['law']!r} was fitted to {len(fitted['mixtures'])} mixtures of {m} domains, and its"
            f" optimum needs {least} at least: train more of them, or use bimix or transfer."
        )


def check_one_unit(fitted: dict) -> None:
    """Errors: the law is of losses and of metrics, which have no common average."""
    metrics = fitted.get("metrics", [])
    if metrics and len(metrics) < len(fitted["loss_domains"]):
        raise InputError(
            f"the law is of losses and of metrics ({', '.join(metrics[:3])}), whose units have no common average: say by"
            " --weights, or by families with --objective, what is to be low."
        )


def target_weights(fitted: dict, weights: dict[str, float] | None) -> np.ndarray:
    """Weights (d,) of the loss domains: all 1 where none are given; a domain left out of those
    given weighs 0.

    Errors: a weight of an unknown domain, no weight above 0; no weights where there are metrics
    beside losses.
    """
    names = fitted["loss_domains"]
    if not weights:
        check_one_unit(fitted)
        return np.ones(len(names))
    strange = [name for name in weights if name not in names]
    if strange:
        raise InputError(
            f"the weights name {strange[0]!r}, whose loss the law does not predict: it knows {', '.join(names)}."
        )
    target = np.array([float(weights.get(name, 0.0)) for name in names])
    if not target.sum() > 0:
        raise InputError("all target weights are 0: give at least one loss domain a weight above 0.")
    return target


def average(losses: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The average (...) of losses (..., d) by the weights (d,); a loss that weighs 0 need not be
    defined (NaN).
    """
    return np.where(target > 0, losses, 0.0) @ (target / target.sum())


def weighed(fitted: dict, weights: dict[str, float] | None) -> str:
    """The domains that weigh, for a person: "python 1", or "web 2, books 1, and 3 more"; empty
    where all weigh the same.
    """
    target = target_weights(fitted, weights)
    if target.min() == target.max():
        return ""
    parts = [f"{name} {one:g}" for name, one in zip(fitted["loss_domains"], target, strict=True) if one > 0]
    return ", ".join(
        parts if len(parts) <= MOST_NAMED else [*parts[:MOST_NAMED], f"and {len(parts) - MOST_NAMED} more"]
    )


def token_shares(fitted: dict, tokens: dict[str, float]) -> np.ndarray:
    """Shares (m,) of the tokens there are. Errors: those of a domain are not known."""
    missing = [domain for domain in fitted["domains"] if not tokens.get(domain)]
    if missing:
        raise InputError(
            f"the token counts do not name {missing[0]!r}: the optimum of the law {fitted['law']} needs the shares of tokens."
        )
    counts = np.array([tokens[domain] for domain in fitted["domains"]], dtype=float)
    return counts / counts.sum()


def mean_seen(fitted: dict) -> np.ndarray:
    """The mean (m,) of the fitted mixtures."""
    return np.array([fitted["proportions_seen"][domain]["mean"] for domain in fitted["domains"]])


def trust_centre(fitted: dict, tokens: dict[str, float] | None) -> np.ndarray:
    """Shares (m,) that a law with a trust of its own stays near: of the tokens, where they are
    known.
    """
    return mean_seen(fitted) if tokens is None else token_shares(fitted, tokens)


def trusting(objective: Callable, weight: float, shares: np.ndarray) -> Callable:
    """The objective with weight x KL(r || shares) added: convex where it was."""

    def at(r):
        value, gradient, hessian = objective(r)
        r = np.maximum(r, 1e-300)
        log = np.log(r / shares)
        return value + weight * (r @ log), gradient + weight * (log + 1), hessian + np.diag(weight / r)

    return at


def simulated_optimum(
    fitted: dict,
    step: int,
    target: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    tokens: dict[str, float] | None = None,
) -> np.ndarray:
    """The mean of the best simulated mixtures of a law, by what it predicts at a step.

    They are drawn around the shares of `tokens`; where these are not known, around the shares whose
    draws have the mean of the mixtures fitted.
    """
    domains, predict = fitted["domains"], LAWS[fitted["law"]].code.predict
    shares = simulation_centre(fitted, tokens)
    names, weights = zip(
        *((name, one) for name, one in zip(fitted["loss_domains"], target, strict=True) if one), strict=True
    )
    wanted = {name: fitted["coefficients"][name] for name in names}

    def value(proportions):
        losses = predict(wanted, domains, fitted["steps"], proportions, np.array([step]))
        return losses[:, 0] @ np.array(weights)

    return best_simulated(value, shares, lower, upper, simulation_strengths(fitted))


def simulation_centre(fitted: dict, tokens: dict[str, float] | None) -> np.ndarray:
    """Shares (m,) that mixtures are simulated around. Errors: a domain without tokens."""
    if tokens is None:
        return mean_seen(fitted) ** (1 / TEMPERATURE)
    return token_shares(fitted, tokens)


def simulation_strengths(fitted: dict) -> Sequence[float]:
    """The least and the greatest strength of simulated mixtures: as asked for, else RegMix's."""
    return fitted.get("strengths", STRENGTHS)
