"""When to stop: what the mixture that a law finds now is expected to lose to the best there is,
beside the noise of a run.

The law's numbers are drawn from what the runs leave open of them (Laplace: a normal distribution
about the fit, whose precision is that of the runs and of what was known before). Its scale is told
by runs that were left out: their errors are what the law misses of a new mixture. In each draw the
best mixture is another one, and the regret is what the present one loses to it. All draws have the
form of the law, so what the form misses is not in them: the regret is at least that of picks among
runs that were left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from bimix.laws.transfer import own_domains
from bimix.observations.observations import Observations
from bimix.observations.wide import tidy_losses
from bimix.optimum.best import Unattainable, best_shares
from bimix.optimum.goal import Goal
from bimix.optimum.intervals import BORROWED, LeftOut, drawn_together
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import average
from bimix.search.criterion import outer
from bimix.search.sensitivity import Numbers, fitted_numbers, known_before, moved, slopes

LEAST_RUNS = 3
STOP_RUNS = 12  # with fewer the left-out errors are too few to stop by
DRAWS = 200  # of two thirds of the runs
FURTHEST = 10.0  # a drawn logarithm is moved at most so far: a hundred thousandfold either way decides nothing more


@dataclass(frozen=True)
class Regret:
    """What the mixture picked now is expected to lose to the best, and its predicted loss."""

    nats: float
    predicted: float
    draws: np.ndarray  # (draws,) nats of each


def drawn_laws(fitted: dict, observed: Observations, counted: np.ndarray, left: LeftOut, draws: int, seed: int):
    """The fitted law with numbers drawn from what the runs leave open; `counted` (n, m) are their
    shares that count, `left` what it misses of runs that were left out.
    """
    own = own_domains(observed)
    at = fitted_numbers(fitted, own)
    by_number = slopes(at, counted)[1]
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
    objective: Objective,
    lower: np.ndarray,
    upper: np.ndarray,
    left: LeftOut,
    centre: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Regret:
    """What the mixture that a fitted law picks by an objective loses to that of each drawn law, or
    among the runs that were `left` out, whichever is more.

    Draws know the scatter of the law and not its misfit, which runs that were left out show. They
    are compared by the average of the losses that weigh, which `minimax` has no use for.
    """
    pick = best_shares(fitted, step, objective, lower, upper, centre)
    gaps = []
    for law in laws:
        goal = Goal(law, step, objective, centre)
        try:
            best = best_shares(law, step, objective, lower, upper, centre)
        except Unattainable:  # this law has no mixture that holds the constraints, so none is better
            continue
        gaps.append(max(float(goal.value(pick)) - float(goal.value(best)), 0.0))
    drawn = np.array(gaps)
    measured = 0.0
    if objective.kind != "minimax":
        measured = left_out_regret(left, objective.target(fitted), np.random.default_rng(seed))
    value = float(Goal(fitted, step, objective, centre).value(pick))
    return Regret(max(float(drawn.mean()) if len(drawn) else 0.0, measured), value, drawn)


def left_out_regret(left: LeftOut, target: np.ndarray, generator: np.random.Generator) -> float:
    """Mean loss of the run that is best by its left-out prediction to the one that was measured
    best, among two thirds of the runs, drawn at random; 0 where fewer than LEAST_RUNS are known.

    Runs of several sizes have levels of their own: those of the most frequent are compared.
    """
    guessed, there = average(left.predicted, target), average(left.observed, target)
    known = np.isfinite(guessed) & np.isfinite(there)
    if left.groups is not None:
        known &= left.groups == np.bincount(left.groups[known]).argmax() if known.any() else known
    rows = np.flatnonzero(known)
    if len(rows) < LEAST_RUNS:
        return 0.0
    lost = []
    for _ in range(DRAWS):
        some = generator.permutation(rows)[: max(2, round(2 * len(rows) / 3))]
        lost.append(there[some[guessed[some].argmin()]] - there[some].min())
    return float(np.mean(lost))


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


def advice(regret: Regret, noise: float | None, runs: int) -> str:
    """One sentence: go on or stop, with both numbers; never to stop below STOP_RUNS runs."""
    lost = f"the mixture that the law picks now is expected to lose {regret.nats:.4f} nats to the best"
    if noise is None:
        return f"Go on: {lost}; the noise of a run is not known, since no run was repeated."
    of_run = regret.predicted * noise
    beside = f"and two runs of one mixture differ by {of_run:.4f} nats (standard deviation)"
    if regret.nats >= of_run:
        return f"Go on: {lost}, {beside}."
    if runs < STOP_RUNS:
        return f"Go on: {lost}, {beside}; but {runs} runs are too few to stop by: {STOP_RUNS} at least."
    return f"Stop: {lost}, {beside}: more runs like these would not tell."
