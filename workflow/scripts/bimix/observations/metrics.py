"""Metrics of runs in addition to their losses: bits per byte, error rates, perplexities of
benchmarks. Each is a loss domain that nothing trains on.

metrics: mixture, and one column per metric, or the columns metric and value. `step`, `seed` and
`parameters` are optional: without a step a metric belongs to the run's last step. Lower must be
better, and values above 0, since the laws fit logarithms.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.observations.tables import ROW, Tidy, numbered, place, read_losses
from bimix.tables import read_table, renamed

ERROR_RATE = (
    "the laws fit logarithms of what is the better the lower, and a share of right answers is no logarithm of anything:"
    " take the bits per byte of the answers, or write an accuracy as an error rate above 0, such as"
    " (n - right + 0.5) / (n + 1) of n items"
)
# Words in the names of metrics of which higher is better, and endings where lower is.
HIGHER = re.compile(
    r"(?<![a-z0-9])(acc(uracy)?|(\w+_)?match|em|f1|bleu|rouge\w*|score|reward|win_?rate|mcc|recall|precision|"
    r"pass(@|_at_)?\d*)(?![a-z0-9])"
)
LOWER = re.compile(r"(error|loss|bpb)$")
RUN = ("mixture", "seed", "parameters")  # what distinguishes runs


def check_lower(metrics: Iterable[str], place: str, allowed: Collection[str] = ()) -> None:
    """Errors: by its name, higher is better of a metric that is not in `allowed`."""
    for metric in metrics:
        if HIGHER.search(metric.lower()) and not LOWER.search(metric.lower()) and metric not in allowed:
            raise InputError(
                f"{place}: of {metric!r} more is better, by its name, and {ERROR_RATE}. A name that ends in error, loss or"
                f" bpb says that less is better; so does --lower-is-better {metric!r} (in a config"
                " observations/lower_is_better)."
            )


def read_with_metrics(
    losses: Path | str, domains: Sequence[str], metrics: Path | str | None = None, lower: Collection[str] = ()
) -> Tidy:
    """The tidy losses in a file, with the metrics of a table as further loss domains."""
    tidy = read_losses(losses, domains)
    if not metrics:
        return tidy
    return Tidy(with_metrics(tidy.table, read_table(metrics), str(metrics), str(losses), lower), tidy.remark)


def with_metrics(
    losses: pl.DataFrame,
    metrics: pl.DataFrame,
    name: str,
    losses_name: str = "losses",
    lower: Collection[str] = (),
) -> pl.DataFrame:
    """Tidy losses followed by the metrics, with a column `metric` that tells them apart; `lower`
    are metrics of which lower is better, whatever their names suggest.

    Errors, with file and line: no column mixture; no metric; a metric with the name of a loss
    domain, or of which higher is better; a value that is no number above 0; a run without losses,
    or without its size where there are several.
    """
    tidy = _tidy(numbered(renamed(metrics, name), name), name)
    known = set(losses["domain"].cast(pl.String).unique())
    for metric in tidy["domain"].unique(maintain_order=True):
        if metric in known:
            raise InputError(f"{name}: {metric!r} has losses in {losses_name} already: give the metric another name.")
    check_lower(tidy["domain"].unique(maintain_order=True), name, lower)
    bad = tidy.filter(pl.col("loss").is_null() | ~pl.col("loss").is_finite() | (pl.col("loss") <= 0))
    for row in bad.head(1).iter_rows(named=True):
        raise InputError(
            f"{place(name, row)}: {row['domain']!r} is {row['value']}: it must be a number above 0; {ERROR_RATE}."
        )
    run = [column for column in RUN if column in tidy.columns and column in losses.columns]
    texts = [_as_text(column).alias(f"as text {column}") for column in run]
    keys = [f"as text {column}" for column in run]
    kept = [column for column in ("tokens", *RUN[1:]) if column in losses.columns and column not in run]
    tidy = tidy.with_columns(texts)
    if "step" in tidy.columns:
        keys, tidy = [*keys, "step"], tidy.with_columns(pl.col("step").cast(losses["step"].dtype, strict=False))
    else:
        kept.append("step")
    # seed, size and tokens come from the run's rows, at the metric's step or the last one
    rows = losses.with_columns(texts, known=True).sort("step", maintain_order=True)
    if "parameters" in kept and rows.filter(pl.col("parameters").n_unique().over(keys[0]) > 1).height:
        raise InputError(f"{name} needs a column 'parameters': {losses_name} has mixtures with runs of several sizes.")
    of_runs = rows.unique(keys, keep="last", maintain_order=True).select(*keys, *kept, "known")
    found = tidy.join(of_runs, on=keys, how="left", maintain_order="left")
    for row in found.filter(pl.col("known").is_null()).head(1).iter_rows(named=True):
        at = f" at step {row['step']}" if "step" in keys else ""
        raise InputError(f"{place(name, row)}: mixture {row['mixture']!r} has metrics, no losses{at} in {losses_name}.")
    columns = [column for column in losses.columns if column in found.columns]
    types = {column: losses[column].dtype for column in columns if column != "loss"}  # whole numbers are losses too
    found = found.select(columns).cast(types).with_columns(metric=pl.lit(True))
    return pl.concat([losses.with_columns(metric=pl.lit(False)), found], how="diagonal_relaxed")


def _as_text(column: str) -> pl.Expr:
    """A column of RUN as text; sizes in one way, however they are written: 122000000 and 1.22e8."""
    text = pl.col(column).cast(pl.String)
    return text if column != "parameters" else pl.coalesce(text.cast(pl.Float64, strict=False).cast(pl.String), text)


def losses_only(table: pl.DataFrame) -> pl.DataFrame:
    """A tidy table without metrics, whose units must not be averaged with losses."""
    return table.filter(~pl.col("metric")).drop("metric") if "metric" in table.columns else table


def _tidy(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """mixture, the columns of a run, domain, loss and the row number; without empty cells."""
    columns = [column for column in table.columns if column != ROW]
    if "mixture" not in columns:
        raise InputError(f"{name} has no column 'mixture': it needs mixture and one column for each metric.")
    index = [column for column in ("mixture", "step", "seed", "parameters") if column in columns]
    if {"metric", "value"} <= set(columns):
        tidy = table.select(ROW, *index, pl.col("metric").cast(pl.String).alias("domain"), "value")
    elif "domain" in columns:
        raise InputError(f"{name} has a column 'domain': write metrics as mixture, metric, value, or one column each.")
    else:
        others = [column for column in columns if column not in index]
        if not others:
            raise InputError(f"{name} has no metric: it needs one column for each, besides {', '.join(index)}.")
        text = table.with_columns(pl.col(others).cast(pl.String))
        tidy = text.unpivot(others, index=[*index, ROW], variable_name="domain", value_name="value")
    tidy = tidy.drop_nulls("value").sort(ROW, maintain_order=True)
    return tidy.with_columns(pl.col("value").cast(pl.Float64, strict=False).alias("loss"))
