"""Accuracy and bits per byte by mixture, step and task, with bootstrap intervals over items."""

import numpy as np
import polars as pl

from bimix.errors import InputError

BITS = "bits_per_byte"
METRICS = ("exact", "normalised", BITS)
AVERAGE = "average"  # stands for all tasks, each of which counts the same
AT_ONCE = 100  # resamples whose weights exist at once

ACCURACIES = {
    "mixture": pl.String,
    "step": pl.Int64,
    "task": pl.String,
    "metric": pl.String,
    "items": pl.Int64,
    "value": pl.Float64,
    "error": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "difference": pl.Float64,
    "difference_low": pl.Float64,
    "difference_high": pl.Float64,
}


def compare_accuracy(answers: pl.DataFrame, reference: str, resamples: int, level: float, seed: int) -> pl.DataFrame:
    """One row per mixture, step, task (and `average`) and metric: the mean over items, its standard
    error and its interval.

    `answers`: mixture, run, step, task, number (of the item), prompt_hash, and the metrics; runs of
    one mixture are averaged item by item. Accuracies are fractions; bits per byte are averaged over
    items, so that long and short answers count alike. `error` is the standard deviation between
    items over the root of their number; of the average over tasks it is the root of the summed
    squares over the number of tasks; null where a task has one item. `difference` is to `reference`
    at the same step. Intervals are percentiles; every resample draws the same items for all
    mixtures and steps, so that differences are paired. Errors: runs with other questions.
    """
    cells = answers.select("mixture", "step").unique(maintain_order=True)
    if reference not in cells["mixture"]:
        raise InputError(f"{reference!r}, which the others are measured against, has no answers.")
    tasks = answers["task"].unique(maintain_order=True).to_list()
    levels = [(1 - level) / 2, (1 + level) / 2]
    base = _positions_of_reference(cells, reference)
    rows = []
    for metric in METRICS:
        means, errors, draws, items = [], [], [], []
        for number, task in enumerate(tasks):
            values = right_by_item(answers.filter(pl.col("task") == task), cells, metric, task)
            means.append(values.mean(axis=1))
            errors.append(standard_error(values))
            draws.append(resampled_means(values, resamples, np.random.default_rng([seed, number])))
            items.append(values.shape[1])
        means.append(np.mean(means, axis=0))
        errors.append(np.sqrt(np.square(errors).sum(axis=0)) / len(tasks))
        draws.append(np.mean(draws, axis=0))
        items.append(sum(items))
        for task, *found in zip([*tasks, AVERAGE], means, errors, draws, items, strict=True):
            mean, error, drawn, count = found
            spans = np.quantile(drawn, levels, axis=0)
            gaps = np.quantile(drawn - drawn[:, base], levels, axis=0)
            for k, (mixture, step) in enumerate(cells.iter_rows()):
                own = (mean[k], error[k], *spans[:, k], mean[k] - mean[base[k]], *gaps[:, k])
                rows.append((mixture, step, task, metric, count, *map(float, own)))
    return pl.DataFrame(rows, schema=ACCURACIES, orient="row").with_columns(pl.col("error").fill_nan(None))


def right_by_item(answers: pl.DataFrame, cells: pl.DataFrame, metric: str, task: str) -> np.ndarray:
    """The mean of a metric over runs (cells, items); cells are pairs of mixture and step."""
    asked = answers.group_by("number").agg(pl.col("prompt_hash").n_unique(), pl.len()).sort("number")
    if (asked["prompt_hash"] > 1).any() or asked["len"].n_unique() > 1:
        raise InputError(f"Task {task!r}: the runs were not asked the same questions; score the older ones again.")
    shares = answers.group_by("mixture", "step", "number").agg(pl.col(metric).mean())
    wide = cells.join(shares, on=["mixture", "step"], how="left", maintain_order="left")
    if wide[metric].null_count():
        raise InputError(f"Task {task!r}: some run lacks a step that others have; score it again.")
    values = wide.sort("number", maintain_order=True)[metric].to_numpy()
    return values.reshape(-1, len(cells)).T


def standard_error(values: np.ndarray) -> np.ndarray:
    """Standard errors (cells,) of the means of `values` (cells, items); NaN with one item."""
    items = values.shape[1]
    return np.full(len(values), np.nan) if items == 1 else values.std(axis=1, ddof=1) / np.sqrt(items)


def resampled_means(values: np.ndarray, resamples: int, draw: np.random.Generator) -> np.ndarray:
    """Means (resamples, cells) of (cells, items) over resampled items, the same for all cells."""
    items = values.shape[1]
    parts = []
    for start in range(0, resamples, AT_ONCE):
        count = min(AT_ONCE, resamples - start)
        parts.append(draw.multinomial(items, np.full(items, 1 / items), size=count) @ values.T / items)
    return np.concatenate(parts)


def _positions_of_reference(cells: pl.DataFrame, reference: str) -> list[int]:
    places = {pair: k for k, pair in enumerate(cells.iter_rows())}
    missing = [step for _, step in places if (reference, step) not in places]
    if missing:
        raise InputError(f"{reference!r} has no answers at step {missing[0]}, others have; score it again.")
    return [places[reference, step] for _, step in places]
