"""Swarms: two tables of one row a run, its proportions and its metrics, as Olmix and RegMix have
them.

Every run of one is in the other, once at each size, with all metrics. A run that is missing,
doubled or empty stops the import, since a fit would take what is left without a word.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss, Pattern, as_loss, as_step
from bimix.observations.imported_runs import few
from bimix.observations.imported_tables import Table, named_cell, read_any
from bimix.observations.metrics import check_lower
from bimix.observations.wide import ROW, Tidy, numbered, tidy_mixtures
from bimix.tables import read_table


class Swarm(NamedTuple):
    """How a tool's tables are laid out: the column of the run, the patterns of metrics and of
    proportions, and the columns beside them.
    """

    run: str
    metrics: str
    ratios: str
    beside: tuple[str, ...]


SWARMS = {
    # the first column is pandas' index, which has no name
    "olmix": Swarm("name", "{domain}", "{domain}", ("", "run", "name", "index")),
    "regmix": Swarm("index", "metric/{domain}_val_loss", "train_{domain}", ("index",)),
}


def read_swarm(
    path: Path,
    pattern: Pattern,
    step: str,
    run: str,
    size: str | None,
    beside: Collection[str],
    only: Collection[str] | None,
) -> Iterator[Loss]:
    """The metrics of a swarm's table as losses.

    `beside`: columns that are no metrics; `size`: the column of the models' sizes; `only`: the runs
    that count, None: all. Errors: a run twice at a size, a cell that is empty or no loss; a table
    without steps.
    """
    table = read_any(path)
    if not step:
        raise InputError(
            f"{path} has no steps: give the one at which its runs were evaluated, as in --step 10000, or their column."
        )
    columns = [name for name in (run, size, None if step.isdecimal() else step) if name]
    for name in columns:
        table.need(name)
    found = metrics_of(table, pattern, {*columns, *beside})
    seen: dict[tuple[str, str], str] = {}
    for place, row in table.rows():
        name = named_cell(row.get(run), place, run)
        if only is not None and name not in only:
            continue
        here = f"{place}, run {name!r}"
        of = "" if size is None else named_cell(row.get(size), here, size)
        at = as_step(step if step.isdecimal() else row.get(step), f"{here}, column {step!r}")
        if (name, of) in seen:
            raise InputError(f"{here}: it is there twice{f' at size {of!r}' if of else ''}, first in {seen[name, of]}.")
        seen[name, of] = place
        for metric, domain in found.items():
            if row.get(metric) is None:
                raise InputError(f"{here}: column {metric!r} is empty: evaluate the run, or leave it out by --runs.")
            cell = f"{here}, column {metric!r}"
            yield Loss(name, at, domain, as_loss(row[metric], cell), cell, of)


def metrics_of(table: Table, pattern: Pattern, beside: Collection[str]) -> dict[str, str]:
    """{column: loss domain} of a swarm's metrics. Errors: none fits."""
    return pattern.domains([name for name in table.columns if name not in beside], table.path)


def taken(
    path: Path,
    pattern: Pattern,
    run: str,
    beside: Collection[str],
    only: Collection[str] | None,
    lower: Collection[str] = (),
) -> list[str]:
    """Remarks on which columns are taken as losses, and which columns and runs are left.

    Errors: of one more is better, by its name, and it is not in `lower`.
    """
    table = read_any(path)
    found = metrics_of(table, pattern, beside)
    check_lower(found, str(path), lower)
    left = [name for name in table.columns if name not in found and name not in ("", ROW)]
    remarks = [f"Taken as losses, of which lower is better: {', '.join(found)}. Left: {', '.join(left) or 'none'}."]
    names = dict.fromkeys(str(row.get(run)) for _, row in table.rows())
    others = [] if only is None else [name for name in names if name not in only]
    return [*remarks, *([f"Left out, for --runs does not name them: {few(others)}."] if others else [])]


def swarm_mixtures(path: Path, run: str, pattern: Pattern, beside: Collection[str], sized: bool) -> Tidy:
    """The mixtures of a swarm's table, tidy; `sized`: a run may be there once for each size.

    Errors: a run twice, or of other proportions at another size; an empty cell.
    """
    read_any(path).need(run)
    table = numbered(read_table(path), str(path))
    ratios = pattern.domains([name for name in table.columns if name not in {run, ROW, *beside}], path)
    place = "row" if path.suffix == ".parquet" else "line"
    seen: dict[str, tuple] = {}
    lines: dict[str, int] = {}
    for number, name, *shares in table.select(ROW, run, *ratios).iter_rows():
        name = named_cell(name, f"{path}, {place} {number}", run)
        if None in shares:
            empty = list(ratios)[shares.index(None)]
            raise InputError(f"{path}, {place} {number}, run {name!r}: column {empty!r} is empty: write 0 for none.")
        if name in seen and not (sized and seen[name] == tuple(shares)):
            raise InputError(f"{path}, {place} {number}: run {name!r} is there twice, first in {place} {lines[name]}.")
        seen[name], lines[name] = tuple(shares), lines.get(name, number)
    table = table.filter(pl.col(ROW).is_in(list(lines.values())))
    table = table.select(
        ROW, pl.col(run).cast(pl.String).alias("mixture"), *(pl.col(old).alias(new) for old, new in ratios.items())
    )
    return tidy_mixtures(table, str(path))


def check_runs(losses: pl.DataFrame, mixtures: pl.DataFrame, logs: str, name: str) -> list[str]:
    """Remarks: how many runs there are of each size. Errors: one has proportions and no losses."""
    sizes = ["parameters"] if "parameters" in losses.columns else []
    there = set(losses["mixture"])
    lacking = [mixture for mixture in mixtures["mixture"].unique(maintain_order=True) if mixture not in there]
    if lacking:
        raise InputError(
            f"{logs} has no run {lacking[0]!r}, which is in {name}: evaluate it, or name by --runs those that count."
        )
    if not sizes:
        return []
    runs = losses.group_by("parameters").agg(pl.col("mixture").n_unique()).sort("parameters")
    return ["Runs by parameters: " + ", ".join(f"{size:g}: {count}" for size, count in runs.iter_rows()) + "."]
