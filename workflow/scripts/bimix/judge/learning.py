"""How the scores of laws grow with the number of runs fitted."""

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.errors import at_last_step, for_the_last_step, one_size
from bimix.laws import fit, predict_observed
from bimix.observations.observations import Observations

LEARNING = {
    "law": pl.String,
    "runs": pl.Int64,
    "draw": pl.Int64,
    "mre": pl.Float64,
    "mre_worst": pl.Float64,
    "spearman": pl.Float64,
    "note": pl.String,
}


def learning_curve(
    laws: list[str], observed: Observations, held_out: Observations | None, counts: list[int], draws: int, seed: int
) -> pl.DataFrame:
    """Error and rank correlation at the last step against the number of mixtures fitted, in
    the columns of LEARNING.

    Each draw fits `runs` random mixtures and predicts the held-out ones, or without such the
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
                    predicted = predict_observed(fitted, test, test.steps[-1:])[:, 0]
                except InputError as refusal:
                    rows.append((law, runs, draw, None, None, None, str(refusal)))
                    continue
                scores = at_last_step(test, predicted, "")
                errors = list(scores["_mre"].values())
                ranks = [rank for rank in scores["_spearman"].values() if np.isfinite(rank)]
                rows.append((law, runs, draw, np.mean(errors), max(errors), np.mean(ranks) if ranks else None, None))
    return pl.DataFrame(rows, schema=LEARNING, orient="row")
