"""What cross-validation chooses of the law `transfer` for each loss domain by itself: its ridge,
and whether it has a signed term.

Metrics differ in scale and noise, so one ridge for all is too weak for some and too strong for
others. Some rise with a share (`signed`), most do not.
"""

import numpy as np

from bimix.transfer import mixing

# The ridge of t in units of a loss domain's ridge.
HARM = 100.0
# A loss domain's own error is rough. Beside it counts, in logs above the least, the mean over
# domains with the weight of so many runs. Of each domain it counts up to CAPPED, or those of little
# noise would choose for all.
BORROWED, CAPPED = 20, 0.5
# A signed term must cut the error of a loss domain by so much over the number of runs.
COST = 3
# A way down the ridges ends after PATIENCE of them that cut the error of next to no loss domain to
# the share FALLEN.
PATIENCE, FALLEN, NEXT_TO_NONE = 2, 0.99, 0.1


def walk(shares, y, own, rows, folds, ridges, choice, gaps=None, straight=None):
    """Mean |error| (ridges, d) of each loss domain in left-out mixtures with a signed term, at the
    largest of the ridges that are worth it; and the fits at the last of them.

    `rows` (folds + 1, n) are the weights of the fits without each fold and with all.
    """
    mixed, waited, errors = None, 0, []
    for ridge in ridges:
        mixed = mixing.fit(
            shares,
            y,
            own,
            ridge,
            weights=rows,
            start=mixed,
            apart=choice["apart"],
            gaps=gaps if choice["prior"] else None,
            harm=HARM,
            straight=straight,
        )
        before = np.min(errors, axis=0) if errors else np.full(len(own), np.inf)
        errors.append(np.nanmean(misses(mixed, shares, y, folds, straight), axis=0))
        waited = 0 if (errors[-1] < FALLEN * before).mean() > NEXT_TO_NONE else waited + 1
        if waited == PATIENCE:
            break
    return np.array(errors), mixed


def misses(mixed, shares, y, folds, straight=None) -> np.ndarray:
    """|error| (n, d) in the mixtures of each fold, by the fit without it; NaN of those in none."""
    found = np.full(y.shape, np.nan)
    for fold in range(1 + folds.max()):
        of = folds == fold
        found[of] = np.abs(mixing.predict(mixed, shares[of], fold, None if straight is None else straight[of]) - y[of])
    return found


def picked(plain: np.ndarray, signed: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Index of the ridge (d,) and whether there is a signed term (d,), of the least error of each
    loss domain, from errors (ridges, d) without one and with one.
    """
    logs = np.log(np.maximum(np.concatenate([plain, signed]), 1e-300))
    logs = logs - np.nanmin(logs, axis=0)
    logs = logs + BORROWED / runs * np.nanmean(np.minimum(logs, CAPPED), axis=1, keepdims=True)
    logs[len(plain) :] -= np.log(max(1 - COST / runs, 1e-300))
    best = np.where(np.isnan(logs), np.inf, logs).argmin(axis=0)
    return np.where(best < len(plain), best, best - len(plain)), best >= len(plain)
