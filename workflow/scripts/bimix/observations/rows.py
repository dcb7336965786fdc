"""The rows of the two tidy tables, checked: types, amounts, and that none is there twice."""

import polars as pl

from bimix.errors import InputError
from bimix.observations.wide import ROW
from bimix.tables import is_text

# Published proportions are rounded (RegMix's rows sum to 1 within 0.4 %): they are rescaled. A
# larger gap is a mistake.
ROUNDING = 0.005
# Less is no loss or rate of errors that was measured, and its logarithm is out of all bounds.
LEAST_LOSS = 1e-12
# What tells runs apart, beside seeds: a schedule where a mixture of one size has several.
RUN = ("mixture", "parameters", "schedule")
TYPES = {"mixture": pl.String, "step": pl.Int64, "domain": pl.String, "loss": pl.Float64, "proportion": pl.Float64}


def typed(table: pl.DataFrame, name: str, columns: list[str], optional: list[str]) -> pl.DataFrame:
    """The named columns of a tidy table in the types of TYPES, and `row`, its place in the file;
    what cannot be read so is an error.
    """
    optional = [column for column in optional if column in table.columns]
    table = table.select(pl.col(ROW).alias("row"), *columns, *optional)
    for column in columns:
        cast = table[column].cast(TYPES[column], strict=False)
        wrong = cast.is_null()
        if column == "step":
            wrong |= table[column].cast(pl.Float64, strict=False) != cast
        if wrong.any():
            row = table.filter(wrong).row(0, named=True)
            kind = {"step": "a whole number", "loss": "a number", "proportion": "a number"}.get(column, "a name")
            raise InputError(f"{place(name, row)}: {column} is {row[column]!r}: it must be {kind}.")
        table = table.with_columns(cast)
    return table


def place(name: str, row: dict) -> str:
    """Where a row stands: `losses.csv, line 7`; a table that is no csv has rows only."""
    return f"{name}, {'line' if is_text(name) else 'row'} {row['row']}"


def check_losses(losses: pl.DataFrame, name: str) -> None:
    """Errors: a loss that is not finite and above 0, a step below 1, a row twice."""
    bad = losses.filter(~pl.col("loss").is_finite() | (pl.col("loss") < LEAST_LOSS) | (pl.col("step") <= 0))
    if bad.height:
        row = bad.row(0, named=True)
        what = "loss" if row["step"] > 0 else "step"
        raise InputError(
            f"{place(name, row)} (mixture {row['mixture']!r}, step {row['step']}, domain {row['domain']!r}): "
            f"the {what} is {row[what]}: it must be finite and above {LEAST_LOSS if what == 'loss' else 0:g}."
        )
    further = [column for column in (*RUN[1:], "seed") if column in losses.columns]
    check_once(losses, ["mixture", "step", "domain", *further], name)


def check_once(table: pl.DataFrame, key: list[str], name: str) -> None:
    """Errors: two rows with the same `key`."""
    twice = table.filter(~pl.struct(key).is_first_distinct())
    if twice.height:
        row = twice.row(0, named=True)
        what = ", ".join(f"{column} {row[column]!r}" for column in key)
        raise InputError(f"{place(name, row)}: {what} is there twice: keep one of the two rows.")


def checked_proportions(mixtures: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows with proportions that sum to exactly 1. Errors: they are no proportions."""
    bad = mixtures.filter(~pl.col("proportion").is_finite() | (pl.col("proportion") < 0))
    if bad.height:
        row = bad.row(0, named=True)
        raise InputError(
            f"{place(name, row)} (mixture {row['mixture']!r}, domain {row['domain']!r}): the proportion is "
            f"{row['proportion']}: it must be finite, 0 or more."
        )
    check_once(mixtures, ["mixture", "domain"], name)
    sums = mixtures.group_by("mixture", maintain_order=True).agg(pl.col("proportion").sum(), pl.col("row").first())
    bad = sums.filter((pl.col("proportion") - 1).abs() > ROUNDING)
    if bad.height:
        row = bad.row(0, named=True)
        raise InputError(
            f"{place(name, row)} and on: the proportions of mixture {row['mixture']!r} sum to {row['proportion']:.6g}: "
            f"they must sum to 1 (a gap of up to {ROUNDING} is taken for rounding and rescaled)."
        )
    return mixtures.with_columns(pl.col("proportion") / pl.col("proportion").sum().over("mixture"))


def check_amounts(table: pl.DataFrame, column: str, name: str) -> None:
    """Errors: parameters, tokens or the pool of a domain that is trained on are no number above 0;
    an empty pool is none.
    """
    if column in table.columns:
        amounts = table[column].cast(pl.Float64, strict=False)
        bad = amounts.is_null() | ~amounts.is_finite() | (amounts <= 0)
        if column == "pool":
            bad = (amounts.is_nan() | (amounts <= 0)).fill_null(False) & (table["proportion"] > 0)
            bad |= amounts.is_null() & table[column].is_not_null()
        wrong = table.filter(bad)
        if wrong.height:
            row = wrong.row(0, named=True)
            raise InputError(f"{place(name, row)}: {column} is {row[column]!r}: it must be a finite number above 0.")
