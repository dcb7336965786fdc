"""Imports other tools' logs into the two tables. A log is rows of metrics with named columns:

csv, parquet, jsonl  one row per evaluation, one column per metric, such as a history of wandb
trainer_state.json   of Hugging Face's Trainer: the log of each step; or a JSON array of evaluations
results*.json        of lm_eval: one row, its columns `task/metric`
a long table         csv, parquet with run, tag (or metric), step, value
run-R-tag-T.csv      as TensorBoard's page downloads it: Wall time, Step, Value
a panel of wandb     csv with a column `run - metric` for each line and, next to it, its least and
                     largest value (`__MIN`, `__MAX`), which differ from it where the panel shows
                     averages, over runs or over steps
a folder             event files of TensorBoard; of a run, or of all the runs below it
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.names import paired
from bimix.observations.benchmarks import is_results, metrics_of, run_of
from bimix.observations.metrics import ERROR_RATE, check_lower
from bimix.observations.tables import ROW, check_amounts, few, numbered, place, read_mixtures
from bimix.tables import parsed_json, read_json, read_table

HOLE = "{domain}"
STEPS = ("step", "_step", "Step")  # what tools call the column of the steps
BETWEEN, RANGE = " - ", ("__MIN", "__MAX")  # of a panel
EVENTS = "*tfevents*"
MISSING = ("", "nan", "na", "n/a", "null", "none")
DOWNLOADED = re.compile(r"run-(.+)-tag-(.+)")  # a csv of TensorBoard's page
LONG = ({"run", "tag", "step", "value"}, {"run", "metric", "step", "value"})
REPEATED = ("first", "last")
RUNS = ("run", "mixture", "seed", "parameters")  # columns of a table of runs


class Loss(NamedTuple):
    """One evaluation of a run on a domain."""

    run: str
    step: int
    domain: str
    loss: float  # nats per token, where the log has it so
    place: str  # where it stands, for sentences


class Row(NamedTuple):
    """One evaluation of a run: all cells of its row by column name."""

    run: str  # as its file or folder is called
    place: str
    cells: Mapping[str, object]


@dataclass(frozen=True)
class Pattern:
    """The pattern of metric names with the domain in it: eval/{domain}/loss."""

    before: str
    after: str

    def domain(self, metric: str) -> str | None:
        """The domain of a loss; None for another metric."""
        if not (metric.startswith(self.before) and metric.endswith(self.after)):
            return None
        return metric[len(self.before) : len(metric) - len(self.after)] or None

    def in_panel(self, column: str) -> tuple[str, str] | None:
        """(run, metric) of a panel's loss column; the last separator is tried first."""
        end = len(column)
        while (end := column.rfind(BETWEEN, 0, end)) > 0:
            if self.domain(column[end + len(BETWEEN) :]):
                return column[:end], column[end + len(BETWEEN) :]
        return None


def pattern(text: str, flag: str = "--pattern") -> Pattern:
    """The pattern in the text. Errors, with the `flag`: it does not have exactly one {domain}."""
    if text.count(HOLE) != 1:
        raise InputError(f"{flag} is {text!r}: it needs {HOLE} once, as in eval/{HOLE}/loss.")
    return Pattern(*text.split(HOLE))


def as_loss(value: object, place: str) -> float:
    """The value as a loss. Errors: no number, not finite, or not above 0."""
    number = _as_number(value)
    if 0 < number < math.inf:
        return number
    if number <= 0:
        why = f"it must be above 0; {ERROR_RATE}"
    elif _is_missing(value) or math.isinf(number):
        why = "leave a run that diverged out by --runs, and the cell empty where nothing was measured"
    else:
        why = "it must be a finite number above 0"
    raise InputError(f"{place}: {value!r} is no loss: {why}.")


def as_step(value: object, place: str) -> int:
    """The value as a step. Errors: no whole number, or below 0."""
    number = _as_number(value)
    if not 0 <= number < math.inf or number != int(number):
        raise InputError(f"{place}: {value!r} is no training step: it must be a whole number.")
    return int(number)


def _is_missing(value: object) -> bool:
    """Whether a value is how tools write that there is none."""
    return value is None or str(value).strip().lower() in MISSING


def _as_number(value: object) -> float:
    """A number, or a text that is one, as float; else NaN."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def losses_of(
    path: Path,
    form: Pattern,
    step: str | None = None,
    run: str | None = None,
    only: Collection[str] | None = None,
    lower: Collection[str] = (),
    said: dict[str, str] | None = None,
) -> Iterator[Loss]:
    """The losses in a log. `step` is the column of steps, or one step for all rows; `run` is the
    column of run names (None: the name of the file or folder); `only`: the runs to read (None:
    all), others get step -1. Empty cells belong to other evaluations. Remarks are appended to
    `said`, each with the place of its first row.

    Errors: an unreadable file; no metric that matches; an invalid loss, step or name; an average
    over runs or steps; a metric of which higher is better, unless it is in `lower`.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    rows = list(_events(path) if path.is_dir() else _rows(path))
    if not rows:
        raise InputError(f"{path} has no evaluation: no row, entry or scalar.")
    columns = list(dict.fromkeys(name for row in rows for name in row.cells if name != ROW))
    steps = [name for name in STEPS if name in columns] if step is None else [step]
    step = next(iter(steps), STEPS[0])
    for column in (run, None if step.isdecimal() else step):
        if column is not None and column not in columns:
            raise InputError(f"{path} has no column {column!r}; it has {few(columns)}: name it by --step or --run.")
    others = [name for name in columns if name not in (run, step, *STEPS) and not name.endswith(RANGE)]
    named = {name: (run is None and form.in_panel(name)) or (None, name) for name in others}
    found = {name: (of, domain) for name, (of, metric) in named.items() if (domain := form.domain(metric))}
    if not found:
        wanted = f"{form.before}{HOLE}{form.after}"
        near = difflib.get_close_matches(wanted, dict.fromkeys(one.rpartition(BETWEEN)[2] for one in others), 6, 0)
        raise InputError(f"{path}: no metric fits {wanted!r}; it has {few(near) or 'none'}: name them by --pattern.")
    check_lower((named[name][1] for name in found), str(path), lower)
    cells = []
    for number, row in enumerate(rows):
        for metric, (of, domain) in found.items():
            name, value = of or (row.run if run is None else row.cells.get(run)), row.cells.get(metric)
            if value not in (None, ""):
                cells.append((number, row, name, metric, domain, value))
    measured = {(name, number) for number, _, name, *_, value in cells if not _is_missing(value)}
    last = dict(sorted(measured, key=lambda one: one[1]))
    for number, row, name, metric, domain, value in cells:
        here = f"{row.place}, {metric!r}"
        # a row of something else between two evaluations; after the last one a loss is missing
        if _is_missing(value) and (name, number) not in measured and number < last.get(name, -1):
            continue
        if name in (None, ""):
            raise InputError(f"{row.place}: column {run!r} is empty: it names the run.")
        if only is not None and str(name) not in only:
            yield Loss(str(name), -1, domain, math.nan, here)  # so that sentences can name the run
            continue
        for end in RANGE:
            other = row.cells.get(f"{metric}{end}")
            if other not in (None, "") and _as_number(other) != _as_number(value):
                raise InputError(
                    f"{here}: {value} is an average, and {end[2:]} is {other}: export the panel without groups and"
                    " smoothing, with all points, or the runs' histories."
                )
        # wandb counts its calls in `_step`; a column `step` is the training's own
        differ = [one for one in steps[1:] if row.cells.get(one) not in (None, "", row.cells.get(step))]
        if differ and said is not None:
            sentence = f"of the columns {step} and {differ[0]}, which differ, {step} counts; --step names another."
            said.setdefault(sentence, row.place)
        at = as_step(step if step.isdecimal() else row.cells.get(step), f"{row.place}, {step!r}")
        yield Loss(str(name), at, domain, as_loss(value, here), here)


def _rows(path: Path) -> Iterator[Row]:
    """Rows of a table, JSON lines or trainer_state.json; a run has the name of its folder."""
    if path.suffix == ".json":
        content = read_json(path, (dict, list))
        if is_results(content):
            cells = {f"{one.task}/{one.metric}": one.value for one in metrics_of(content)}
            yield Row(run_of(content, path), f"{path}, results", cells)
            return
        log = content.get("log_history") if isinstance(content, dict) else content
        if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
            why = "it is no trainer_state.json, nor results of lm_eval, nor a list of evaluations"
            raise InputError(f"{path} has no list 'log_history': {why}.")
        if log is content:
            yield from (Row(path.stem, f"{path}, entry {number}", one) for number, one in enumerate(log, 1))
            return
        folder = path.resolve().parent
        name = (folder.parent if re.fullmatch(r"checkpoint-\d+", folder.name) else folder).name
        yield from (Row(name, f"{path}, entry {number} of log_history", one) for number, one in enumerate(log, 1))
    elif path.suffix == ".jsonl":
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                yield Row(path.stem, f"{path}, line {number}", parsed_json(line, f"{path}, line {number}"))
    else:
        table = numbered(read_table(path), str(path))
        columns = {name.strip().lower().replace("_", " "): name for name in table.columns if name != ROW}
        if columns.keys() == {"wall time", "step", "value"}:
            if not (called := DOWNLOADED.fullmatch(path.stem)):
                why = "its name is not run-R-tag-T.csv, which says of which run and metric it is"
                raise InputError(f"{path} is TensorBoard's csv, and {why}: give the folder of event files.")
            table = table.with_columns(run=pl.lit(called[1]), tag=pl.lit(called[2]))
            columns |= {"run": "run", "tag": "tag"}
        if any(columns.keys() - {"wall time"} == long for long in LONG):
            tag = columns.get("tag") or columns["metric"]
            for cells in table.iter_rows(named=True):
                at = {name: cells[name] for name in table.columns if name not in (tag, columns["value"])}
                yield Row(
                    str(cells[columns["run"]]), place(str(path), cells), at | {str(cells[tag]): cells[columns["value"]]}
                )
            return
        yield from (Row(path.stem, place(str(path), cells), cells) for cells in table.iter_rows(named=True))


def _events(path: Path) -> Iterator[Row]:
    """The scalars of a run's folder, or of all runs below a folder, named by their relative paths.

    TensorBoard's reader drops the steps that a resumed run writes again, if both attempts used
    `purge_step` of torch's SummaryWriter. Otherwise those steps occur twice.
    """
    # imported here, since the environment that fits laws need not have it
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    folders = sorted({file.parent for file in path.rglob(EVENTS) if file.is_file()})
    if not folders:
        raise InputError(f"{path} has no event files ({EVENTS}).")
    for folder in folders:
        name = path.resolve().name if folder == path else folder.relative_to(path).as_posix()
        events = EventAccumulator(str(folder), size_guidance={"tensors": 0})  # 0: all, no sample of them
        events.Reload()
        for tag in events.Tags()["tensors"]:
            if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                for event in events.Tensors(tag):
                    value = float(make_ndarray(event.tensor_proto))
                    yield Row(name, f"{folder}, step {event.step}", {STEPS[0]: event.step, tag: value})


def joined(
    losses: Iterable[Loss], mixtures: Path, runs: Mapping[str, dict] | None = None, repeated: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """(losses: mixture, step, domain, loss, and further columns of `runs`; tidy mixtures; remarks).

    `runs` come from `read_runs`; without them each run is a mixture. `repeated` chooses between two
    losses at a step. Evaluations at step 0 are left out. Errors: a run without losses; two losses
    of one step where `repeated` is None; a mixture with losses but no proportions.
    """
    losses, tidy, remarks = list(losses), read_mixtures(mixtures), []
    trained, measured = tidy.names("domain"), list(dict.fromkeys(loss.domain for loss in losses))
    known = {*trained, *paired(measured, trained)}
    below = [name for name in measured if "/" in name and name not in known]
    if 0 < len(below) < len(measured):  # as eval/suite/news/loss beside eval/web/loss
        remarks.append(f"Left out, as they have a slash where {HOLE} is, and no mixture trains on them: {few(below)}.")
        losses = [loss for loss in losses if loss.domain not in below]
    there = dict.fromkeys(loss.run for loss in losses)
    if absent := [run for run in runs or {} if run not in there]:
        raise InputError(f"--runs names {absent[0]!r}, of which there are no losses; there are {few(there)}.")
    named = runs or {run: {"mixture": run} for run in there}
    kept: dict[tuple, Loss] = {}
    twice: Counter[str] = Counter()
    for loss in (one for one in losses if one.step > 0):
        key = (*named[loss.run].values(), loss.step, loss.domain)
        before = kept.setdefault(key, loss)
        if before.loss != loss.loss:
            if repeated is None:
                raise InputError(
                    f"{loss.place}: mixture {key[0]!r} has two losses of {loss.domain!r} at step {loss.step}, {before.loss:g}"
                    f" ({before.place}) and {loss.loss:g}: choose by --repeated first or last, or give runs of one mixture"
                    " a seed each in --runs."
                )
            twice[loss.run] += 1
        if repeated == "last":
            kept[key] = loss
    if twice:
        remarks.append(f"Evaluated twice at a step, the {repeated} was taken: {few(twice)}.")
    if begun := sum(loss.step == 0 for loss in losses):
        remarks.append(f"{begun} losses at step 0, before any training, are left out.")
    if not kept:
        raise InputError("the logs have no losses after step 0.")
    rows = [named[one.run] | {"step": one.step, "domain": one.domain, "loss": one.loss} for one in kept.values()]
    known, used = tidy.names("mixture"), dict.fromkeys(row["mixture"] for row in rows)
    if lacking := [mixture for mixture in used if mixture not in known]:
        raise InputError(
            f"{mixtures} has no mixture {lacking[0]!r}, of which there are losses; it has {few(known)}: call runs and"
            " mixtures alike, or give --runs, a csv of run and mixture."
        )
    if untrained := [mixture for mixture in known if mixture not in used]:
        remarks.append(f"Without losses: {few(untrained)}.")
    table = pl.DataFrame(rows).sort(list(rows[0]))
    return table, tidy.table, [*filter(None, [tidy.remark]), *remarks]


def read_runs(path: Path) -> dict[str, dict]:
    """{run: {mixture, seed, parameters}}. Errors: no such column, an empty cell, a run twice."""
    table = read_table(path)
    columns = [column for column in RUNS if column in table.columns]
    if not {"run", "mixture"} <= set(columns):
        raise InputError(f"{path} needs the columns run and mixture, and may have seed and parameters.")
    names = pl.col([one for one in columns if one != "parameters"])
    table = numbered(table, str(path)).with_columns(names.cast(pl.String))
    check_amounts(table, "parameters", str(path))
    found: dict[str, dict] = {}
    for row in table.iter_rows(named=True):
        here, cells = place(str(path), row), {column: row[column] for column in columns}
        if None in cells.values():
            raise InputError(f"{here}: a cell is empty: it needs {', '.join(columns)}.")
        run = cells.pop("run")
        if run in found:
            raise InputError(f"{here}: run {run!r} is there twice.")
        found[run] = cells
    return found
