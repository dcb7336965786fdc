"""The laws side by side: the same scores on the same rows, and their sizes."""

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.errors import extrapolation, generalization, left_out, one_size
from bimix.laws import LAWS, fit
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


def compare(laws: list[str], observed: Observations, held_out: Observations | None) -> pl.DataFrame:
    """Every law's scores per loss domain, and their means (domain null), in
    the columns of COMPARISON.

    The note of a mean says where the score is not defined, or that the law has fewer runs than
    determine its numbers; a law that refuses the data has one row, its note the refusal.

    extrapolation_mre (Table 2), generalization_r2 and generalization_mre (Table 3, the held-out
    mixtures), left_out_mre and left_out_spearman: mixtures left out of the fit (one at a time up to
    8 of them, else in 8 folds), at the last step.
    """
    one_size(observed)
    rows = []
    for law in laws:
        n = len(observed.mixtures)
        try:
            fitted = fit(law, observed)
            scores = {"extrapolation_mre": _per_domain(extrapolation(law, observed), "relative_error")}
            if held_out is not None:
                table = generalization(fitted, held_out, held_out.proportions)
                scores |= {
                    "generalization_r2": _per_domain(table, "r2_log"),
                    "generalization_mre": _per_domain(table, "mre"),
                }
            scores |= left_out(law, observed)
        except InputError as refusal:
            rows.append((law, "refused", None, None, n, None, str(refusal)))
            continue
        size, least = fitted["coefficients_fitted"], LAWS[law].plan.least_runs(len(observed.domains))
        few = f"needs {least} runs" if n < least else None
        for score, values in scores.items():
            rows += [(law, score, domain, value, n, size, None) for domain, value in values.items()]
            known = [value for value in values.values() if value is not None and np.isfinite(value)]
            mean = float(np.mean(known)) if known else None
            rows.append((law, score, None, mean, n, size, few if known else "not defined"))
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


def laws_table(comparison: pl.DataFrame) -> pl.DataFrame:
    """One row per law for a person: law, coefficients, runs, the mean scores (errors
    in percent), and a note.
    """
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
    """The paper's complexity table, in letters and for m training domains, d
    loss domains and n steps.
    """
    rows = []
    for law in laws:
        size = LAWS[law].size
        one, every = size.one_step(m), size.one_step(m) if n == 1 else size.steps(m, n)
        numbers = [one, one and d * one, every and d * every]
        rows.append((law, LAWS[law].formula, *size.written, *numbers, LAWS[law].plan.least_runs(m)))
    return pl.DataFrame(rows, schema=COMPLEXITY, orient="row")


def _per_domain(table: pl.DataFrame, column: str) -> dict[str, float | None]:
    means = table.group_by("domain").agg(pl.col(column).mean()).sort("domain")
    return dict(means.iter_rows())
