"""Intervals of a fitted law's predictions (from left-out runs), coefficients and optimum (bootstrap).

The noise of a run is shared by all its steps, so whole runs are left out or drawn, never points.

left_out   for predicted losses, averages and gains. The law is refitted without each run (or each of
           several groups of runs) at the chosen settings; its errors on the runs left out are the
           spread. They include the law's misfit on a new mixture, which no bootstrap measures.
           Beyond the last step of the runs, the error of the curve over steps is added; refits
           without the last evaluations of all runs estimate it (the rows `ahead`).
residuals  for coefficients and the optimum's proportions, given that the law is right: refits to the
           fitted losses plus residuals. Each run gets the log residuals of a run drawn at random, of
           all steps and domains together, times a standard normal number and sqrt(n / (n - 2)),
           which corrects for the two numbers (level and exponent) fitted per domain. The mean over
           several seeds has smaller residuals and a larger weight in the refit.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy.special import stdtrit  # scipy.stats has it as t.ppf and takes half a second to import

from bimix.errors import InputError
from bimix.laws.fitted import predict_defined, predict_runs
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations
from bimix.optimum.objective import average, defined
from bimix.optimum.optimum import Sought
from bimix.transfer.run import deviations_by_size
from bimix.transfer.unseen import deviations

LEFT_OUT, RESIDUALS = "left_out", "residuals"
COEFFICIENTS = ("A", "alpha", "gamma", "B", "beta", "C")
BORROWED = 4  # runs' worth of the mean over domains in each domain's spread
# A log error this many times the median, and this large, may be a mistake in that run.
OUTLYING, SLIP = 5.0, 0.05
LEAST_STEPS = 3  # that a curve over steps needs
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
    "kind": pl.String,
}


def losses_of(laws: list[dict], shares: np.ndarray, step: int) -> np.ndarray:
    """Losses (laws, k, d) at mixtures (k, m), NaN where a law does not define them."""
    return np.array([predict_defined(law, shares, np.array([step]))[:, 0] for law in laws])


def picked(losses: np.ndarray, target: np.ndarray | None) -> np.ndarray:
    """Losses (..., d) themselves, or their average (...) by the weights (d,)."""
    return losses if target is None else average(losses, target)


def resampled(fitted: dict, observed: Observations, count: int, seed: int) -> list[dict]:
    """The law refitted to `count` tables of drawn residuals. Errors: fewer than three runs."""
    n = count_runs(observed)
    observed = observed.ended() if "rows" in fitted else observed
    random, predicted = np.random.default_rng(seed), predict_runs(fitted, observed)
    weights = None if observed.runs is None else observed.runs.astype(float)
    precision = 1.0 if weights is None else np.sqrt(weights)[:, None, None]  # of a mean over seeds
    residuals = np.log(observed.losses / predicted) * precision * np.sqrt(n / (n - 2))
    residuals, is_observed = np.where(np.isfinite(residuals), residuals, 0.0), np.isfinite(observed.losses)
    samples = []
    for _ in range(count):
        noise = residuals[random.integers(0, n, n)] * random.standard_normal(n)[:, None, None] / precision
        losses = np.where(is_observed, predicted * np.exp(noise), np.nan)
        samples.append((replace(observed, losses=losses), weights))
    return _refits(fitted, samples)


def _refits(fitted: dict, samples: list[tuple]) -> list[dict]:
    """The law refitted at its settings to each sample: (observations, weights of the runs)."""
    return [fitted | {"coefficients": found} for found in LAWS[fitted["law"]].code.refit(samples, fitted)]


@dataclass(frozen=True)
class Shortened:
    """Losses (n, d) of the runs at the last step, predicted by a law fitted to earlier evaluations."""

    distance: float  # log(last step / last step of the fit)
    losses: np.ndarray
    full_fit: np.ndarray  # the same losses by the law fitted to all evaluations

    def rate(self, target: np.ndarray | None) -> np.ndarray:
        """The error of each run's log loss per unit of log(steps), (n, d) or (n,)."""
        rates = np.log(picked(self.losses, target) / picked(self.full_fit, target)) / self.distance
        return np.where(np.isfinite(rates), rates, 0.0)


@dataclass(frozen=True)
class LeftOut:
    """Losses of n runs on d loss domains, observed and predicted by refits without these runs."""

    fitted: dict
    refitted: list[dict]  # a law for each group of runs, fitted without it
    step: int  # of the losses
    observed: np.ndarray  # (n, d)
    predicted: np.ndarray  # (n, d), each run by the refit without it
    proportions: np.ndarray  # (n, m) of the runs
    shortened: tuple[Shortened, ...] = ()  # none where the runs have no evaluations to leave out
    without: tuple[np.ndarray, ...] = ()  # names of the mixtures that each refit lacks

    def spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviation (d,) of log(observed / predicted), and its degrees of freedom.

        s_i^2 = (n rms_i^2 + 4 mean rms^2) / (n + 4): a domain's few errors are shrunk to the mean
        over losses, or over metrics.
        """
        errors = np.log(self.observed / self.predicted)
        runs = np.isfinite(errors).sum(axis=0)
        return np.sqrt(shrink_to_mean(errors**2, self.fitted)), runs + BORROWED - 1

    def outlier(self) -> str:
        """A sentence on the run with the largest error, where that is above OUTLYING times the
        median of its loss domain and of all, and above SLIP; else nothing.
        """
        errors = np.abs(np.log(self.observed / self.predicted))
        if not np.isfinite(errors).any():
            return ""
        run, i = np.unravel_index(np.nanargmax(errors), errors.shape)
        middle = max(np.nanmedian(errors), np.nanmedian(errors[:, i]))
        if errors[run, i] < max(SLIP, OUTLYING * middle):
            return ""
        return (
            f"left out, mixture {self.fitted['mixtures'][run]!r} has a loss on {self.fitted['loss_domains'][i]} of"
            f" {self.observed[run, i]:.4g} where the law has {self.predicted[run, i]:.4g}; the median error is"
            f" {np.expm1(middle):.2%}: check that run."
        )

    def spread_of_average(self, target: np.ndarray) -> tuple[float, int]:
        """`spread` of the average by weights (d,), over runs with all losses; NaN of fewer than two."""
        errors = np.log(average(self.observed, target) / average(self.predicted, target))
        errors = errors[np.isfinite(errors)]
        if len(errors) < 2:
            return np.nan, 1
        return float(np.sqrt(np.mean(errors**2))), len(errors) - 1

    def quantile_of_losses(self, level: float) -> np.ndarray:
        """Errors of losses (d,) over their spread: the mean of the t quantile, which few runs need,
        and of that of the left-out errors themselves, whose few large ones make the spread large.
        """
        deviation, freedom = self.spread()
        expected = np.sqrt(deviation**2 + self.excess(self.proportions, self.step, None))
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.abs(np.log(self.observed / self.predicted)) / expected
        by_t, scores = stdtrit(freedom, (1 + level) / 2), scores[np.isfinite(scores)]
        return (by_t + np.quantile(scores, level)) / 2 if len(scores) else by_t

    def excess(self, shares: np.ndarray, step: int, target: np.ndarray | None) -> np.ndarray:
        """Additional variance of a log loss at mixtures (k, m) far from the runs, where the refits
        disagree.

        It is the jackknife variance, (G - 1) / G sum_g (f_g - mean f)^2 over the G refits, minus
        its mean over the runs, at least 0; plus the variance for domains that no run trains on
        (transfer/unseen.py) and of c at a larger model, whose errors are taken as perfectly
        correlated in an average.
        """
        logs = np.log(picked(losses_of(self.refitted, np.concatenate([shares, self.proportions]), step), target))
        variance = (len(logs) - 1) * logs.var(axis=0)
        parts = np.stack([deviations(self.fitted, shares, step), deviations_by_size(self.fitted, shares)])
        extrapolated = (picked(parts, target) ** 2).sum(axis=0)
        return np.maximum(variance[: len(shares)] - variance[len(shares) :].mean(axis=0), 0.0) + extrapolated

    def ahead(self, step: float, target: np.ndarray | None, level: float, between: bool = False) -> np.ndarray:
        """Half the width of the t-interval of a log loss beyond the last fitted step, for the error
        of the curve over steps alone.

        The rate of each shortened fit is the root mean square over runs. For a difference `between`
        mixtures it is their standard deviation, since the error common to all runs cancels. There
        are few fits, so a domain's rate is shrunk to the mean over domains, as in `spread`.
        """
        distance = np.log(step / self.fitted["steps"][-1])
        if distance <= 0 or not self.shortened:
            return np.zeros(()) if target is not None else np.zeros(len(self.fitted["loss_domains"]))
        mean_square = np.var if between else lambda rates, axis: np.mean(rates**2, axis=axis)
        by_domain = np.array([mean_square(fit.rate(None), axis=0) for fit in self.shortened])
        squares = np.array([mean_square(fit.rate(target), axis=0) for fit in self.shortened])
        count = len(squares)
        rate = np.sqrt((squares.sum(axis=0) + BORROWED * by_domain.mean()) / (count + BORROWED))
        return stdtrit(count + BORROWED - 1, (1 + level) / 2) * rate * distance

    def width(
        self, shares: np.ndarray, step: int, target: np.ndarray | None, level: float, between: bool = False
    ) -> np.ndarray:
        """Half the width of the interval of a log loss at mixtures (k, m), of each loss domain or
        of their average; `between` mixtures without the common error of the curve over steps.
        """
        if target is None:
            quantile, deviation = self.quantile_of_losses(level), self.spread()[0]
        else:
            deviation, freedom = self.spread_of_average(target)
            quantile = stdtrit(freedom, (1 + level) / 2)
        of_runs = quantile * np.sqrt(deviation**2 + self.excess(shares, step, target))
        return np.hypot(of_runs, self.ahead(step, target, level, between))

    def ends(self, guess: np.ndarray, shares: np.ndarray, step: int, target: np.ndarray | None, level: float):
        """Low and high of the `picked` losses at mixtures (k, m) with predictions `guess`."""
        width = self.width(shares, step, target, level)
        return guess * np.exp(-width), guess * np.exp(width)

    def ends_of_gain(self, guess: np.ndarray, pair: np.ndarray, step: int, target: np.ndarray, level: float):
        """Low and high of the average loss at the first of mixtures (2, m) minus the second."""
        nats = np.sqrt(np.sum((self.width(pair, step, target, level, between=True) * guess) ** 2))
        gain = guess[0] - guess[1]
        return gain - nats, gain + nats


def shrink_to_mean(squares: np.ndarray, fitted: dict) -> np.ndarray:
    """Means (d,) of squares (n, d), each shrunk to the mean over its kind, losses or metrics."""
    is_known = np.isfinite(squares)
    runs, sums = is_known.sum(axis=0), np.where(is_known, squares, 0.0).sum(axis=0)
    means = np.divide(sums, runs, out=np.full(len(runs), np.nan), where=runs > 0)
    is_metric = np.isin(fitted["loss_domains"], fitted.get("metrics", []))
    shrunk = np.empty(len(runs))
    for kind in (is_metric, ~is_metric):
        if kind.any():
            shrunk[kind] = (sums[kind] + BORROWED * np.nanmean(means[kind])) / (runs[kind] + BORROWED)
    return shrunk


def left_out(fitted: dict, observed: Observations, step: int, ahead: bool = False, most: int | None = None) -> LeftOut:
    """Refit the law without each run and predict that run's losses: at `step`, or at the last observed
    step where `step` was not observed; for a law over sizes or schedules at the end of each run.

    With `ahead`, or a `step` after the last observed one, shortened fits are included. If there are
    more mixtures than `most` (or the law's `most_refits`), they are left out in that many random
    groups. Errors: fewer than three runs.
    """
    n = count_runs(observed)
    weights = np.ones(n) if observed.runs is None else observed.runs.astype(float)
    # A mixture that was run at several sizes is left out at all of them.
    names = list(dict.fromkeys(observed.mixtures))
    count = min(len(names), most or LAWS[fitted["law"]].most_refits)
    groups = np.arange(len(names))
    if count < len(names):
        groups = np.random.default_rng(0).permutation(groups % count)
    groups = groups[[names.index(name) for name in observed.mixtures]]
    refitted = _refits(fitted, [(observed, np.where(groups == group, 0.0, weights)) for group in range(count)])
    found = np.nonzero(observed.steps == step)[0]
    index = int(found[0]) if len(found) else len(observed.steps) - 1
    truth = observed.last() if "rows" in fitted else observed.losses[:, index]
    predicted = np.empty(truth.shape)
    for group, law in enumerate(refitted):
        rows = np.nonzero(groups == group)[0]
        predicted[rows] = predict_runs(law, observed.take(rows))[:, index]
    shortened = shortened_fits(fitted, observed, weights) if ahead or step > observed.steps[-1] else ()
    without = tuple(np.array(observed.mixtures)[groups == group] for group in range(count))
    step = int(observed.steps[index])
    return LeftOut(fitted, refitted, step, truth, predicted, observed.proportions, shortened, without)


def shortened_fits(fitted: dict, observed: Observations, weights: np.ndarray) -> tuple[Shortened, ...]:
    """The law fitted without the last quarter, half and three quarters of all evaluations, where at
    least three are left; none for a law without a curve over steps.

    A loss that was observed at no earlier step, such as a metric at the last one, is kept.
    """
    steps, law = observed.steps, LAWS[fitted["law"]]
    if not law.over_steps or "rows" in fitted or len(steps) <= LEAST_STEPS:
        return ()
    last, fits = steps[-1:], []
    full_fit = predict_runs(fitted, observed, last)[:, 0]
    for kept in sorted({max(LEAST_STEPS, quarters * len(steps) // 4) for quarters in (1, 2, 3)}):
        seen_earlier = np.isfinite(observed.losses[:, :kept]).any(axis=(0, 1))
        losses = observed.losses.copy()
        losses[:, kept:, seen_earlier] = np.nan
        (refit,) = _refits(fitted, [(replace(observed, losses=losses), weights)])
        distance = float(np.log(last[0] / steps[kept - 1]))
        fits.append(Shortened(distance, predict_runs(refit, observed, last)[:, 0], full_fit))
    return tuple(fits)


def count_runs(observed: Observations) -> int:
    """The number of runs. Errors: fewer than three, which are too few to leave out or resample."""
    if (n := len(observed.mixtures)) < 3:
        raise InputError(f"the law was fitted to {n} mixtures: intervals, which draw among runs, need three or more.")
    return n


def intervals(
    sought: Sought,
    level: float,
    mixtures: dict[str, np.ndarray],
    baseline: str | None,
    left: LeftOut,
    refitted: list[dict] | None = None,
) -> pl.DataFrame:
    """Estimate, low and high of every quantity, in the columns of INTERVALS.

    Intervals of a new run, from the left-out errors: `loss` of each mixture per loss domain and
    `average_loss`, their plain mean; `optimum_loss` per loss domain at the fitted law's optimum,
    `optimum_average_loss` and the `gain` over `baseline`, both with the weights of the optimum's
    objective; `worst_ratio` of minimax; `ahead`, half the width of a log loss (and of the weighted
    average) per unit of log(steps) beyond the last fitted step. Central `level` of the refits, if
    there are any: coefficients (alpha, ...) per loss domain, and the optimum's `proportion` per
    domain. Undefined numbers, and intervals from fewer than two runs, are null.
    """
    fitted, step, best = sought.fitted, sought.step, sought.optimum
    target = sought.objective.target(fitted)
    rows = []

    def losses_at(shares, target):
        """Estimate, low and high of the picked losses at mixtures (k, m)."""
        guess = picked(losses_of([fitted], shares, step)[0], target)
        return guess, *left.ends(guess, shares, step, target, level)

    def add(quantity, mixture, domain, numbers, kind=LEFT_OUT, step=step):
        """A row of an estimate, low and high."""
        rows.append((fitted["law"], quantity, mixture, step, domain, *map(defined, numbers), level, kind))

    if sought.objective.kind == "minimax":
        add("worst_ratio", fitted["law"], None, _worst_ratio(sought, best, left, level))
    if refitted is not None:
        ends = [(1 - level) / 2, (1 + level) / 2]
        for domain in fitted["loss_domains"]:
            for name in COEFFICIENTS:
                estimate, *samples = (_coefficient(law, domain, name) for law in (fitted, *refitted))
                if estimate is not None:
                    add(name, None, domain, (estimate, *np.quantile(samples, ends)), RESIDUALS, None)
        low, high = np.quantile([sought.shares(law) for law in refitted], ends, axis=0)
        for number, domain in enumerate(fitted["domains"]):
            add("proportion", fitted["law"], domain, (best[number], low[number], high[number]), RESIDUALS)
    if mixtures:
        shares = np.array(list(mixtures.values()))
        by_domain = np.array(losses_at(shares, None))
        plain_mean = np.array(losses_at(shares, np.ones(len(target))))
        for k, name in enumerate(mixtures):
            for i, domain in enumerate(fitted["loss_domains"]):
                add("loss", name, domain, by_domain[:, k, i])
            add("average_loss", name, None, plain_mean[:, k])
    for domain, numbers in zip(fitted["loss_domains"], np.array(losses_at(best[None], None))[:, 0].T, strict=True):
        add("optimum_loss", fitted["law"], domain, numbers)
    add("optimum_average_loss", fitted["law"], None, np.array(losses_at(best[None], target))[:, 0])
    if baseline is not None:
        pair = np.array([mixtures[baseline], best])
        guess = picked(losses_of([fitted], pair, step)[0], target)
        ends = left.ends_of_gain(guess, pair, step, target, level)
        add("gain", baseline, None, (guess[0] - guess[1], *ends))
    if left.shortened:
        later = np.e * fitted["steps"][-1]
        rates = [*left.ahead(later, None, level), left.ahead(later, target, level)]
        for domain, rate in zip((*fitted["loss_domains"], None), rates, strict=True):
            add("ahead", None, domain, (rate, np.nan, np.nan), step=None)
    return pl.DataFrame(rows, schema=INTERVALS, orient="row")


def _coefficient(fitted: dict, domain: str, name: str) -> float | None:
    """A loss domain's coefficient by name (alpha and A: the first term); None if it has none."""
    values = fitted["coefficients"][domain]
    if name == "A" and "B" in values:
        return None
    if "terms" in values and name in ("A", "alpha"):
        return values["terms"][0][name]
    return values.get(name)


def _worst_ratio(sought: Sought, shares: np.ndarray, left: LeftOut, level: float) -> tuple[float, float, float]:
    """Estimate, low and high of the worst part of minimax at a mixture (m,), from each domain's
    widths of the losses at it and at the reference, as for a gain.
    """
    goal = sought.goal
    ratios = goal.rows @ goal.predicted(shares)
    columns = [sought.fitted["loss_domains"].index(name) for name in goal.names]
    widths = left.width(np.array([shares, goal.reference]), sought.step, None, level)[:, columns]
    # A family has the mean of its domains' widths: their errors are taken as correlated.
    members = goal.rows[ratios.argmax()] > 0
    width = np.sqrt((widths**2).sum(axis=0))[members].mean()
    return ratios.max(), ratios.max() * np.exp(-width), ratios.max() * np.exp(width)
