"""RegMix (Liu et al.): gradient-boosted trees (LightGBM) from proportions to loss, one model per
step and domain.

As published: gbdt, up to 1,000 iterations, learning rate 0.01. The number of iterations is found by
early stopping on a fifth of the mixtures kept apart; the released notebook takes the test set. The
trees are then grown on all of them. Below 100 mixtures a fifth says little and all 1,000 iterations
are run. Leaves may hold fewer mixtures where there are few of them: with LightGBM's own least
number of 20 nothing can be learnt from 32 runs.
"""

import numpy as np

from bimix.laws.per_step import counted, fit_steps, predict_steps, refit_with
from bimix.observations.observations import Observations
from bimix.observations.record import Law, Size
from bimix.plan.laws import LAWS

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


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """{domain: {"steps": {step: {trees, leaves, importance, model}}}}, model in LightGBM's own text
    form; and no notes.
    """

    def fit_named(shares, losses, base, begin):
        return fit_step(shares, losses, base, observed.domains)

    return fit_steps(fit_named, observed, weights), {}


def fit_step(shares, losses, weights, domains) -> dict:
    """The trees for losses (n,) of mixtures (n, m)."""
    import lightgbm  # costs a second: only this law pays it

    n = len(losses)
    settings = SETTINGS | {"min_data_in_leaf": int(np.clip(n // 8, *LEAF))}

    def data(rows):
        return lightgbm.Dataset(shares[rows], losses[rows], weight=weights[rows], params={"verbosity": -1})

    iterations = ITERATIONS
    if n >= ENOUGH:
        apart = np.zeros(n, dtype=bool)
        apart[np.random.default_rng(0).permutation(n)[: n // 5]] = True
        stop = [lightgbm.early_stopping(STOP_AFTER, verbose=False)]
        trial = lightgbm.train(settings, data(~apart), ITERATIONS, valid_sets=[data(apart)], callbacks=stop)
        iterations = trial.best_iteration
    return written(lightgbm.train(settings, data(np.arange(n)), iterations), domains)


def written(booster, domains) -> dict:
    """What is kept of grown trees."""
    gains = booster.feature_importance("gain")
    return {
        "trees": booster.num_trees(),
        "leaves": int(sum(tree["num_leaves"] for tree in booster.dump_model()["tree_info"])),
        "importance": {name: float(gain) for name, gain in zip(domains, gains / max(gains.sum(), 1e-300), strict=True)},
        "model": booster.model_to_string(),
    }


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m) and steps that were fitted, NaN of a domain that was
    not observed at a step as others were.

    Errors: a step that was not.
    """
    import lightgbm

    def of_step(numbers, shares):
        return lightgbm.Booster(model_str=numbers["model"]).predict(shares)

    return predict_steps(of_step, coefficients, seen, proportions, steps)


def count(coefficients: dict) -> int:
    """Leaves of all trees."""
    return counted(coefficients, lambda numbers: numbers["leaves"])


LAW = Law(
    fit=fit,
    refit=refit_with(fit),
    predict=predict,
    count=count,
    formula="gradient-boosted trees of r, per step",
    size=Size(lambda m: None, lambda m, n: None, ("leaves", "leaves", "leaves")),
    plan=LAWS["regmix"],
    most_refits=8,  # a fit takes seconds
)
