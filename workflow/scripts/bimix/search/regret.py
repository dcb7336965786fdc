"""When to stop: what the mixture that a law finds now is expected to lose to the best there is,
beside the noise of a run.

The law's numbers are drawn from what the runs leave open of them (Laplace: a normal distribution
about the fit, whose precision is that of the runs and of what was known before). Its scale is told
by runs that were left out: their errors are what the law misses of a new mixture. In each draw the
best mixture is another one, and the regret is what the present one loses to it.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from bimix.laws import predict_defined
from bimix.laws.transfer import own_domains
from bimix.observed.observations import Observations
from bimix.observed.wide import tidy_losses
from bimix.optimum.intervals import BORROWED, drawn_together, left_out
from bimix.optimum.optimum import average, optimum, target_weights
from bimix.search.criterion import outer
from bimix.search.sensitivity import Numbers, fitted_numbers, known_before, moved, slopes

LEAST_RUNS = 3
FURTHEST = 10.0  # a drawn logarithm is moved at most so far: a hundred thousandfold either way decides nothing more


@dataclass(frozen=True)
class Regret:
    """What the mixture picked now is expected to lose to the best, and its predicted loss."""

    nats: float
    predicted: float
    draws: np.ndarray  # (draws,) nats of each


def drawn_laws(fitted: dict, observed: Observations, counted: np.ndarray, step: int, draws: int, seed: int):
    """The fitted law with numbers drawn from what the runs leave open; `counted` (n, m) are their
    shares that count.
    """
    own = own_domains(observed)
    at = fitted_numbers(fitted, own)
    by_number = slopes(at, counted)[1]
    left = left_out(fitted, observed, step)
    errors = np.log(left.observed / left.predicted)
    # Beyond their ridge the numbers are not known worse than within about 1 of what they are drawn
    # to, in logarithms: cross-validation may take a ridge of all but 0.
    held = np.maximum(drawn_together(errors**2, fitted) / at.ridge, 1.0)
    before = held[:, None, None] * known_before(at)
    spread = np.sqrt(drawn_together(errors**2 / (1 + _left_open(before, by_number)), fitted))
    together = np.linalg.cholesky(_correlation(errors))
    generator = np.random.default_rng(seed)
    # A precision L L' has draws L^-T z.
    factors = np.linalg.cholesky(before + outer(by_number))
    for _ in range(draws):
        noise = together @ generator.standard_normal(factors.shape[:2])
        change = np.linalg.solve(factors.transpose(0, 2, 1), noise[:, :, None])[:, :, 0] * spread[:, None]
        yield _with_numbers(fitted, at, moved(at, np.clip(change, -FURTHEST, FURTHEST)))


def _correlation(errors: np.ndarray) -> np.ndarray:
    """Correlations (d, d) of errors (n, d) between loss domains, drawn to none.

    A mixture that the law misses it misses for many losses at once, which an average does not even
    out.
    """
    seen = np.where(np.isfinite(errors), errors, 0.0)
    unit = seen / np.maximum(np.sqrt((seen**2).mean(axis=0)), 1e-300)
    drawn = (unit.T @ unit + BORROWED * np.eye(unit.shape[1])) / (len(unit) + BORROWED)
    scale = np.sqrt(np.diag(drawn))
    return drawn / np.outer(scale, scale)


def _left_open(before: np.ndarray, by_number: np.ndarray) -> np.ndarray:
    """f M^-1 f (n, d) of each run, M the precision by all others."""
    opened = np.empty(by_number.shape[:2])
    for n, own in enumerate(by_number):
        others = before + outer(np.delete(by_number, n, axis=0))
        opened[n] = np.einsum("di,dij,dj->d", own, np.linalg.inv(others), own)
    return opened


def _with_numbers(fitted: dict, before: Numbers, after: Numbers) -> dict:
    """The fitted law with other numbers."""
    coefficients = {}
    for i, (domain, values) in enumerate(fitted["coefficients"].items()):
        terms = [
            term
            | {
                "A": float(term["A"] * np.exp(after.c[i, q] - before.c[i, q])),
                "alpha": float(after.a[i, q]),
                "transfer": dict(zip(fitted["domains"], after.k[i, q].tolist(), strict=True)),
            }
            for q, term in enumerate(values["terms"])
        ]
        coefficients[domain] = values | {"terms": terms, "gamma": float(after.g[i])}
    return fitted | {"coefficients": coefficients}


def expected_regret(
    fitted: dict,
    laws: list[dict],
    step: int,
    weights: dict[str, float] | None,
    lower: np.ndarray,
    upper: np.ndarray,
) -> Regret:
    """What the optimum of a fitted law within bounds loses to the optimum of each drawn law."""
    target = target_weights(fitted, weights)

    def loss(law, shares):
        return float(average(predict_defined(law, shares[None], np.array([step]))[0, 0], target))

    pick = optimum(fitted, step, weights, lower, upper)
    gaps = np.array([loss(law, pick) - loss(law, optimum(law, step, weights, lower, upper)) for law in laws])
    return Regret(float(gaps.mean()), loss(fitted, pick), gaps)


def noise_of_average(losses: pl.DataFrame, name: str, domains: list[str], target: dict[str, float]) -> float | None:
    """Standard deviation of the log average loss between runs of one mixture and size at their last
    step, pooled; None where none was repeated.

    `target` {loss domain: weight}; a run that lacks one of them counts not.
    """
    table = tidy_losses(losses, name, domains).table
    if "seed" not in table.columns:
        return None
    wanted = {domain: weight for domain, weight in target.items() if weight > 0}
    run = [column for column in ("mixture", "parameters") if column in table.columns]
    last = table.filter(
        pl.col("domain").is_in(list(wanted)) & (pl.col("step") == pl.col("step").max().over([*run, "seed"]))
    )
    schedule = ["step"]  # runs of other lengths are no repeats
    weight = pl.col("domain").replace_strict(wanted, return_dtype=pl.Float64)
    averages = (
        last.with_columns(weight=weight)
        .group_by([*run, *schedule, "seed"])
        .agg(((pl.col("loss") * pl.col("weight")).sum() / pl.col("weight").sum()).log().alias("level"), pl.len())
        .filter(pl.col("len") == len(wanted))
    )
    pooled = averages.group_by([*run, *schedule]).agg(pl.col("level").var().alias("variance"), pl.len())
    pooled = pooled.filter(pl.col("len") > 1)
    if not pooled.height:
        return None
    freedom = pooled["len"] - 1
    return float(np.sqrt((pooled["variance"] * freedom).sum() / freedom.sum()))


def advice(regret: Regret, noise: float | None) -> str:
    """One sentence: go on or stop, with both numbers."""
    lost = f"the mixture that the law picks now is expected to lose {regret.nats:.4f} nats to the best"
    if noise is None:
        return f"Go on: {lost}; the noise of a run is not known, since no run was repeated."
    of_run = regret.predicted * noise
    beside = f"and two runs of one mixture differ by {of_run:.4f} nats (standard deviation)"
    if regret.nats < of_run:
        return f"Stop: {lost}, {beside}: more runs like these would not tell."
    return f"Go on: {lost}, {beside}."
