"""The mixing factor of a fitted law `transfer`: its levels and its JSON; and, for the optimizer in
`mixing`, its levels and derivatives as functions of the parameters.

    log F_i = log sum_q A_iq (sum_j k_iqj r_j^gamma_i)^-alpha_iq
              + sum_j t_ij r_j

A law's JSON has t if the signed term is on; else it is 0.
"""

from typing import NamedTuple

import numpy as np

from bimix.errors import InputError

BLOCK = 1e6  # bytes


class Factor(NamedTuple):
    """d loss domains, K terms, m training domains."""

    c: np.ndarray  # (d, K) log A
    a: np.ndarray  # (d, K) alpha
    g: np.ndarray  # (d,) gamma
    k: np.ndarray  # (d, K, m)
    t: np.ndarray  # (d, m)

    def levels(self, shares: np.ndarray, straight: np.ndarray | None = None) -> np.ndarray:
        """log F (n, d) at shares (n, m), NaN where nothing helps a loss; t acts on `straight`."""
        with np.errstate(divide="ignore"):
            powers = np.exp(self.g[:, None, None] * np.log(shares))
            sums = powers @ self.k.transpose(0, 2, 1)
            logs = np.where(self.a[:, None] > 0, self.c[:, None] - self.a[:, None] * np.log(sums), self.c[:, None])
        top = logs.max(axis=2)
        top = np.where(np.isfinite(top), top, np.nan)
        mixed = (top + np.log(np.exp(logs - top[:, :, None]).sum(axis=2))).T
        return mixed + (shares if straight is None else straight) @ self.t.T

    def written(self, domains: tuple[str, ...], shifts: np.ndarray | float = 0.0) -> list[dict]:
        """The JSON of each loss domain; log A is written minus its shift (d,)."""
        table = []
        heights = np.exp(self.c - np.broadcast_to(shifts, len(self.c))[:, None])
        for i in range(len(heights)):
            terms = [
                {
                    "A": float(heights[i, q]),
                    "alpha": float(self.a[i, q]),
                    "transfer": dict(zip(domains, self.k[i, q].tolist(), strict=True)),
                }
                for q in range(self.c.shape[1])
            ]
            table.append({"terms": terms, "gamma": float(self.g[i])})
            if self.t[i].any():
                table[-1]["t"] = dict(zip(domains, self.t[i].tolist(), strict=True))
        return table


def read(coefficients: dict, domains: list[str]) -> Factor:
    """The factor from a law's coefficients; missing terms of a loss domain have height 0. Errors: a
    metric with a linear part, which earlier versions fitted.
    """
    table = list(coefficients.values())
    if any("roots" in values for values in table):
        raise InputError("the law transfer was fitted by an earlier version of this project: fit it again.")
    none = dict.fromkeys(domains, 0.0)
    most = max(len(values["terms"]) for values in table)
    absent = {"A": 0.0, "alpha": 0.0, "transfer": dict.fromkeys(domains, 1.0)}
    terms = [values["terms"] + [absent] * (most - len(values["terms"])) for values in table]
    with np.errstate(divide="ignore"):
        c = np.log([[term["A"] for term in own] for own in terms])
    return Factor(
        c=c,
        a=np.array([[term["alpha"] for term in own] for own in terms]),
        g=np.array([values["gamma"] for values in table]),
        k=np.array([[[term["transfer"][name] for name in domains] for term in own] for own in terms]),
        t=np.array([[values.get("t", none)[name] for name in domains] for values in table]),
    )


def numbers(values: dict) -> int:
    """The number of fitted parameters of a loss domain's factor: per term alpha and all but one of
    the k above 0 (a scale); gamma if used; all t but one, as shares sum to 1.
    """
    helpers = [sum(k > 0 for k in term["transfer"].values()) for term in values["terms"]]
    straight = max(len(values.get("t", ())) - 1, 0)
    return sum(helpers) + len(helpers) - 1 + (max(helpers) > 1) + straight


def unpack(x: np.ndarray, terms: int, own: np.ndarray, gaps: np.ndarray, spread: np.ndarray | None = None):
    """c, a, g, k from parameters x (b, p), whose rows belong to the loss domains `own`, repeated,
    with gaps (b, m). `spread` is L of groups of domains (`observations/groups`), None for 1.
    """
    m = (x.shape[1] - 2) // terms - 2
    logs = x[:, 2 * terms + 2 :].reshape(len(x), terms, m)
    logs = logs - gaps[:, None] if spread is None else logs @ spread - gaps[:, None]
    logs[:, 0] = (logs[:, 0] + x[:, 2 * terms + 1, None]) * _others(own, len(x), m)
    return x[:, :terms], np.exp(x[:, terms : 2 * terms]), 1 / (1 + np.exp(-x[:, 2 * terms])), np.exp(logs)


def _others(own, rows, m):
    """1 (b, m) where a domain is not the loss domain itself, whose own k is fixed to 1."""
    return (np.arange(m) != np.tile(own, rows // len(own))[:, None]).astype(float)


def levels(x, terms, own, gaps, log_shares, spread=None) -> np.ndarray:
    """y (b, n) at log proportions (n, m)."""
    c, a, g, k = unpack(x, terms, own, gaps, spread)
    parts = (
        _sum_of_terms(c[rows], a[rows], k[rows] @ _powers(g[rows], log_shares))
        for rows in blocks(len(x), log_shares.size)
    )
    return np.concatenate([y for y, _ in parts])


def blocks(b: int, numbers: int) -> list[slice]:
    """Slices of b rows that fit into a processor's cache with this many numbers per row."""
    size = max(1, int(BLOCK / (8 * numbers)))
    return [slice(first, first + size) for first in range(0, b, size)]


def jacobian_of(x, terms, own, gaps, log_shares, root, spread=None):
    """y (b, n), and its derivatives (b, p, n) by every parameter, multiplied by `root` (b, n)."""
    c, a, g, k = unpack(x, terms, own, gaps, spread)
    m = k.shape[2]
    powers = _powers(g, log_shares)
    sums = k @ powers
    y, share = _sum_of_terms(c, a, sums)
    share *= root[:, None]
    jacobian = np.empty((len(x), x.shape[1], len(log_shares)))
    jacobian[:, :terms] = share
    share *= -a[:, :, None]
    jacobian[:, terms : 2 * terms] = share * np.log(sums)
    by_g = np.zeros(y.shape)
    finite = np.where(np.isfinite(log_shares), log_shares, 0.0).T
    share /= sums
    for q in range(terms):
        by_k = jacobian[:, 2 * terms + 2 + q * m : 2 * terms + 2 + (q + 1) * m]
        np.multiply(powers, k[:, q, :, None], out=by_k)
        by_k *= share[:, q, None]
        by_g += np.einsum("bjn,jn->bn", by_k, finite)
        if q == 0:
            rows = np.flatnonzero(np.tile(own, len(x) // len(own)) >= 0)
            of_own = np.tile(own, len(x) // len(own))[rows]
            by_u = jacobian[:, 2 * terms + 1]
            by_u[:] = share[:, 0] * sums[:, 0]
            by_u[rows] -= by_k[rows, of_own]
            by_k[rows, of_own] = 0.0
        if spread is not None:
            by_k[:] = spread.T @ by_k
    jacobian[:, 2 * terms] = by_g * (g * (1 - g))[:, None]
    return y, jacobian


def _powers(g, log_shares):
    """r^g (b, m, n)."""
    powers = g[:, None, None] * np.ascontiguousarray(log_shares.T)
    return np.exp(powers, out=powers)


def _sum_of_terms(c, a, sums):
    """log sum_q exp(c_q) sums_q^-a_q (b, n), and each term's fraction of the sum (b, K, n)."""
    logs = c[:, :, None] - a[:, :, None] * np.log(sums)
    if logs.shape[1] == 1:
        return logs[:, 0], np.ones(logs.shape)
    top = logs.max(axis=1)
    y = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    return y, np.exp(logs - y[:, None])


def logs_of(shares: np.ndarray) -> np.ndarray:
    """Logarithms of shares; -inf for a share of 0."""
    with np.errstate(divide="ignore"):
        return np.log(shares)
