"""What Weights & Biases exports: a panel as csv, with a column `run - metric` for each line, or the
history of a run.

A panel's csv has beside each column its least and largest value (`__MIN`, `__MAX`); they differ
from it where the panel shows averages, over runs or over steps.
"""

from collections.abc import Iterator
from pathlib import Path

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss, Pattern, as_loss, as_step
from bimix.observations.imported_tables import Table, losses_in, read_any

BETWEEN = " - "
RANGE = ("__MIN", "__MAX")


def read_wandb(path: Path, pattern: Pattern, step: str | None, run: str | None, size: str | None) -> Iterator[Loss]:
    """The losses of a panel's csv, or of a history as csv, parquet or lines of JSON, which is
    called as its file.
    """
    table = read_any(path)
    if "_step" not in table.columns and any(BETWEEN in name for name in table.columns[1:]):
        if run or size:
            raise InputError(
                f"{path} is a panel: its runs are in the names of its columns, so leave out --run and --size."
            )
        yield from read_panel(table, pattern, step)
    else:
        yield from losses_in(table, pattern, step or "_step", run, size)


def read_panel(table: Table, pattern: Pattern, step: str | None) -> Iterator[Loss]:
    """The losses of a panel; `step`: its first column if None.

    Errors: no column that fits, a cell of averages.
    """
    step = step or table.columns[0]
    table.need(step)
    lines = [name for name in table.columns if name != step and not name.endswith(RANGE)]
    found = {name: both for name in lines if (both := _split(name, pattern))}
    if not found:
        pattern.domains([name.rpartition(BETWEEN)[2] for name in lines], table.path)
    ends = [f"{name}{end}" for name in found for end in RANGE if f"{name}{end}" in table.columns]
    for place, row, cells in table.cells(found, [step, *ends]):
        at = as_step(row[step], f"{place}, column {step!r}")
        for name, value in cells.items():
            here, (run, domain) = f"{place}, column {name!r}", found[name]
            loss = as_loss(value, here)
            for end in RANGE:
                other = row.get(f"{name}{end}")
                if other is not None and as_loss(other, f"{here}{end}") != loss:
                    raise InputError(
                        f"{here}: {value} is an average, and {end[2:]} is {other}: export the panel without groups and"
                        " smoothing, with all points, or the runs' histories."
                    )
            yield Loss(run, at, domain, loss, here)


def _split(column: str, pattern: Pattern) -> tuple[str, str] | None:
    """(run, domain) of a column `run - metric`; either may hold the separator, so the pattern
    decides, the last first.
    """
    end = len(column)
    while (end := column.rfind(BETWEEN, 0, end)) > 0:
        domain = pattern.domain(column[end + len(BETWEEN) :])
        if domain:
            return column[:end], domain
    return None
