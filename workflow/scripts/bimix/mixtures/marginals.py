"""Marginals: fixed sums of the shares of groups of domains, such as the share of a topic over all
of its quality tiers.

A group is a pattern of names, in which * is any text: `*:games`, `web:*`, or one domain.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from bimix.errors import InputError

SWEEPS = 3000
CLOSE = 1e-9
LEAST = 1e-3  # over the number of domains
ROUNDING = 1e-6  # by which sums may contradict each other
KEPT = 1e-3  # a sum that is missed by less is kept: tables are often rounded


def rows_of(marginals: Mapping[str, float], domains: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The 0-1 matrix (q, m) of the domains in each marginal, and the sums (q,).

    Errors: a pattern that matches no domain, a sum outside 0 to 1, sums that exclude each other.
    """
    rows = np.zeros((len(marginals), len(domains)))
    for row, (pattern, share) in zip(rows, marginals.items(), strict=True):
        form = re.compile(".*".join(map(re.escape, pattern.split("*"))), flags=re.DOTALL)
        row[:] = [bool(form.fullmatch(name)) for name in domains]
        if not row.any():
            raise InputError(f"the marginals name {pattern!r}, and no domain is called so: {', '.join(domains[:20])}.")
        if not 0 <= share <= 1:
            raise InputError(f"the marginal of {pattern!r} is {share:g}: it must be a share, from 0 to 1.")
    sums = np.array(list(marginals.values()), dtype=float)
    _check_sums(list(marginals), np.vstack([np.ones(len(domains)), rows]), np.append(1.0, sums))
    return rows, sums


def _check_sums(names: list[str], rows: np.ndarray, sums: np.ndarray) -> None:
    """Errors: one of the rows (1 + q, m), the first of which sums all domains, is a combination of
    others, and its sum contradicts theirs by more than ROUNDING.
    """
    if np.abs(rows @ np.linalg.lstsq(rows, sums, rcond=None)[0] - sums).sum() <= ROUNDING:
        return
    apart = [0]  # rows of which none follows from others
    for n, row in enumerate(rows):
        parts = np.linalg.lstsq(rows[apart].T, row, rcond=None)[0]
        if np.abs(parts @ rows[apart] - row).max() > CLOSE:
            apart.append(n)
        elif abs(parts @ sums[apart] - sums[n]) > CLOSE:
            found = [*(own for own, part in zip(apart, parts, strict=True) if abs(part) > CLOSE), n]
            what = "the sum 1 of all shares" if 0 in found else "each other"
            said = ", ".join(f"{names[own - 1]} {sums[own]:g}" for own in found if own)
            of_all = f", which sum to {sums[[own for own in found if own]].sum():.6g}" if 0 in found else ""
            raise InputError(f"the marginals contradict {what}: {said}{of_all}.")


def missed(shares: np.ndarray, rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The largest deviation (...) of mixtures (..., m) from the sums; 0 where it is below KEPT."""
    worst = np.abs(shares @ rows.T - sums).max(axis=-1)
    return np.where(worst < KEPT, 0.0, worst)


def raked(shares: np.ndarray, rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Mixtures (n, m) scaled group by group until all groups have their sums (iterative
    proportional fitting, Deming & Stephan 1940). Shares of 0 are raised to a small one first: too
    many zeros may make the sums impossible. Errors: it does not converge to these sums.
    """
    shares = np.where(rows[sums <= 0].any(axis=0), 0.0, np.maximum(shares, LEAST / rows.shape[1]))
    steps = [*((row, wanted) for row, wanted in zip(rows, sums, strict=True)), (np.ones(shares.shape[1]), 1.0)]
    for _ in range(SWEEPS):
        for row, wanted in steps:
            there = shares @ row
            factor = np.divide(wanted, there, out=np.ones_like(there), where=there > 0)
            shares = np.where(row > 0, shares * factor[:, None], shares)
        if np.abs(shares @ rows.T - sums).max(initial=0.0) < CLOSE:
            return shares
    raise InputError("no mixture keeps the marginals: their sums contradict each other, or are all but met by one.")
