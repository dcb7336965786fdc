"""Findings of a verification, and whether the files of a dataset are as they were written."""

import glob
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl

from bimix.digests import RECORDS, check, noted_digest, read_record, record_of, stamp_file
from bimix.errors import InputError
from bimix.results.watch import FRESH, PROCESSES
from bimix.tables import read_table

# Folders and files that a call writes on its way: no result is read from them.
TRACES = {"logs", "benchmarks", "tensorboard", "progress.json", ".lock"}
ROWS = ".bin"  # of tokens: the token index has their digests, and they are read once
# Parses tables, a path a line, and names each that it has come through. Bytes that nobody vouches
# for can end a process: polars allocates what they say.
PARSE = """
import json, sys
import polars as pl
for line in sys.stdin:
    path = json.loads(line)
    try:
        pl.read_parquet(path, glob=False)
        fault = None
    except (Exception, pl.exceptions.PanicException) as error:
        fault = f"{type(error).__name__}: {error}"
    print(json.dumps(fault), flush=True)
"""


class Findings:
    """Faults and omissions, a sentence each, and counts of what was compared.

    `vouched`: the files that something vouches for, be they sound or not. `unreadable`: {table: its
    fault} of those that cannot be parsed. A fault of a file that a job is writing, or has written
    since the verification began, is none: it is listed as not checked.
    """

    def __init__(self, folder: Path) -> None:
        self.faults: list[str] = []
        self.unchecked: list[str] = []
        self.checked: Counter[str] = Counter()
        self.vouched: set[Path] = set()
        self.unreadable: dict[Path, str] = {}
        self._root = Path(os.path.abspath(folder))
        self._subjects: tuple[Path, ...] = ()
        self._stamps = {path: stamp(path) for path in self._root.rglob("*")}

    def being_written(self, path: Path) -> bool:
        """Whether a job is replacing a file, or it or the record of its digest has changed since
        the verification began.

        A writer notes the digest and renames its temporary file then (`outputs`): between the two
        a sound file differs from its record.
        """
        name = Path(os.path.abspath(path))
        for file in filter(None, (name, record_of(name))):
            if self._root in file.parents and stamp(file) != self._stamps.get(file):
                return True
        places = (place for place in (name, *name.parents) if self._root in place.parents)
        return any(
            is_written(partial)
            for place in places
            for partial in place.parent.glob(f".{glob.escape(place.name)}.*.partial")
        )

    def fault(self, sentence: str, *files: Path) -> None:
        """Note a fault of the files, and of the block's, once, however often they are read."""
        writing = next(filter(self.being_written, (*files, *self._subjects)), None)
        found = self.unchecked if writing else self.faults
        sentence = f"{writing} is being written: {sentence}" if writing else sentence
        if sentence not in found:
            found.append(sentence)

    def expect(self, holds: bool, fault: str, *files: Path) -> None:
        """Note a fault where something does not hold."""
        if not holds:
            self.fault(fault, *files)

    def read(self, path: Path) -> pl.DataFrame:
        """A table. Errors: it is not as it was written, or cannot be parsed."""
        if path in self.unreadable:
            raise InputError(self.unreadable[path])
        return read_table(path)

    @contextmanager
    def noting(self, path: Path, what: str = "") -> Iterator[None]:
        """A block of checks of a file: what cannot be read is a fault, the block ends, and the
        verification goes on; one that ends well counts as `what`.

        Of bytes that are not what they should be, libraries raise anything, and polars panics.
        """
        outer, self._subjects = self._subjects, (*self._subjects, path)
        try:
            yield
            if what:
                self.checked[what] += 1
        except InputError as error:
            self.fault(str(error))
        except (Exception, pl.exceptions.PanicException) as error:
            self.fault(f"{path} cannot be checked ({type(error).__name__}: {error}): it is damaged, or verify is.")
        finally:
            self._subjects = outer

    def compare(self, checks: Mapping[Path, Callable[[], object]], what: str) -> None:
        """Run the check of each file, in threads; what it raises is a fault."""

        def sentence(path: Path) -> str | None:
            try:
                checks[path]()
            except InputError as error:
                return str(error)
            except (TypeError, ValueError, OSError) as error:
                return f"{path} cannot be read ({error})."
            return None

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for path, fault in zip(checks, pool.map(sentence, checks), strict=True):
                self.vouched.add(path)
                if fault:
                    self.unreadable[path] = fault
                    self.fault(fault, path)
                else:
                    self.checked[what] += 1

    def page(self, name: str) -> str:
        """The findings as text: what was checked, what was not, what is wrong."""
        lines = [f"Verification of {name}", "", "Checked:"]
        lines += [f"  {count} {thing}" for thing, count in self.checked.items() if count] or ["  nothing"]
        lines += ["", "Not checked:", *(f"  {sentence}" for sentence in self.unchecked or ["nothing"])]
        lines += ["", "Faults:", *(f"  {sentence}" for sentence in self.faults or ["none"])]
        return "\n".join(lines) + "\n"


def stamp(path: Path) -> list[int] | None:
    """A stamp that every change of a file alters; None where it is missing."""
    try:
        return stamp_file(path)
    except OSError:
        return None


def is_written(partial: Path) -> bool:
    """Whether somebody writes a temporary file or folder: its process is there, or it is fresh. The
    name of a file has the process, which may be one of another machine.
    """
    process = partial.name.split(".")[-2]
    try:
        return (PROCESSES / process).exists() or time.time() - partial.stat().st_mtime < FRESH
    except OSError:  # renamed by now
        return True


def files_in(folder: Path) -> Iterator[Path]:
    """The files of a dataset but for the records, and for what is being written."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != RECORDS and not name.endswith(".partial"))
        yield from (Path(place, name) for name in sorted(names) if not name.endswith(".partial"))


def check_written(folder: Path, found: Findings) -> None:
    """Compare each file of a dataset with the digest that its writer noted, but for the rows of
    tokens; then parse the tables that have no digest.
    """
    noted, absent = [], defaultdict(list)
    for record in sorted((folder / RECORDS).rglob("*.json")):
        output = folder / str(record.relative_to(folder / RECORDS)).removesuffix(".json")
        with found.noting(record):
            names = set(read_record(record))
            noted += [output] if names == {output.name} and not output.is_dir() else [output / name for name in names]
    for path in sorted(noted):
        if not path.is_file():
            absent[path.parent].append(path.name)
    for place, names in sorted(absent.items()):
        found.unchecked.append(f"{place}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} not there any more.")
    compare_noted([path for path in sorted(noted) if path.suffix != ROWS and path.is_file()], found)
    parse([path for path in files_in(folder) if path.suffix == ".parquet" and path not in found.vouched], found)


def compare_noted(files: list[Path], found: Findings) -> None:
    """Compare files with their noted digests."""
    found.compare({path: partial(check, path) for path in files}, "files of results against their digests")


def parse(tables: list[Path], found: Findings, program: str = PARSE) -> None:
    """Parse tables in a child process; those that it cannot are faults, and are not parsed here."""
    while tables:
        lines = "".join(json.dumps(str(path)) + "\n" for path in tables)
        child = subprocess.run(
            [sys.executable, "-c", program], input=lines, capture_output=True, text=True, check=False
        )
        answers = [json.loads(line) for line in child.stdout.splitlines()]
        if len(answers) < len(tables) and child.returncode == 0:
            raise InputError(f"the process that parses tables ended early: {child.stderr.strip()[-500:]}")
        if len(answers) < len(tables):  # the table after the last answer has ended it
            answers.append(f"its bytes end the process that parses them, status {child.returncode}")
        for path, answer in zip(tables, answers, strict=False):
            if answer is not None:
                found.unreadable[path] = f"{path} cannot be read as a parquet table ({answer})."
                found.fault(found.unreadable[path], path)
        tables = tables[len(answers) :]


def name_unvouched(folder: Path, found: Findings) -> None:
    """Name each file of a dataset that nothing vouches for, when all checks are done. Rows of
    tokens that no index lists are compared first, with what their writer noted.
    """
    rows = [path for path in files_in(folder) if path.suffix == ROWS and path not in found.vouched]
    compare_noted([path for path in rows if noted_digest(path)], found)
    counts, left = Counter(), defaultdict(list)
    for path in files_in(folder):
        parts = path.relative_to(folder).parts
        if path in found.vouched:
            continue
        if TRACES & set(parts):
            counts["are logs, benchmarks, curves and progress"] += 1
        elif "state" in parts[:-1]:
            counts["of states are locks, attempts and earlier checkpoints"] += 1
        else:
            left[path.parent].append(path.name)
    for place, names in sorted(left.items()):
        found.unchecked.append(f"{place}: nothing vouches for {', '.join(sorted(names))}.")
    found.unchecked += [f"{count} files {kind}." for kind, count in counts.items()]
