"""Repeated text: the effective share of a domain, and the harm of repeating a small pool.

In a run of T tokens a domain with share r_j and a pool of U_j unique tokens is read for e_j = r_j T
/ U_j epochs. Up to one epoch the effective share is r_j; above, it saturates, as in Muennighoff et
al. (arXiv 2305.16264),

    rho_j = (U_j / T) (1 + R (1 - exp(-(e_j - 1) / R))),

and the loss on that domain rises through memorisation (an additive term, as in arXiv 2605.01640),

    H_j = P x^2 / (1 + x) r_j^mu (M / U_j)^kappa,    x = max(e_j - 1, 0),

with M the parameters of the model or, if not known, the pools' geometric mean (`Repetition`). The power of r_j
models that other text in the mixture reduces memorisation; without it no form described both one
pool over horizons of 2 to 32 times its size and parts of that pool. The effective share rho is
concave in r and H convex for mu >= 0, so the optimum stays a convex problem. The four numbers R, P,
mu and kappa are shared by all domains, with weak priors, and are not fitted without repetition.

A larger model than those fitted loses more by the last readings than their runs show, at equal e_j:
its log loss rises by c r_j x^2 / (1 + x), which is convex too. No size law of c is known; runs of
that size measure it (`sizes`), until then its prior stands.
"""

from dataclasses import dataclass

import numpy as np

from bimix.transfer import factor, mixing

PUBLISHED_R = 15.4
# Prior means and standard deviations of log R, log P, log mu, log kappa
PRIOR = np.array([np.log(PUBLISHED_R), np.log(0.05), np.log(1.5), np.log(0.5)])
SPREAD = np.array([0.5, 2.0, 0.3, 0.7])
# Prior median of c and standard deviation of its log: 0.042 and 0.023 in the two proofs.
LARGER, LARGER_SPREAD = 0.03, 1.0
# Standard deviation of log losses around the law, at least: the weight of the runs relative to the priors. Where the
# law misses by more, the misfit of a fit is the noise of the next. The d losses of a run miss together and count as one:
# in the two proofs this alone keeps mu and R near their priors.
NOISE, FITS = 0.002, 3
# Ridges of the mixing factor and of a group's level in the fit of these numbers.
RIDGE, LEVEL = 1e-5, 1e-8
ROUNDS, SETTLED = 200, 1e-7


@dataclass(frozen=True)
class Repetition:
    """R and P, mu, kappa of the harm (P 0: none); `scale` is M, None each run's parameters.

    `pools` are those of all fitted runs, where they have the same: then no run says what larger
    pools change, and M grows with the pools of the asked run.
    """

    R: float = PUBLISHED_R
    P: float = 0.0
    mu: float = 1.5
    kappa: float = 0.5
    scale: float | None = None
    pools: dict[str, float] | None = None


def counted(shares: np.ndarray, per_share: np.ndarray, R: float):
    """rho (..., m) of shares (..., m), with `per_share` = T / U, and its derivative."""
    x = np.maximum(shares * per_share - 1, 0)
    left = np.exp(-x / R)
    above = x > 0
    safe = np.where(above, per_share, 1.0)
    rho = np.where(above, (1 + R * (1 - left)) / safe, shares)
    return rho, np.where(above, left, 1.0)


def harm(shares: np.ndarray, per_share: np.ndarray, height: np.ndarray, mu: float):
    """H (...) of shares (...) and its derivative; `height` is P (M / U)^kappa."""
    x = np.maximum(shares * per_share - 1, 0)
    above = x > 0
    r = np.where(above, shares, 1.0)
    bend, slope = x * x / (1 + x), (x * x + 2 * x) / (1 + x) ** 2 * per_share
    power = height * r**mu
    return np.where(above, power * bend, 0.0), np.where(above, power * (slope + mu * bend / r), 0.0)


def own_harm(form: Repetition, shares: np.ndarray, per_share: np.ndarray, pools: np.ndarray, scale, own: np.ndarray):
    """H (n, d) of runs (n, m) in the loss of each trained domain; `scale` (n,) or one is M."""
    height = form.P * (np.reshape(scale, (-1, 1)) / pools) ** form.kappa
    each = harm(shares, per_share, height, form.mu)[0]
    return np.where(own >= 0, each[:, own], 0.0)


def own_bend(shares: np.ndarray, per_share: np.ndarray, own: np.ndarray) -> np.ndarray:
    """r x^2 / (1 + x) (n, d) of the training domain of each loss, of runs (n, m)."""
    return np.where(own >= 0, harm(shares, per_share, np.ones(shares.shape[1]), 1.0)[0][:, own], 0.0)


def fit(shares, losses, own, group, tokens, pools, scale, weights) -> Repetition | None:
    """The four numbers from losses (n, d) of runs (n, m) of `tokens` (n,) on pools (n, m); None
    where no run repeats a domain.

    `group` (n,) is the index of each run's level, which is free, `scale` (n,) is M, `weights` (n,)
    are those of runs. Fitted with the mixing factor (one term, small ridge) by Levenberg-Marquardt.
    Loss domains are coupled by the means and the four numbers only, so a step is one small solve
    for each of them and a Schur complement.
    """
    per_share = tokens[:, None] / pools
    if not (shares * per_share > 1 + 1e-9).any():
        return None
    n, d = losses.shape
    m = shares.shape[1]
    levels = np.eye(group.max() + 1)[group]  # (n, groups)
    untold = np.zeros((d, m))  # no prior from text: the fit proper has it
    p = m + 4  # numbers of the mixing factor of a loss domain: c, log a, logit g, u, delta
    root = np.sqrt(weights[:, None] * (np.isfinite(losses) & (weights[:, None] > 0))).T
    target = np.log(np.where(root.T > 0, losses, 1.0)).T
    # Parameters of each loss domain are v (d, p + groups), common ones s: three means and the logs
    # of R, P, mu and kappa. Penalties are of v, of v minus its means, and of s minus its prior
    # mean.
    strength, pull = (RIDGE * one for one in mixing.penalties(own, m, 1))
    strength = np.hstack([strength, np.full((d, levels.shape[1]), LEVEL)])
    goal = np.array([mixing.mean_log_a(m), mixing.MEAN_LOGIT_G, mixing.MEAN_U, *PRIOR])
    held = RIDGE * np.array([mixing.HOLD_LOG_A, mixing.HOLD_MEANS, mixing.HOLD_MEANS])
    hold = np.array([*held, *np.zeros(4)])

    def form(s):
        return Repetition(*map(float, np.exp(s[3:])))

    def logs(s):
        return factor.logs_of(counted(shares, per_share, np.exp(s[3]))[0])

    def mixed(v, s):
        """Log losses (d, n) without the harm."""
        return factor.levels(v[:, :p], 1, own, untold, logs(s)) + v[:, p:] @ levels.T

    def harmed(mixed, s):
        """Log losses (d, n) with the harm."""
        added = own_harm(form(s), shares, per_share, pools, scale, own).T
        return np.logaddexp(mixed, np.log(np.maximum(added, 1e-300)))

    def cost(v, s):
        left = root * (harmed(mixed(v, s), s) - target)
        apart = pull * (v[:, 1:4] - s[:3]) ** 2
        return (left**2).sum() + (strength * v**2).sum() + apart.sum() + hold @ (s - goal) ** 2

    def step_at(v, s):
        """A function from a damping to the damped step of v and s."""
        y, by_x = factor.jacobian_of(v[:, :p], 1, own, untold, logs(s), root)
        plain = y + v[:, p:] @ levels.T
        whole = harmed(plain, s)
        share = np.exp(plain - whole)[:, None]  # of the loss that is no harm
        by_v = np.concatenate([share * by_x, share * root[:, None] * levels.T], axis=1)
        by_s = np.zeros((d, n, 7))
        for number in range(3, 7):
            move = 1e-5 * np.eye(7)[number]
            # R alone changes the effective shares
            up, down = (mixed(v, s + sign * move) if number == 3 else plain for sign in (1, -1))
            by_s[:, :, number] = root * (harmed(up, s + move) - harmed(down, s - move)) / 2e-5
        left = (root * (whole - target))[:, :, None]
        gram, edges = by_v @ by_v.transpose(0, 2, 1), by_v @ by_s
        gaps = pull * (v[:, 1:4] - s[:3])
        slope = (by_v @ left)[:, :, 0] + strength * v
        slope[:, 1:4] += gaps
        edges[:, [1, 2, 3], [0, 1, 2]] -= pull
        penalty = strength.copy()
        penalty[:, 1:4] += pull
        of_shared = np.einsum("ina,inb->ab", by_s, by_s, optimize=True) + np.diag(hold)
        of_shared[[0, 1, 2], [0, 1, 2]] += pull.sum(axis=0)
        shared_slope = np.einsum("ina,in->a", by_s, left[:, :, 0]) + hold * (s - goal)
        shared_slope[:3] -= gaps.sum(axis=0)
        squares = np.maximum(np.einsum("ipp->ip", gram) + penalty, 1e-10)

        def step(damping):
            right = np.concatenate([slope[:, :, None], edges], axis=2)
            solved = mixing.solve(gram, penalty + damping * squares, right)
            inner = np.einsum("ips,ipr->sr", edges, solved, optimize=True)
            damped = of_shared + damping * np.diag(np.maximum(np.diag(of_shared), 1e-10))
            of_s = np.linalg.solve(damped - inner[:, 1:], inner[:, 0] - shared_slope)
            return np.clip(-solved[:, :, 0] - solved[:, :, 1:] @ of_s, -1, 1), np.clip(of_s, -1, 1)

        return step

    def descend(v, s):
        """The minimum of the cost from v and s."""
        damping, now = 1e-2, cost(v, s)
        for _ in range(ROUNDS):
            step = step_at(v, s)
            for _ in range(12):
                of_v, of_s = step(damping)
                new = cost(v + of_v, s + of_s)
                if new < now:
                    break
                damping *= 4
            else:
                break
            fell = 1 - new / now
            v, s, now, damping = v + of_v, s + of_s, new, max(damping * 0.3, 1e-9)
            if fell < SETTLED:
                break
        return v, s

    v, s = np.zeros((d, strength.shape[1])), goal.copy()
    v[:, 0] = (target * root).sum(axis=1) / np.maximum(root.sum(axis=1), 1) - 0.2
    v[:, 1:4] = goal[:3]
    v[own < 0, 3] = 0.0
    noise = NOISE
    for _ in range(FITS):
        hold[3:] = (noise / SPREAD) ** 2
        v, s = descend(v, s)
        left = root * (harmed(mixed(v, s), s) - target)
        noise = max(NOISE, float(np.sqrt(d * (left**2).sum() / (root**2).sum())))
    return form(s)
