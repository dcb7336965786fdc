"""A model that a command of the user's trains: the command, and the losses that it leaves.

The command is a text with {fields}. It is split into words first and filled after, so that no shell
reads it and a value never becomes several words. Its losses are read from a table, lines of JSON,
its text or a trainer_state.json.
"""

import csv
import json
import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.names import named, unknown
from bimix.observations.doubts import MOST_NATS
from bimix.observations.logs import as_loss, as_step, from_trainer, pattern
from bimix.tables import SEPARATORS, read_table

# What a command may use, and what stands there.
FIELDS = {
    "mixture": "file of the mixture",
    "steps": "updates",
    "tokens": "tokens of the whole run",
    "batch_rows": "rows of an update",
    "sequence_length": "tokens of a row",
    "evaluate_every": "updates between two evaluations",
    "seed": "seed",
    "folder": "where to write, and to go on from",
    "gpus": "GPUs of this node",
    "nodes": "nodes",
    "threads": "CPU threads of this node",
    "deadline": "when it must have stopped, seconds since 1970, or none",
}
NEEDED = ("mixture", "folder")  # without: every run the same, or all in one place
FOLDER = "{folder}/"
OUTPUT = "output.log"  # what a command prints
COLUMNS = ("step", "domain", "loss")
SCHEMA = {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}
WAYS = ("table", "lines", "trainer_state", "pattern")  # in which it may leave its losses


def fill(command: str, values: Mapping[str, object]) -> list[str]:
    """The words of a command with its fields filled. Errors: as of `fault`."""
    complaint = fault(command)
    if complaint is not None:
        raise InputError(f"command: {complaint}")
    return [word.format_map(values) for word in shlex.split(command)]


def fault(command: str) -> str | None:
    """The fault of a command, as a sentence; None without one."""
    try:
        words = shlex.split(command)
        names = {name for word in words for name in fields(word)}
    except ValueError as error:
        return f"{error}: close it; a brace that is meant as such is written twice, {{{{ or }}}}."
    if not words:
        return "it has no word: name a program and its flags."
    strange = sorted(names - FIELDS.keys())
    if strange:
        return f"no field {{{strange[0]}}}; there are {', '.join(FIELDS)}; a brace as such is written twice."
    lacking = [name for name in NEEDED if name not in names]
    if lacking:
        return f"it never says {{{lacking[0]}}}: each run needs its {FIELDS[lacking[0]]}."
    return None


def fields(word: str) -> list[str]:
    """Fields in a word. Errors (ValueError): a single brace, a format or an attribute."""
    found = []
    for _, name, form, conversion in string.Formatter().parse(word):
        if name is None:
            continue
        if form or conversion or not name.isidentifier():
            raise ValueError(f"{word!r} has a field that is more than a name")
        found.append(name)
    return found


class Row(NamedTuple):
    """One loss: `part` counts the attempts that had begun before it was written."""

    step: int
    domain: str
    loss: float
    part: int
    place: str


class Line(NamedTuple):
    """A line of a file; `cut` where an attempt began inside it, since the one before was killed:
    then `rest` is the part of the line that the later attempt wrote.
    """

    text: str
    part: int
    cut: bool
    place: str
    rest: str = ""


def source(losses: Mapping, folder: Path) -> Path:
    """The file that holds the losses of the run whose command writes to `folder`; what it prints
    lies next to that, where it cannot delete it.
    """
    if "pattern" in losses and "file" not in losses:
        return folder.parent / OUTPUT
    text = losses.get("file") or next(losses[way] for way in WAYS if way in losses)
    return folder / text.removeprefix(FOLDER)


def content(path: Path) -> bytes:
    """The content of a file of losses, to which a later attempt may append: its bytes, of a parquet
    table those of its rows as csv; none where there is none yet.
    """
    if path.suffix != ".parquet":
        return path.read_bytes() if path.is_file() else b""
    try:
        return read_table(path).write_csv().encode()
    except InputError:  # the attempt before was killed while it wrote
        return b""


def read(losses: Mapping, folder: Path, begun: Sequence[int]) -> list[Row]:
    """The losses in the order in which they stand; `begun`: bytes of the `content` of that file
    when each attempt began.

    Errors: no such file, nothing of it fits, a loss or a step that is none.
    """
    path = source(losses, folder)
    if not path.is_file():
        raise InputError(f"{path} is not there: the command has left no losses.")
    if "trainer_state" in losses:
        found = from_trainer(path, pattern(losses["loss"], "losses/loss")).losses()
        rows = [Row(one.step, one.domain, one.loss, 0, one.place) for one in found]
    else:
        if path.suffix == ".parquet":
            read_table(path)  # one that cannot be read is refused
        lines = list(_lines(content(path), path, begun))
        reader = next(reader for way, reader in READERS.items() if way in losses)
        rows = list(reader(lines, losses, path))
    if not rows:
        wanted = losses.get("pattern", losses.get("loss"))
        wanted = f"the columns {', '.join(COLUMNS)}" if "table" in losses else repr(wanted)
        raise InputError(f"{path} has no loss that {wanted} finds.")
    return rows


def _lines(raw: bytes, path: Path, begun: Sequence[int]) -> Iterator[Line]:
    start = 0
    for number, line in enumerate(raw.splitlines(keepends=True), 1):
        inside = [offset - start for offset in begun if start < offset < start + len(line)]
        part = sum(offset <= start for offset in begun)
        both = (line, line[max(inside, default=0) :])
        text, rest = (one.decode("utf-8-sig", errors="replace").strip() for one in both)
        yield Line(text, part, bool(inside), f"{path}, line {number}", rest)
        start += len(line)


def _of_table(lines: list[Line], losses: Mapping, path: Path) -> Iterator[Row]:
    lines = [line for line in lines if line.text]
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


def _of_json(lines: list[Line], losses: Mapping, path: Path) -> Iterator[Row]:
    """Losses of lines of JSON; other lines of the log have none."""
    loss, step_key = losses["loss"], losses.get("step", "step")
    form = None if isinstance(loss, Mapping) else pattern(loss, "losses/loss")
    for line in (line for line in lines if line.text):
        try:
            entry = json.loads(line.text)
        except ValueError as error:
            if line.cut:
                continue
            raise InputError(f"{line.place}: {error}: it is no line of JSON.") from error
        if not isinstance(entry, dict):
            raise InputError(f"{line.place}: a {type(entry).__name__} is no JSON object.")
        metrics = loss if form is None else {domain: one for one in entry if (domain := form.domain(one))}
        for domain, metric in metrics.items():
            if metric in entry:
                step = as_step(entry.get(step_key), f"{line.place}, key {step_key!r}")
                found = as_loss(entry[metric], f"{line.place}, key {metric!r}")
                yield Row(step, domain, found, line.part, line.place)


def _of_text(lines: list[Line], losses: Mapping, path: Path) -> Iterator[Row]:
    """Losses in lines of text, by an expression with a group `domain` or one of each domain."""
    forms = losses["pattern"] if isinstance(losses["pattern"], Mapping) else {None: losses["pattern"]}
    for line in lines:
        for domain, form in forms.items():
            for found in re.finditer(form, line.text):
                step, loss = as_step(found["step"], line.place), as_loss(found["loss"], line.place)
                yield Row(step, found["domain"] if domain is None else domain, loss, line.part, line.place)


READERS = {"table": _of_table, "lines": _of_json, "pattern": _of_text}


def tidy(
    rows: Sequence[Row], domains: Sequence[str], evaluations: Sequence[int], step_tokens: int, run: str
) -> tuple[pl.DataFrame, list[str]]:
    """(step, tokens, domain, loss; remarks), one row for each of the `evaluations` (steps) and the
    measured `domains`. A loss that a later attempt repeats, since it went on from a checkpoint,
    replaces the earlier one.

    Errors: a domain that is not measured, a step beyond the run, two losses of one step in one
    attempt, a missing loss or a perplexity. `run` is named in each.
    """
    found: dict[tuple[int, str], Row] = {}
    for row in rows:
        if row.domain not in domains:
            raise InputError(f"{run}: {row.place}: {unknown('measured domain', row.domain, domains)}")
        if row.step > evaluations[-1]:
            raise InputError(f"{run}: {row.place}: step {row.step} lies beyond the run's {evaluations[-1]} steps.")
        before = found.get((row.step, row.domain))
        if before is not None and before.part == row.part:
            raise InputError(
                f"{run}: {row.place}: a second loss of {row.domain!r} at step {row.step}, after that of {before.place}."
            )
        found[row.step, row.domain] = row
    steps = sorted({step for step, _ in found})
    for step in evaluations:
        lacking = [domain for domain in domains if (step, domain) not in found]
        if lacking:
            raise InputError(
                f"{run}: no loss of {named(lacking)} at step {step}; there are losses at the steps {named(steps)}, and the"
                f" run is measured at {named(evaluations)}."
            )
    table = []
    for step in evaluations:
        for domain in sorted(domains):
            row = found[step, domain]
            if row.loss > MOST_NATS:  # else all runs would end before a law refuses them
                raise InputError(
                    f"{run}: {row.place}: the loss of {domain!r} is {row.loss:g}, and losses are in nats a token: write"
                    " the logarithm of a perplexity."
                )
            table.append((step, step * step_tokens, domain, row.loss))
    others = [step for step in steps if step and step not in evaluations]
    remark = f"{run}: losses at the steps {named(others)} are left out: no evaluation of its recipe."
    return pl.DataFrame(table, schema=SCHEMA, orient="row"), [remark] if others else []
