"""Tables of which a row is an evaluation and a column a metric: of any tool, of histories of
wandb.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss, Pattern, as_loss, as_step
from bimix.observations.wide import ROW, numbered
from bimix.tables import read_table


@dataclass(frozen=True)
class Table:
    """A file of rows: a frame with the column ROW, or objects of JSON, each with its line."""

    path: Path
    columns: list[str]
    content: pl.DataFrame | list[tuple[int, dict]]

    def need(self, column: str) -> None:
        """Errors: there is no such column."""
        if column not in self.columns:
            few = ", ".join(self.columns[:8])
            raise InputError(f"{self.path} has no column {column!r}; it has {few}: name it by --step or --run.")

    def rows(self) -> Iterator[tuple[str, dict]]:
        """(file and line, the row) of all rows."""
        kind = "row" if self.path.suffix == ".parquet" else "line"
        pairs = (
            self.content
            if isinstance(self.content, list)
            else ((row[ROW], row) for row in self.content.iter_rows(named=True))
        )
        for number, row in pairs:
            yield f"{self.path}, {kind} {number}", row

    def cells(self, metrics: Collection[str], others: Collection[str]) -> Iterator[tuple[str, dict, dict]]:
        """(file and line, the other columns, the metrics that are not empty) of the rows that have
        such metrics.
        """
        if isinstance(self.content, list):
            rows = ((number, row.get) for number, row in self.content)
        else:
            some = self.content.select(ROW, *dict.fromkeys([*others, *metrics])).filter(
                pl.any_horizontal(pl.col(list(metrics)).is_not_null())
            )
            rows = ((row[ROW], row.get) for row in some.iter_rows(named=True))
        kind = "row" if self.path.suffix == ".parquet" else "line"
        for number, get in rows:
            filled = {metric: value for metric in metrics if (value := get(metric)) is not None}
            if filled:
                yield f"{self.path}, {kind} {number}", {name: get(name) for name in others}, filled


def read_rows(path: Path, pattern: Pattern, step: str, run: str | None, size: str | None) -> Iterator[Loss]:
    """The losses of a table with a column `step`, or whose rows are all of the step that `step`
    spells.

    `run` is the column of the runs' names; None: all rows are of one run, called as the file.
    `size` is the column of the models' sizes. Cells that are empty are of another evaluation.
    Errors: no such column, no metric that fits, a cell that is no loss.
    """
    yield from losses_in(read_any(path), pattern, step, run, size)


def read_any(path: Path) -> Table:
    """A table of csv, parquet, or lines of JSON objects, which may have different keys.

    Errors: the file, its line.
    """
    if path.suffix == ".jsonl":
        objects = list(_objects(path))
        return Table(path, list(dict.fromkeys(key for _, row in objects for key in row)), objects)
    table = numbered(read_table(path), str(path))
    # wandb quotes the cells of steps that a run has not
    table = table.with_columns(pl.col(pl.String).replace("", None))
    return Table(path, [name for name in table.columns if name != ROW], table)


def _objects(path: Path) -> Iterator[tuple[int, dict]]:
    if not path.is_file():
        raise InputError(f"{path} does not exist.")
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}: this is not valid JSON: {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"{path}, line {number}: this is no JSON object.")
            yield number, row


def losses_in(table: Table, pattern: Pattern, step: str, run: str | None, size: str | None) -> Iterator[Loss]:
    """The losses of a table, as in `read_rows`."""
    named = [name for name in (run, size, None if step.isdecimal() else step) if name]
    for name in named:
        table.need(name)
    found = pattern.domains([name for name in table.columns if name not in named], table.path)
    for place, row, cells in table.cells(found, named):
        at = as_step(step if step.isdecimal() else row[step], f"{place}, column {step!r}")
        name = table.path.stem if run is None else named_cell(row[run], place, run)
        of = "" if size is None else named_cell(row[size], place, size)
        for metric, value in cells.items():
            here = f"{place}, column {metric!r}"
            yield Loss(name, at, found[metric], as_loss(value, here), here, of)


def named_cell(value: object, place: str, column: str) -> str:
    """A cell that names a run or a size. Errors: it is empty."""
    if value is None:
        raise InputError(f"{place}: column {column!r} is empty: it names the run or its size.")
    return str(value)
