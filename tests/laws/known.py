"""Known laws, mixtures, and losses of runs of them: one bank for all tests of laws."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from bimix.observations.observations import Observations

# Losses (n, k, d) at proportions (n, m) and steps (k,).
Truth = Callable[[np.ndarray, Sequence[int]], np.ndarray]

STEPS = np.arange(10_000, 200_001, 10_000)


def bivariate(seed: int, m: int) -> Truth:
    """The law `bimix` of m domains, r^-alpha (B / s^beta + C), with random coefficients."""
    draw = np.random.default_rng(seed)
    alpha, b = draw.uniform(0.02, 0.4, m), draw.uniform(5, 80, m)
    beta, c = draw.uniform(0.2, 0.9, m), draw.uniform(0.5, 3, m)
    return lambda shares, steps: shares[:, None, :] ** -alpha * (b / np.asarray(steps)[:, None] ** beta + c)


def with_transfer(seed: int, m: int = 7, mean_log_k: float | None = -3.0) -> Truth:
    """`transfer` of m domains, (k.r)^-alpha (B / s^beta + C); no transfer where mean is None."""
    draw = np.random.default_rng(1000 + seed)
    a = draw.uniform(0.05, 0.3, m)
    k = np.zeros((m, m)) if mean_log_k is None else np.exp(draw.normal(mean_log_k, 1, (m, m)))
    np.fill_diagonal(k, 1)
    b, beta, c = draw.uniform(5, 50, m), draw.uniform(0.2, 0.7, m), draw.uniform(1, 3, m)
    return lambda shares, steps: ((shares @ k.T) ** -a)[:, None, :] * (b / np.asarray(steps)[:, None] ** beta + c)


def who_speak_alike(seed: int, m: int = 7, worth: float = -2.5) -> tuple[Truth, np.ndarray]:
    """The law `transfer` of m domains that help each other the more the nearer they speak, and the
    cross-entropies (m, m) of their texts.

    Cross-entropies are 2 nats and the distance of two points on a plane, of standard deviation
    0.85; log k is `worth` less their gaps, and off it by 0.6.
    """
    draw = np.random.default_rng(2000 + seed)
    others = ~np.eye(m, dtype=bool)
    places = draw.normal(size=(m, 2))
    gaps = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2))
    gaps *= 0.85 / gaps[others].std()
    a = draw.uniform(0.05, 0.3, m)
    centred = gaps - gaps.sum(axis=1, keepdims=True) / (m - 1)
    k = np.exp(worth + draw.normal(0, 0.5, (m, 1)) - centred + 0.6 * draw.standard_normal((m, m)))
    np.fill_diagonal(k, 1)
    b, beta, c = draw.uniform(5, 50, m), draw.uniform(0.2, 0.7, m), draw.uniform(1, 3, m)
    truth = lambda shares, steps: ((shares @ k.T) ** -a)[:, None, :] * (b / np.asarray(steps)[:, None] ** beta + c)  # noqa: E731
    return truth, 2 + gaps


def of_three(transfer: bool) -> Truth:
    """A law of three fixed domains; with `transfer` each helps the others a little."""
    alpha, c = np.array([0.1, 0.2, 0.05]), np.array([1, 2, 3])
    k = np.array([[1, 0.05, 0.1], [0.02, 1, 0.2], [0.05, 0.1, 1]]) if transfer else np.eye(3)
    return lambda shares, steps: ((shares @ k.T) ** -alpha)[:, None, :] * (20 / np.asarray(steps)[:, None] ** 0.4 + c)


def mixtures(seed: int, n: int, m: int = 7) -> np.ndarray:
    """Random proportions (n, m), none of them 0."""
    shares = np.random.default_rng(seed).dirichlet(np.full(m, 2.0), n) + 1e-3
    return shares / shares.sum(axis=1, keepdims=True)


def observe(
    truth: Truth,
    shares: np.ndarray,
    steps: Sequence[int],
    noise: float = 0.0,
    seed: int | np.random.Generator = 0,
    domains: Sequence[str] | None = None,
    name: str = "run",
) -> Observations:
    """Runs of mixtures (n, m): losses of the truth, times a noise in log loss that is shared along
    a run.

    Domains are d00, d01, ... where none are named; loss domains beyond them are foreign0, ...
    """
    losses = truth(shares, steps)
    n, _, d = losses.shape
    losses = losses * np.exp(noise * np.random.default_rng(seed).standard_normal((n, 1, d)))
    domains = tuple(domains or (f"d{j:02d}" for j in range(shares.shape[1])))
    names = domains + tuple(f"foreign{j}" for j in range(d - len(domains)))
    return Observations(tuple(f"{name}{i}" for i in range(n)), domains, np.asarray(steps), names, shares, losses)


def write_prior(entropies: np.ndarray, domains: Sequence[str], path: Path | str) -> str:
    """Write cross-entropies (m, m) of domains as measure_cross_entropy does; the file's name."""
    m = len(domains)
    columns = {"domain": np.repeat(domains, m), "under": np.tile(domains, m), "nats": np.ravel(entropies)}
    pl.DataFrame(columns).write_csv(path)
    return str(path)


def write_tables(
    observed: Observations, losses: Path | str, mixtures: Path | str, tokens_per_step: int | None = None
) -> list[str]:
    """Write the two tidy tables, csv or parquet; the flags that name them to a script."""
    n, k, d = observed.losses.shape
    steps = np.tile(np.repeat(observed.steps, d), n)
    rows = {"mixture": np.repeat(observed.mixtures, k * d), "step": steps}
    if tokens_per_step is not None:
        rows["tokens"] = steps * tokens_per_step
    rows |= {"domain": np.tile(observed.loss_domains, n * k), "loss": observed.losses.ravel()}
    shares = {
        "mixture": np.repeat(observed.mixtures, len(observed.domains)),
        "domain": np.tile(observed.domains, n),
        "proportion": observed.proportions.ravel(),
    }
    for table, path in ((rows, losses), (shares, mixtures)):
        frame = pl.DataFrame(table)
        frame.write_csv(path) if str(path).endswith(".csv") else frame.write_parquet(path)
    return ["--losses", str(losses), "--mixtures", str(mixtures)]


def of_sizes(seed: int, m: int = 4) -> Callable[[np.ndarray, float, float], np.ndarray]:
    """A law of m domains with transfer and size: losses (n, m) by parameters and tokens."""
    factor = with_transfer(seed, m)
    draw = np.random.default_rng(2000 + seed)
    b, d, c = draw.uniform(0.3, 0.7, m), draw.uniform(0.3, 0.7, m), draw.uniform(1, 2, m)

    def truth(shares, parameters, tokens):
        mixed = factor(shares, [1e12])[:, 0] / factor(np.full((1, m), 1 / m), [1e12])[:, 0]
        return mixed * (b * (tokens / 5e9) ** -0.3 + d * (parameters / 1e8) ** -0.35 + c)

    return truth


def of_schedules(seed: int, n: int = 12, noise: float = 0.003) -> Observations:
    """Runs of two domains with pools, over schedules of three lengths, evaluated along the way."""
    shares, steps, lengths = mixtures(seed, n, 2), np.arange(500, 4001, 500), np.resize([1000, 2000, 4000], n)
    losses = (shares[:, None] + 0.02) ** -0.1 * (20 / steps[:, None] ** 0.3 + 2)
    losses = losses * np.exp(noise * np.random.default_rng(seed).standard_normal((n, 1, 2)))
    losses[steps > lengths[:, None]] = np.nan
    names, domains, pools = tuple(f"m{i}" for i in range(n)), ("a", "b"), np.tile([2e8, 5e9], (n, 1))
    return Observations(names, domains, steps, domains, shares, losses, tokens=1e6 * lengths, pools=pools)


def write_runs(runs: Sequence[tuple], domains: Sequence[str], losses: Path | str, mixtures: Path | str) -> list[str]:
    """Tables of runs (mixture, shares, losses, columns, pools or None): their flags."""
    rows, shares = [], []
    for mixture, share, loss, further, pools in runs:
        rows += [
            {"mixture": mixture, "step": 100, "domain": name, "loss": float(one)} | further
            for name, one in zip(domains, loss, strict=True)
        ]
        shares += [
            {"mixture": mixture, "domain": name, "proportion": float(share[j])}
            | ({} if pools is None else {"pool": float(pools[j])})
            for j, name in enumerate(domains)
        ]
    pl.DataFrame(rows).write_csv(losses)
    pl.DataFrame(shares).unique(["mixture", "domain"], maintain_order=True).write_csv(mixtures)
    return ["--losses", str(losses), "--mixtures", str(mixtures)]
