"""Compares laws: the same scores on the same rows, their change with the number of runs fitted, and
the error of a law over sizes on a large model by the number of its runs that were fitted.
"""

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.errors import (
    at_last_step,
    extrapolation,
    for_the_last_step,
    generalization,
    left_out_losses,
    one_size,
    rank_correlation,
    relative_error,
)
from bimix.laws.fitted import fit, predict_runs
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations

COMPARISON = {
    "law": pl.String,
    "score": pl.String,
    "domain": pl.String,
    "value": pl.Float64,
    "runs": pl.Int64,
    "coefficients": pl.Int64,
    "note": pl.String,
}
LAWS_TABLE = {
    "law": pl.String,
    "coefficients": pl.Int64,
    "runs": pl.Int64,
    "extrapolation_percent": pl.Float64,
    "held_out_percent": pl.Float64,
    "left_out_percent": pl.Float64,
    "left_out_spearman": pl.Float64,
    "note": pl.String,
}
COMPLEXITY = {
    "law": pl.String,
    "formula": pl.String,
    "one_domain_one_step": pl.String,
    "all_domains_one_step": pl.String,
    "all_domains_all_steps": pl.String,
    "one_domain_one_step_here": pl.Int64,
    "all_domains_one_step_here": pl.Int64,
    "all_domains_all_steps_here": pl.Int64,
    "least_runs": pl.Int64,
}
LEARNING = {
    "law": pl.String,
    "runs": pl.Int64,
    "draw": pl.Int64,
    "mre": pl.Float64,
    "mre_worst": pl.Float64,
    "spearman": pl.Float64,
    "note": pl.String,
}
# `runs`: fitted runs; error in percent of the loss, null where no run was left.
SIZES = {"runs": pl.String, "large_runs": pl.Int64, "draw": pl.Int64, "error": pl.Float64, "spearman": pl.Float64}
LEFT = 2  # large runs that are left to be predicted, at least
RANKED = 3  # runs that have an order to speak of


def compare(laws: list[str], observed: Observations, held_out: Observations | None) -> pl.DataFrame:
    """Every law's scores per loss domain, and their means (domain null), in the columns of
    COMPARISON.

    The note of a mean names domains without a score, or says that there are fewer runs than the law
    needs; a law that refuses the data has one row, with the refusal as its note.

    extrapolation_mre (Table 2), generalization_r2 and generalization_mre (Table 3, the held-out
    mixtures), left_out_mre and left_out_spearman: mixtures left out of the fit (one at a time up to
    8 of them, else in 8 folds), at the last step.
    """
    one_size(observed)
    rows = []
    for law in laws:
        n, least = len(observed.mixtures), LAWS[law].least_runs(len(observed.domains))
        if n < least:
            rows.append((law, "refused", None, None, n, None, f"needs {least} runs"))
            continue
        try:
            fitted = fit(law, observed)
            scores = {"extrapolation_mre": _per_domain(extrapolation(law, observed), "relative_error")}
            if held_out is not None:
                table = generalization(fitted, held_out, held_out.proportions)
                scores |= {
                    "generalization_r2": _per_domain(table, "r2_log"),
                    "generalization_mre": _per_domain(table, "mre"),
                }
            left_out = left_out_losses(law, observed)
        except InputError as refusal:
            rows.append((law, "refused", None, None, n, None, str(refusal)))
            continue
        if left_out is not None:
            scores["left_out_mre"], scores["left_out_spearman"] = at_last_step(observed, left_out)
        size = fitted["coefficients_fitted"]
        for score, values in scores.items():
            rows += [(law, score, domain, value, n, size, None) for domain, value in values.items()]
            known = [value for value in values.values() if value is not None and np.isfinite(value)]
            mean = float(np.mean(known)) if known else None
            rows.append((law, score, None, mean, n, size, None if known else "not defined"))
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


def laws_table(comparison: pl.DataFrame) -> pl.DataFrame:
    """One row per law: coefficients, runs, mean scores (errors in percent), a note."""
    rows = []
    for law in comparison["law"].unique(maintain_order=True):
        own = comparison.filter((pl.col("law") == law) & pl.col("domain").is_null())
        means = dict(own.select("score", "value").iter_rows())
        notes = [note for note in own["note"].drop_nulls() if note != "not defined"]
        percent = [
            means.get(f"{score}_mre") and 100 * means[f"{score}_mre"]
            for score in ("extrapolation", "generalization", "left_out")
        ]
        ranks = means.get("left_out_spearman")
        rows.append((law, own["coefficients"][0], own["runs"][0], *percent, ranks, notes[0] if notes else None))
    return pl.DataFrame(rows, schema=LAWS_TABLE, orient="row")


def complexity(laws: list[str], m: int, d: int, n: int) -> pl.DataFrame:
    """The paper's complexity table, for m training domains, d loss domains and n steps."""
    rows = []
    for law in laws:
        entry = LAWS[law]
        one, together, every = entry.numbers(m, d, n)
        numbers = [one, together, together if n == 1 else every]
        rows.append((law, entry.formula, *entry.letters, *numbers, entry.least_runs(m)))
    return pl.DataFrame(rows, schema=COMPLEXITY, orient="row")


def _per_domain(table: pl.DataFrame, column: str) -> dict[str, float | None]:
    means = table.group_by("domain").agg(pl.col(column).mean()).sort("domain")
    return dict(means.iter_rows())


def learning_curve(
    laws: list[str], observed: Observations, held_out: Observations | None, counts: list[int], draws: int, seed: int
) -> pl.DataFrame:
    """Error and rank correlation at the last step against the number of mixtures fitted, in the
    columns of LEARNING.

    Each draw fits `runs` random mixtures and predicts the held-out ones, or without any the
    mixtures that were not drawn. Every law gets the same draws; mean and worst over loss domains of
    the mean relative error, mean of Spearman's correlation.
    """
    one_size(observed)
    rows = []
    needed = {law: for_the_last_step(law, observed) for law in laws}
    for runs in counts:
        if runs > len(observed.mixtures) - (0 if held_out else 3):
            raise InputError(
                f"{runs} mixtures are to be fitted, but there are {len(observed.mixtures)}, of which some must be left to predict."
            )
        for draw in range(draws):
            order = np.random.default_rng([seed, draw]).permutation(len(observed.mixtures))
            test = held_out or observed.take(order[runs:])
            for law in laws:
                try:
                    fitted = fit(law, needed[law].take(order[:runs]))
                    predicted = predict_runs(fitted, test, test.steps[-1:])[:, 0]
                except InputError as refusal:
                    rows.append((law, runs, draw, None, None, None, str(refusal)))
                    continue
                errors, ranks = (list(own.values()) for own in at_last_step(test, predicted))
                ranks = [rank for rank in ranks if np.isfinite(rank)]
                rows.append((law, runs, draw, np.mean(errors), max(errors), np.mean(ranks) if ranks else None, None))
    return pl.DataFrame(rows, schema=LEARNING, orient="row")


def size_scores(
    law: str, observed: Observations, large: np.ndarray, counts: list[int], draws: int, seed: int
) -> pl.DataFrame:
    """Error and rank correlation on the `large` runs (n,) that were not fitted, in the columns of
    SIZES.

    Each draw fits all other runs and `counts` random large ones, as far as there are so many. The
    error is the mean over runs and loss domains, the correlation the mean over the loss domains,
    null for fewer than three runs.
    """
    small, large = np.nonzero(~large)[0], np.nonzero(large)[0]
    rows = []
    for count in (count for count in counts if count <= len(large) - LEFT):
        for draw in range(draws if count else 1):
            order = np.random.default_rng([seed, draw, count]).permutation(large)
            left = observed.take(order[count:])
            fitted = fit(law, observed.take(np.sort(np.concatenate([small, order[:count]]))))
            predicted, truth = predict_runs(fitted, left, left.steps[-1:])[:, 0], left.last()
            error = float(100 * np.nanmean(relative_error(truth, predicted)))
            rows.append((law, count, draw, error, ranks(truth, predicted) if len(truth) >= RANKED else None))
    return pl.DataFrame(rows, schema=SIZES, orient="row")


def ranks(truth: np.ndarray, predicted: np.ndarray) -> float | None:
    """Spearman's correlation, averaged over the loss domains that have one; None without any."""
    seen = np.isfinite(truth).all(axis=0)
    found = rank_correlation(truth[:, seen], predicted[:, seen]) if seen.any() else np.array([])
    found = found[np.isfinite(found)]
    return float(found.mean()) if len(found) else None
