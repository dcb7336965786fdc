"""RegMix's trees with settings of their own for each loss, by cross-validation of five folds.

The released settings were made for 512 runs. Here leaves, least runs of a leaf and iterations are
chosen for the runs there are; all else is as in `regmix`.
"""

from itertools import product

import numpy as np

from bimix.laws import regmix
from bimix.laws.per_step import fit_steps, refit_with
from bimix.observations.observations import Observations
from bimix.plan.laws import LAWS

FOLDS, ITERATIONS, RATE, STOP_AFTER = 5, 600, 0.04, 30
LEAVES, LEAST = (3, 8, 31), (2, 5, 15)


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """As `regmix.fit`, with the settings beside the trees: "settings" {num_leaves,
    min_data_in_leaf, iterations}; from `start` they are taken and not chosen again.
    """

    def fit_named(shares, losses, base, begin):
        chosen = begin["settings"] if begin else choose(shares, losses, base)
        return {**grow(shares, losses, base, chosen, observed.domains), "settings": chosen}

    return fit_steps(fit_named, observed, weights, start), {}


def choose(shares, losses, weights) -> dict:
    """The settings with the least squared error on folds left out."""
    import lightgbm  # costs a second: only these laws pay it

    order = np.random.default_rng(0).permutation(len(losses)) % FOLDS
    folds = [(np.flatnonzero(order != fold), np.flatnonzero(order == fold)) for fold in range(FOLDS)]
    best = None
    for leaves, least in product(LEAVES, LEAST):
        if 2 * least > len(losses) * (FOLDS - 1) / FOLDS:
            continue  # nothing could be split
        settings = _settings(leaves, least)
        errors = lightgbm.cv(
            settings,
            lightgbm.Dataset(shares, losses, weight=weights, params={"verbosity": -1} | _of_data(settings)),
            ITERATIONS,
            folds=folds,
            callbacks=[lightgbm.early_stopping(STOP_AFTER, verbose=False)],
        )["valid l2-mean"]
        if best is None or min(errors) < best[0]:
            best = min(errors), {"num_leaves": leaves, "min_data_in_leaf": least, "iterations": len(errors)}
    return best[1]


def grow(shares, losses, weights, chosen, domains) -> dict:
    """The trees of those settings for losses (n,) of mixtures (n, m)."""
    import lightgbm

    settings = _settings(chosen["num_leaves"], chosen["min_data_in_leaf"])
    data = lightgbm.Dataset(shares, losses, weight=weights, params={"verbosity": -1} | _of_data(settings))
    return regmix.written(lightgbm.train(settings, data, chosen["iterations"]), domains)


def _settings(leaves, least) -> dict:
    return regmix.SETTINGS | {"learning_rate": RATE, "num_leaves": leaves, "min_data_in_leaf": least}


def _of_data(settings) -> dict:
    """What LightGBM reads while it cuts the proportions into bins."""
    return {"min_data_in_bin": 1, "min_data_in_leaf": settings["min_data_in_leaf"]}


LAW = regmix.LAW._replace(fit=fit, refit=refit_with(fit), plan=LAWS["regmix_tuned"])
