"""The law `transfer` fitted to runs of several sizes, and to runs that repeat small pools: their
arrays, and the JSON of the fit.

Only the last row of a run is used, since the learning rate has not decayed at earlier ones. With
sizes the coefficients of a loss domain hold the levels, `size`; if some run repeats a pool, its
effect, `repetition`; and `run`, the run to which the coefficients are set.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bimix.observations.observations import Observations
from bimix.transfer import mixing, repetition, sizes
from bimix.transfer.run import at_reference

# The least fraction of a loss that remains without its harm.
LEAST = 0.1
# (effective shares, shares, effects, own domains, weights, choice or None, start or None) ->
# choice, fitted mixing factor
Factor = Callable[..., tuple[dict, mixing.Mixing]]


def repeated(observed: Observations, own: np.ndarray, weights: np.ndarray | None) -> repetition.Repetition | None:
    """The effect of repeated text in these runs; None if no run is known to repeat a pool."""
    if observed.pools is None or observed.tokens is None:
        return None
    known = np.ones(len(observed.tokens)) if observed.parameters is None else observed.parameters
    group = sizes.design(known, observed.tokens, observed.mixtures).group
    base = np.ones(len(observed.tokens)) if weights is None else np.asarray(weights, dtype=float)
    # The scale of pools: the parameters of each run's model, or else their geometric mean.
    limited = observed.pools[np.isfinite(observed.pools)]
    middle = None if observed.parameters is not None or not len(limited) else float(np.exp(np.log(limited).mean()))
    scale = observed.parameters if middle is None else middle
    form = repetition.fit(
        observed.proportions, observed.last(), own, group, observed.tokens, observed.pools, scale, base
    )
    first = dict(zip(observed.domains, observed.pools[0].tolist(), strict=True))
    same = middle is not None and (observed.pools == observed.pools[0]).all()
    pools = {name: pool for name, pool in first.items() if np.isfinite(pool)} if same else None
    return form and replace(form, scale=middle, pools=pools)


def as_counted(observed: Observations, own: np.ndarray, form: repetition.Repetition) -> Observations:
    """The runs with effective shares, of sum below 1, and their losses without the harm."""
    per_share = observed.tokens[:, None] / observed.pools
    rho = repetition.counted(observed.proportions, per_share, form.R)[0]
    scale = observed.parameters if form.scale is None else form.scale
    lost = repetition.own_harm(form, observed.proportions, per_share, observed.pools, scale, own)
    # A loss that is harm alone would have no logarithm.
    return replace(
        observed, proportions=rho, losses=np.maximum(observed.losses - lost[:, None], LEAST * observed.losses)
    )


def by_horizon(observed: Observations, weights: np.ndarray | None) -> np.ndarray | None:
    """The weights (n,) of runs; if runs of one size repeat pools, multiplied by tokens over the
    longest schedule's tokens, since the misfit grows with the length of a run. Chosen on runs with
    repeated Wikipedia: powers of 0 to 2 differ in regret by 0.05 %, and 2 doubles the error on
    parts of the pool.
    """
    if observed.parameters is not None or observed.pools is None or not by_runs(observed):
        return weights
    base = np.ones(len(observed.tokens)) if weights is None else np.asarray(weights, dtype=float)
    return base * (observed.tokens / observed.tokens.max())


def by_runs(observed: Observations) -> bool:
    """Whether the runs have levels by size and tokens: several sizes, or pools and schedules."""
    return observed.parameters is not None or (
        observed.pools is not None and np.ptp(observed.tokens) > 1e-6 * observed.tokens.max()
    )


def fit(
    seen: Observations,
    straight: np.ndarray,
    own: np.ndarray,
    weights: np.ndarray | None,
    factor: Factor,
    choice: dict | None = None,
    start: mixing.Mixing | None = None,
) -> sizes.Sized:
    """The law fitted to runs from `as_counted` with the original shares `straight` (n, m); own
    (d,), weights (n,).

    A given choice is kept, and the fit starts from `start`.
    """
    parameters = np.ones(len(seen.mixtures)) if seen.parameters is None else seen.parameters
    # Runs with equal effective shares have the same mixture.
    names = tuple(
        f"{name} {np.round(row, 9).tolist()}" for name, row in zip(seen.mixtures, seen.proportions, strict=True)
    )
    plan = sizes.design(parameters, seen.tokens, names)
    shares = seen.proportions[plan.first]
    base = np.ones(len(names)) if weights is None else np.asarray(weights, dtype=float)

    again = np.zeros((len(names), len(own)))
    if seen.pools is not None:
        again = repetition.own_bend(straight, seen.tokens[:, None] / seen.pools, own)

    def of_effects(effects, counts, choice, start):
        return factor(shares, straight[plan.first], effects, own, counts, choice, start)

    return sizes.fit(plan, seen.proportions, straight, np.log(seen.last()), base, again, of_effects, choice, start)


def coefficients_of(observed: Observations, sized: sizes.Sized, form: repetition.Repetition | None) -> dict:
    """Coefficients with levels by size and tokens, set to the largest size, longest schedule."""
    written = sized.mixed.parts().written(observed.domains)
    curve, plan = sized.curve, sized.plan
    harms = [{"c": float(c), "c_spread": float(spread)} for c, spread in zip(sized.c, sized.c_spread, strict=True)]
    coefficients = {}
    for i, domain in enumerate(observed.loss_domains):
        heights = np.exp(curve.heights[i])
        levels = {
            "B": float(heights[0]),
            "b": curve.b,
            "D": float(heights[1]),
            "g": curve.g,
            "C": float(heights[2]),
            "parameters": curve.parameters,
            "tokens": curve.tokens,
            "centre": float(sized.centre[i]),
            "sizes": [
                {
                    "parameters": float(plan.parameters[group]),
                    "tokens": None if plan.tokens is None else float(plan.tokens[group]),
                    "runs": int(sized.runs[group]),
                    "shift": float(sized.shifts[group, i]),
                    "nu": float(sized.nu[group, i]),
                }
                | (harms[group] if form and plan.larger[group] else {})
                for group in np.nonzero(sized.runs)[0]
            ],
        }
        coefficients[domain] = written[i] | {"size": levels}
    return at_reference(coefficients, observed, form)
