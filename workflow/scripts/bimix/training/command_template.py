"""The command of a trainer: a text with {fields}, split into words first and filled after, so that
no shell reads it and a value never becomes several words.
"""

import shlex
import string
from collections.abc import Mapping

from bimix.errors import InputError

# What a command may ask for, and what stands there.
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
WAYS = ("table", "lines", "trainer_state", "pattern")  # in which it may leave its losses


def fault(command: str) -> str | None:
    """What is wrong with a command, as a sentence; None where nothing is."""
    try:
        words = shlex.split(command)
        names = {name for word in words for name in fields(word)}
    except ValueError as error:
        return f"{error}: close it; a brace that is meant as such is written twice, {{{{ or }}}}."
    if not words:
        return "it has no word: name a program and its flags."
    unknown = sorted(names - FIELDS.keys())
    if unknown:
        return f"no field {{{unknown[0]}}}; there are {', '.join(FIELDS)}; a brace as such is written twice."
    lacking = [name for name in NEEDED if name not in names]
    if lacking:
        return f"it never says {{{lacking[0]}}}: each run needs its {FIELDS[lacking[0]]}."
    return None


def fields(word: str) -> list[str]:
    """Names of the fields in a word.

    Errors (ValueError): a brace without another, a field with a format or an attribute.
    """
    found = []
    for _, name, form, conversion in string.Formatter().parse(word):
        if name is None:
            continue
        if form or conversion or not name.isidentifier():
            raise ValueError(f"{word!r} has a field that is more than a name")
        found.append(name)
    return found


def fill(command: str, values: Mapping[str, object]) -> list[str]:
    """The words of a command with its fields filled. Errors: as of `fault`."""
    complaint = fault(command)
    if complaint is not None:
        raise InputError(f"command: {complaint}")
    return [word.format_map(values) for word in shlex.split(command)]
