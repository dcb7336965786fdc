"""From checked rows to arrays: seeds averaged, schedules told apart, pairs as matrices."""

from collections.abc import Iterable

import numpy as np
import polars as pl

from bimix.observations.rows import RUN


def averaged(losses: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple, int], float | None]:
    """One row per run (mixture and size), step and domain, with the geometric mean over seeds;
    seeds of each; their pooled noise.

    The noise is the root mean square, over all rows that were repeated, of the standard deviation
    of log losses; metrics do not count.
    """
    run = [name for name in RUN if name in losses.columns]
    if "seed" not in losses.columns:
        return losses, dict.fromkeys(losses.select(run).iter_rows(), 1), None
    seeds = {tuple(one): count for *one, count in losses.group_by(run).agg(pl.col("seed").n_unique()).iter_rows()}
    if max(seeds.values(), default=1) == 1:
        return losses, seeds, None
    logs = pl.col("loss").log()
    spread = logs.var().alias("variance")
    kept = [pl.col(name).first() for name in ("row", "tokens", "metric") if name in losses.columns]
    key = [*run, "step", "domain"]
    means = losses.group_by(key, maintain_order=True).agg(*kept, logs.mean().exp().alias("loss"), spread)
    of_losses = means.filter(~pl.col("metric")) if "metric" in means.columns else means
    variance = of_losses["variance"].drop_nulls().mean()
    return means, seeds, None if variance is None else float(np.sqrt(variance))


def with_schedules(losses: pl.DataFrame) -> pl.DataFrame:
    """With the column `schedule`, the tokens, where a mixture of one size has rows of several
    schedules.

    It has them where its tokens differ and do not grow with the steps: those that do are trained on
    until then.
    """
    if "tokens" not in losses.columns:
        return losses
    of = [name for name in ("mixture", "parameters") if name in losses.columns]
    tokens = pl.col("tokens").cast(pl.Float64)
    ratio = tokens / pl.col("step")
    several = ((ratio.max() - ratio.min() > 1e-6 * ratio.max()) & (tokens.n_unique() > 1)).over(of)
    schedule = pl.when(several).then(tokens).otherwise(0.0).alias("schedule")
    return losses if losses.select(several.any()).item() is False else losses.with_columns(schedule)


def as_matrix(
    shares: pl.DataFrame, used: list[str], domains: list[str] | tuple[str, ...], column: str = "proportion"
) -> np.ndarray:
    """Proportions, or another `column` (n, m) of the mixtures `used`, which may be there several
    times; 0 where not listed.
    """
    names = index(dict.fromkeys(used))
    matrix = np.zeros((len(names), len(domains)))
    shares = shares.filter(pl.col("mixture").is_in(list(names)) & pl.col("domain").is_in(list(domains)))
    rows = shares["mixture"].replace_strict(names, return_dtype=pl.Int64).to_numpy()
    columns = shares["domain"].replace_strict(index(domains), return_dtype=pl.Int64).to_numpy()
    matrix[rows, columns] = shares[column].to_numpy()
    return matrix[[names[name] for name in used]]


def pools_matrix(shares: pl.DataFrame, used: list[str], domains: list[str]) -> np.ndarray | None:
    """Unique tokens (n, m); a pool that is empty is not limited."""
    if "pool" not in shares.columns:
        return None
    pools = shares.with_columns(pl.col("pool").cast(pl.Float64, strict=False).fill_null(np.inf))
    matrix = as_matrix(pools, used, domains, "pool")
    return np.where(matrix > 0, matrix, np.inf)


def last_tokens(losses: pl.DataFrame, row: np.ndarray, count: int) -> np.ndarray | None:
    """Tokens (n,) of each run's last row."""
    if "tokens" not in losses.columns:
        return None
    tokens = np.zeros(count)
    order = np.argsort(losses["step"].to_numpy(), kind="stable")
    tokens[row[order]] = losses["tokens"].cast(pl.Float64, strict=False).to_numpy()[order]
    return tokens if (tokens > 0).all() else None


def tokens_per_step(losses: pl.DataFrame) -> float | None:
    """Tokens of a step where the column `tokens` has as many in each; else None."""
    if "tokens" not in losses.columns:
        return None
    ratio = losses["tokens"].cast(pl.Float64, strict=False) / losses["step"]
    low, high = ratio.min(), ratio.max()
    return float(ratio.median()) if low is not None and low > 0 and high - low <= 1e-6 * high else None


def index(names: Iterable) -> dict:
    """The place of each name."""
    return {name: position for position, name in enumerate(names)}
