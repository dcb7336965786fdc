"""Findings of a verification: faults and omissions in sentences, counts of what was compared."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from bimix.errors import InputError


class Findings:
    """Faults and omissions, a sentence each, and counts of what was compared.

    `vouched`: the files that something vouches for, be they sound or not. `lacking`: how many files
    are gone, or have nothing that vouches for them.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.unchecked: list[str] = []
        self.lacking = 0
        self.checked: Counter[str] = Counter()
        self.vouched: set[Path] = set()

    def expect(self, holds: bool, fault: str) -> None:
        """Note a fault where something does not hold: once, however often a file is read."""
        if not holds and fault not in self.faults:
            self.faults.append(fault)

    def lack(self, sentence: str, files: int = 1) -> None:
        """Note that so many files were not checked, though a whole dataset has them."""
        self.unchecked.append(sentence)
        self.lacking += files

    @contextmanager
    def noting(self, path: Path, what: str = "") -> Iterator[None]:
        """A block of checks of a file: what cannot be read is a fault, the block ends, and the
        verification goes on; one that ends well counts as `what`.

        Of bytes that are not what they should be, libraries raise anything, and polars panics.
        """
        try:
            yield
            if what:
                self.checked[what] += 1
        except InputError as error:
            self.expect(False, str(error))
        except (Exception, pl.exceptions.PanicException) as error:
            fault = f"{path} cannot be checked ({type(error).__name__}: {error}): it is damaged, or verify is."
            self.expect(False, fault)

    def compare(self, checks: Mapping[Path, Callable[[], object]], what: str, home: Path) -> None:
        """Run the check of each file below `home`, in threads; what it raises is a fault. A path
        that leads elsewhere is one too, and is not read.
        """
        own = Path(os.path.abspath(home))
        inside = [path for path in checks if Path(os.path.abspath(path)).is_relative_to(own)]
        for path in checks.keys() - set(inside):
            self.expect(False, f"{path} does not lie in {home}, and was not read.")

        def check(path: Path) -> None:
            with self.noting(path):
                checks[path]()
                sound.append(path)

        sound = []
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(check, inside))
        self.vouched |= checks.keys()
        self.checked[what] += len(sound)

    def page(self, name: str) -> str:
        """The findings as text: what was checked, what was not, what is wrong; last, how many files
        are gone or have nothing that vouches for them.
        """
        lines = [f"Verification of {name}", "", "Checked:"]
        lines += [f"  {count} {thing}" for thing, count in self.checked.items() if count] or ["  nothing"]
        lines += ["", "Not checked:", *(f"  {sentence}" for sentence in self.unchecked or ["nothing"])]
        lines += ["", "Faults:", *(f"  {sentence}" for sentence in self.faults or ["none"])]
        lines += ["", f"{self.lacking} files NOT CHECKED"] if self.lacking else []
        return "\n".join(lines) + "\n"
