"""How far a mixture lies from the runs that a law was fitted to: by domain, from the nearest run,
from their convex hull.

Distances are total variations, half the sum of absolute differences: the share of the mixture that
would have to be moved.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

OUTSIDE = 1e-6  # of a total variation: below it a mixture lies on the hull


@dataclass(frozen=True)
class Support:
    """outside: {domain: share above the most, or below the least, that a run had}."""

    outside: dict[str, float]
    nearest: str
    nearest_distance: float
    hull_distance: float

    def sentence(self) -> str:
        """What a person should know where the mixture is no mean of the runs; else nothing."""
        if self.hull_distance <= OUTSIDE:
            return ""
        beyond = ", ".join(f"{name} {share:+.4f}" for name, share in self.outside.items())
        return (
            f"the mixture lies outside the runs that the law was fitted to: {self.hull_distance:.4f} of it would have to be"
            f" moved to be a mean of them, {self.nearest_distance:.4f} to be the nearest, {self.nearest}"
            + (f"; outside the shares seen: {beyond}." if beyond else ".")
        )

    def as_json(self) -> dict:
        return asdict(self)


def support(shares: np.ndarray, runs: np.ndarray, domains: Sequence[str], names: Sequence[str]) -> Support:
    """Of a mixture (m,) among runs (n, m), called `names`."""
    above, below = shares - runs.max(axis=0), shares - runs.min(axis=0)
    beyond = np.maximum(above, 0) + np.minimum(below, 0)
    distances = 0.5 * np.abs(runs - shares).sum(axis=1)
    nearest = int(distances.argmin())
    outside = {name: float(one) for name, one in zip(domains, beyond, strict=True) if abs(one) > OUTSIDE}
    return Support(outside, str(names[nearest]), float(distances[nearest]), hull_distance(shares, runs))


def hull_distance(shares: np.ndarray, runs: np.ndarray) -> float:
    """The least total variation of a mixture (m,) from a mean of runs (n, m): a linear program.

    min 1/2 sum_j s_j where -s <= runs' w - r <= s, w >= 0, sum w = 1.
    """
    from scipy.optimize import linprog  # half a second: only what asks for it pays

    n, m = runs.shape
    cost = np.concatenate([np.zeros(n), np.full(m, 0.5)])
    eye = np.eye(m)
    within = np.block([[runs.T, -eye], [-runs.T, -eye]])
    found = linprog(
        cost,
        A_ub=within,
        b_ub=np.concatenate([shares, -shares]),
        A_eq=np.concatenate([np.ones(n), np.zeros(m)])[None],
        b_eq=[1.0],
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the distance to the runs could not be found: {found.message}")
    return max(0.0, float(found.fun))
