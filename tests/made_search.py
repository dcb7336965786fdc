"""Runs of a made truth that no law has the form of, as arrays and as tables."""

import numpy as np
import polars as pl

from bimix.observations.observations import Observations
from bimix.search.posterior import squares

DOMAINS = ("code", "law", "web")


def truth(shares: np.ndarray) -> np.ndarray:
    """Losses (n, 3): powers of what helps, with a dip that no law of the project has."""
    helps = shares @ np.array([[1.0, 0.1, 0.3], [0.1, 1.0, 0.2], [0.4, 0.3, 1.0]]).T
    dip = np.exp(-squares(shares, np.array([[0.2, 0.5, 0.3]]))[:, 0] / 0.05)
    return 2 + (0.02 + helps) ** -0.4 - 0.15 * dip[:, None]


def runs(shares: np.ndarray, noise: float = 0.0, seed: int = 0) -> Observations:
    losses = truth(shares) * np.exp(noise * np.random.default_rng(seed).standard_normal((len(shares), 1)))
    names = tuple(f"m{number}" for number in range(len(shares)))
    return Observations(names, DOMAINS, np.array([100]), DOMAINS, shares, losses[:, None])


START = np.random.default_rng(0).dirichlet(np.ones(3), 5)


def tables(folder, observed: Observations, seeds: int = 1) -> list[str]:
    rows = [
        (name, 100, domain, observed.losses[n, 0, i] * (1 + 0.001 * seed * (-1) ** n), seed)
        for n, name in enumerate(observed.mixtures)
        for i, domain in enumerate(DOMAINS)
        for seed in range(seeds)
    ]
    pl.DataFrame(rows, ["mixture", "step", "domain", "loss", "seed"], orient="row").write_csv(folder / "losses.csv")
    written(folder / "mixtures.csv", observed.mixtures, observed.proportions)
    return ["--losses", str(folder / "losses.csv"), "--mixtures", str(folder / "mixtures.csv")]


def written(path, names, shares) -> None:
    rows = [
        (name, domain, share)
        for name, row in zip(names, shares, strict=True)
        for domain, share in zip(DOMAINS, row, strict=True)
    ]
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_csv(path)
