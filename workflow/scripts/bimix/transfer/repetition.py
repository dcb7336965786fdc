"""Repeated text: the share of a domain that counts, and the harm of reading a small pool too often.

In a run of T tokens a domain with share r_j and a pool of U_j unique tokens is read e_j = r_j T /
U_j
times. Up to once a share counts as it is, above it saturates, as in Muennighoff et al. (arXiv
2305.16264),

    rho_j = (U_j / T) (1 + R (1 - exp(-(e_j - 1) / R))),

and the loss on that domain rises by what the model memorises (an additive term, as in arXiv
2605.01640),

    H_j = P x^2 / (1 + x) r_j^mu (M / U_j)^kappa,    x = max(e_j - 1, 0),

M the parameters of the model or, where they are not known, the pools' geometric mean. The power of
r_j says that what is read next to it keeps a model from memorising. Without it no form
described one pool over horizons of 2 to 32 times its size, and parts of it, alike. The share that
counts, rho, is concave in r and H convex for mu >= 0, so the optimum stays one convex problem. The
four numbers R, P, mu and kappa are shared by all domains under weak priors, and are not fitted
where no run repeats anything.
"""

from dataclasses import dataclass

import numpy as np

from bimix.transfer import factor, mixing

PUBLISHED_R = 15.4
# log R, log P, log mu, log kappa: where they are drawn to, and how far from it they lie
PRIOR = np.array([np.log(PUBLISHED_R), np.log(0.05), np.log(1.5), np.log(0.5)])
SPREAD = np.array([0.5, 2.0, 0.3, 0.7])
# Standard deviation of log losses about the law: weighs the priors against the runs.
NOISE = 0.002
# The mixing factor in the search for these numbers: its ridge, and that of a group's level.
RIDGE, LEVEL = 1e-5, 1e-8
ROUNDS, SETTLED = 200, 1e-7


@dataclass(frozen=True)
class Repetition:
    """R and P, mu, kappa of the harm (P 0: none); `scale` is M, None the parameters of each run's
    model.
    """

    R: float = PUBLISHED_R
    P: float = 0.0
    mu: float = 1.5
    kappa: float = 0.5
    scale: float | None = None


def counted(shares: np.ndarray, per_share: np.ndarray, R: float):
    """rho (..., m) of shares (..., m) read `per_share` = T / U times their size, and its two
    derivatives by the share.
    """
    x = np.maximum(shares * per_share - 1, 0)
    left = np.exp(-x / R)
    above = x > 0
    safe = np.where(above, per_share, 1.0)
    rho = np.where(above, (1 + R * (1 - left)) / safe, shares)
    return rho, np.where(above, left, 1.0), np.where(above, -left * per_share / R, 0.0)


def harm(shares: np.ndarray, per_share: np.ndarray, height: np.ndarray, mu: float):
    """H (...) of shares (...) and its two derivatives; `height` is P (M / U)^kappa."""
    x = np.maximum(shares * per_share - 1, 0)
    above = x > 0
    r = np.where(above, shares, 1.0)
    bend, slope, curve = x * x / (1 + x), (x * x + 2 * x) / (1 + x) ** 2 * per_share, 2 / (1 + x) ** 3 * per_share**2
    power = height * r**mu
    value = power * bend
    first = power * (slope + mu * bend / r)
    second = power * (curve + 2 * mu * slope / r + mu * (mu - 1) * bend / r**2)
    return tuple(np.where(above, one, 0.0) for one in (value, first, second))


def own_harm(form: Repetition, shares: np.ndarray, per_share: np.ndarray, pools: np.ndarray, scale, own: np.ndarray):
    """H (n, d) of runs (n, m) in the loss of each domain that is trained on; `scale` (n,) or one
    number is M.
    """
    height = form.P * (np.reshape(scale, (-1, 1)) / pools) ** form.kappa
    each = harm(shares, per_share, height, form.mu)[0]
    return np.where(own >= 0, each[:, own], 0.0)


def fit(shares, losses, own, group, tokens, pools, scale, weights) -> Repetition | None:
    """The four numbers from losses (n, d) of runs (n, m) of `tokens` (n,) on pools (n, m); None
    where no run repeats a domain.

    `group` (n,) is the index of each run's level, which is free, `scale` (n,) is M, `weights` (n,)
    count runs. Together with the mixing factor (one term, at a small ridge) by Levenberg-Marquardt.
    """
    per_share = tokens[:, None] / pools
    if not (shares * per_share > 1 + 1e-9).any():
        return None
    n, d = losses.shape
    m = shares.shape[1]
    groups, untold = group.max() + 1, np.zeros((d, m))  # no prior from text: the fit proper has it
    p = m + 4  # numbers of the mixing factor of a loss domain: c, log a, logit g, u, delta
    ends = np.array([d * p, d * p + 3, d * p + 3 + d * groups])
    seen = np.isfinite(losses) & (weights[:, None] > 0)
    target = np.where(seen, np.log(np.where(seen, losses, 1.0)), 0.0)
    root = np.sqrt(weights[:, None] * seen)

    def form(z):
        R, P, mu, kappa = np.exp(z[ends[2] :])
        return Repetition(float(R), float(P), float(mu), float(kappa))

    def predicted(z):
        """Log losses (n, d), those less the harm, and log of the shares that count."""
        one = form(z)
        with np.errstate(divide="ignore"):
            logs = np.log(counted(shares, per_share, one.R)[0])
        mixed = (
            factor.levels(z[: ends[0]].reshape(d, p), 1, own, untold, logs).T
            + z[ends[1] : ends[2]].reshape(groups, d)[group]
        )
        added = own_harm(one, shares, per_share, pools, scale, own)
        return np.logaddexp(mixed, np.log(np.maximum(added, 1e-300))), mixed, logs

    strength, pull = np.sqrt(mixing._strengths(own, m, 1, RIDGE)), np.sqrt(mixing._pulls(own, 1, RIDGE))
    anchor = np.array([mixing.MEAN_LOG_A, mixing.MEAN_LOGIT_G, mixing.MEAN_U])
    size = ends[2] + 4
    # Penalties are rows that are linear in z: strength, pull, the means, levels, priors.
    rows, right = [], []

    def row(columns, values, goal=0.0):
        line = np.zeros(size)
        line[columns] = values
        rows.append(line)
        right.append(goal)

    for i in range(d):
        for column in np.nonzero(strength[i])[0]:
            row(i * p + column, strength[i, column])
        for s in range(3):
            row([i * p + 1 + s, ends[0] + s], [pull[i, s], -pull[i, s]])
    for s in range(3):
        held = np.sqrt(RIDGE * (mixing.HOLD_MEANS if s else mixing.HOLD_LOG_A))
        row(ends[0] + s, held, held * anchor[s])
    for column in range(ends[1], ends[2]):
        row(column, np.sqrt(LEVEL))
    for s in range(4):
        row(ends[2] + s, NOISE / SPREAD[s], NOISE / SPREAD[s] * PRIOR[s])
    rows, right = np.array(rows), np.array(right)

    def residuals(z):
        return np.concatenate([(root * (predicted(z)[0] - target)).ravel(), rows @ z - right])

    def jacobian(z):
        whole, mixed, logs = predicted(z)
        share = np.exp(mixed - whole)  # of the loss that is no harm
        matrix = np.zeros((n, d, size))
        by_x = factor.jacobian_of(z[: ends[0]].reshape(d, p), 1, own, untold, logs, np.ones((d, n)))[1]
        for i in range(d):
            matrix[:, i, i * p : (i + 1) * p] = share[:, i, None] * by_x[i]
            matrix[np.arange(n), i, ends[1] + group * d + i] = share[:, i]
        for s in range(ends[2], size):
            step = np.zeros(size)
            step[s] = 1e-5
            matrix[:, :, s] = (predicted(z + step)[0] - predicted(z - step)[0]) / 2e-5
        return np.concatenate([(root[:, :, None] * matrix).reshape(n * d, size), rows])

    z = np.zeros(size)
    start = z[: ends[0]].reshape(d, p)
    start[:, 0] = (target * root).sum(axis=0) / np.maximum(root.sum(axis=0), 1) - 0.2
    start[:, 1:4] = anchor
    start[own < 0, 3] = 0.0
    z[: ends[0]] = start.ravel()
    z[ends[0] : ends[1]] = anchor
    z[ends[2] :] = PRIOR
    return form(_descend(residuals, jacobian, z))


def _descend(residuals, jacobian, z) -> np.ndarray:
    """Levenberg-Marquardt by normal equations, steps of at most 1 in any number."""
    damping, now = 1e-2, residuals(z)
    for _ in range(ROUNDS):
        matrix = jacobian(z)
        curvature, slope = matrix.T @ matrix, matrix.T @ now
        scale = np.maximum(np.diag(curvature), 1e-10)
        for _ in range(12):
            step = np.clip(np.linalg.solve(curvature + np.diag(damping * scale), -slope), -1, 1)
            new = residuals(z + step)
            if new @ new < now @ now:
                break
            damping *= 4
        else:
            return z
        fell = 1 - (new @ new) / (now @ now)
        z, now, damping = z + step, new, max(damping * 0.3, 1e-9)
        if fell < SETTLED:
            return z
    return z
