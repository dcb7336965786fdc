"""Refits of a mixing factor that was fitted: where they start, and those without a few of many
runs.

Log k is written as one number where the search has u + delta: the two, and the shared means, are
those that the penalties would choose.
"""

from dataclasses import replace

import numpy as np

from bimix.transfer import mixing
from bimix.transfer.factor import Factor, jacobian_of, levels, logs_of

# A k below this is as good as 0; logs of it are finite.
SMALLEST = 1e-30
TURNS = 100
# Of a step, in units of the curvature of each number.
DAMPINGS = (1e-6, 1e-3, 1e-2)


def resumed(factor: Factor, shares, y, own, gaps=None, straight=None, spread=None) -> mixing.Mixing:
    """The fit that gave a factor, for mixtures (n, m) and levels y (n, d) that it was fitted to.

    Heights are taken from the levels, since a law over steps is written without them.
    """
    d, terms, m = factor.k.shape
    gaps = np.zeros((d, m)) if gaps is None else gaps
    trained = np.nonzero(own >= 0)[0]
    logs = np.log(np.maximum(factor.k, SMALLEST)) + gaps[:, None]
    logs[trained, 0, own[trained]] = 0.0
    shape = np.log(factor.g / (1 - factor.g))
    unspread = np.eye(m) if spread is None else np.linalg.inv(spread)
    precision, of_own = unspread @ unspread, own[trained]
    # What each log k weighs in the best u: sums over the inverse of L L' among the other domains.
    sums, diagonal = precision.sum(axis=0), np.diag(precision)
    held = sums - precision[of_own] * (sums / diagonal)[of_own, None]
    middle = mixing.MEAN_U
    u = np.zeros(d)
    for _ in range(TURNS):
        u[trained] = ((held * logs[trained, 0]).sum(axis=1) + mixing.SHRINK_U * middle) / (
            held.sum(axis=1) + mixing.SHRINK_U
        )
        middle = _mean(u[trained], mixing.SHRINK_U, mixing.MEAN_U)
    delta = logs.copy()
    delta[trained, 0] -= u[trained, None] * (np.arange(m) != of_own[:, None])
    # A domain's own is free: at what the others say of it, z is least.
    said = np.einsum("ij,ij->i", delta[trained, 0], precision[of_own])
    delta[trained, 0, of_own] = -said / diagonal[of_own]
    delta = delta @ unspread
    means = [_mean(np.log(one), mixing.SHRINK_LOG_A, mixing.MEAN_LOG_A, mixing.HOLD_LOG_A) for one in factor.a.T]
    means += [_mean(shape, mixing.SHRINK_LOGIT_G, mixing.MEAN_LOGIT_G), middle]
    x = np.concatenate([factor.c, np.log(factor.a), shape[:, None], u[:, None], delta.reshape(d, -1)], axis=1)
    signed = (shares if straight is None else straight) @ factor.t.T
    gap = y - signed - levels(x, terms, own, gaps, logs_of(shares), spread).T
    x[:, :terms] += np.nan_to_num(np.nanmean(gap, axis=0))[:, None]
    return mixing.Mixing(x[None], np.array([means]), terms, own, gaps[None], factor.t[None], spread)


def _mean(values, shrink, anchor, hold=mixing.HOLD_MEANS) -> float:
    """A shared mean, itself held at its anchor."""
    return float((shrink * values.sum() + hold * anchor) / (shrink * len(values) + hold))


def without_runs(whole: mixing.Mixing, shares, y, own, counts, ridge, harm, gaps=None, straight=None):
    """One step of Gauss and Newton from the fit to all runs to each fit without some: counts (fits,
    n) are those of the runs, 0 where they are left out.

    The runs left out are taken off the curvature and the gradient of all: each domain's Jacobian is
    computed once. t is a number like the others here.
    """
    most, terms = counts.max(axis=0), whole.terms
    straight = shares if straight is None else straight
    problem = mixing.problem_of(shares, y, own, ridge, terms, most[None], gaps, harm, straight, whole.spread)
    x, means, t = whole.x[0], whole.means[0], whole.t[0]
    d, (n, m) = len(x), straight.shape
    predicted, jacobian = jacobian_of(
        x, terms, problem.own, problem.gaps, problem.log_shares, np.ones((d, n)), whole.spread
    )
    jacobian = np.concatenate([jacobian, np.broadcast_to(straight.T, (d, m, n))], axis=1)
    misses = predicted + t @ straight.T - problem.target
    weighed = problem.w[:, None] * jacobian
    shared, p = problem.shared, x.shape[1]
    numbers = np.concatenate([x, t], axis=1)
    ridge_of_t = np.full(d, mixing.FAR) if problem.signed is None else np.minimum(problem.signed.ridge, mixing.FAR)
    diagonal = np.concatenate([problem.strength, np.repeat(ridge_of_t[:, None], m, axis=1)], axis=1)
    penalty = diagonal.copy()
    gaps_to_means = problem.pull * (x[:, shared] - means)
    gradient = (weighed @ misses[:, :, None])[:, :, 0] + diagonal * numbers
    gradient[:, shared] += gaps_to_means
    diagonal[:, shared] += problem.pull
    gram = weighed @ jacobian.transpose(0, 2, 1)
    edges = np.zeros((d, p + m, 1 + len(shared)))
    edges[:, shared, 1 + np.arange(len(shared))] = -problem.pull
    mean_gradient = problem.hold * (means - problem.anchor) - gaps_to_means.sum(axis=0)
    mean_scale = problem.hold + problem.pull.sum(axis=0)
    # What the runs hardly determine would step too far: of some dampings the one that lowers a
    # domain's cost most.
    scale = np.einsum("bpp->bp", gram) + diagonal
    steps, mean_steps = np.empty((len(DAMPINGS), len(counts), d, p + m)), np.empty((len(counts), len(shared)))
    for fit, row in enumerate(counts):
        out = (row == 0) & (most > 0)
        edges[:, :, 0] = gradient - (weighed[:, :, out] @ misses[:, out, None])[:, :, 0]
        left = gram - weighed[:, :, out] @ jacobian[:, :, out].transpose(0, 2, 1)
        for number, damping in reversed(list(enumerate(DAMPINGS))):
            solved = mixing.solve(left, diagonal + damping * scale, edges)
            steps[number, fit], mean_steps[fit] = mixing.coupled_step(
                solved, problem.pull, shared, mean_gradient, mean_scale, d
            )
    steps = numbers + np.clip(steps, -3, 3)
    w = problem.w * (counts > 0)[:, None]
    costs = np.empty(steps.shape[:3])
    for number, one in enumerate(steps):
        flat = one[:, :, :p].reshape(-1, p)
        guess = levels(
            flat, terms, problem.own, np.tile(problem.gaps, (len(counts), 1)), problem.log_shares, whole.spread
        )
        guess = guess.reshape(len(counts), d, n) + one[:, :, p:] @ straight.T
        away = one[:, :, shared] - (means + mean_steps)[:, None]
        costs[number] = (w * (guess - problem.target) ** 2).sum(axis=2) + (problem.pull * away**2).sum(axis=2)
        costs[number] += (penalty * one**2).sum(axis=2)
    found = np.take_along_axis(steps, costs.argmin(axis=0)[None, :, :, None], axis=0)[0]
    fits = np.zeros(len(counts), dtype=int)
    return replace(whole.take(fits), x=found[:, :, :p], t=found[:, :, p:], means=means + mean_steps)
