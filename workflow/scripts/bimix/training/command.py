"""A user's training command: the command line, and the losses that it writes.

The command is a text with {fields}. It is split into words before the fields are filled in, so that
no shell reads it and a value is never split. Its losses are read from a table, JSON lines or its
output text.
"""

import csv
import json
import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.names import named, unknown
from bimix.observations.doubts import MOST_NATS
from bimix.observations.imports import as_loss, as_step, pattern
from bimix.tables import SEPARATORS, read_json

# Required fields of a command with the effect of their absence, and all allowed fields.
NEEDED = {"mixture": "all runs would be the same", "folder": "all runs would write to one place"}
FIELDS = (*NEEDED, "steps", "tokens", "batch_rows", "sequence_length", "evaluate_every", "seed")
FIELDS += ("gpus", "nodes", "threads", "deadline")
FOLDER = "{folder}/"
OUTPUT = "output.log"  # what a command prints
COLUMNS = ("step", "domain", "loss")
SCHEMA = {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}


def fill(command: str, values: Mapping[str, object]) -> list[str]:
    """The words of a valid command with its fields filled in."""
    return [word.format_map(values) for word in shlex.split(command)]


def fault(command: str) -> str | None:
    """A sentence on what is wrong with a command, or None."""
    try:
        words = shlex.split(command)
        fields = [field[1:] for word in words for field in string.Formatter().parse(word) if field[1] is not None]
    except ValueError as error:
        return f"{error}: close it; a brace that is meant as such is written twice, {{{{ or }}}}."
    if not words:
        return "it has no word: name a program and its flags."
    names = [name for name, _, _ in fields]
    for name, form, conversion in fields:
        if form or conversion or not name.isidentifier():
            return f"the field {name!r} is more than a name; a brace that is meant as such is written twice."
        if name not in FIELDS:
            return f"no field {{{name}}}; there are {', '.join(FIELDS)}; a brace as such is written twice."
    lacking = [f"it never says {{{name}}}: {without} without." for name, without in NEEDED.items() if name not in names]
    return lacking[0] if lacking else None


class Row(NamedTuple):
    """One loss; `part` is the number of attempts that had begun when it was written."""

    step: int
    domain: str
    loss: object  # as it stands there: one that a later attempt replaces may be none
    part: int
    place: str


class Line(NamedTuple):
    text: str
    part: int
    place: str


def source(losses: Mapping, folder: Path) -> Path:
    """The file with the losses of a command that writes to `folder`; its printed output is stored
    outside that, where the command cannot delete it.
    """
    for key in ("table", "lines", "file"):
        if key in losses:
            return folder / losses[key].removeprefix(FOLDER)
    return folder.parent / OUTPUT


def read(losses: Mapping, folder: Path, begun: Sequence[int]) -> list[Row]:
    """The losses in the order of the file; `begun`: its size in bytes at the start of each attempt
    that appended to it.

    Errors: no such file, no match in it, an invalid step.
    """
    path = source(losses, folder)
    if not path.is_file():
        raise InputError(f"{path} is not there: the command has left no losses.")
    reader = next(reader for way, reader in READERS.items() if way in losses)
    loss, step_key, rows = losses.get("loss"), losses.get("step", "step"), []
    form = pattern(loss, "losses/loss") if isinstance(loss, str) else None
    for entry, part, place in reader(_lines(path, begun), losses, path):
        if not isinstance(entry, dict):
            raise InputError(f"{place}: a {type(entry).__name__} is no JSON object.")
        metrics = loss or {entry.get("domain"): "loss"}
        if form is not None:
            metrics = {domain: metric for metric in entry if (domain := form.domain(metric))}
        for domain, metric in metrics.items():
            if metric in entry:  # else a line of something else
                step = as_step(entry.get(step_key), f"{place}, {step_key!r}")
                rows.append(Row(step, domain, entry[metric], part, place))
    if not rows:
        wanted = losses.get("pattern", loss)
        wanted = f"the columns {', '.join(COLUMNS)}" if "table" in losses else repr(wanted)
        raise InputError(f"{path} has no loss that {wanted} finds.")
    return rows


def _lines(path: Path, begun: Sequence[int]) -> Iterator[Line]:
    """The non-empty lines of a file, without lines that a kill truncated; text that the next
    attempt appended to such a line is a separate line.
    """
    raw, number = path.read_bytes(), 1
    for part, (start, end) in enumerate(pairwise([0, *begun, len(raw)])):
        for line in raw[start:end].splitlines(keepends=True):
            text, whole = line.decode("utf-8-sig", errors="replace").strip(), line.endswith((b"\n", b"\r"))
            if text and (whole or end == len(raw)):
                yield Line(text, part, f"{path}, line {number}")
            number += whole


# Each reader yields (values by name, part, place) from the lines of a file.
Found = Iterator[tuple[dict, int, str]]


def _of_table(lines: Iterator[Line], losses: Mapping, path: Path) -> Found:
    """The rows of a table of text with a header."""
    header = next((line.text.lower() for line in lines), "")
    separator = max(SEPARATORS, key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
    for name in COLUMNS:
        if name not in names:
            raise InputError(f"{path} has no column {name!r}: it needs {', '.join(COLUMNS)}.")
    for text, part, place in lines:
        cells = next(csv.reader([text], delimiter=separator), [])
        if len(cells) != len(names):
            raise InputError(f"{place}: it has {len(cells)} values for {len(names)} columns.")
        yield dict(zip(names, map(str.strip, cells), strict=True)), part, place


def _of_json(lines: Iterator[Line], losses: Mapping, path: Path) -> Found:
    """JSON lines, or the entries of a Trainer's state, which is one JSON document."""
    if path.suffix == ".json":
        history = read_json(path).get("log_history")
        if not isinstance(history, list):
            raise InputError(f"{path} has no list 'log_history' as a trainer_state.json; call lines of JSON .jsonl.")
        yield from ((entry, 0, f"{path}, entry {number} of log_history") for number, entry in enumerate(history, 1))
        return
    for text, part, place in lines:
        try:
            yield json.loads(text), part, place
        except ValueError as error:
            raise InputError(f"{place}: {error}: it is no line of JSON.") from error


def _of_text(lines: Iterator[Line], losses: Mapping, path: Path) -> Found:
    """The groups of a regular expression at each match."""
    for text, part, place in lines:
        for found in re.finditer(losses["pattern"], text):
            yield found.groupdict(), part, place


READERS = {"table": _of_table, "lines": _of_json, "pattern": _of_text}  # by the key of `losses`


def tidy(rows: Sequence[Row], domains: Sequence[str], evaluations: Sequence[int], step_tokens: int) -> pl.DataFrame:
    """step, tokens, domain, loss, one row for each of the `evaluations` (steps) and evaluated
    `domains`. A loss that a later attempt repeats after it resumed from a checkpoint replaces the
    earlier one; other steps are left out.

    Errors: an unknown domain, a step beyond the run, two losses of one step in one attempt, a
    missing or invalid loss, a perplexity.
    """
    found: dict[tuple[int, str], Row] = {}
    for row in rows:
        if row.domain not in domains:
            raise InputError(f"{row.place}: {unknown('measured domain', row.domain, domains)}")
        if row.step > evaluations[-1]:
            raise InputError(f"{row.place}: step {row.step} lies beyond the run's {evaluations[-1]} steps.")
        before = found.get((row.step, row.domain))
        if before is not None and before.part == row.part:
            raise InputError(f"{row.place}: a second loss of {row.domain!r} at step {row.step}, after {before.place}.")
        found[row.step, row.domain] = row
    losses = {key: as_loss(row.loss, f"{row.place}, {row.domain!r}") for key, row in found.items()}
    for (step, domain), loss in losses.items():
        if loss > MOST_NATS and step in evaluations:  # else all runs would end before a law refuses them
            sentence = "and losses are in nats a token: write the logarithm of a perplexity."
            raise InputError(f"{found[step, domain].place}: the loss of {domain!r} is {loss:g}, {sentence}")
    for step in evaluations:
        lacking = [domain for domain in domains if (step, domain) not in found]
        if lacking:
            raise InputError(
                f"no loss of {named(lacking)} at step {step}; there are losses at the steps"
                f" {named(sorted({step for step, _ in found}))}, and the run is measured at {named(evaluations)}."
            )
    table = [
        (step, step * step_tokens, domain, losses[step, domain]) for step in evaluations for domain in sorted(domains)
    ]
    return pl.DataFrame(table, schema=SCHEMA, orient="row")
