"""Verifies that a dataset's results are unchanged, and that its laws and optima follow from its tables.

Nothing is written. Every file is compared with the digest that its writer noted; laws are fitted and
optima found again in memory.
"""

import math
import os
import socket
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bimix import digests
from bimix.errors import InputError
from bimix.laws.document import checked_law
from bimix.laws.fitted import asked_at, fit, predict_defined
from bimix.mixtures.mixture import Mixture
from bimix.observations.observations import observations
from bimix.observations.prior import recorded
from bimix.optimum.optimum import Sought
from bimix.results.findings import Findings
from bimix.results.watch import read_progress
from bimix.tables import read_json, read_table
from bimix.training import artefacts

TOLERANCE = 1e-5  # relative, of a law's predictions and of an optimum's objective: other processors round otherwise
NOT_COMPARED = ("provenance", "coefficients")  # keys of a law's document that may differ in that of a refit
# Folders and files that jobs write besides their outputs: no result is read from them.
TRACES = {"logs", "benchmarks", "tensorboard", "wandb", "trackio", "progress.json", ".lock", ".snakemake_timestamp"}
TRACES |= {"shards.jsonl", "report.html", "checked.json"}  # written again by each call
REPORT = "verify.txt"  # of this check; its job deletes the old one first
PROCESSES = Path("/proc")


def verify(folder: Path) -> Findings:
    """Verify a dataset's folder, or that of one finished run. Errors: it is neither."""
    found = Findings()
    if (folder / "run.json").is_file():
        check_run(folder / "run.json", found)
        return found
    if not any((folder / name).is_dir() for name in ("tokens", "runs", "laws", "mixtures")):
        raise InputError(f"{folder} is neither a dataset's folder of results nor that of a finished run.")
    check_records(folder, found)
    for path in sorted([*folder.glob("runs/*/*/run.json"), *folder.glob("reweighting/*/*/run.json")]):
        check_run(path, found)
    check_observed(folder, found)
    check_laws(folder, found)
    check_optima(folder, found)
    name_unvouched(folder, found)
    holder = read_progress(folder / ".lock") if found.faults else {}
    if holder.get("host") == socket.gethostname() and (PROCESSES / str(holder.get("process"))).exists():
        found.unchecked.append(
            f"Process {holder['process']} works here since {holder.get('since')}: a fault may be of a file"
            " that it is writing or has still to make. Verify again when it has ended."
        )
    return found


def check_records(folder: Path, found: Findings) -> None:
    """Compare each file of a dataset with the digest that its writer noted."""
    noted, absent = [], defaultdict(list)
    for record in sorted((folder / digests.RECORDS).rglob("*.json")):
        output = folder / str(record.relative_to(folder / digests.RECORDS)).removesuffix(".json")
        with found.noting(record):
            # The record of a file names this file alone; that of a folder names the files in it.
            names = set(digests.read_record(record))
            noted += [output] if names == {output.name} and not output.is_dir() else [output / name for name in names]
    if not (folder / digests.RECORDS).is_dir():
        fault = f"{folder} has no {digests.RECORDS}, the digests of its files: copy it with `cp -a`, which takes all."
        found.expect(False, fault)
    for path in sorted(noted):
        if not path.is_file() and path != folder / REPORT:
            absent[path.parent].append(path.name)
    for place, names in sorted(absent.items()):
        verb = "is" if len(names) == 1 else "are"
        # A state may be deleted when its run has finished: its files do not count.
        count = 0 if "state" in place.relative_to(folder).parts else len(names)
        found.lack(f"{place}: {', '.join(names)} {verb} not there any more.", count)
    checks = {path: partial(digests.check, path) for path in noted if path.is_file() and path not in found.vouched}
    found.compare(checks, "files of results against their digests", folder)


def check_run(path: Path, found: Findings) -> None:
    """Compare the files of the finished run whose run.json is at `path`, and their copies in its state,
    with the digests there.
    """
    with found.noting(path, "finished runs"):
        report, checks = read_json(path), {}
        if missing := {"files", "state"} - report.keys():
            raise InputError(f"{path} has no entry {min(missing)!r}: it is damaged, or of a version before digests.")
        state = path.parent / "state" / report["state"]
        for name, digest in report["files"].items():
            if state.is_dir():
                checks[state / name] = partial(artefacts.check_digest, state / name, digest, path)
            elif name.startswith("weights/"):  # of an evaluation on the way: it is in the state only
                found.lack(f"{state / name} is not there.")
            if not name.startswith("weights/"):
                checks[path.parent / name] = partial(artefacts.check_digest, path.parent / name, digest, path)
        found.compare(checks, "files of runs against their digests", path.parent)


def check_observed(folder: Path, found: Findings) -> None:
    """Compare the tables that losses measured elsewhere were read from with their digests."""
    for path in sorted(folder.glob("losses/observed/*.json")):
        with found.noting(path):
            for file, digest in read_json(path)["sources"].items():
                if Path(file).is_file():
                    same = digests.digest_file(Path(file)) == digest
                    found.expect(same, f"{path}: {file} has changed since it was read.")
                    found.checked["tables of losses"] += 1
                else:
                    found.unchecked.append(f"{path}: {file} is not there any more.")


def check_laws(folder: Path, found: Findings) -> None:
    """Fit every law again: its predictions and its document must be those of the written one."""
    for path in sorted((folder / "laws").glob("*/*/*/coefficients.json")):
        model, law, group = path.parts[-4:-1]
        tables = folder / "losses" / model / f"{group}.parquet", folder / "mixtures" / "groups" / f"{group}.parquet"
        absent = [table for table in tables if not table.is_file()]
        if absent:
            found.lack(f"{absent[0]} is not there: the law in {path}.")
            continue
        with found.noting(path, "laws fitted again"):
            document = checked_law(path)
            observed = observations(*map(read_table, tables), tuple(map(str, tables)), checked=True)
            refitted = fit(law, replace(observed, gaps=recorded(document, observed.domains, observed.loss_domains)))
            if "rows" in document:  # a law over sizes, written for the size of one run
                run = next(iter(document["coefficients"].values()))["run"]
                refitted = asked_at(refitted, run["parameters"], run["tokens"])
            same = document["law"] == law and document["domains"] == refitted["domains"]
            written = predict_defined(document, observed.proportions, observed.steps)
            again = predict_defined(refitted, observed.proportions, observed.steps)
            # a loss that a law does not define is NaN in both
            defined = written.shape == again.shape and np.array_equal(np.isnan(written), np.isnan(again))
            gap = np.nanmax(np.abs(written / again - 1)) if defined else np.inf
            fault = f"{path} predicts losses up to {gap:.2g} (relative) away from those of the law fitted again."
            found.expect(same and gap <= TOLERANCE, fault)
            # coefficients of a flat fit may differ where its predictions do not
            old = {key: value for key, value in document.items() if key not in NOT_COMPARED}
            new = {key: value for key, value in refitted.items() if key not in NOT_COMPARED}
            place = first_difference(old, new)
            found.expect(place is None, f"{path}: {place} is not that of the law fitted again.")


def check_optima(folder: Path, found: Findings) -> None:
    """Find the optimum of every law again: the written mixture must be as good."""
    for path in sorted((folder / "optima").glob("*.json")):
        with found.noting(path, "optima found again"):
            request = read_json(path).get("requested")
            if request is None:
                raise InputError(f"{path} does not say what was requested: make it again.")
            sought = Sought.requested(checked_law(folder / "laws" / request["law"] / "coefficients.json"), request)
            mixture = Mixture.read(folder / "mixtures" / path.name).flat()
            shares = np.array([mixture.get(name, 0.0) for name in sought.fitted["domains"]])
            worse = float(sought.goal.value(shares)) / sought.best().value - 1
            fault = f"mixtures/{path.name} is {100 * worse:.2g} % worse by its law than the optimum found again."
            found.expect(worse <= TOLERANCE, fault)


def first_difference(one: object, other: object, place: str = "") -> str | None:
    """The place where two documents first differ (numbers by more than TOLERANCE), or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            return place or f"a key ({', '.join(sorted(one.keys() ^ other.keys())) or 'their order'})"
        pairs = [(f"{place}/{name}" if place else name, one[name], other[name]) for name in one]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return place
        pairs = [(f"{place}/{number}", *both) for number, both in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, float) or (isinstance(other, float) and isinstance(one, int)):
        near = isinstance(other, int | float) and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12)
        return None if near else place
    else:
        return None if one == other else place
    return next(filter(None, (first_difference(a, b, inner) for inner, a, b in pairs)), None)


def name_unvouched(folder: Path, found: Findings) -> None:
    """Report each file that none of the checks before has compared with a digest."""
    counts, unvouched = Counter(), defaultdict(list)
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != digests.RECORDS and not name.endswith(".partial"))
        inside = Path(place).relative_to(folder).parts
        for name in sorted(names):
            if Path(place, name) in found.vouched or name.endswith(".partial"):
                continue
            if TRACES & {*inside, name}:
                counts["are logs, benchmarks, curves and progress"] += 1
            elif "state" in inside:
                counts["of states are locks, attempts and checkpoints, which are verified when they are read"] += 1
            else:
                unvouched[place].append(name)
    for place, names in unvouched.items():
        found.lack(f"{place}: nothing vouches for {', '.join(names)}.", len(names))
    found.unchecked += [f"{count} files {kind}." for kind, count in counts.items()]
