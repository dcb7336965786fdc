"""Faults of a config: the key, what is wrong with it and what to write, as one list in the order of
the user's file.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bimix.names import meant

LONGEST = 60  # characters of a value that a sentence shows
MOST_NAMES = 20  # that a sentence lists


@dataclass(frozen=True)
class Fault:
    """One thing to mend: the path of its key, and a sentence; file and line where they are known.

    `code`: what the file holds there could be run by who reads it, or end him with a traceback.
    """

    key: tuple[str | int, ...]
    sentence: str
    file: str = ""
    line: int = 0
    code: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        # of an entry in a list the sentence says the value
        key = "/".join(str(part) for part in self.key if not isinstance(part, int))
        return f"{place}{key}: {self.sentence}" if key else f"{place}{self.sentence}"

    def at(self, file: str, line: int) -> "Fault":
        return replace(self, file=file, line=line)


def listed(faults: Iterable[Fault]) -> str:
    """All faults, each on a line of its own, sorted by place."""
    lines = [
        str(fault) for fault in sorted(faults, key=lambda fault: (fault.file, fault.line, tuple(map(str, fault.key))))
    ]
    lines = list(dict.fromkeys(lines))
    if len(lines) == 1:
        return f"config: {lines[0]}"
    return "\n".join([f"config: {len(lines)} faults:", *(f"  {line}" for line in lines)])


def shown(value: object) -> str:
    """A value as one would write it into the file, at most LONGEST characters of it."""
    if value is None:
        return "nothing (null)"
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair cannot be printed
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def named(names: Iterable[object]) -> str:
    """Names one after another, the first MOST_NAMES of them."""
    names = [str(name) for name in names]
    more = [f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return ", ".join(names[:MOST_NAMES] + more) or "none"


def unknown(what: str, name: object, names: Iterable[object], there: str = "there are") -> str:
    """A sentence on a name that nothing stands behind."""
    names = list(names)
    near = meant(name, names)
    there = there[0].upper() + there[1:] if near else there
    return f"no {what} {shown(name)}; {near}{there}: {named(names)}."
