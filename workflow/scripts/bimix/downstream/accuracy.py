"""Tidy tables of lm_eval's results, and mixtures compared by them.

Of each task one metric counts as its share of right answers, the first of RIGHT that it has, and
its bits per byte as another measure; `average` is the mean over tasks, each of which counts alike.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from bimix.observations.benchmarks import Metric, metrics_of

RIGHT = ("normalised_match", "exact_match", "acc_norm", "acc")
BITS = "bits_per_byte"
AVERAGE, ACCURACY = "average", "accuracy"
NORMAL = 1.96  # standard errors on either side of a 95 % interval

SCHEMA = {
    "task": pl.String,
    "metric": pl.String,
    "step": pl.Int64,
    "value": pl.Float64,
    "stderr": pl.Float64,
    "n": pl.Int64,
}


def tidy(results: Mapping[int, Mapping]) -> pl.DataFrame:
    """task, metric, step, value, stderr, n of lm_eval's results at each step of a run."""
    rows = [
        (one.task, one.metric, step, one.value, one.stderr, one.n)
        for step, content in results.items()
        for one in map(Metric._make, metrics_of(content))
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def compared(tables: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    """mixture and the columns of `tidy`, of runs on the mixtures `names`; runs of one mixture are
    averaged. The rows of the task `average` have the metrics `accuracy` and `bits_per_byte`.
    """
    of_runs = pl.concat(table.with_columns(mixture=pl.lit(name)) for table, name in zip(tables, names, strict=True))
    keys = ["mixture", "task", "metric", "step"]
    means = of_runs.group_by(keys, maintain_order=True).agg(pl.col("value", "stderr").mean(), pl.col("n").max())
    averages = measures(means).with_columns(metric=pl.col("measure"), task=pl.lit(AVERAGE))
    error = pl.when(pl.col("stderr").null_count() == 0).then((pl.col("stderr") ** 2).sum().sqrt() / pl.len())
    averages = averages.group_by(keys, maintain_order=True).agg(
        pl.col("value").mean(), error.alias("stderr"), pl.col("n").sum()
    )
    return pl.concat([means, averages]).select("mixture", *SCHEMA)


def measures(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that count, with a column `measure`: `accuracy` or `bits_per_byte`."""
    chosen = {}
    for task in table["task"].unique(maintain_order=True):
        own = table.filter(pl.col("task") == task)["metric"].to_list()
        chosen[task] = next((metric for metric in (*RIGHT, ACCURACY) if metric in own), None)
    right = pl.col("metric") == pl.col("task").replace_strict(chosen, return_dtype=pl.String)
    measure = pl.when(right).then(pl.lit(ACCURACY)).when(pl.col("metric") == BITS).then(pl.lit(BITS))
    return table.with_columns(measure=measure).drop_nulls("measure")


def with_interval(table: pl.DataFrame) -> pl.DataFrame:
    """The table with the ends of 95 % intervals as `low` and `high`, the value without an error."""
    spread = NORMAL * pl.col("stderr").fill_null(0)
    return table.with_columns(low=pl.col("value") - spread, high=pl.col("value") + spread)
