"""The laws side by side: the same scores on the same rows, and how they grow with the number of runs fitted."""

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.laws import fit, predict
from bimix.observations import Observations
from bimix.scores import extrapolation, generalization, rank_correlation, relative_error

COMPARISON = {
    "law": pl.String,
    "score": pl.String,
    "domain": pl.String,
    "value": pl.Float64,
    "runs": pl.Int64,
    "coefficients": pl.Int64,
    "note": pl.String,
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
FOLDS = 8


def compare(laws: list[str], observed: Observations, held_out: Observations | None) -> pl.DataFrame:
    """Every law's scores per loss domain, and their means (domain null), in the columns of COMPARISON; a refusal is a note.

    extrapolation_mre (Table 2), generalization_r2 and generalization_mre (Table 3, the held-out mixtures), left_out_mre and
    left_out_spearman: mixtures left out of the fit (one at a time up to 8 of them, else in 8 folds), at the last step.
    """
    rows = []
    for law in laws:
        n = len(observed.mixtures)
        try:
            document = fit(law, observed)
            scores = {"extrapolation_mre": _per_domain(extrapolation(law, observed), "relative_error")}
            if held_out is not None:
                table = generalization(document, held_out, held_out.proportions)
                scores |= {
                    "generalization_r2": _per_domain(table, "r2_log"),
                    "generalization_mre": _per_domain(table, "mre"),
                }
            scores |= _left_out(law, observed)
        except InputError as refusal:
            rows.append((law, "refused", None, None, n, None, str(refusal)))
            continue
        for score, values in scores.items():
            size = document["coefficients_fitted"]
            rows += [(law, score, domain, value, n, size, None) for domain, value in values.items()]
            known = [value for value in values.values() if value is not None and np.isfinite(value)]
            rows.append(
                (law, score, None, float(np.mean(known)) if known else None, n, size, None if known else "not defined")
            )
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


def _per_domain(table: pl.DataFrame, column: str) -> dict[str, float | None]:
    means = table.group_by("domain").agg(pl.col(column).mean()).sort("domain")
    return dict(means.iter_rows())


def _left_out(law, observed) -> dict[str, dict[str, float]]:
    n = len(observed.mixtures)
    if n < 3:
        return {}
    folds = np.random.default_rng(0).permutation(np.arange(n) % FOLDS)
    step = observed.steps[-1:]
    predicted = np.full(observed.losses[:, 0].shape, np.nan)
    for fold in range(folds.max() + 1):
        document = fit(law, observed.take(np.nonzero(folds != fold)[0]))
        predicted[folds == fold] = predict(document, observed.proportions[folds == fold], step)[:, 0]
    return _at_last_step(observed, predicted, "left_out")


def _at_last_step(observed, predicted, name):
    last = observed.losses[:, -1]
    errors, ranks = {}, {}
    for d, domain in enumerate(observed.loss_domains):
        seen = np.isfinite(last[:, d])
        if seen.any():
            errors[domain] = float(relative_error(last[seen, d], predicted[seen, d]).mean())
        if seen.sum() > 2:
            ranks[domain] = float(rank_correlation(last[seen, d : d + 1], predicted[seen, d : d + 1])[0])
    return {f"{name}_mre": errors, f"{name}_spearman": ranks}


def learning_curve(laws, observed, held_out: Observations | None, counts, draws: int, seed: int) -> pl.DataFrame:
    """Error and rank correlation at the last step against the number of mixtures fitted, in the columns of LEARNING.

    Each draw fits `runs` random mixtures and predicts the held-out ones, or without such the mixtures that were not drawn.
    Every law gets the same draws; mean and worst over loss domains of the mean relative error, mean of Spearman's correlation.
    """
    rows = []
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
                    document = fit(law, observed.take(order[:runs]))
                    predicted = predict(document, test.proportions, test.steps[-1:])[:, 0]
                except InputError as refusal:
                    rows.append((law, runs, draw, None, None, None, str(refusal)))
                    continue
                scores = _at_last_step(test, predicted, "")
                errors, ranks = list(scores["_mre"].values()), list(scores["_spearman"].values())
                rows.append((law, runs, draw, np.mean(errors), max(errors), np.nanmean(ranks), None))
    return pl.DataFrame(rows, schema=LEARNING, orient="row")
