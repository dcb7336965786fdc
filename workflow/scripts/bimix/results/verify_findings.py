"""What a verification finds: the faults, what was looked at, and what it could not look at."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.tables import read_table


@dataclass
class Findings:
    """Faults and things left out, a sentence each; of what was compared, how many.

    `vouched`: the files that something was found to vouch for, be they sound or not. `unreadable`:
    {table: the sentence on it} of those that cannot be parsed.
    """

    faults: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    vouched: set[Path] = field(default_factory=set)
    unreadable: dict[Path, str] = field(default_factory=dict)

    def expect(self, holds: bool, fault: str) -> None:
        """Note a fault where something does not hold."""
        if not holds:
            self.fault(fault)

    def fault(self, sentence: str) -> None:
        """Note a fault, once: one file may be read for several checks."""
        if sentence not in self.faults:
            self.faults.append(sentence)

    def read(self, path: Path) -> pl.DataFrame:
        """A table. Errors: it is not as it was written, or cannot be parsed."""
        if path in self.unreadable:
            raise InputError(self.unreadable[path])
        return read_table(path)

    @contextmanager
    def noting(self, subject: object) -> Iterator[None]:
        """What cannot be read or is no good is a fault like any other: the block ends, the
        verification goes on.

        Of bytes that are not what they should be, libraries raise anything, and polars panics.
        """
        try:
            yield
        except InputError as error:
            self.fault(str(error))
        except (Exception, pl.exceptions.PanicException) as error:
            self.fault(f"{subject} cannot be checked ({type(error).__name__}: {error}): it is damaged, or verify is.")

    def page(self, name: str) -> str:
        """The findings as text, for a person: what was checked, what was not, what is wrong."""
        lines = [f"Verification of {name}", "", "Checked:"]
        lines += [f"  {count} {thing}" for thing, count in self.checked.items() if count] or ["  nothing"]
        lines += ["", "Not checked:", *(f"  {sentence}" for sentence in self.unchecked or ["nothing"])]
        lines += ["", "Faults:", *(f"  {sentence}" for sentence in self.faults or ["none"])]
        return "\n".join(lines) + "\n"
