"""Whether the files of a dataset are as they were written, and which nobody vouches for."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bimix.digests import RECORDS, check, noted_digest, read_record
from bimix.errors import InputError
from bimix.results.verify_findings import Findings

# Folders and files of what a call says on its way: nothing reads it for a result.
SAID = {"logs", "benchmarks", "tensorboard", "progress.json", ".lock"}
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
        said = None
    except (Exception, pl.exceptions.PanicException) as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
"""


def check_written(folder: Path, found: Findings) -> None:
    """Compare each file of a dataset with the digest that its writer noted, but for the rows of
    tokens; then parse the tables that have no digest.
    """
    noted = noted_files(folder, found)
    absent = defaultdict(list)
    for path in noted:
        if not path.is_file():
            absent[path.parent].append(path.name)
    for place, names in sorted(absent.items()):
        found.unchecked.append(f"{place}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} not there any more.")
    compare([path for path in noted if path.suffix != ROWS and path.is_file()], found)
    parse([path for path in files_in(folder) if path.suffix == ".parquet" and path not in found.vouched], found)


def compare(files: list[Path], found: Findings) -> None:
    """Compare files with their noted digests."""

    def fault(path: Path) -> str | None:
        try:
            check(path)
        except InputError as error:
            return str(error)
        except OSError as error:
            return f"{path} cannot be read ({error})."
        return None

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, sentence in zip(files, pool.map(fault, files), strict=True):
            found.vouched.add(path)
            if sentence:
                found.fault(sentence)
                found.unreadable[path] = sentence
            else:
                found.checked["files of results against their digests"] += 1


def noted_files(folder: Path, found: Findings) -> list[Path]:
    """The files whose digests were noted, of all records of a dataset."""
    files = []
    for record in sorted((folder / RECORDS).rglob("*.json")):
        output = folder / str(record.relative_to(folder / RECORDS)).removesuffix(".json")
        with found.noting(record):
            names = set(read_record(record))
            files += [output] if names == {output.name} and not output.is_dir() else [output / name for name in names]
    return sorted(files)


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
                found.fault(found.unreadable[path])
        tables = tables[len(answers) :]


def name_unvouched(folder: Path, found: Findings) -> None:
    """Name each file of a dataset that nothing vouches for, when all checks are done.

    Rows of tokens that no index lists are compared first, with what their writer noted.
    """
    rows = (path for path in files_in(folder) if path.suffix == ROWS and path not in found.vouched)
    compare([path for path in rows if noted_digest(path)], found)
    counts, left = defaultdict(int), defaultdict(list)
    for path in files_in(folder):
        parts = path.relative_to(folder).parts
        if path in found.vouched:
            continue
        if SAID & set(parts):
            counts["are logs, benchmarks, curves and progress"] += 1
        elif "state" in parts[:-1]:
            counts["of states are locks, attempts and earlier checkpoints"] += 1
        else:
            left[path.parent].append(path.name)
    for place, names in sorted(left.items()):
        found.unchecked.append(f"{place}: nothing vouches for {', '.join(sorted(names))}.")
    found.unchecked += [f"{count} files {kind}." for kind, count in counts.items()]


def files_in(folder: Path) -> Iterator[Path]:
    """The files of a dataset but for the records, and for what is being written."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != RECORDS and not name.endswith(".partial"))
        for name in sorted(names):
            if not name.endswith(".partial"):
                yield Path(place, name)
