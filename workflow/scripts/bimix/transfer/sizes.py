"""Losses of models of several sizes: one effect of a mixture for all sizes, and levels that depend
on size and tokens.

The mixing factor hardly depends on the size of the model, so the log loss of a run on loss domain i
is

    y[run, i] = level[group, i] + effect[mixture, i]

where a group is all runs of one number of parameters N and one schedule of T tokens. Levels and
effects are found by least squares on the unbalanced table, the mixing factor from the effects
(`mixing`), and the levels follow

    exp level_i(N, T) = B_i / T^b + D_i / N^g + C_i        b, g shared by the loss domains

with weak priors, since there are few sizes. A size with k runs of its own is shifted from the curve
by sum(residuals) / (k + 0.16). At the largest size the mixing factor may have an exponent nu_i,
which is 1 with fewer than two runs of that size, and repeated text harms by c r x^2 / (1 + x) more
(`repetition`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares, minimize_scalar
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from bimix.transfer import mixing
from bimix.transfer.repetition import LARGER, LARGER_SPREAD

# Variance of a run around its group over the variance of a group around the curve.
SHIFT = 0.16
# Weight, in runs, that shrinks a mixture's effect to the mixing factor of all runs. It decides the
# level where sizes share no mixture.
HELD = 1e-3
# Prior of log b and of log g. Then standard deviations of the logs of the three fractions of the
# loss, due to tokens, to size and to neither: of their mean around those of a published law at the
# middle of the sizes, and of a domain around the mean.
EXPONENT, EXPONENT_SPREAD = np.log(0.35), 0.3
SHARES_SPREAD, DOMAIN_SPREAD = 0.5, 0.5
# Hoffmann et al. (arXiv 2203.15556): 410.7 / T^0.28 + 406.4 / N^0.34 + 1.69 nats.
PUBLISHED = (410.7, 0.28), (406.4, 0.34), 1.69
TOKENS_A_PARAMETER = 20  # where the tokens are not known
# Standard deviation of a group's level around the curve, in log loss.
ROUGHNESS = 0.0075
# Standard deviation of nu around its mean over the loss domains, and of that mean around 1.
NU_SPREAD, NU_MEAN_SPREAD = 0.25, 0.25
# Near 0 the mixing factor has no effect, and below 0 the loss would not be convex.
LEAST_NU = 0.05
# Prior error of the mixing factor in a run of that size, and its weight in runs.
NOISE, NOISE_RUNS = 0.01, 4.0
# A size within this factor of a fitted one counts as that one.
SAME_SIZE = 1.05
# Beyond this factor the mixing factor of small models no longer applies.
FAR_APART = 15
# From this many nearer runs on the distance hardly matters.
ENOUGH_NEAR = 4
ROUNDS, SETTLED = 20, 1e-5


@dataclass(frozen=True)
class Design:
    """The group and the mixture of each run, by number."""

    parameters: np.ndarray  # (groups,)
    tokens: np.ndarray | None  # (groups,) of the schedule; None where they are not known
    group: np.ndarray  # (runs,) index of the group
    mixture: np.ndarray  # (runs,) index of the mixture
    first: np.ndarray  # (mixtures,) a run of each mixture

    @property
    def larger(self) -> np.ndarray:
        """The mask (groups,) of the largest size, where there are smaller ones."""
        largest = self.parameters.max()
        return (self.parameters == largest) & (largest > SAME_SIZE * self.parameters.min())


def design(parameters: np.ndarray, tokens: np.ndarray | None, mixtures: tuple[str, ...]) -> Design:
    """The groups, smallest first, and the mixtures in order of their first run."""
    keys = np.stack([parameters, np.zeros(len(parameters)) if tokens is None else tokens], axis=1)
    groups, group = np.unique(keys, axis=0, return_inverse=True)
    names = list(dict.fromkeys(mixtures))
    mixture = np.array([names.index(name) for name in mixtures])
    first = np.array([mixtures.index(name) for name in names])
    return Design(groups[:, 0], None if tokens is None else groups[:, 1], group.ravel(), mixture, first)


def largest_part(plan: Design, used: np.ndarray) -> np.ndarray:
    """The mask (runs,) of the largest set of groups that are connected by shared mixtures."""
    groups, mixtures = len(plan.parameters), len(plan.first)
    rows, columns = plan.group[used], groups + plan.mixture[used]
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(groups + mixtures,) * 2)
    _, part = connected_components(graph, directed=False)
    of_run = part[plan.group]
    return used & (of_run == np.bincount(of_run[used]).argmax())


def table(plan: Design, y: np.ndarray, weights: np.ndarray, expected: np.ndarray):
    """Levels (groups, d), effects (mixtures, d) and their weights (mixtures, d) by least squares.

    y (runs, d) has NaN where not observed, weights (runs,) are those of runs, expected (mixtures,
    d) is the current prediction of the mixing factor. Levels of groups and effects of mixtures
    without runs are NaN.
    """
    groups, mixtures, d = len(plan.parameters), len(plan.first), y.shape[1]
    levels, effects, counts = np.full((groups, d), np.nan), np.full((mixtures, d), np.nan), np.zeros((mixtures, d))
    for i in range(d):
        seen = np.isfinite(y[:, i]) & (weights > 0)
        if not seen.any():
            continue
        g, m, w = plan.group[seen], plan.mixture[seen], weights[seen]
        gap = y[seen, i] - expected[m, i]
        cross = np.zeros((groups, mixtures))
        np.add.at(cross, (g, m), w)
        of_mixture = cross.sum(axis=0) + HELD
        # With the effects eliminated (Schur) there is one small system for the levels.
        normal = np.diag(cross.sum(axis=1)) - (cross / of_mixture) @ cross.T
        sums = np.bincount(m, w * gap, mixtures)
        right = np.bincount(g, w * gap, groups) - cross @ (sums / of_mixture)
        there = cross.sum(axis=1) > 0
        level = np.zeros(groups)
        level[there] = np.linalg.solve(normal[np.ix_(there, there)], right[there])
        own = (sums - cross.T @ level) / np.maximum(cross.sum(axis=0), 1e-300)
        levels[:, i] = np.where(there, level, np.nan)
        effects[:, i] = np.where(cross.sum(axis=0) > 0, own + expected[:, i], np.nan)
        counts[:, i] = cross.sum(axis=0)
    return levels, effects, counts


@dataclass(frozen=True)
class Curve:
    """exp level_i(N, T) = B_i (T / T0)^-b + D_i (N / N0)^-g + C_i; N0, T0 the middle of the fit."""

    b: float
    g: float
    heights: np.ndarray  # (d, 3) log B, D, C
    parameters: float  # N0
    tokens: float | None  # T0

    def level(self, parameters, tokens) -> np.ndarray:
        """(..., d) at sizes (...) and schedules (...)."""
        fall = np.zeros((*np.shape(parameters), 1, 3))
        if self.tokens is not None:
            fall[..., 0, 0] = -self.b * np.log(np.asarray(tokens) / self.tokens)
        fall[..., 0, 1] = -self.g * np.log(np.asarray(parameters) / self.parameters)
        return np.log(np.exp(self.heights + fall).sum(axis=-1))


def curve(plan: Design, levels: np.ndarray) -> Curve:
    """The curve through the levels (groups, d), NaN where a group has none."""
    d = levels.shape[1]
    seen = np.isfinite(levels)
    middle = np.exp(np.log(plan.parameters).mean())
    middle_tokens = None if plan.tokens is None else np.exp(np.log(plan.tokens).mean())
    base = np.array([one[ok].mean() if ok.any() else 0.0 for one, ok in zip(levels.T, seen.T, strict=True)])

    shares = published_shares(middle, middle_tokens)

    def of(z):
        heights = base[:, None] + z[2:5] + z[5:].reshape(d, 3)
        return Curve(float(np.exp(z[0])), float(np.exp(z[1])), heights, middle, middle_tokens)

    def residuals(z):
        gap = of(z).level(plan.parameters, plan.tokens) - np.where(seen, levels, 0)
        return np.concatenate(
            [
                gap[seen] / ROUGHNESS,
                (z[:2] - EXPONENT) / EXPONENT_SPREAD,
                (z[2:5] - shares) / SHARES_SPREAD,
                z[5:] / DOMAIN_SPREAD,
            ]
        )

    start = np.concatenate([np.full(2, EXPONENT), shares, np.zeros(3 * d)])
    return of(least_squares(residuals, start, x_scale="jac", max_nfev=100).x)


def published_shares(parameters: float, tokens: float | None) -> np.ndarray:
    """Log shares of the loss due to tokens, size, neither: 0.2, 0.2, 0.6 at 10^8 parameters."""
    (by_tokens, beta), (by_size, gamma), floor = PUBLISHED
    tokens = tokens or TOKENS_A_PARAMETER * parameters
    parts = np.array([by_tokens * tokens**-beta, by_size * parameters**-gamma, floor])
    return np.log(parts / parts.sum())


def shift(gaps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The shift (d,) of a size from the curve, by its runs' residuals (k, d), NaN if missing."""
    seen = np.isfinite(gaps) * weights[:, None]
    return np.where(seen > 0, np.nan_to_num(gaps) * seen, 0).sum(axis=0) / (seen.sum(axis=0) + SHIFT)


def slopes(
    factor: np.ndarray, y: np.ndarray, weights: np.ndarray, again: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """nu (d,), c and the standard deviation of log c of runs (k, d) of one size, from the mixing
    factor, their log losses y and `again`, r x^2 / (1 + x); nu is 1 with fewer than two runs.

    nu is each loss domain's slope through the means of both, shrunk to a mean over the domains, and
    that to 1; c is common. The noise is that of the residuals around these slopes, computed in
    turns: residuals around slope 1 would include the signal, and shrink the slopes too much. Where
    the runs reverse the order of smaller ones the slope is LEAST_NU.
    """
    seen = np.isfinite(y) & (weights > 0)[:, None]
    seen &= seen.sum(axis=0) > 1
    w, free = seen * weights[:, None], np.maximum(seen.sum(axis=0) - 1, 0)
    # Products over runs, around their means, of the factor x, what is missing at slope 1, g, and z = `again`.
    of_runs = np.where(seen, [factor, y - factor, again], 0.0)
    of_runs -= ((w * of_runs).sum(axis=1) / np.maximum(w.sum(axis=0), 1e-300))[:, None]
    (xx, xg, xz), (_, gg, gz), (_, _, zz) = np.einsum("kd,akd,bkd->abd", w, of_runs, of_runs)
    nu, c, spread = np.ones(y.shape[1]), LARGER, LARGER_SPREAD
    known = np.zeros(y.shape[1])  # how much of each slope the runs determine, 0 to 1: the freedom that it takes
    for _ in range(ROUNDS if xx.any() else 0):
        before = np.append(nu, c)
        product, squares = xg - c * xz, gg - 2 * c * gz + c**2 * zz
        beyond = nu - 1
        left = squares - 2 * beyond * product + beyond**2 * xx
        variance = (NOISE_RUNS * NOISE**2 + left.sum()) / (NOISE_RUNS + (free - known).sum())
        square, product = xx / variance, product / variance
        own = square > 0
        # Each slope minus 1 is N(mean, NU_SPREAD), observed with variance 1 / square; their mean is
        # N(0, NU_MEAN_SPREAD).
        precision = 1 / (NU_SPREAD**2 + 1 / square[own])
        mean = (precision * product[own] / square[own]).sum() / (precision.sum() + 1 / NU_MEAN_SPREAD**2)
        nu = 1 + (product + mean / NU_SPREAD**2) / (square + 1 / NU_SPREAD**2)
        known = square / (square + 1 / NU_SPREAD**2)
        # c, where each domain's slope is free around the mean: what it could explain does not count.
        taken = xz / (xx + variance / NU_SPREAD**2)
        signal = (gz - mean * xz - taken * (xg - mean * xx)).sum() / variance
        c, spread = _harm_of(signal, (zz - taken * xz).sum() / variance)
        if np.abs(np.append(nu, c) - before).max() < SETTLED:
            break
    return np.maximum(nu, LEAST_NU), c, spread


def _harm_of(signal: float, precision: float) -> tuple[float, float]:
    """The most probable c with the likelihood exp(signal c - precision c^2 / 2), and the standard
    deviation of its log.
    """

    def cost(log):
        return (
            precision * np.exp(2 * log) / 2 - signal * np.exp(log) + ((log - np.log(LARGER)) / LARGER_SPREAD) ** 2 / 2
        )

    near = np.log(LARGER) + 5 * LARGER_SPREAD * np.array([-1, 1])
    log = float(minimize_scalar(cost, bounds=near, method="bounded", options={"xatol": 1e-9}).x)
    curvature = 2 * precision * np.exp(2 * log) - signal * np.exp(log) + LARGER_SPREAD**-2
    return float(np.exp(log)), float(curvature**-0.5)


# (effects (mixtures, d), weights (mixtures,), choice or None, start or None) -> choice, fitted
# mixing factor
Fit = Callable[[np.ndarray, np.ndarray, dict | None, mixing.Mixing | None], tuple[dict, mixing.Mixing]]


@dataclass(frozen=True)
class Sized:
    """log loss = level(N, T) + shift + centre + nu (factor - centre) + c r x^2 / (1 + x)."""

    choice: dict
    mixed: mixing.Mixing
    plan: Design
    curve: Curve
    centre: np.ndarray  # (d,) mean of the mixing factor over the mixtures
    shifts: np.ndarray  # (groups, d)
    nu: np.ndarray  # (groups, d)
    c: np.ndarray  # (groups,) 0 below the largest size
    c_spread: np.ndarray  # (groups,) the standard deviation of log c
    runs: np.ndarray  # (groups,) that each group has


def fit(
    plan: Design,
    shares: np.ndarray,
    straight: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    again: np.ndarray,
    factor: Fit,
    choice: dict | None = None,
    start: mixing.Mixing | None = None,
) -> Sized:
    """Fit log losses y (runs, d), NaN where not observed, of runs with `weights` (runs,), from the
    effective and the original shares (runs, m), and r x^2 / (1 + x) of the runs, `again` (runs, d).

    The mixing factor is fitted to the largest set of sizes that share mixtures. Runs of other sizes
    are added with its predictions, in turns until their levels converge.
    """
    own = shares[plan.first]
    straight = straight[plan.first]
    used = weights > 0
    part = largest_part(plan, used)
    again = np.where(plan.larger[plan.group, None], again, 0.0)
    observed, y = y, y - LARGER * again  # until c is known
    expected = np.zeros((len(own), y.shape[1])) if start is None else mixing.predict(start, own, straight=straight)
    if start is None or part[used].all():
        levels, effects, counts = table(plan, y, np.where(part, weights, 0.0), expected)
        choice, mixed = factor(effects, counts.max(axis=1), choice, start)
    else:
        mixed = start
    if not part[used].all():
        levels = np.zeros((len(plan.parameters), y.shape[1]))
        for _ in range(ROUNDS):
            before = levels
            levels, effects, counts = table(plan, y, weights, mixing.predict(mixed, own, straight=straight))
            _, mixed = factor(effects, counts.max(axis=1), choice, mixed)
            if np.nanmax(np.abs(levels - before)) < SETTLED:
                break
    drawn = mixing.predict(mixed, own, straight=straight)
    return _with_levels(plan, observed, weights, choice, mixed, drawn, again)


def _with_levels(plan, y, weights, choice, mixed, drawn, again) -> Sized:
    groups = len(plan.parameters)
    runs = np.bincount(plan.group, weights > 0, groups).astype(int)
    nu, c, c_spread = np.ones((groups, y.shape[1])), np.zeros(groups), np.zeros(groups)
    for group in np.nonzero(runs * (plan.parameters == plan.parameters.max()))[0]:
        of = (plan.group == group) & (weights > 0)
        nu[group], c[group], c_spread[group] = slopes(drawn[plan.mixture[of]], y[of], weights[of], again[of])
    c, c_spread = c * plan.larger, c_spread * plan.larger
    y = y - c[plan.group, None] * again
    levels, _, _ = table(plan, y, weights, drawn)
    fitted = curve(plan, levels)
    on_curve = fitted.level(plan.parameters, plan.tokens)
    shifts, centre = np.zeros(levels.shape), drawn.mean(axis=0)
    for group in np.nonzero(runs)[0]:
        of = (plan.group == group) & (weights > 0)
        gaps = np.where(np.isfinite(y[of]), levels[group] - on_curve[group], np.nan)
        shifts[group] = shift(gaps, weights[of])
        # Another exponent rotates the factor around the centre, and the group's level is corrected
        # for the change in its runs.
        turned = ((1 - nu[group]) * (drawn[plan.mixture[of]] - centre)).mean(axis=0)
        shifts[group] += turned * of.sum() / (of.sum() + SHIFT)
    return Sized(choice, mixed, plan, fitted, centre, shifts, nu, c, c_spread, runs)
