"""RegMix (Liu et al.): gradient-boosted trees (LightGBM) from proportions to loss, one model per
step and domain.

As published: gbdt, up to 1,000 iterations, learning rate 0.01. Early stopping on a fifth of the
mixtures chooses the number of iterations (the released notebook uses the test set); then the trees
are grown on all mixtures. Below 100 mixtures a fifth is too small, and all 1,000 iterations are
run. With few mixtures a leaf may hold fewer of them: LightGBM's default minimum of 20 would learn
nothing from 32 runs.
"""

import re
from functools import lru_cache

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
LEAVES = re.compile(r"^num_leaves=(\d+)$", re.MULTILINE)
LEAF = (5, 20)  # least number of mixtures in a leaf: an eighth of them, within these


def fit_step(shares, losses, weights, domains, begin=None) -> dict:
    """{trees, leaves, importance {domain: share of the gain}, model in LightGBM's text format}."""
    import lightgbm  # costs a second: only this law pays it

    n, iterations = len(losses), ITERATIONS
    settings = SETTINGS | {"min_data_in_leaf": int(np.clip(n // 8, *LEAF))}

    def data(rows):
        return lightgbm.Dataset(shares[rows], losses[rows], weight=weights[rows], params={"verbosity": -1})

    if n >= ENOUGH:
        apart = np.zeros(n, dtype=bool)
        apart[np.random.default_rng(0).permutation(n)[: n // 5]] = True
        stop = [lightgbm.early_stopping(STOP_AFTER, verbose=False)]
        trial = lightgbm.train(settings, data(~apart), ITERATIONS, valid_sets=[data(apart)], callbacks=stop)
        iterations = trial.best_iteration
    booster = lightgbm.train(settings, data(np.arange(n)), iterations)
    gains, model = booster.feature_importance("gain"), booster.model_to_string()
    return {
        "trees": booster.num_trees(),
        "leaves": sum(map(int, LEAVES.findall(model))),
        "importance": {name: float(gain) for name, gain in zip(domains, gains / max(gains.sum(), 1e-300), strict=True)},
        "model": model,
    }


def predict_step(numbers, domains, shares) -> np.ndarray:
    return _booster(numbers["model"]).predict(shares)


@lru_cache(maxsize=512)
def _booster(model: str):
    """The trees of a model's text; to read it takes ten times as long as to predict a few mixtures."""
    import lightgbm

    return lightgbm.Booster(model_str=model)


def count_step(numbers) -> int:
    """The number of leaves of all trees."""
    return numbers["leaves"]
