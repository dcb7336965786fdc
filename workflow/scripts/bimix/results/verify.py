"""Whether a dataset's folder of results agrees with itself, from the tokens to the fitted laws.

Nothing is written and nothing is made again, but for the laws, which are fitted again in memory.
"""

import math
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer

from bimix import digests
from bimix.errors import InputError
from bimix.laws.document import checked_law
from bimix.laws.fitted import fit, predict_defined
from bimix.laws.table import is_optimum
from bimix.mixtures.mixture import Mixture, as_mixture
from bimix.observations.observations import observations
from bimix.observations.prior import recorded
from bimix.results.findings import Findings
from bimix.results.watch import read_progress
from bimix.tables import ROUNDING, read_json, read_table
from bimix.training import artefacts, checkpoints
from bimix.training.attempt import tokens_of
from bimix.training.rows import check_shard
from bimix.transfer.run import as_asked, far_apart, size_read

LAW_TOLERANCE = 1e-5  # relative, of a refitted law's predictions: other processors round otherwise
BESIDES = ("provenance", "coefficients")  # of a law's document: not compared word by word with those of a refit
RUNS = ("runs/*/*", "reweighting/*/*")
# Folders and files that a call writes on its way: no result is read from them.
TRACES = {"logs", "benchmarks", "tensorboard", "wandb", "trackio", "progress.json", ".lock", ".snakemake_timestamp"}
TRACES |= {"shards.jsonl", "report.html", "checked.json"}  # which calls write again
PROCESSES = Path("/proc")
OWN = "verify.txt"  # made by this very check, after its old version was deleted
COUNTED = ("rows", "tokens")  # whole numbers among INDEX; the others are text
INDEX = ("domain", "path", "dtype", "rows", "tokens", "digest")
ENTRIES = {"shape": "shape", "recipe": "training", "mixture": "mixture"}  # of run.json: prefixes in the fingerprint
NEEDED = {"files", "state", "shape", "recipe", "mixture", "data", "tokens", "seed"}
LOSSES = ["step", "tokens", "domain", "loss"]
Indices = dict[str, pl.DataFrame] | None


def verify(folder: Path) -> Findings:
    """Verify a dataset's folder, or that of one finished run. Errors: it is neither."""
    found = Findings()
    if (folder / "run.json").is_file():
        home = next((home for home in folder.resolve().parents if (home / "tokens/train.parquet").is_file()), None)
        if home is None:
            found.unchecked.append(f"{folder / 'run.json'} lies in no dataset with tokens: what it was trained on.")
        check_run(folder / "run.json", found, home and read_indices(home, found))
        return found
    if not any((folder / name).is_dir() for name in ("tokens", "runs", "laws", "mixtures")):
        raise InputError(f"{folder} is neither a dataset's folder of results nor that of a finished run.")
    indices = read_indices(folder, found)
    if indices is not None:
        check_tokens(folder / "tokenizer.json", indices, found)
    check_written(folder, found)
    mixtures = check_mixtures(folder, found)
    for path in run_reports(folder):
        # what lies in a state alone may be of another configuration, and of other tokens
        current = "state" not in path.relative_to(folder).parts
        trained = mixtures if current and path.parts[-4] == "runs" else None
        check_run(path, found, indices if current else None, trained)
    check_gathered(folder, found)
    check_observed(folder, found)
    check_laws(folder, found)
    name_unvouched(folder, found)
    holder = read_progress(folder / ".lock") if found.faults else {}
    if holder.get("host") == socket.gethostname() and (PROCESSES / str(holder.get("process"))).exists():
        found.unchecked.append(
            f"Process {holder['process']} works here since {holder.get('since')}: a fault may be of a file"
            " that it is writing or has still to make. Verify again when it has ended."
        )
    return found


def run_reports(folder: Path) -> Iterator[Path]:
    """The run.json of every finished run of a dataset."""
    for pattern in RUNS:
        yield from sorted(folder.glob(f"{pattern}/run.json"))


def read_indices(folder: Path, found: Findings) -> Indices:
    """{split: token index} of a dataset; None where it has none, or one is damaged."""
    indices = {}
    for split in ("train", "validation"):
        path = folder / "tokens" / f"{split}.parquet"
        if not path.is_file():
            found.lack(f"{path} is not there: the tokens.")
            return None
        with found.noting(path):
            index = read_table(path).select(INDEX)
            for name, kind in index.schema.items():
                if kind.is_integer() != (name in COUNTED) or index[name].null_count():
                    raise InputError(f"{path}: column {name!r} lacks values, or has {kind}: index the tokens again.")
            indices[split] = index
    return indices if len(indices) == 2 else None


def check_tokens(tokenizer: Path, indices: dict[str, pl.DataFrame], found: Findings) -> None:
    """Compare the files of tokens with their digests in the indices, ids with the tokenizer."""
    vocabulary = 2**32  # no id of a file is larger
    with found.noting(tokenizer):
        vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab_size()
    for index in indices.values():
        rows = index.filter(pl.col("rows") > 0).drop("domain").rows()
        checks = {Path(row[0]): partial(check_shard, *row, vocabulary) for row in rows}
        found.compare(checks, "files of tokens against their digests", tokenizer.parent / "shards")


def check_written(folder: Path, found: Findings) -> None:
    """Compare each file of a dataset with the digest that its writer noted."""
    noted, absent = [], defaultdict(list)
    for record in sorted((folder / digests.RECORDS).rglob("*.json")):
        output = folder / str(record.relative_to(folder / digests.RECORDS)).removesuffix(".json")
        with found.noting(record):
            names = set(digests.read_record(record))
            noted += [output] if names == {output.name} and not output.is_dir() else [output / name for name in names]
    if not (folder / digests.RECORDS).is_dir():
        fault = f"{folder} has no {digests.RECORDS}, the digests of its files: copy it with `cp -a`, which takes all."
        found.expect(False, fault)
    for path in sorted(noted):
        if not path.is_file() and path != folder / OWN:
            absent[path.parent].append(path.name)
    for place, names in sorted(absent.items()):
        is_gone = f"{'is' if len(names) == 1 else 'are'} not there any more."
        # a state may be deleted when its run has finished
        found.lack(
            f"{place}: {', '.join(names)} {is_gone}", len(names) * ("state" not in place.relative_to(folder).parts)
        )
    left = {path: partial(digests.check, path) for path in noted if path.is_file() and path not in found.vouched}
    found.compare(left, "files of results against their digests", folder)


def check_mixtures(folder: Path, found: Findings) -> dict[str, Mixture]:
    """The mixtures of a dataset by name: each sums to one, and its groups' tables hold the same."""
    mixtures = {}
    for path in sorted((folder / "mixtures").glob("*.json")):
        with found.noting(path, "mixtures"):
            mixtures[path.stem] = Mixture.read(path)
    for path in sorted((folder / "mixtures" / "groups").glob("*.parquet")):
        with found.noting(path):
            table = read_table(path)
            if not {"mixture", "domain", "proportion"} <= set(table.columns):
                raise InputError(f"{path} is no table of mixtures: it has the columns {', '.join(table.columns)}.")
            for (name,), rows in table.group_by("mixture", maintain_order=True):
                domains, shares = rows["domain"].to_list(), rows["proportion"].to_list()
                total = sum(shares)
                found.expect(
                    abs(total - 1) <= ROUNDING, f"{path}: the proportions of {name} sum to {total:.9g}, not to 1."
                )
                found.checked["mixtures of groups"] += 1
                if name not in mixtures:
                    continue
                # of a mixture in stages a table may be of one of them: the law's
                same = as_mixture(domains, shares).document() in [one.proportions for one in mixtures[name].stages]
                if not same and is_optimum(name) and (folder / "losses/observed").is_dir():
                    # the user's run on an earlier optimum, which has moved with the runs added
                    found.unchecked.append(f"{path}: {name} was run with other proportions than mixtures/{name}.json.")
                else:
                    found.expect(same, f"{path}: {name} is not what mixtures/{name}.json holds.")
    return mixtures


def check_run(path: Path, found: Findings, indices: Indices = None, mixtures: dict[str, Mixture] | None = None) -> None:
    """Check the finished run whose run.json is at `path`: its files, mixture, tokens, steps and
    configuration. `indices`: the token indices that it was trained on; `mixtures`: the dataset's.
    """
    with found.noting(path, "finished runs"):
        report = read_json(path)
        if missing := NEEDED - report.keys():
            raise InputError(f"{path} has no entry {min(missing)!r}: it is damaged, or of a version before digests.")
        state = path.parent if (path.parent / "fingerprint.json").exists() else path.parent / "state" / report["state"]
        check_files(report, path, state, found)
        if indices is not None and report["data"]:  # else a command has read files of its own
            same = tokens_of(indices) == report["data"]
            found.expect(same, f"{path}: the run was trained on other tokens than the token index lists now.")
        losses = read_table(artefacts.check(path.with_name("losses.parquet")))
        for column, given in (("step", report["recipe"]["steps"]), ("tokens", report["tokens"])):
            end = losses[column].max()
            found.expect(end == given, f"{path}: its losses end at {column} {end}, but the run has {given}.")
        trained, name = Mixture.parse(report["mixture"], path), path.parent.name.partition("@")[0]
        if mixtures is not None and name in mixtures:
            fault = f"{path}: the run was trained on another mixture than mixtures/{name}.json holds now."
            found.expect(trained == mixtures[name], fault)
        elif mixtures is not None:
            found.lack(f"mixtures/{name}.json is not there: the mixture of {path.parent}.")
        if not state.is_dir():
            found.unchecked.append(f"{state} is not there: the fingerprint of its run.")
            return
        with found.noting(state / "fingerprint.json", "fingerprints"):
            check_fingerprint(report, path, state, trained, found)


def check_files(report: dict, path: Path, state: Path, found: Findings) -> None:
    """Compare a run's files with the digests in its run.json, in its state and in the workflow."""
    checks = {}
    for name, digest in report["files"].items():
        if state.is_dir():
            checks[state / name] = partial(artefacts.check_digest, state / name, digest, path)
        elif name.startswith("weights/"):  # of an evaluation on the way: it is in the state only
            found.lack(f"{state / name} is not there.")
        if not name.startswith("weights/"):
            checks[path.parent / name] = partial(artefacts.check_digest, path.parent / name, digest, path)
    found.compare(checks, "files of runs against their digests", path.parent)


def check_fingerprint(report: dict, path: Path, state: Path, trained: Mixture, found: Findings) -> None:
    """Compare a run's fingerprint with its run.json and with the name of its folder."""
    place = state / "fingerprint.json"
    fingerprint = read_json(place)
    key = checkpoints.key_of(fingerprint)
    fault = f"{place} is that of {key}, but it lies in {state.name} and {path} names {report['state']}."
    found.expect(key == state.name == report["state"], fault)
    entries = report | {"mixture": trained.flat()}
    reported = {f"{prefix}.{key}": value for name, prefix in ENTRIES.items() for key, value in entries[name].items()}
    reported |= report["data"]
    prefixes = tuple(f"{name}." for name in (*ENTRIES.values(), "train", "validation"))
    for name in sorted(reported.keys() | {name for name in fingerprint if name.startswith(prefixes)}):
        one, other = fingerprint.get(name), reported.get(name)
        found.expect(one == other, f"{place}: {name} is {one!r}, but {other!r} in {path}.")


def check_gathered(folder: Path, found: Findings) -> None:
    """Compare the tables that laws are fitted to with those of the runs, number by number."""
    for path in sorted((folder / "losses").glob("*/*.parquet")):
        with found.noting(path):
            table = read_table(path)
            if not {"mixture", "seed", *LOSSES} <= set(table.columns):
                found.unchecked.append(f"{path} comes from no runs of this dataset: its losses.")
                continue
            if "model" not in table.columns:  # which a table of several models has
                table = table.with_columns(model=pl.lit(path.parent.name))
            for (model, name, seed), own in table.group_by("model", "mixture", "seed", maintain_order=True):
                runs = losses_of(folder, model, name, seed)
                if not runs:
                    found.lack(f"{path}: no finished run of {name}, seed {seed}, is there: its losses.")
                    continue
                own = own.select(LOSSES)  # all losses of a run, or those of its last stages
                late = pl.col("step") >= own["step"].min()
                same = any(own.equals(read_table(artefacts.check(run)).select(LOSSES).filter(late)) for run in runs)
                found.expect(same, f"{path} does not hold the losses of the run of {name}, seed {seed}.")
                found.checked["runs in the tables of losses"] += 1


def losses_of(folder: Path, model: str, name: str, seed: int) -> list[Path]:
    """Losses of a mixture's finished runs of a seed."""
    runs = [folder / "runs" / model / name, folder / "runs" / model / f"{name}@{seed}"]
    reports = [place / "run.json" for place in runs if (place / "run.json").is_file()]
    return [path.with_name("losses.parquet") for path in reports if read_json(path).get("seed") == seed]


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
    """Fit every law again: it must predict and document the same as the written one."""
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
            if "rows" in document:  # a law over sizes, which may be read at a run of its own
                coefficients = as_asked(refitted["coefficients"], document)
                far = far_apart(coefficients, size_read(document))
                warnings = [*([far] if far else []), *refitted["warnings"]]
                refitted |= {"coefficients": coefficients, "warnings": warnings}
            same = document["law"] == law and document["domains"] == refitted["domains"]
            written, again = (
                predict_defined(one, observed.proportions, observed.steps) for one in (document, refitted)
            )
            # a loss that a law does not define is NaN in both
            defined = written.shape == again.shape and np.array_equal(np.isnan(written), np.isnan(again))
            gap = np.nanmax(np.abs(written / again - 1)) if defined else np.inf
            fault = f"{path} predicts losses up to {gap:.2g} (relative) away from those of the law fitted again."
            found.expect(same and gap <= LAW_TOLERANCE, fault)
            # coefficients of a flat fit may differ where its predictions do not
            entries = ({key: own[key] for key in own if key not in BESIDES} for own in (document, refitted))
            differs = differing(*entries)
            found.expect(differs is None, f"{path}: {differs} is not that of the law fitted again.")


def differing(one: object, other: object, place: str = "") -> str | None:
    """Where two documents first differ, numbers by more than LAW_TOLERANCE; None: nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            return place or f"a key ({', '.join(sorted(one.keys() ^ other.keys())) or 'their order'})"
        pairs = [(f"{place}/{name}" if place else name, one[name], other[name]) for name in one]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return place
        pairs = [(f"{place}/{number}", *both) for number, both in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, float) or (isinstance(other, float) and isinstance(one, int)):
        near = isinstance(other, int | float) and math.isclose(one, other, rel_tol=LAW_TOLERANCE, abs_tol=1e-12)
        return None if near else place
    else:
        return None if one == other else place
    return next(filter(None, (differing(a, b, inner) for inner, a, b in pairs)), None)


def name_unvouched(folder: Path, found: Findings) -> None:
    """Name each file of a dataset that nothing vouches for, when all checks are done."""
    counts, left = Counter(), defaultdict(list)
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
                left[place].append(name)
    for place, names in left.items():
        found.lack(f"{place}: nothing vouches for {', '.join(names)}.", len(names))
    found.unchecked += [f"{count} files {kind}." for kind, count in counts.items()]
