"""A blend of laws as a check of one law: where the blend predicts left-out runs significantly
better, the form of the law misfits these runs.

The blend is a weighted geometric mean of the laws' predictions, with weights of at least 0 that sum
to 1, the same for all losses (stacking, Breiman 1996). Each fold is predicted with weights from the
other folds.
"""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit

from bimix.judge.errors import folds_of

LEAST_RUNS = 8
# One-sided level of the paired test, and the least fraction of the law's error to be saved.
LEVEL, LEAST_SAVED = 0.95, 0.05
SHOWN = 0.05  # weights below it are not named
HEAVY = 1e4  # holds the sum of the weights at 1


def blend(truth: np.ndarray, predicted: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, float]]:
    """Losses (n, d) by the blend of laws, NaN where `truth` is, and its weights from all folds.

    `predicted` {law: (n, d)}: predictions of left-out losses, all defined.
    """
    seen, folds = np.isfinite(truth), folds_of(len(truth))
    target, table = np.log(truth), np.log(np.array(list(predicted.values())))

    def weights(rows: np.ndarray) -> np.ndarray:
        use = seen & rows[:, None]
        matrix = np.vstack([table[:, use].T, np.full(len(table), HEAVY)])
        found = nnls(matrix - np.append(target[use], 0.0)[:, None], np.append(np.zeros(use.sum()), HEAVY))[0]
        return found / found.sum()

    mixed = np.full(truth.shape, np.nan)
    for fold in np.unique(folds):
        mixed[folds == fold] = np.exp(np.tensordot(weights(folds != fold), table[:, folds == fold], 1))
    whole = weights(np.ones(len(truth), dtype=bool))
    return np.where(seen, mixed, np.nan), dict(zip(predicted, whole.tolist(), strict=True))


def beaten(truth: np.ndarray, law: np.ndarray, mixed: np.ndarray) -> bool:
    """Whether the blend predicts the runs significantly better than the law: by a paired one-sided
    t-test of the runs' mean errors, and by at least LEAST_SAVED of the law's error.
    """
    there = np.isfinite(truth).any(axis=1)  # a run that stopped has no loss at the last step
    truth, law, mixed = truth[there], law[there], mixed[there]
    errors = np.array([np.nanmean(np.abs(one / truth - 1), axis=1) for one in (law, mixed)])
    saved, n = errors[0] - errors[1], len(truth)
    if n < LEAST_RUNS or not np.isfinite(errors).all() or errors[1].mean() > (1 - LEAST_SAVED) * errors[0].mean():
        return False
    return bool(saved.mean() > stdtrit(n - 1, LEVEL) * saved.std(ddof=1) / np.sqrt(n))


def shown(weights: Mapping[str, float]) -> str:
    """The weights as text, the largest first: "0.6 transfer, 0.4 exponential"."""
    order = sorted(weights, key=weights.get, reverse=True)
    return ", ".join(f"{weights[law]:.2g} {law}" for law in order if weights[law] >= SHOWN)
