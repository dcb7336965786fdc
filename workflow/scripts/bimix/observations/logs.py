"""Logs of other tools: each is rows of metrics, and one reader takes the losses out of them.

table        csv, parquet or jsonl, one row an evaluation, one column a metric
wandb        a history, which is such a table, or a panel's csv, with a column `run - metric` for
             each line and next to it its least and largest value (`__MIN`, `__MAX`), which differ
             from it where the panel shows averages, over runs or over steps
tensorboard  a folder of event files, or one above those of all runs
trainer      trainer_state.json of Hugging Face's Trainer: what was logged at which step
swarm        a table of one row a run, once at each size, with all metrics (Olmix, RegMix)
"""

import difflib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.observations.metrics import ERROR_RATE
from bimix.observations.tables import ROW, numbered
from bimix.tables import read_json, read_table

HOLE = "{domain}"
BETWEEN, RANGE = " - ", ("__MIN", "__MAX")  # of a panel
EVENTS = "*tfevents*"


class Loss(NamedTuple):
    """One evaluation of a run on a domain."""

    run: str
    step: int
    domain: str
    loss: float  # nats per token, where the log has it so
    place: str  # where it stands, for sentences: file, line or step, column
    size: str = ""  # of the model, as the log calls it
    parameters: float | None = None  # of the model, where they are known


class Row(NamedTuple):
    """One evaluation of a run."""

    run: str
    step: object
    cells: dict[str, object]  # {metric: value} of those that are there
    place: str
    size: str = ""


class Log(NamedTuple):
    """The rows of a log, and which of their metrics are losses of which domain."""

    found: dict[str, str]
    rows: Iterable[Row]
    step: str = "step"  # what holds the step,
    kind: str = "column"  # and what holds a metric: column, key, scalar

    def losses(self) -> Iterator[Loss]:
        """Errors: a step that is no whole number, a value that is no loss."""
        for row in self.rows:
            step = as_step(row.step, f"{row.place}, {self.kind} {self.step!r}")
            for metric, value in row.cells.items():
                here = f"{row.place}, {self.kind} {metric!r}"
                yield Loss(row.run, step, self.found[metric], as_loss(value, here), here, row.size)


@dataclass(frozen=True)
class Pattern:
    """The name of a metric around its domain: eval/{domain}/loss."""

    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.before}{HOLE}{self.after}"

    def domain(self, metric: str) -> str | None:
        """The domain whose loss the metric is; None where it is another metric."""
        if not (metric.startswith(self.before) and metric.endswith(self.after)):
            return None
        return metric[len(self.before) : len(metric) - len(self.after)] or None

    def domains(self, metrics: Iterable[str], path: object) -> dict[str, str]:
        """{metric: domain} of those metrics that are losses. Errors: none is."""
        metrics = list(dict.fromkeys(metrics))  # a panel has one for each run
        found = {metric: domain for metric in metrics if (domain := self.domain(metric))}
        if not found:
            near = difflib.get_close_matches(str(self), metrics, 6, 0)
            raise InputError(
                f"{path}: no metric fits {str(self)!r}; it has {', '.join(near) or 'none'}"
                f"{' and others' if len(metrics) > len(near) else ''}: name them by --pattern, such as eval/{HOLE}/loss."
            )
        return found


def pattern(text: str, flag: str = "--pattern") -> Pattern:
    """The pattern of the text. Errors: it has not one {domain}, named by the `flag`."""
    if text.count(HOLE) != 1:
        raise InputError(f"{flag} is {text!r}: it needs {HOLE} once, as in eval/{HOLE}/loss.")
    return Pattern(*text.split(HOLE))


def as_loss(value: object, place: str) -> float:
    """A loss. Errors: it is no number, not finite, or not above 0."""
    number = as_number(value)
    if number is None or not math.isfinite(number) or number <= 0:
        raise InputError(f"{place}: {value!r} is no loss: it must be a finite number above 0; {ERROR_RATE}.")
    return number


def as_step(value: object, place: str) -> int:
    """A step. Errors: it is no whole number, or below 0."""
    number = as_number(value)
    if number is None or not math.isfinite(number) or number < 0 or number != int(number):
        raise InputError(f"{place}: {value!r} is no training step: it must be a whole number.")
    return int(number)


def as_number(value: object) -> float | None:
    """The number that a value is or spells; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


@dataclass(frozen=True)
class Table:
    """A file of rows: a frame with the column ROW, or objects of JSON with their lines."""

    path: Path
    columns: list[str]
    content: pl.DataFrame | list[dict]

    def need(self, *columns: str) -> None:
        """Errors: there is no such column."""
        for column in columns:
            if column not in self.columns:
                few = ", ".join(self.columns[:8])
                raise InputError(f"{self.path} has no column {column!r}; it has {few}: name it by --step or --run.")

    def rows(self, columns: Iterable[str]) -> Iterator[tuple[str, dict]]:
        """(file and line, the columns that are wanted) of all rows."""
        kind, columns = "row" if self.path.suffix == ".parquet" else "line", list(dict.fromkeys(columns))
        content = self.content
        if isinstance(content, pl.DataFrame):
            content = content.select(ROW, *columns).iter_rows(named=True)
        for row in content:
            yield f"{self.path}, {kind} {row[ROW]}", {name: row.get(name) for name in columns}


def read_any(path: Path) -> Table:
    """A table of csv, parquet, or lines of JSON of any keys. Errors: the file, its line."""
    if path.suffix == ".jsonl":
        objects = list(_objects(path))
        return Table(path, list(dict.fromkeys(key for row in objects for key in row if key != ROW)), objects)
    table = numbered(read_table(path), str(path))
    # wandb quotes the cells of steps that a run has not
    table = table.with_columns(pl.col(pl.String).replace("", None))
    return Table(path, [name for name in table.columns if name != ROW], table)


def _objects(path: Path) -> Iterator[dict]:
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
            yield row | {ROW: number}


def from_table(
    table: Table,
    pattern: Pattern,
    step: str,
    run: str | None,
    size: str | None,
    ignored: Collection[str] = (),
    only: Collection[str] | None = None,
    whole: bool = False,
) -> Log:
    """`step` is the column of the steps, or spells that of all rows; `run` the column of the runs'
    names, None: all rows are of one run, called as the file; `size` that of the models' sizes;
    `ignored`: columns that are no metrics; `only`: the runs that count, None: all.

    Cells that are empty are of another evaluation. Not so where rows are `whole` runs, those of a
    swarm: an empty cell, or a run twice at a size, is an error, since a fit would take what is left
    without a word.
    """
    columns = [name for name in (run, size, None if step.isdecimal() else step) if name]
    table.need(*columns)
    found = pattern.domains([name for name in table.columns if name not in {*columns, *ignored}], table.path)

    def rows():
        seen: dict[tuple[str, str], str] = {}
        for place, row in table.rows([*columns, *found]):
            cells = {metric: row[metric] for metric in found if row[metric] is not None}
            if not (cells or whole):
                continue
            name = table.path.stem if run is None else _named(row[run], place, run)
            if only is not None and name not in only:
                continue
            here = f"{place}, run {name!r}" if whole else place
            of = "" if size is None else _named(row[size], here, size)
            if whole and (name, of) in seen:
                raise InputError(
                    f"{here}: it is there twice{f' at size {of!r}' if of else ''}, first in {seen[name, of]}."
                )
            if whole and len(cells) < len(found):
                empty = next(metric for metric in found if metric not in cells)
                raise InputError(f"{here}: column {empty!r} is empty: evaluate the run, or leave it out by --runs.")
            seen[name, of] = place
            yield Row(name, step if step.isdecimal() else row[step], cells, here, of)

    return Log(found, rows(), step)


def from_wandb(table: Table, pattern: Pattern, step: str | None, run: str | None, size: str | None) -> Log:
    """A panel's csv, or a history, which is a run called as its file. Errors: those of
    `from_table`; of a panel, --run or --size, or a cell of averages.
    """
    if "_step" in table.columns or not any(BETWEEN in name for name in table.columns[1:]):
        return from_table(table, pattern, step or "_step", run, size)
    if run or size:
        raise InputError(
            f"{table.path} is a panel: its runs are in the names of its columns, so leave out --run and --size."
        )
    step = step or table.columns[0]
    table.need(step)
    lines = [name for name in table.columns if name != step and not name.endswith(RANGE)]
    both = {name: split for name in lines if (split := _split(name, pattern))}
    if not both:
        pattern.domains([name.rpartition(BETWEEN)[2] for name in lines], table.path)
    ends = [f"{name}{end}" for name in both for end in RANGE if f"{name}{end}" in table.columns]

    def rows():
        for place, row in table.rows([step, *both, *ends]):
            for name, (of, _) in both.items():
                value = row[name]
                if value is None:
                    continue
                for end in RANGE:
                    other = row.get(f"{name}{end}")
                    if other not in (None, value) and as_number(other) != as_number(value):
                        raise InputError(
                            f"{place}, column {name!r}: {value} is an average, and {end[2:]} is {other}: export the panel"
                            " without groups and smoothing, with all points, or the runs' histories."
                        )
                yield Row(of, row[step], {name: value}, place)

    return Log({name: domain for name, (_, domain) in both.items()}, rows(), step)


def _split(column: str, pattern: Pattern) -> tuple[str, str] | None:
    """(run, domain) of a column `run - metric`: the pattern tells the separator, the last first."""
    end = len(column)
    while (end := column.rfind(BETWEEN, 0, end)) > 0:
        domain = pattern.domain(column[end + len(BETWEEN) :])
        if domain:
            return column[:end], domain
    return None


def from_tensorboard(path: Path, pattern: Pattern) -> Log:
    """A run's folder, which is called as it is, or all the runs below a folder, called by their
    paths in it.

    TensorBoard's own reader drops the steps that a resumed run writes again, where both attempts
    were given `purge_step` of torch's SummaryWriter. Others are there twice. Errors: no event
    files, no metric that fits.
    """
    if not path.is_dir():
        raise InputError(
            f"{path} is no folder: name the folder of a run's event files, or one above those of all runs."
        )
    folders = sorted({file.parent for file in path.rglob(EVENTS) if file.is_file()})
    if not folders:
        raise InputError(f"{path} has no event files ({EVENTS}).")
    scalars = {folder: _scalars(folder) for folder in folders}
    found = pattern.domains((tag for tags in scalars.values() for tag in tags), path)

    def rows():
        for folder, tags in scalars.items():
            name = path.resolve().name if folder == path else folder.relative_to(path).as_posix()
            for tag in (tag for tag in tags if tag in found):
                for step, value in tags[tag]:
                    yield Row(name, step, {tag: value}, f"{folder}, step {step}")

    return Log(found, rows(), kind="scalar")


def _scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """{tag: (step, value) in the order of the files} of the event files that lie in a folder."""
    # here only: the environment that fits laws need not have it
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})  # 0: all, no sample of them
    events.Reload()
    return {
        tag: [(event.step, float(make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
    }


def from_trainer(path: Path, pattern: Pattern) -> Log:
    """A run, called as the folder of its trainer_state.json, or the one above that of a checkpoint.
    Errors: no list `log_history`, no metric that fits.
    """
    log = read_json(path).get("log_history")
    if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
        raise InputError(f"{path} has no list 'log_history': it is no trainer_state.json.")
    found = pattern.domains((key for entry in log for key in entry), path)
    folder = path.resolve().parent
    name = (folder.parent if re.fullmatch(r"checkpoint-\d+", folder.name) else folder).name
    cells = [{metric: entry[metric] for metric in found if metric in entry} for entry in log]
    rows = [
        Row(name, entry.get("step"), own, f"{path}, entry {number} of log_history")
        for number, (entry, own) in enumerate(zip(log, cells, strict=True), 1)
        if own
    ]
    return Log(found, rows, kind="key")


def _named(value: object, place: str, column: str) -> str:
    """A cell that names a run or a size. Errors: it is empty."""
    if value is None:
        raise InputError(f"{place}: column {column!r} is empty: it names the run or its size.")
    return str(value)
