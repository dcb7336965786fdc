"""RegMix (Liu et al.): gradient-boosted trees (LightGBM) from proportions to loss, one model per
step and domain.

As published: gbdt, up to 1,000 iterations, learning rate 0.01. The number of iterations is found by
early stopping on a fifth of the mixtures kept apart; the released notebook takes the test set. The
trees are then grown on all of them. Below 100 mixtures a fifth says little and all 1,000 iterations
are run. Leaves may hold fewer mixtures where there are few of them: with LightGBM's own least
number of 20 nothing can be learnt from 32 runs.

These settings were made for 512 runs. `regmix_tuned` chooses leaves, least runs of a leaf and
iterations for each loss by cross-validation of five folds.
"""

from itertools import product

import numpy as np

SETTINGS = {
    "objective": "regression",
    "metric": "l2",
    "boosting": "gbdt",
    "learning_rate": 0.01,
    "seed": 42,
    "num_threads": 1,
    "verbosity": -1,
}
ITERATIONS, STOP_AFTER, ENOUGH = 1000, 50, 100
LEAF = (5, 20)  # least number of mixtures in a leaf: an eighth of them, within these
# Of the tuned trees.
FOLDS, TUNED_ITERATIONS, TUNED_RATE, TUNED_STOP_AFTER = 5, 600, 0.04, 30
LEAVES, LEAST = (3, 8, 31), (2, 5, 15)


def fit_step(shares, losses, weights, domains, begin=None, tuned=False) -> dict:
    """{trees, leaves, importance {domain: share of the gain}, model}, model in LightGBM's own text
    form; of tuned trees also settings {num_leaves, min_data_in_leaf, iterations}, which are those
    of an earlier fit where there is one.
    """
    import lightgbm  # costs a second: only this law pays it

    n, more = len(losses), {}
    if tuned:
        more = {"settings": begin["settings"] if begin else choose(shares, losses, weights)}
        settings, in_data = _tuned(**more["settings"])
        iterations = more["settings"]["iterations"]
    else:
        settings = SETTINGS | {"min_data_in_leaf": int(np.clip(n // 8, *LEAF))}
        in_data, iterations = {}, ITERATIONS

    def data(rows):
        params = {"verbosity": -1} | in_data
        return lightgbm.Dataset(shares[rows], losses[rows], weight=weights[rows], params=params)

    if not tuned and n >= ENOUGH:
        apart = np.zeros(n, dtype=bool)
        apart[np.random.default_rng(0).permutation(n)[: n // 5]] = True
        stop = [lightgbm.early_stopping(STOP_AFTER, verbose=False)]
        trial = lightgbm.train(settings, data(~apart), ITERATIONS, valid_sets=[data(apart)], callbacks=stop)
        iterations = trial.best_iteration
    booster = lightgbm.train(settings, data(np.arange(n)), iterations)
    gains = booster.feature_importance("gain")
    return {
        "trees": booster.num_trees(),
        "leaves": int(sum(tree["num_leaves"] for tree in booster.dump_model()["tree_info"])),
        "importance": {name: float(gain) for name, gain in zip(domains, gains / max(gains.sum(), 1e-300), strict=True)},
        "model": booster.model_to_string(),
        **more,
    }


def choose(shares, losses, weights) -> dict:
    """The settings of least squared error on folds left out; of too few one small tree's."""
    import lightgbm

    order = np.random.default_rng(0).permutation(len(losses)) % FOLDS
    folds = [(np.flatnonzero(order != fold), np.flatnonzero(order == fold)) for fold in range(FOLDS)]
    best = np.inf, {"num_leaves": LEAVES[0], "min_data_in_leaf": LEAST[0], "iterations": 1}
    for leaves, least in product(LEAVES, LEAST):
        if 2 * least > len(losses) * (FOLDS - 1) / FOLDS:
            continue  # nothing could be split
        settings, in_data = _tuned(leaves, least)
        errors = lightgbm.cv(
            settings,
            lightgbm.Dataset(shares, losses, weight=weights, params={"verbosity": -1} | in_data),
            TUNED_ITERATIONS,
            folds=folds,
            callbacks=[lightgbm.early_stopping(TUNED_STOP_AFTER, verbose=False)],
        )["valid l2-mean"]
        if min(errors) < best[0]:
            best = min(errors), {"num_leaves": leaves, "min_data_in_leaf": least, "iterations": len(errors)}
    return best[1]


def _tuned(num_leaves, min_data_in_leaf, iterations=None) -> tuple[dict, dict]:
    """LightGBM's settings, and those that it reads while it cuts the proportions into bins."""
    settings = SETTINGS | {"learning_rate": TUNED_RATE, "num_leaves": num_leaves, "min_data_in_leaf": min_data_in_leaf}
    return settings, {"min_data_in_bin": 1, "min_data_in_leaf": min_data_in_leaf}


def predict_step(numbers, domains, shares) -> np.ndarray:
    import lightgbm

    return lightgbm.Booster(model_str=numbers["model"]).predict(shares)


def count_step(numbers) -> int:
    """Leaves of all trees."""
    return numbers["leaves"]
