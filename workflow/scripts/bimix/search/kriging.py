"""Kriging of what a law misses: a Gaussian process over mixtures, squared-exponential in Hellinger
distance, whose length, deviation and noise are chosen by leaving runs out.
"""

from dataclasses import dataclass

import numpy as np

LENGTHS = (0.2, 0.35, 0.6)
USUAL_LENGTH, LENGTH_SPREAD = 0.35, 0.5  # prior of its logarithm: a few runs do not choose it alone
USUAL_NOISE = 0.003  # of the log loss of a run, where nobody repeated one
NOISES = (0.5, 1.0, 2.0)  # times the noise that is known or usual
FLOOR = 1e-6  # of a share, where its root has no slope


def squares(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Squared Hellinger distances (n, k), from 0 to 1, of mixtures (n, m) and (k, m)."""
    return np.maximum(1 - np.sqrt(np.maximum(some, 0)) @ np.sqrt(np.maximum(others, 0)).T, 0.0)


def total_variation(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Total variations (n, k), from 0 to 1, of mixtures (n, m) and (k, m)."""
    return 0.5 * np.abs(some[:, None] - others[None]).sum(axis=2)


@dataclass(frozen=True)
class Kriged:
    """What was found of n runs (n, m): a mean and a deviation at any mixture."""

    runs: np.ndarray  # (n, m)
    weights: np.ndarray  # (n,)
    inverse: np.ndarray  # (n, n) of the covariance, in units of the variance
    length: float
    deviation: float  # where no run is near
    noise: float  # of a run

    def near(self, shares: np.ndarray) -> np.ndarray:
        return np.exp(-squares(shares, self.runs) / (2 * self.length**2))

    def mean(self, shares: np.ndarray) -> np.ndarray:
        """The mean (k,) at mixtures (k, m)."""
        return self.near(shares) @ self.weights

    def slope(self, shares: np.ndarray) -> np.ndarray:
        """Its gradient (m,) at a mixture (m,)."""
        roots = np.sqrt(self.runs / np.maximum(shares, FLOOR))
        return (self.near(shares[None])[0] * self.weights) @ roots / (4 * self.length**2)

    def spread(self, shares: np.ndarray) -> np.ndarray:
        """The deviation (k,) at mixtures (k, m): small near the runs."""
        near = self.near(shares)
        told = np.einsum("kn,nl,kl->k", near, self.inverse, near)
        return self.deviation * np.sqrt(np.maximum(1 - told, 0.0))

    def difference(self, one: np.ndarray, other: np.ndarray) -> float:
        """The deviation of the difference between two mixtures (m,)."""
        pair = np.stack([one, other])
        near = self.near(pair)
        apart = np.exp(-squares(pair, pair) / (2 * self.length**2)) - near @ self.inverse @ near.T
        return self.deviation * float(np.sqrt(max(apart[0, 0] + apart[1, 1] - 2 * apart[0, 1], 0.0)))


def kriged(runs: np.ndarray, values: np.ndarray, deviation: float, noise: float | None) -> Kriged:
    """Kriging of values (n,) of runs (n, m), 0 far from all; `deviation` as known from elsewhere.

    The length, the deviation within a factor of two and the noise are those at which each run is
    likeliest, foretold by the others; noise that is known stays as it is.
    """
    known = USUAL_NOISE if noise is None else max(noise, 1e-6)
    apart, best = squares(runs, runs), None
    for length in LENGTHS:
        near = np.exp(-apart / (2 * length**2))
        for times in (0.5, 1.0, 2.0):
            for noisy in (1.0,) if noise is not None else NOISES:
                variance = (max(deviation, known) * times) ** 2
                nugget = (known * noisy) ** 2 / variance
                inverse = np.linalg.inv(near + nugget * np.eye(len(runs)))
                left, open_ = (inverse @ values) / np.diag(inverse), variance / np.diag(inverse)
                likely = -0.5 * (left**2 / open_ + np.log(open_)).sum()
                likely -= 0.5 * (np.log(length / USUAL_LENGTH) / LENGTH_SPREAD) ** 2
                likely -= 0.5 * np.log(times) ** 2 + 0.5 * np.log(noisy) ** 2
                if best is None or likely > best[0]:
                    best = likely, Kriged(runs, inverse @ values, inverse, length, variance**0.5, known * noisy)
    return best[1]
