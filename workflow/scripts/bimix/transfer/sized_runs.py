"""The law `transfer` on runs of several sizes: mixing factor, levels, what the curve of levels
misses, exponents of the largest size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bimix.transfer import mixing, size

# (effects (mixtures, d), weights (mixtures,), choice or None, start or None) -> choice, fitted
# mixing factor
Fit = Callable[[np.ndarray, np.ndarray, dict | None, mixing.Mixing | None], tuple[dict, mixing.Mixing]]


@dataclass(frozen=True)
class Sized:
    """log loss = level(N, T) + shift + centre + nu (factor - centre), with shift and nu (groups, d)
    of the group or 0 and 1.
    """

    choice: dict
    mixed: mixing.Mixing
    plan: size.Design
    curve: size.Curve
    centre: np.ndarray  # (d,) mean of the mixing factor over the mixtures
    shifts: np.ndarray  # (groups, d)
    nu: np.ndarray  # (groups, d)
    runs: np.ndarray  # (groups,) that each group has


def fit(
    plan: size.Design,
    shares: np.ndarray,
    straight: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    factor: Fit,
    choice: dict | None = None,
    start: mixing.Mixing | None = None,
) -> Sized:
    """Fit log losses y (runs, d), NaN where not observed, of runs that count `weights` (runs,);
    shares (runs, m) of each run that count, and as they are.

    The mixing factor comes from the largest set of sizes that share mixtures. Runs of other sizes
    join it by what it predicts of them, in turns until their levels stand still.
    """
    own = shares[plan.first]
    straight = straight[plan.first]
    used = weights > 0
    part = size.largest_part(plan, used)
    expected = np.zeros((len(own), y.shape[1])) if start is None else mixing.predict(start, own, straight=straight)
    if start is None or part[used].all():
        levels, effects, counts = size.table(plan, y, np.where(part, weights, 0.0), expected)
        choice, mixed = factor(effects, counts.max(axis=1), choice, start)
    else:
        mixed = start
    if not part[used].all():
        levels = np.zeros((len(plan.parameters), y.shape[1]))
        for _ in range(size.ROUNDS):
            before = levels
            levels, effects, counts = size.table(plan, y, weights, mixing.predict(mixed, own, straight=straight))
            _, mixed = factor(effects, counts.max(axis=1), choice, mixed)
            if np.nanmax(np.abs(levels - before)) < size.SETTLED:
                break
    drawn = mixing.predict(mixed, own, straight=straight)
    levels, _, _ = size.table(plan, y, weights, drawn)
    return _with_levels(plan, y, weights, choice, mixed, drawn, levels)


def _with_levels(plan, y, weights, choice, mixed, drawn, levels) -> Sized:
    curve = size.curve(plan, levels)
    on_curve = curve.level(plan.parameters, plan.tokens)
    groups = len(plan.parameters)
    shifts, nu = np.zeros(levels.shape), np.ones(levels.shape)
    runs = np.bincount(plan.group, weights > 0, groups).astype(int)
    largest = plan.parameters.max()
    centre = drawn.mean(axis=0)
    for group in np.nonzero(runs)[0]:
        of = (plan.group == group) & (weights > 0)
        gaps = np.where(np.isfinite(y[of]), levels[group] - on_curve[group], np.nan)
        shifts[group] = size.shift(gaps, weights[of])
        if plan.parameters[group] == largest:
            nu[group] = size.slopes(drawn[plan.mixture[of]], y[of], weights[of])
    for group in np.nonzero((nu != 1).any(axis=1))[0]:
        # Another exponent turns the factor about the centre: the group's level moves by what that
        # does to its runs.
        of = (plan.group == group) & (weights > 0)
        turned = ((1 - nu[group]) * (drawn[plan.mixture[of]] - centre)).mean(axis=0)
        shifts[group] += turned * of.sum() / (of.sum() + size.SHIFT)
    return Sized(choice, mixed, plan, curve, centre, shifts, nu, runs)
