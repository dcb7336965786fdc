"""A user's two tables, losses and mixtures: wide ones are made tidy, then rows are checked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.names import meant, paired
from bimix.tables import CALLED, ROUNDING, is_text, lines_above, read_table, renamed

LOSSES = "one row for one loss: mixture,step,domain,loss as in m1,1000,web,3.21"
MIXTURES = "one row for one proportion: mixture,domain,proportion as in m1,web,0.7"
SEPARATED = "columns are separated by commas, semicolons or tabs"
# The place of a row in the original table: its line in a csv file, or its row, from 1.
ROW = "row of the file"

# No measured loss or error rate is lower, and the logarithm of a lower one is out of range.
LEAST_LOSS = 1e-12
# The columns that distinguish runs, besides seeds; the schedule where a size has several
# (`with_schedules`). Whoever groups losses groups them by `run_key`.
RUN = ("mixture", "parameters", "schedule")
TYPES = {"mixture": pl.String, "step": pl.Int64, "domain": pl.String, "loss": pl.Float64, "proportion": pl.Float64}


@dataclass(frozen=True)
class Tidy:
    """A tidy table; `remark` says how a wide table was read."""

    table: pl.DataFrame
    remark: str = ""

    def names(self, column: str) -> list[str]:
        return self.table[column].cast(pl.String).unique(maintain_order=True).drop_nulls().to_list()


def run_key(table: pl.DataFrame, *further: str) -> list[str]:
    """The columns of tidy losses that say which run a row is of, and `further` ones that it has."""
    return [name for name in (*RUN, *further) if name in table.columns]


def with_schedules(losses: pl.DataFrame) -> pl.DataFrame:
    """The tidy losses with the column `schedule`, the tokens, where a mixture of one size has rows of
    several schedules: its tokens differ and do not grow with the steps. Tokens that grow are those
    trained on so far.
    """
    if "tokens" not in losses.columns or "schedule" in losses.columns:
        return losses
    of = [name for name in ("mixture", "parameters") if name in losses.columns]
    tokens, step = pl.col("tokens").cast(pl.Float64), pl.col("step").cast(pl.Float64)
    ratio = tokens / step
    grow = (tokens.rank("dense") == step.rank("dense")).all()
    grow |= ratio.max() - ratio.min() <= 1e-6 * ratio.max()
    several = (~grow & (tokens.n_unique() > 1)).over(of)
    schedule = pl.when(several).then(tokens).otherwise(0.0).alias("schedule")
    return losses.with_columns(schedule) if losses.select(several.any()).item() else losses


def by_mixture(table: pl.DataFrame) -> dict[str, dict[str, float]]:
    """{mixture: {domain: proportion}} of tidy mixtures."""
    found: dict[str, dict[str, float]] = {}
    for name, domain, proportion in table.select("mixture", "domain", "proportion").iter_rows():
        found.setdefault(name, {})[domain] = proportion
    return found


def tidy_mixtures(table: pl.DataFrame, name: str) -> Tidy:
    """Tidy mixtures; a wide table has a column per domain or mixture. Errors: other columns."""
    table = numbered(renamed(table, name), name)
    columns = [column for column in table.columns if column != ROW]
    if {"mixture", "domain", "proportion"} <= set(columns):
        return Tidy(table)
    for index, across in (("mixture", "domain"), ("domain", "mixture")):
        others = [column for column in columns if column not in (index, "")]  # "": row numbers
        if index in columns and others and "proportion" not in columns and across not in columns:
            _check_numbers(table, others, name, MIXTURES)
            if index == "mixture":
                _check_no_total(table, others, name)
            tidy = table.unpivot(others, index=[index, ROW], variable_name=across, value_name="proportion")
            remark = f"{name} is read as a table of {index} and one column for each {across}: {few(others)}."
            return Tidy(tidy.drop_nulls("proportion").sort(ROW, maintain_order=True), remark)
    lacking = "" if "mixture" in columns else f" None is called mixture, {', '.join(CALLED[:-1])} or {CALLED[-1]}."
    raise InputError(f"{name} has the columns {few(columns)}: it needs {MIXTURES}; {SEPARATED}.{lacking}")


def tidy_losses(table: pl.DataFrame, name: str, domains: Sequence[str]) -> Tidy:
    """mixture, step, domain, loss from these columns, or from mixture, step and one column for each
    of the `domains`.

    The columns may have the same text around each domain: eval/web/loss. Errors: other columns.
    """
    table = numbered(renamed(table, name), name)
    columns = [column for column in table.columns if column != ROW]
    if {"domain", "loss"} & set(columns) or not {"mixture", "step"} <= set(columns):
        lacking = [column for column in ("mixture", "step", "domain", "loss") if column not in columns]
        if lacking:
            raise InputError(f"{name} has no column {lacking[0]!r} but {few(columns)}: it needs {LOSSES}; {SEPARATED}.")
        if table.schema.get("metric", pl.Boolean) != pl.Boolean:
            raise InputError(f"{name}: column 'metric' is true or false, of metrics and losses: call yours otherwise.")
        return Tidy(table)
    index = [column for column in ("mixture", "step", "seed", "tokens", "parameters") if column in columns]
    others = [column for column in columns if column not in index]
    found = _domains_in(others, domains)
    if found is None:
        strange = (_texts(table, others) or [one for one in others if one not in domains] or ["domain"])[0]
        why = f"is no domain of the mixtures, which are {few(domains)}: {meant(strange, domains)}"
        raise InputError(f"{name}: column {strange!r} {why}take it out, or write {LOSSES}.")
    _check_numbers(table, others, name, LOSSES)
    tidy = table.rename(found).unpivot(
        list(found.values()), index=[*index, ROW], variable_name="domain", value_name="loss"
    )
    remark = f"{name} is read as a table of mixture, step and one column for each domain: {few(others)}."
    return Tidy(tidy.drop_nulls("loss").sort(ROW, maintain_order=True), remark)


def numbered(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """The table with the column ROW: the line of a csv below its header, or the row."""
    if ROW in table.columns:
        return table
    lines = is_text(name)
    rows = table.with_row_index(ROW, offset=2 + lines_above(name) if lines else 1)
    # a blank line of a file of text is a row of nulls
    return rows.filter(~pl.all_horizontal(pl.exclude(ROW).is_null())) if lines and table.columns else rows


def read_mixtures(path: Path | str) -> Tidy:
    """The mixtures in a file, tidy."""
    return tidy_mixtures(read_table(path), str(path))


def read_losses(path: Path | str, domains: Sequence[str]) -> Tidy:
    """The tidy losses in a file; `domains` are those of the mixtures."""
    return tidy_losses(read_table(path), str(path), domains)


def _domains_in(columns: Sequence[str], domains: Sequence[str]) -> dict[str, str] | None:
    """{column: domain} where all columns have the same text around the domain, or {column: column}
    where their names match otherwise; else None.
    """
    around = [("", "")]
    for domain in sorted(filter(None, domains), key=len, reverse=True):
        if columns and domain in columns[0]:
            before, _, after = columns[0].partition(domain)
            around.append((before, after))
    for before, after in around:
        inner = [
            column[len(before) : len(column) - len(after)]
            for column in columns
            if column.startswith(before) and column.endswith(after)
        ]
        if columns and len(inner) == len(columns) and set(inner) <= set(domains):
            return dict(zip(columns, inner, strict=True))
    matched = {*domains, *paired(columns, domains)}  # train_web in the mixtures and web here
    return {column: column for column in columns} if columns and set(columns) <= matched else None


def _texts(table: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    return [column for column in columns if not table[column].dtype.is_numeric()]


def _check_numbers(table: pl.DataFrame, columns: Sequence[str], name: str, form: str) -> None:
    """Errors: a column without numbers, or a cell that is none among numbers."""
    for column in _texts(table, columns):
        cells = table.drop_nulls(column)
        number = cells[column].cast(pl.String).cast(pl.Float64, strict=False)
        wrong = cells.filter(number.is_null() | number.is_nan())
        if wrong.height == cells.height:
            raise InputError(f"{name}: column {column!r} holds no numbers: take it out, or write {form}.")
        row = wrong.row(0, named=True)
        raise InputError(f"{place(name, row)}: {column} is {row[column]!r}: it must be a number, or empty for none.")


def _check_no_total(table: pl.DataFrame, columns: Sequence[str], name: str) -> None:
    """Errors: a column of ones beside others that sum to one."""
    shares = table.select(pl.col(columns).cast(pl.Float64, strict=False))
    sums = shares.select(total=pl.sum_horizontal(pl.all()))["total"]
    for column in columns if ((sums - 2).abs() <= ROUNDING).all() else ():
        if ((shares[column] - 1).abs() <= ROUNDING).all():
            raise InputError(f"{name}: column {column!r} is 1 in each row, the sum of the others: take it out.")


def few(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    names = list(map(str, names))
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def typed(table: pl.DataFrame, name: str, columns: list[str], optional: list[str]) -> pl.DataFrame:
    """The named columns with the types of TYPES, and `row`. Errors: other types."""
    optional = [column for column in optional if column in table.columns]
    table = table.select(pl.col(ROW).alias("row"), *columns, *optional)
    for column in [*columns, *(one for one in optional if one == "seed")]:
        cast = table[column].cast(TYPES.get(column, table.schema[column]), strict=False)
        wrong = cast.is_null()
        if column == "step":
            wrong |= table[column].cast(pl.Float64, strict=False) != cast
        if wrong.any():
            row = table.filter(wrong).row(0, named=True)
            kind = {"step": "a whole number", "mixture": "a name", "domain": "a name"}.get(column, "a number")
            found = "empty" if row[column] is None else repr(row[column])
            raise InputError(f"{place(name, row)}: {column} is {found}: it must be {kind}.")
        table = table.with_columns(cast)
    return table


def place(name: str, row: dict) -> str:
    """The place of a row: `losses.csv, line 7`; `row 7` where the table is no csv."""
    return f"{name}, {'line' if is_text(name) else 'row'} {row.get(ROW) or row['row']}"


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
    check_once(losses, [*run_key(losses, "seed"), "step", "domain"], name)


def check_once(table: pl.DataFrame, key: list[str], name: str) -> None:
    """Errors: two rows with the same `key`."""
    twice = table.filter(~pl.struct(key).is_first_distinct())
    if twice.height:
        row = twice.row(0, named=True)
        what = ", ".join(f"{column} {row[column]!r}" for column in key)
        raise InputError(f"{place(name, row)}: {what} is there twice: keep one of the two rows.")


def checked_proportions(mixtures: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows with proportions rescaled to sum to 1. Errors: they are no proportions."""
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
        rows = mixtures.join(bad.select("mixture"), on="mixture", how="semi")
        above = rows.filter(pl.col("proportion") > 1 + ROUNDING).head(1)  # a column that is none of shares
        row = bad.join(above.select("mixture"), on="mixture", how="semi" if above.height else "anti").row(0, named=True)
        most = "".join(f" ({one['domain']!r} alone has {one['proportion']:g})" for one in above.iter_rows(named=True))
        raise InputError(
            f"{place(name, row)} and on: the proportions of mixture {row['mixture']!r} sum to {row['proportion']:.6g}{most}: "
            f"they must sum to 1, as shares, not percents (gaps up to {ROUNDING} count as rounding and are rescaled)."
        )
    return mixtures.with_columns(pl.col("proportion") / pl.col("proportion").sum().over("mixture"))


def check_amounts(table: pl.DataFrame, column: str, name: str) -> None:
    """Errors: parameters, tokens or a used pool not above 0. An empty pool is not checked."""
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
