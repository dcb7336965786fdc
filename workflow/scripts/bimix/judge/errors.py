"""Scores of a law's predictions of losses not fitted: errors, R2, ranks (paper Tables 2, 3)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.laws.bimix import SAME, fit_curve
from bimix.laws.fitted import fit, predict_runs
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations

FOLDS = 8
EXTRAPOLATION = {
    "law": pl.String,
    "mixture": pl.String,
    "domain": pl.String,
    "step": pl.Int64,
    "observed": pl.Float64,
    "predicted": pl.Float64,
    "relative_error": pl.Float64,
}
GENERALIZATION = {"law": pl.String, "mixture": pl.String, "domain": pl.String, "r2_log": pl.Float64, "mre": pl.Float64}


def relative_error(observed, predicted):
    """|y - y'| / y (paper Sec. 6.1)."""
    return np.abs(observed - predicted) / observed


def r2_log(observed: np.ndarray, predicted: np.ndarray) -> float | None:
    """1 - SS_res / SS_tot of log losses over the steps of one curve (paper Sec. 6.2). None where
    the curve does not vary: one step, or losses equal up to rounding.
    """
    y, fitted = np.log(observed), np.log(predicted)
    if np.ptp(y) < SAME:
        return None
    return float(1 - np.sum((y - fitted) ** 2) / np.sum((y - y.mean()) ** 2))


def extrapolation(law: str, observed: Observations) -> pl.DataFrame:
    """Errors of predicting each mixture's last step from its earlier steps: one row per mixture and
    domain.

    For a single mixture `bimix` and `transfer` are the same curve B / s^beta + C. Laws fitted at
    single steps (`exponential`, `regmix`) predict no other step and have no rows; neither has a
    curve with fewer than four steps.
    """
    rows = []
    for n, mixture in enumerate(observed.mixtures):
        for d, domain in enumerate(observed.loss_domains):
            seen = np.nonzero(np.isfinite(observed.losses[n, :, d]))[0]
            if not LAWS[law].over_steps or len(seen) < 4:
                continue
            curve = fit_curve(observed.steps[seen[:-1]], observed.losses[n, seen[:-1], d])
            step, truth = int(observed.steps[seen[-1]]), float(observed.losses[n, seen[-1], d])
            predicted = curve["B"] / step ** curve["beta"] + curve["C"]
            rows.append((law, mixture, domain, step, truth, predicted, relative_error(truth, predicted)))
    return pl.DataFrame(rows, schema=EXTRAPOLATION, orient="row")


def generalization(fitted: dict, held_out: Observations, proportions: np.ndarray) -> pl.DataFrame:
    """R2 and mean relative error of a fitted law over all steps of held-out mixtures: one row per
    mixture and domain.

    `proportions` (n, m) are the held-out mixtures in the order of the law's domains. Steps to which
    a per-step law was not fitted are left out; of a law over sizes or schedules all but each run's
    last.
    """
    held_out = held_out.ended() if "rows" in fitted else held_out
    steps = held_out.steps
    if "rows" not in fitted and (not LAWS[fitted["law"]].over_steps or len(fitted["steps"]) == 1):
        steps = np.array([step for step in steps if step in fitted["steps"]], dtype=int)
    losses = held_out.losses[:, np.isin(held_out.steps, steps)]
    shared = [domain for domain in fitted["loss_domains"] if domain in held_out.loss_domains]
    if not len(steps) or not shared:
        return pl.DataFrame(schema=GENERALIZATION)
    domains = tuple(fitted["domains"])
    held_out = replace(held_out, proportions=proportions, domains=domains, pools=_pools(domains, held_out))
    columns = [fitted["loss_domains"].index(domain) for domain in shared]
    predicted = predict_runs(fitted, held_out, steps)[:, :, columns]
    losses = losses[:, :, [held_out.loss_domains.index(domain) for domain in shared]]
    rows = []
    for n, mixture in enumerate(held_out.mixtures):
        for d, domain in enumerate(shared):
            seen = np.isfinite(losses[n, :, d]) & np.isfinite(predicted[n, :, d])
            if seen.any():
                truth, guess = losses[n, seen, d], predicted[n, seen, d]
                rows.append(
                    (fitted["law"], mixture, domain, r2_log(truth, guess), float(relative_error(truth, guess).mean()))
                )
    return pl.DataFrame(rows, schema=GENERALIZATION, orient="row")


def _pools(domains: Sequence[str], observed: Observations) -> np.ndarray | None:
    """Pools (n, m) in the order of a fitted law's domains; None where they are not known."""
    if observed.pools is None:
        return None
    pools = dict(zip(observed.domains, observed.pools.T, strict=True))
    none = np.full(len(observed.mixtures), np.inf)
    return np.stack([pools.get(name, none) for name in domains], axis=1)


def one_size(observed: Observations) -> None:
    """Errors: runs of several sizes, which have no common last step to score."""
    if observed.parameters is not None:
        raise InputError("the losses are of models of several sizes (column parameters): take the rows of one.")


def extrapolation_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Table 2: relative error at the last step, mean, worst and best over domains, in percent.

    Every law over steps is the same curve for a single mixture, which has its rows once, as `curve`.
    """
    error = 100 * pl.col("relative_error")
    once = rows.unique(["mixture", "domain"], keep="first", maintain_order=True)
    return once.group_by(pl.lit("curve").alias("law"), "mixture", maintain_order=True).agg(
        pl.len().alias("domains"),
        error.mean().alias("mean_percent"),
        error.max().alias("worst_percent"),
        error.min().alias("best_percent"),
    )


def generalization_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Table 3: R2 in log loss (a fraction) as mean, worst and best domain, and MRE in percent."""
    return rows.group_by("law", "mixture", maintain_order=True).agg(
        pl.len().alias("domains"),
        pl.col("r2_log").mean().alias("r2_mean"),
        pl.col("r2_log").min().alias("r2_worst"),
        pl.col("r2_log").max().alias("r2_best"),
        (100 * pl.col("mre")).mean().alias("mre_mean_percent"),
        (100 * pl.col("mre")).max().alias("mre_worst_percent"),
    )


def rank_correlation(observed: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Spearman's correlation (d,) over mixtures of losses (n, d); NaN where either is constant."""
    return np.array(
        [
            pl.select(pl.corr(observed[:, d], predicted[:, d], method="spearman")).item()
            if np.ptp(observed[:, d]) > SAME and np.ptp(predicted[:, d]) > SAME
            else np.nan
            for d in range(observed.shape[1])
        ]
    )


def folds_of(n: int) -> np.ndarray:
    """The fold (n,) in which each mixture is left out; up to FOLDS mixtures each has its own."""
    return np.random.default_rng(0).permutation(np.arange(n) % FOLDS)


def left_out_losses(law: str, observed: Observations) -> np.ndarray | None:
    """Predicted losses (n, d) at the last step by fits without a run's fold, NaN where the law defines
    none; None of n < 3.
    """
    if len(observed.mixtures) < 3:
        return None
    folds = folds_of(len(observed.mixtures))
    predicted = np.full(observed.losses[:, 0].shape, np.nan)
    needed = for_the_last_step(law, observed)
    for fold in range(folds.max() + 1):
        left = np.nonzero(folds == fold)[0]
        fitted = fit(law, needed.take(np.nonzero(folds != fold)[0]))
        predicted[left] = predict_runs(fitted, observed.take(left), observed.steps[-1:])[:, 0]
    return predicted


def for_the_last_step(law: str, observed: Observations) -> Observations:
    """The observations to fit for predictions at the last step: a per-step law needs only that."""
    if LAWS[law].over_steps:
        return observed
    return replace(observed, steps=observed.steps[-1:], losses=observed.losses[:, -1:])


def at_last_step(observed: Observations, predicted: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    """Mean relative errors and, from 3 mixtures on, Spearman's correlations by loss domain, of
    predictions (n, d).
    """
    last = observed.losses[:, -1]
    errors, ranks = {}, {}
    for d, domain in enumerate(observed.loss_domains):
        seen = np.isfinite(last[:, d]) & np.isfinite(predicted[:, d])
        if seen.any():
            errors[domain] = float(relative_error(last[seen, d], predicted[seen, d]).mean())
        if seen.sum() > 2:
            ranks[domain] = float(rank_correlation(last[seen, d : d + 1], predicted[seen, d : d + 1])[0])
    return errors, ranks
