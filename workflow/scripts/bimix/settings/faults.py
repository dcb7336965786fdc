"""Faults of a config: key, what is wrong, what to write; in the order of the user's file."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

Key = tuple[str | int, ...]
BYTES = 200  # of a domain's name as UTF-8: file systems take 255, endings and temporary names need the rest


@dataclass(frozen=True)
class Fault:
    """One thing to mend: the path of its key, and a sentence; file and line where they are known.

    `code`: the value would execute code when loaded, or end the reader with a traceback. `remark`:
    it is odd but possible.
    """

    key: Key
    sentence: str
    file: str = ""
    line: int = 0
    code: bool = False
    remark: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        # of an entry in a list the sentence says the value
        key = "/".join(str(part) for part in self.key if not isinstance(part, int))
        return f"{place}{key}: {self.sentence}" if key else f"{place}{self.sentence}"

    def at(self, file: str, line: int) -> "Fault":
        return replace(self, file=file, line=line)


def located(block: Key, found: Iterable[tuple]) -> Iterator[Fault]:
    """What checks of a block yield as faults: a key in it, as a path or a tuple, a sentence, and
    whether it is a remark.
    """
    for key, sentence, *remark in found:
        yield Fault((*block, *(key.split("/") if isinstance(key, str) else key)), sentence, remark=any(remark))


def listed(faults: Iterable[Fault]) -> str:
    """All faults, each on a line of its own, sorted by place."""
    lines = [
        str(fault) for fault in sorted(faults, key=lambda fault: (fault.file, fault.line, tuple(map(str, fault.key))))
    ]
    lines = list(dict.fromkeys(lines))
    if len(lines) == 1:
        return f"config: {lines[0]}"
    return "\n".join([f"config: {len(lines)} faults:", *(f"  {line}" for line in lines)])


def name_fault(name: str) -> str | None:
    """Why a name cannot be that of a domain or an observed mixture, and so of files; else None."""
    if not name:
        return "a name must have a letter"
    if name in (".", ".."):
        return "the system's name for a folder"
    if name.startswith("-"):
        return "a name that begins with - would be read as a flag"
    if len(name.encode("utf-8", "replace")) > BYTES:
        return f"a name longer than {BYTES} bytes is too long for a file"
    strange = [letter for letter in name if letter in "/{}" or not letter.isprintable()]
    if strange:
        return f"a name must not hold {strange[0]!a}: it becomes the name of a file"
    angle = re.search("<[a-z][a-z0-9_]*>", name)
    if angle:
        return f"{angle[0]} stands for a path in Snakemake"
    return None
