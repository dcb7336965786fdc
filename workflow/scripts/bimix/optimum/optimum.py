"""The best mixture of a fitted law at a step: exact for the bivariate law, by a root find in one number (paper Sec. 6.3)."""

import numpy as np

from bimix.errors import InputError
from bimix.laws import exponential, regmix, transfer
from bimix.laws.bimix import bracket
from bimix.mixtures.draws import TEMPERATURE
from bimix.optimum.convex import minimum
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


def power_sum_optimum(gains: np.ndarray, exponents: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """argmin of sum_i K_i r_i^-a_i over lower <= r <= upper, sum r = 1; all arrays (m,), K_i >= 0, a_i >= 0.

    Convex; stationary at r_i = (a_i K_i / mu)^(1/(1 + a_i)), clipped to its bounds (water-filling). sum r(mu) falls with mu, so
    mu is the root of sum r(mu) = 1, found in log mu by Newton steps kept inside a bracket. Domains with a_i K_i = 0 gain
    nothing: they stay at their lower bound unless the others are full, and then share the rest in proportion to their room.
    """
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    slope = gains * exponents
    useful = (slope > 0) & (upper > 0)
    if not useful.any() or upper[useful].sum() + lower[~useful].sum() <= 1:
        filled = np.where(useful, upper, lower)
        room = upper - filled
        rest = 1 - filled.sum()
        return filled + (room * (rest / room.sum()) if rest > 0 and room.sum() > 0 else 0.0)
    target = 1 - lower[~useful].sum()
    low, high = lower[useful], upper[useful]
    room = target - low.sum()
    if room <= 1e-15:
        return lower
    power = 1 / (1 + exponents[useful])
    shift = np.log(slope[useful]) * power
    with np.errstate(divide="ignore"):
        low_log, high_log = np.log(low), np.log(high)
    # At `left` all are at their upper bound or the sum is above the target; at `right` the other way round.
    left = np.min((shift - np.minimum(high_log, 0)) / power)
    right = np.max((shift - np.log(low + room / (2 * len(low)))) / power)
    mu = 0.5 * (left + right)
    for _ in range(200):
        raw = shift - power * mu
        shares = np.exp(np.clip(raw, low_log, high_log))
        excess = shares.sum() - target
        if excess > 0:
            left = mu
        else:
            right = mu
        if abs(excess) <= 1e-15 * len(shares) or right - left <= 1e-15 * max(1.0, abs(mu)):
            break
        free = (raw > low_log) & (raw < high_log)
        descent = (shares * power)[free].sum()
        # Newton on log(sum of the free shares), which is nearly a line in log mu.
        moving = shares[free].sum()
        wanted = moving - excess
        step = np.log(moving / wanted) * moving / descent if descent > 0 and wanted > 0 else np.inf
        mu = mu + step if left < mu + step < right else 0.5 * (left + right)
    shares = np.exp(np.clip(shift - power * mu, low_log, high_log))
    result = lower.copy()
    result[useful] = shares
    return _close(result, lower, upper)


def _close(shares: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Put the last rounding of the sum on the shares that are free to take it."""
    gap = 1 - shares.sum()
    free = (shares > lower) & (shares < upper)
    if free.any():
        moved = shares + np.where(free, shares, 0.0) * (gap / shares[free].sum())
        shares = np.clip(moved, lower, upper)
    return shares


def feasible_bounds(domains, lower=None, upper=None, max_epochs=None, tokens=None, run_tokens=None):
    """Bounds (m,), (m,) in the order of `domains` from dicts per domain; max_epochs gives r_i * run_tokens <= max_epochs * tokens_i.

    Errors (InputError with the numbers): an unknown domain, a lower bound above its upper, lower bounds that sum above 1,
    upper bounds that sum below 1, a domain without a token count where max_epochs is asked for.
    """
    low, high = np.zeros(len(domains)), np.ones(len(domains))
    for bounds, array, what in ((lower or {}, low, "lower"), (upper or {}, high, "upper")):
        for domain, value in bounds.items():
            if domain not in domains:
                raise InputError(
                    f"the {what} bounds name {domain!r}, which the law does not know: its domains are {', '.join(domains)}."
                )
            array[domains.index(domain)] = min(value, 1.0) if what == "upper" else value
    reason = ""
    if max_epochs is not None:
        missing = [domain for domain in domains if domain not in tokens]
        if missing:
            raise InputError(
                f"the token counts do not name {missing[0]!r}: max_epochs needs the tokens of every domain."
            )
        high = np.minimum(high, [max_epochs * tokens[domain] / run_tokens for domain in domains])
        reason = f" (with max_epochs {max_epochs:g} of a run of {run_tokens:g} tokens)"
    crossed = np.nonzero(low > high)[0]
    if len(crossed):
        j = crossed[0]
        raise InputError(
            f"the lower bound of {domains[j]} is {low[j]:.6g} and its upper bound {high[j]:.6g}{reason}: the lower one must not be above."
        )
    if low.sum() > 1 + 1e-12:
        raise InputError(
            f"the lower bounds sum to {low.sum():.6g}: no mixture can hold more than 1; lower some of them."
        )
    if high.sum() < 1 - 1e-12:
        raise InputError(
            f"the upper bounds sum to {high.sum():.6g}{reason}: no mixture can reach 1; raise some of them."
        )
    return low, high


def run_bounds(document, step, lower=None, upper=None, max_epochs=None, tokens=None, run_tokens=None, weights=None):
    """The bounds of `feasible_bounds` for a run of `step` steps; max_epochs None or infinite: any number of epochs.

    A domain to which no loss answered (`unanswered`) keeps the least proportion that was seen, unless `lower` names it, or
    `weights` of the losses leave it out: the data did not tell what it needs, which is no reason to drop it.

    `run_tokens`: of the run; without it the step times the tokens per step of the fitted runs. Errors: max_epochs without the
    tokens there are or the tokens of the run.
    """
    seen = document["proportions_seen"]
    target = dict(zip(document["loss_domains"], target_weights(document, weights), strict=True))
    floors = {domain: seen[domain]["min"] for domain in unanswered(document) if domain in seen and target[domain] > 0}
    lower = {domain: min(floor, (upper or {}).get(domain, 1)) for domain, floor in floors.items()} | (lower or {})
    if max_epochs is None or max_epochs == float("inf"):
        return feasible_bounds(document["domains"], lower, upper)
    if not tokens:
        raise InputError("--max-epochs needs --tokens: the number of tokens there are of each domain.")
    if run_tokens is None:
        if document["tokens_per_step"] is None:
            raise InputError(
                "--max-epochs needs --run-tokens: the losses that the law was fitted to had no column tokens, so it is not known "
                f"how many tokens a run of {step} steps trains on."
            )
        run_tokens = step * document["tokens_per_step"]
    return feasible_bounds(document["domains"], lower, upper, max_epochs, tokens, run_tokens)


def unanswered(document) -> list[str]:
    """Domains to which no loss answered in the fitted runs: alpha 0 in bimix's law, in transfer's at every term they are in."""
    answered, known = set(), []
    for domain, values in document["coefficients"].items():
        own = [{"alpha": values["alpha"], "transfer": {domain: 1.0}}] if "alpha" in values else []
        for term in values.get("terms", own):
            known.append(domain)
            answered.update(name for name, share in term["transfer"].items() if share > 0 and term["alpha"] > 0)
    return [domain for domain in dict.fromkeys(known) if domain not in answered]


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
