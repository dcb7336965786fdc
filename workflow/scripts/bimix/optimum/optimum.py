"""The best mixture of a fitted law at a step: exact for the bivariate law, by a root find in one number (paper Sec. 6.3)."""

import numpy as np

from bimix.errors import InputError
from bimix.laws import exponential, regmix, transfer
from bimix.laws.bimix import bracket
from bimix.mixtures.draws import TEMPERATURE
from bimix.optimum.convex import minimum
from bimix.optimum.power_sum import power_sum_optimum
from bimix.optimum.simulation import best_simulated
from bimix.plan.least_runs import LEAST_RUNS

FEW_RUNS = (
    "exponential",
    "regmix",
)  # laws whose optimum means nothing with fewer runs than they need; others fall back
MOST_NAMED = 6  # weights, for a person
TINY = 1e-30  # stands for a share of 0 where a power of it has no slope


def optimum(
    document: dict,
    step: int,
    weights: dict[str, float] | None,
    lower: np.ndarray,
    upper: np.ndarray,
    tokens: dict[str, float] | None = None,
) -> np.ndarray:
    """Proportions (m,), in the document's order, with the least weighted sum of predicted losses at `step` within the bounds.

    `weights` per loss domain; none given is the paper's: all 1 (Eq. 15 sums and calls it an average: the optimum is the same).
    A domain left out of them has weight 0, and its loss need not be defined at the optimum. `tokens` there are of each domain:
    RegMix simulates around their shares.

    Errors: a weight of an unknown domain, no weight above 0, fewer runs than the law needs.
    """
    law, m = document["law"], len(document["domains"])
    if law in FEW_RUNS and len(document["mixtures"]) < LEAST_RUNS[law](m):
        raise InputError(
            f"the law {law!r} was fitted to {len(document['mixtures'])} mixtures of {m} domains, and its optimum needs"
            f" {LEAST_RUNS[law](m)} at least: train more of them, or use bimix or transfer."
        )
    target = target_weights(document, weights)
    if law == "regmix":
        return regmix_optimum(document, step, target, lower, upper, tokens)
    return OPTIMA[law](document, step, target, lower, upper)


def target_weights(document: dict, weights: dict[str, float] | None) -> np.ndarray:
    """Weights (d,) of the loss domains: all 1 where none are given; a domain left out of those given weighs 0.

    Errors: a weight of an unknown domain, no weight above 0.
    """
    names = document["loss_domains"]
    if not weights:
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
    """The average (...) of losses (..., d) by the weights (d,); a loss that weighs 0 need not be defined (NaN)."""
    return np.where(target > 0, losses, 0.0) @ (target / target.sum())


def weighed(document: dict, weights: dict[str, float] | None) -> str:
    """The domains that weigh, for a person: "python 1", or "web 2, books 1, and 3 more"; empty where all weigh the same."""
    target = target_weights(document, weights)
    if target.min() == target.max():
        return ""
    parts = [f"{name} {one:g}" for name, one in zip(document["loss_domains"], target, strict=True) if one > 0]
    return ", ".join(
        parts if len(parts) <= MOST_NAMED else [*parts[:MOST_NAMED], f"and {len(parts) - MOST_NAMED} more"]
    )


def bimix_optimum(document, step, target, lower, upper) -> np.ndarray:
    """The exact optimum of `bimix`: K_i = w_i A_i (B_i / s^beta_i + C_i)."""
    factor, constant = bracket(document["coefficients"], document["steps"], [step])
    columns = [document["domains"].index(domain) for domain in document["coefficients"]]
    gains, exponents = np.zeros(len(document["domains"])), np.zeros(len(document["domains"]))
    gains[columns] = target * (factor[0] + constant)
    exponents[columns] = [values["alpha"] for values in document["coefficients"].values()]
    return power_sum_optimum(gains, exponents, lower, upper)


def transfer_optimum(document, step, target, lower, upper) -> np.ndarray:
    """The optimum of `transfer`, a convex problem: sum_i w_i h_i sum_q A_q S_q^-a, S_q = sum_j k_qj r_j^gamma, h_i = B/s^beta + C."""
    c, a, g, k = transfer.arrays(document["coefficients"], document["domains"])
    height = target * transfer.step_factor(document["coefficients"], document["steps"], [step])[0]
    scaled = height[:, None] * np.exp(c)

    def objective(r):
        r = np.maximum(r, TINY)
        powers = r ** g[:, None]
        sums = np.einsum("dqj,dj->dq", k, powers)
        slope = k * (g[:, None] * powers / r)[:, None]
        value = scaled * sums**-a
        first, second = -a * value / sums, a * (a + 1) * value / sums**2
        bend = np.einsum("dq,dqj->j", first, slope * (g[:, None, None] - 1) / r)
        hessian = np.einsum("dq,dqi,dqj->ij", second, slope, slope)
        hessian[np.arange(len(r)), np.arange(len(r))] += bend
        return value.sum(), np.einsum("dq,dqj->j", first, slope), hessian

    return minimum(objective, lower, upper)


def exponential_optimum(document, step, target, lower, upper) -> np.ndarray:
    """The optimum of `exponential` at a fitted step, a convex problem: sum_i w_i k_i exp(t_i.r)."""
    rows = [
        exponential.at_step(name, values, step, document["domains"])
        for name, values in document["coefficients"].items()
    ]
    height, t = target * np.array([k for _, k, _ in rows]), np.array([t for _, _, t in rows])

    def objective(r):
        grown = height * np.exp(t @ r)
        return grown.sum(), grown @ t, (t * grown[:, None]).T @ t

    return minimum(objective, lower, upper)


def regmix_optimum(document, step, target, lower, upper, tokens=None) -> np.ndarray:
    """The mean of the best simulated mixtures of `regmix` at a fitted step.

    They are drawn around the shares of `tokens`; where these are not known, around the shares whose draws have the mean of the
    mixtures fitted.
    """
    domains = document["domains"]
    if tokens is None:
        shares = np.array([document["proportions_seen"][domain]["mean"] for domain in domains]) ** (1 / TEMPERATURE)
    else:
        missing = [domain for domain in domains if not tokens.get(domain)]
        if missing:
            raise InputError(
                f"the token counts do not name {missing[0]!r}: RegMix simulates around the shares of tokens."
            )
        shares = np.array([tokens[domain] for domain in domains], dtype=float)

    names, weights = zip(
        *((name, one) for name, one in zip(document["loss_domains"], target, strict=True) if one), strict=True
    )
    wanted = {name: document["coefficients"][name] for name in names}

    def value(proportions):
        return regmix.predict(wanted, domains, document["steps"], proportions, np.array([step]))[:, 0] @ np.array(
            weights
        )

    return best_simulated(value, shares, lower, upper)


OPTIMA = {
    "bimix": bimix_optimum,
    "transfer": transfer_optimum,
    "exponential": exponential_optimum,
}
