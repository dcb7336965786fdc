"""The signed term of the law `transfer`: sum_j t_ij r_j in the log loss of domain i, through which
a share can also hurt.

    log L_i = ... + sum_j t_ij r_j        t of either sign, under a ridge of its own for each domain

It is linear in t, so t is eliminated: for any values of the other parameters t is the ridge
regression of their residuals e. With W the weights of the runs, R their shares and q the ridge, the
remaining sum of squares is

    e' (W - W R (R'W R + q)^-1 R'W) e = |(1 - P E P') sqrt(W) e|^2        P = sqrt(W) R

where (1 - P E P') is the symmetric root. To optimise the other parameters with residuals and
Jacobian multiplied by it is the joint fit of all (variable projection).

t acts on the share r of a run, not on the effective share of repeated text: a concave function of r
times a t above 0 would not be convex.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Signed:
    """The signed terms of b = fits d loss domains, eliminated from the fit of the others."""

    shares: np.ndarray  # (n, m)
    root: np.ndarray  # (b, n) of the weights
    of: np.ndarray  # (b,) index among vectors
    vectors: np.ndarray  # (u, m, m) eigenvectors of R'W R
    turned: np.ndarray  # (u, n, m) R times these
    values: np.ndarray  # (b, m) its eigenvalues
    ridge: np.ndarray  # (b,) of t, inf where a domain has none

    def take(self, rows) -> "Signed":
        """The terms of these rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name in ("root", "of", "values", "ridge")})

    def without(self, weighed: np.ndarray) -> np.ndarray:
        """Rows (b, p, n), multiplied by the root of the weights, times (1 - P E P')."""
        whole = self.values + self.ridge[:, None]
        # 1 - sqrt(q / (s + q)) over s, which is finite at s = 0, too
        part = 1 / (whole * (1 + 1 / np.sqrt(1 + self.values / self.ridge[:, None])))
        sums = part[:, None] * self.sums(weighed)
        back = np.concatenate([sums[rows] @ self.turned[of].T for of, rows in self._alike()])
        return weighed - self.root[:, None] * back

    def sums(self, weighed: np.ndarray) -> np.ndarray:
        """The rows times P, along the eigenvectors: (b, p, m)."""
        weighed = self.root.astype(weighed.dtype, copy=False)[:, None] * weighed
        turned = self.turned.astype(weighed.dtype, copy=False)
        return np.concatenate([weighed[rows] @ turned[of] for of, rows in self._alike()])

    def _alike(self):
        """Groups of rows with the same eigenvectors, and these vectors."""
        groups = itertools.groupby(range(len(self.of)), self.of.__getitem__)
        return [(of, slice(rows[0], rows[-1] + 1)) for of, rows in ((of, list(rows)) for of, rows in groups)]

    def numbers(self, left: np.ndarray) -> np.ndarray:
        """t (b, m) from the residuals (b, n) of the other parameters."""
        sums, vectors = (self.root**2 * left) @ self.shares, self.vectors[self.of]
        inner = np.einsum("bmk,bm->bk", vectors, sums) / (self.values + self.ridge[:, None])
        return np.einsum("bmk,bk->bm", vectors, inner)


def signed(shares: np.ndarray, w: np.ndarray, ridge: np.ndarray) -> Signed | None:
    """The terms for weights w (b, n) and ridges (b,); None where all are off (inf)."""
    if not np.isfinite(ridge).any():
        return None
    # domains that were observed in the same runs have the same weights up to a factor
    rows, of = np.unique(w / np.maximum(w.max(axis=1, keepdims=True), 1e-300), axis=0, return_inverse=True)
    values, vectors = np.linalg.eigh(shares.T @ (rows[:, :, None] * shares))
    size = w.max(axis=1, keepdims=True)
    of = of.ravel()
    values = np.maximum(values[of], 0.0) * size
    return Signed(shares, np.sqrt(w), of, vectors, shares @ vectors, values, np.asarray(ridge, dtype=float))
