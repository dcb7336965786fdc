"""A user's training command: the command line, and the losses that it writes.

The command is a text with {fields}. It is split into words before the fields are filled in, so that
no shell reads it and a value is never split. Its losses are a csv or JSON lines of step, domain and
loss.
"""

import shlex
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.names import named, unknown
from bimix.observations.doubts import MOST_NATS
from bimix.observations.imports import as_loss, as_step
from bimix.tables import parsed_json, read_table

# Required fields of a command with the effect of their absence, and all allowed fields.
NEEDED = {"mixture": "all runs would be the same", "folder": "all runs would write to one place"}
FIELDS = (*NEEDED, "steps", "tokens", "batch_rows", "sequence_length", "evaluate_every", "seed")
FIELDS += ("gpus", "nodes", "threads", "deadline")
FOLDER = "{folder}/"
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


def cut_last_line(path: Path) -> None:
    """Remove a line of a file that a kill cut, before the next attempt appends to it."""
    if path.is_file():
        written = path.read_bytes()
        whole = written[: written.rfind(b"\n") + 1]
        if whole != written:
            path.write_bytes(whole)


def read_rows(path: Path) -> dict[tuple[int, str], tuple[object, str]]:
    """{(step, domain): (loss as it stands there, its place)}; a later row replaces an earlier one,
    since an attempt repeats losses from its checkpoint on. Errors: no such file, an invalid row.
    """
    if not path.is_file():
        raise InputError(f"{path} is not there: the command has left no losses.")
    if path.suffix == ".jsonl":
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        places = {f"{path}, line {number}": line for number, line in lines if line.strip()}
        rows = {place: parsed_json(line, place) for place, line in places.items()}
    else:
        rows = {f"{path}, row {n}": row for n, row in enumerate(read_table(path).iter_rows(named=True), 1)}
    losses = {}
    for place, row in rows.items():
        if lacking := [name for name in COLUMNS if name not in row]:
            raise InputError(f"{place}: it has no {lacking[0]!r}; each row has {', '.join(COLUMNS)}.")
        losses[as_step(row["step"], f"{place}, 'step'"), row["domain"]] = row["loss"], place
    return losses


def read_losses(path: Path, domains: Sequence[str], evaluations: Sequence[int], step_tokens: int) -> pl.DataFrame:
    """step, tokens, domain, loss, one row for each of the `evaluations` (steps) and evaluated
    `domains`; other steps are left out.

    Errors: an unknown domain, a step beyond the run, a missing or invalid loss, a perplexity.
    """
    losses = {}
    for (step, domain), (value, place) in read_rows(path).items():
        if domain not in domains:
            raise InputError(f"{place}: {unknown('measured domain', str(domain), domains)}")
        if step > evaluations[-1]:
            raise InputError(f"{place}: step {step} lies beyond the run's {evaluations[-1]} steps.")
        loss = as_loss(value, f"{place}, {domain!r}")
        # a law would refuse it as well, but only when all runs have ended
        if loss > MOST_NATS and step in evaluations:
            sentence = "and losses are in nats a token: write the logarithm of a perplexity."
            raise InputError(f"{place}: the loss of {domain!r} is {loss:g}, {sentence}")
        losses[step, domain] = loss
    table = []
    for step in evaluations:
        if lacking := [domain for domain in domains if (step, domain) not in losses]:
            raise InputError(
                f"{path} has no loss of {named(lacking)} at step {step}; there are losses at the steps"
                f" {named(sorted({step for step, _ in losses}))}, and the run is measured at {named(evaluations)}."
            )
        table += [(step, step * step_tokens, domain, losses[step, domain]) for domain in sorted(domains)]
    return pl.DataFrame(table, schema=SCHEMA, orient="row")
