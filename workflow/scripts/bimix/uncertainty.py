"""How far a fit can be trusted: bootstrap over runs, for coefficients, predictions, the optimum and its gain.

Noise is shared along a run, so whole runs are drawn, never points. Two ways:

mixtures   runs drawn with replacement. Right where runs are plenty; with four runs most draws hold two or three of them.
residuals  the fitted losses plus residual curves: each run gets the log residuals of a run drawn at random, all its steps and domains
           together, times a standard normal number, inflated by sqrt(n / (n - 2)) for the two numbers (level and exponent) per
           domain that the runs' levels were fitted with. For few runs.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.laws import LAWS, predict
from bimix.observations import Observations
from bimix.optimum import optimum

RESAMPLES = ("mixtures", "residuals")
INTERVALS = {
    "law": pl.String,
    "quantity": pl.String,
    "mixture": pl.String,
    "step": pl.Int64,
    "domain": pl.String,
    "estimate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
}


def resampled(document: dict, observed: Observations, kind: str, count: int, seed: int) -> list[dict]:
    """The law refitted to `count` resamples of the runs it was fitted to. Errors: fewer runs than the kind needs (3)."""
    n = len(observed.mixtures)
    if n < 3:
        raise InputError(
            f"the law was fitted to {n} mixtures: intervals need three or more, since they come from drawing among runs."
        )
    draw = np.random.default_rng(seed)
    samples = {"mixtures": _drawn_runs, "residuals": _drawn_residuals}[kind](document, observed, count, draw)
    return [
        document | {"coefficients": coefficients} for coefficients in LAWS[document["law"]].refit(samples, document)
    ]


def _drawn_runs(document, observed, count, draw):
    n = len(observed.mixtures)
    samples = []
    while len(samples) < count:
        weights = draw.multinomial(n, np.full(n, 1 / n)).astype(float)
        if np.count_nonzero(weights) >= 2:
            samples.append((observed, weights))
    return samples


def _drawn_residuals(document, observed, count, draw):
    n = len(observed.mixtures)
    fitted = predict(document, observed.proportions, observed.steps)
    residuals = np.log(observed.losses / fitted) * np.sqrt(n / (n - 2))
    residuals = np.where(np.isfinite(residuals), residuals, 0.0)
    samples = []
    for _ in range(count):
        moved = residuals[draw.integers(0, n, n)] * draw.standard_normal(n)[:, None, None]
        samples.append(
            (replace(observed, losses=np.where(np.isfinite(observed.losses), fitted * np.exp(moved), np.nan)), None)
        )
    return samples


def intervals(
    document: dict,
    refitted: list[dict],
    level: float,
    step: int,
    mixtures: dict[str, np.ndarray],
    baseline: str | None,
    weights: dict[str, float] | None,
    lower: np.ndarray,
    upper: np.ndarray,
) -> pl.DataFrame:
    """Estimate, low and high (the central `level` of the refits) of every quantity, in the columns of INTERVALS.

    alpha, beta, ... per loss domain; `loss` of each of the mixtures at `step` per loss domain and `average_loss` over them; `proportion` of
    each domain in the optimum at `step`; `optimum_average_loss` of the optimum of the document itself, and `gain`: average loss of
    `baseline` minus that. Averages are plain means over loss domains, whatever the weights of the optimum.
    """
    rows = []

    def add(quantity, value, mixture=None, domain=None):
        estimate = value(document)
        if estimate is None:
            return
        low, high = np.quantile([value(one) for one in refitted], [(1 - level) / 2, (1 + level) / 2])
        at = None if quantity in COEFFICIENTS else step
        rows.append((document["law"], quantity, mixture, at, domain, estimate, float(low), float(high), level))

    for domain in document["loss_domains"]:
        for name in COEFFICIENTS:
            add(name, lambda one, name=name, domain=domain: _coefficient(one, domain, name), domain=domain)
    names = list(mixtures)
    if names:
        shares = np.array([mixtures[name] for name in names])
        losses = {id(one): predict(one, shares, [step])[:, 0] for one in [document, *refitted]}
        for n, name in enumerate(names):
            for i, domain in enumerate(document["loss_domains"]):
                add("loss", lambda one, n=n, i=i: float(losses[id(one)][n, i]), name, domain)
            add("average_loss", lambda one, n=n: float(losses[id(one)][n].mean()), name)
    best = {id(one): optimum(one, step, weights, lower, upper) for one in [document, *refitted]}
    for j, domain in enumerate(document["domains"]):
        add("proportion", lambda one, j=j: float(best[id(one)][j]), document["law"], domain)
    pair = np.array([best[id(document)], *([mixtures[baseline]] if baseline is not None else [])])
    averages = {id(one): predict(one, pair, [step])[:, 0].mean(axis=1) for one in [document, *refitted]}
    add("optimum_average_loss", lambda one: float(averages[id(one)][0]), document["law"])
    if baseline is not None:
        add("gain", lambda one: float(averages[id(one)][1] - averages[id(one)][0]), baseline)
    return pl.DataFrame(rows, schema=INTERVALS, orient="row")


COEFFICIENTS = ("A", "alpha", "gamma", "B", "beta", "C")


def _coefficient(document, domain, name):
    """A coefficient of a loss domain by its name (alpha and A: of the first term), None where the law has none or it is fixed."""
    values = document["coefficients"][domain]
    if name == "A" and "B" in values:
        return None
    if "terms" in values and name in ("A", "alpha"):
        return values["terms"][0][name]
    return values.get(name)
