"""The law `transfer` at the run that is asked for: its losses there, and what its optimum
minimises.

    L_i(r) = exp(level_i) h_i F_i(r)^nu_i + H_i(r)
    F_i    = sum_q A_iq (sum_j k_iqj rho_j(r_j)^gamma_i)^-alpha_iq exp(sum_j t_ij r_j)

level and nu belong to the run's size, h_i to its step, rho and H to how often it reads each pool
(`repetition`). The sum of F is log-convex in rho and falls with it. rho is concave in r and H
convex. So every loss is convex in r where nu > 0. t of any sign keeps it so, since it acts on r and
not on rho.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bimix.transfer import repetition
from bimix.transfer.factor import Factor

# Stands for a share of 0 where a power of it has no slope.
TINY = 1e-30


@dataclass(frozen=True)
class Asked:
    """What a run's size and pools change, of d loss domains and m training domains."""

    level: np.ndarray  # (d,)
    nu: np.ndarray  # (d,)
    per_share: np.ndarray  # (m,) epochs of a whole share, tokens of the run over the pool; 0 where it has no limit
    R: float
    height: np.ndarray  # (d,) of the harm
    mu: float
    own: np.ndarray  # (d,) index of each loss domain among the training domains, -1 where it is none


def as_fitted(d: int, m: int) -> Asked:
    """A run that changes nothing, of a law without sizes and pools."""
    zeros = np.zeros(d)
    return Asked(zeros, np.ones(d), np.zeros(m), repetition.PUBLISHED_R, zeros, 1.0, np.full(d, -1))


def losses(asked: Asked, mixed: Factor, shares: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """Losses (n, k, d) at shares (n, m); `curve` (k, d) is h."""
    rho = repetition.counted(shares, asked.per_share, asked.R)[0]
    level = np.exp(asked.level + asked.nu * mixed.levels(rho, shares))
    return level[:, None, :] * curve + _harm(asked, shares)[0][:, None, :]


def _harm(asked: Asked, shares: np.ndarray):
    """H (..., d) and its two derivatives by each loss domain's own share."""
    own = shares[..., asked.own]
    parts = repetition.harm(own, asked.per_share[asked.own], asked.height, asked.mu)
    return tuple(np.where(asked.own >= 0, part, 0.0) for part in parts)


def objective(asked: Asked, mixed: Factor, height: np.ndarray, target: np.ndarray) -> Callable:
    """sum_i w_i L_i(r) with gradient and Hessian; `height` (d,) is h, `target` w."""
    c, a, g, k, t = mixed

    def at(r):
        r = np.maximum(r, TINY)
        rho, by_r, bend_r = repetition.counted(r, asked.per_share, asked.R)
        rho = np.maximum(rho, TINY)
        powers = rho ** g[:, None]
        sums = np.einsum("dqj,dj->dq", k, powers)
        slope = k * (g[:, None] * powers / rho)[:, None]  # (d, K, m) of S by rho
        bend = slope * (g[:, None, None] - 1) / rho
        value = np.exp(c) * sums**-a
        first, second = -a * value / sums, a * (a + 1) * value / sums**2
        total = value.sum(axis=1)
        by_rho = np.einsum("dq,dqj->dj", first, slope)
        straight = np.einsum("dq,dqj->dj", first, bend)  # what curves along each share alone
        scale = target * height * np.exp(asked.level + asked.nu * (t @ r)) * total**asked.nu
        log_slope = by_rho * by_r / total[:, None]  # of the sum of F
        whole = log_slope + t  # of F
        each = scale * asked.nu / total
        flat = (slope * by_r).reshape(-1, len(r))
        hessian = flat.T @ ((each[:, None] * second).reshape(-1, 1) * flat)
        hessian += whole.T @ ((scale * asked.nu**2)[:, None] * whole)
        hessian -= log_slope.T @ ((scale * asked.nu)[:, None] * log_slope)
        diagonal = np.arange(len(r))
        hessian[diagonal, diagonal] += each @ (straight * by_r**2 + by_rho * bend_r)
        gradient = (scale * asked.nu) @ whole
        extra, extra_slope, extra_bend = (target * part for part in _harm(asked, r))
        trained = asked.own >= 0
        np.add.at(gradient, asked.own[trained], extra_slope[trained])
        np.add.at(hessian, (asked.own[trained], asked.own[trained]), extra_bend[trained])
        return scale.sum() + extra.sum(), gradient, hessian

    return at
