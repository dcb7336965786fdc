"""How well a law over sizes tells runs of a large model, by how many of them it was fitted to."""

import numpy as np
import polars as pl

from bimix.judge.errors import rank_correlation, relative_error
from bimix.laws import fit, predict_runs
from bimix.observations.observations import Observations

# `runs`: what was fitted; error in percent of the loss, null where no run was left.
SIZES = {"runs": pl.String, "large_runs": pl.Int64, "draw": pl.Int64, "error": pl.Float64, "spearman": pl.Float64}
LEFT = 2  # large runs that are left to be predicted, at least
RANKED = 3  # runs that have an order to speak of


def size_scores(
    law: str, observed: Observations, large: np.ndarray, counts: list[int], draws: int, seed: int
) -> pl.DataFrame:
    """Error and rank correlation on the `large` runs (n,) that were not fitted, in the columns of
    SIZES.

    Each draw fits all runs that are not large and a random number of those, `counts` as far as
    there are so many. The error is the mean over runs and loss domains, the correlation the mean
    over the loss domains, null for fewer than three runs.
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
            rank = ranks(truth, predicted) if len(truth) >= RANKED else None
            rows.append((law, count, draw, error, rank))
    return pl.DataFrame(rows, schema=SIZES, orient="row")


def ranks(truth: np.ndarray, predicted: np.ndarray) -> float | None:
    """Spearman's correlation, the mean over the loss domains that have one; None where none has."""
    seen = np.isfinite(truth).all(axis=0)
    found = rank_correlation(truth[:, seen], predicted[:, seen]) if seen.any() else np.array([])
    found = found[np.isfinite(found)]
    return float(found.mean()) if len(found) else None
