"""The losses that a trainer leaves: read from a table, lines of JSON, its text or a
trainer_state.json, and held against what the run was to measure.

What an attempt repeats of the one before it, since it went on from a checkpoint, takes its place;
what one attempt says twice is a fault.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.names import named, unknown
from bimix.observations.doubts import MOST_NATS
from bimix.observations.imported_metrics import as_loss, as_step, pattern
from bimix.observations.trainer import read_trainer
from bimix.tables import SEPARATORS, read_table
from bimix.training.command_template import FOLDER, OUTPUT, WAYS

COLUMNS = ("step", "domain", "loss")
SCHEMA = {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}


class Row(NamedTuple):
    """One loss: `part` counts the attempts that had begun before it was written."""

    step: int
    domain: str
    loss: float
    part: int
    place: str


class Line(NamedTuple):
    """A line of a file; `cut` where an attempt began inside it, since the one before was killed:
    then `rest` is what that attempt wrote of it.
    """

    text: str
    part: int
    cut: bool
    place: str
    rest: str = ""


def source(asked: Mapping, folder: Path) -> Path:
    """The file that holds the losses of the run whose command writes to `folder`; what it prints
    lies beside that, where it cannot delete it.
    """
    if "pattern" in asked and "file" not in asked:
        return folder.parent / OUTPUT
    text = asked.get("file") or next(asked[way] for way in WAYS if way in asked)
    return folder / text.removeprefix(FOLDER)


def content(path: Path) -> bytes:
    """What a file of losses holds, of which a later attempt's begins where that of the one before
    ends: its bytes, of a parquet table those of its rows as csv; none where there is none yet.
    """
    if path.suffix != ".parquet":
        return path.read_bytes() if path.is_file() else b""
    try:
        return read_table(path).write_csv().encode()
    except InputError:  # the attempt before was killed while it wrote
        return b""


def read(asked: Mapping, folder: Path, begun: Sequence[int]) -> list[Row]:
    """The losses in the order in which they stand; `begun`: bytes of the `content` of that file
    when each attempt began.

    Errors: no such file, nothing of it fits, a loss or a step that is none.
    """
    path = source(asked, folder)
    if not path.is_file():
        raise InputError(f"{path} is not there: the command has left no losses.")
    if "table" in asked:
        rows = list(_of_table(path, begun))
    elif "trainer_state" in asked:
        found = read_trainer(path, pattern(asked["loss"], "losses/loss"))
        rows = [Row(one.step, one.domain, one.loss, 0, one.place) for one in found]
    else:
        reader = _of_json if "lines" in asked else _of_text
        rows = [row for line in _lines(content(path), path, begun) for row in reader(line, asked)]
    if not rows:
        raise InputError(f"{path} has no loss that {describe(asked)} finds.")
    return rows


def describe(asked: Mapping) -> str:
    """What losses are looked for."""
    if "table" in asked:
        return f"the columns {', '.join(COLUMNS)}"
    return repr(asked["pattern"] if "pattern" in asked else asked["loss"])


def _of_table(path: Path, begun: Sequence[int]) -> Iterator[Row]:
    if path.suffix == ".parquet":
        read_table(path)  # one that cannot be read is refused
    lines = [line for line in _lines(content(path), path, begun) if line.text]
    header = lines[0].text.lower() if lines else ""
    separator = max(SEPARATORS, key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
    for name in COLUMNS:
        if name not in names:
            raise InputError(f"{path} has no column {name!r}: it needs {', '.join(COLUMNS)}.")
    for line in lines[1:]:
        place = line.place.replace(", line ", ", row ")
        text = line.rest if line.cut else line.text  # the row before was never finished
        cells = next(csv.reader([text], delimiter=separator), [])
        if len(cells) != len(names):
            if line.cut and not text:
                continue
            raise InputError(f"{place}: it has {len(cells)} values for {len(names)} columns.")
        step, domain, loss = (cells[names.index(name)].strip() for name in COLUMNS)
        if not domain:
            raise InputError(f"{place}: it names no domain.")
        yield Row(as_step(step, place), domain, as_loss(loss, place), line.part + line.cut, place)


def _lines(raw: bytes, path: Path, begun: Sequence[int]) -> Iterator[Line]:
    start = 0
    for number, line in enumerate(raw.splitlines(keepends=True), 1):
        end = start + len(line)
        inside = [offset - start for offset in begun if start < offset < end]
        part = sum(offset <= start for offset in begun)
        text, rest = (
            one.decode("utf-8-sig", errors="replace").strip() for one in (line, line[max(inside, default=0) :])
        )
        yield Line(text, part, bool(inside), f"{path}, line {number}", rest)
        start = end


def _of_json(line: Line, asked: Mapping) -> Iterator[Row]:
    """Losses of a line of JSON; other lines of the log have none."""
    if not line.text:
        return
    try:
        entry = json.loads(line.text)
    except ValueError as error:
        if line.cut:
            return
        raise InputError(f"{line.place}: {error}: it is no line of JSON.") from error
    if not isinstance(entry, dict):
        raise InputError(f"{line.place}: a {type(entry).__name__} is no JSON object.")
    loss = asked["loss"]
    metrics = dict(loss) if isinstance(loss, Mapping) else None
    if metrics is None:
        form = pattern(loss, "losses/loss")
        metrics = {domain: metric for metric in entry if (domain := form.domain(metric))}
    for domain, metric in metrics.items():
        if metric in entry:
            step = as_step(entry.get(asked.get("step", "step")), f"{line.place}, key {asked.get('step', 'step')!r}")
            yield Row(step, domain, as_loss(entry[metric], f"{line.place}, key {metric!r}"), line.part, line.place)


def _of_text(line: Line, asked: Mapping) -> Iterator[Row]:
    """Losses of a line of text: of one expression with a group `domain`, or of one of each
    domain.
    """
    forms = asked["pattern"] if isinstance(asked["pattern"], Mapping) else {None: asked["pattern"]}
    for domain, form in forms.items():
        for found in re.finditer(form, line.text):
            step, loss = as_step(found["step"], line.place), as_loss(found["loss"], line.place)
            yield Row(step, found["domain"] if domain is None else domain, loss, line.part, line.place)


def tidy(
    rows: Sequence[Row], domains: Sequence[str], evaluations: Sequence[int], step_tokens: int, run: str
) -> tuple[pl.DataFrame, list[str]]:
    """(step, tokens, domain, loss; remarks), one row for each of the `evaluations` (steps) and the
    measured `domains`.

    Errors: a domain that is not measured, a step beyond the run, two losses of one step, a loss
    that is not there or a perplexity. `run` is named in each.
    """
    known = set(domains)
    found: dict[tuple[int, str], Row] = {}
    for row in rows:
        if row.domain not in known:
            raise InputError(f"{run}: {row.place}: {unknown('measured domain', row.domain, domains)}")
        if row.step > evaluations[-1]:
            raise InputError(f"{run}: {row.place}: step {row.step} lies beyond the run's {evaluations[-1]} steps.")
        before = found.get((row.step, row.domain))
        if before is not None and before.part == row.part:
            raise InputError(
                f"{run}: {row.place}: a second loss of {row.domain!r} at step {row.step}, beside that of {before.place}."
            )
        found[row.step, row.domain] = row
    for step in evaluations:
        lacking = [domain for domain in domains if (step, domain) not in found]
        if lacking:
            there = sorted({step for step, _ in found})
            raise InputError(
                f"{run}: no loss of {named(lacking)} at step {step}; there are losses at the steps {named(there)}, and the"
                f" run is measured at {named(evaluations)}."
            )
    others = sorted({step for step, _ in found if step} - set(evaluations))
    remarks = (
        [f"{run}: losses at the steps {named(others)} are left out: no evaluation of its recipe."] if others else []
    )
    for row in (found[step, domain] for step in evaluations for domain in domains):
        if row.loss > MOST_NATS:  # else all runs would end before a law refuses them
            raise InputError(
                f"{run}: {row.place}: the loss of {row.domain!r} is {row.loss:g}, and losses are in nats a token: write the"
                " logarithm of a perplexity."
            )
    table = [
        (step, step * step_tokens, domain, found[step, domain].loss)
        for step in evaluations
        for domain in sorted(domains)
    ]
    return pl.DataFrame(table, schema=SCHEMA, orient="row"), remarks
