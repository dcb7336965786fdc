"""Whether a dataset's folder of results agrees with itself, from the tokens to the fitted laws.

Nothing is written and nothing is made again, but for the laws, which are fitted again in memory.
"""

import math
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.laws.document import checked_law
from bimix.laws.fitted import fit, predict_defined
from bimix.laws.table import is_optimum
from bimix.mixtures.mixture import Mixture, as_mixture
from bimix.observations.observations import observations
from bimix.observations.prior import recorded
from bimix.observations.tables import ROUNDING
from bimix.results.verify_files import Findings, check_written, name_unvouched
from bimix.results.verify_runs import check_run, read_report
from bimix.results.verify_tokens import check_tokens, read_indices
from bimix.results.watch import PROCESSES, read_progress
from bimix.tables import read_json, read_table
from bimix.training.artefacts import check
from bimix.transfer.run import as_asked, far_apart, size_read

LAW_TOLERANCE = 1e-5  # relative, of a refitted law's predictions: other processors round otherwise
BESIDES = ("provenance", "coefficients")  # of a law's document: not compared word by word with those of a refit
RUNS = ("runs/*/*", "reweighting/*/*", "swarm/*/state/*/*")


def verify(folder: Path, drill: bool) -> Findings:
    """Verify a dataset's folder, or that of one finished run; with `drill` evaluate the last state
    of each run. Errors: it is neither.
    """
    found = Findings(folder)
    if (folder / "run.json").is_file():
        home = next((home for home in folder.resolve().parents if (home / "tokens/train.parquet").is_file()), None)
        if home is None:
            found.unchecked.append(f"{folder / 'run.json'} lies in no dataset with tokens: what it was trained on.")
        check_run(folder / "run.json", found, home and read_indices(home, found), drill)
        return found
    if not any((folder / name).is_dir() for name in ("tokens", "runs", "laws", "mixtures")):
        raise InputError(f"{folder} is neither a dataset's folder of results nor that of a finished run.")
    check_written(folder, found)
    indices = read_indices(folder, found)
    if indices is not None:
        check_tokens(folder, indices, found)
    mixtures = check_mixtures(folder, found)
    for path in run_reports(folder):
        # what lies in a state alone may be of another configuration, and of other tokens
        current = "state" not in path.relative_to(folder).parts
        check_run(path, found, indices if current else None, drill)
        if current and path.parts[-4] == "runs":
            check_trained(path, mixtures, found)
    check_gathered(folder, found)
    check_reused(folder, found)
    check_laws(folder, found)
    name_unvouched(folder, found)
    if not drill:
        found.unchecked.append("No state was restored and evaluated (--restore does).")
    holder = read_progress(folder / ".lock") if found.faults else {}
    if holder.get("host") == socket.gethostname() and (PROCESSES / str(holder.get("process"))).exists():
        found.unchecked.append(
            f"Process {holder['process']} works here since {holder.get('since')}: a fault may be of a file"
            " that it has still to make. Verify again when it has ended."
        )
    return found


def run_reports(folder: Path) -> Iterator[Path]:
    """The run.json of every finished run of a dataset."""
    for pattern in RUNS:
        yield from sorted(folder.glob(f"{pattern}/run.json"))


def check_mixtures(folder: Path, found: Findings) -> dict[str, Mixture]:
    """The mixtures of a dataset by name: each sums to one, and its groups' tables hold the same."""
    mixtures = {}
    for path in sorted((folder / "mixtures").glob("*.json")):
        with found.noting(path, "mixtures"):
            mixtures[path.stem] = Mixture.read(path)
    for path in sorted((folder / "mixtures" / "groups").glob("*.parquet")):
        with found.noting(path):
            table = found.read(path)
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
                    own = folder / "mixtures" / f"{name}.json"
                    found.expect(same, f"{path}: {name} is not what mixtures/{name}.json holds.", own)
    return mixtures


def check_trained(path: Path, mixtures: dict[str, Mixture], found: Findings) -> None:
    """Compare the mixture in a run.json with the dataset's mixture of that name."""
    name = path.parent.name.partition("@")[0]
    own = path.parents[3] / "mixtures" / f"{name}.json"
    with found.noting(path):
        if name in mixtures:
            same = Mixture.parse(read_report(path)["mixture"], path) == mixtures[name]
            fault = f"{path}: the run was trained on another mixture than mixtures/{name}.json holds now."
            found.expect(same, fault, own)
        else:
            found.unchecked.append(f"mixtures/{name}.json is not there: the mixture of {path.parent}.")


def check_gathered(folder: Path, found: Findings) -> None:
    """Compare the tables that laws are fitted to with those of the runs, number by number."""
    columns = ["step", "tokens", "domain", "loss"]
    for path in sorted((folder / "losses").glob("*/*.parquet")):
        with found.noting(path):
            table = found.read(path)
            if not {"mixture", "seed", *columns} <= set(table.columns):
                found.unchecked.append(f"{path} comes from no runs of this dataset: its losses.")
                continue
            if "source" in table.columns:  # what older runs are of is compared by `check_reused`
                table = table.filter(pl.col("source") == "new")
            if "model" not in table.columns:  # which a table of several models has
                table = table.with_columns(model=pl.lit(path.parent.name))
            for (model, name, seed), own in table.group_by("model", "mixture", "seed", maintain_order=True):
                runs = losses_of(folder, model, name, seed)
                if not runs:
                    found.unchecked.append(f"{path}: no finished run of {name}, seed {seed}, is there: its losses.")
                    continue
                own = own.select(columns)  # all losses of a run, or those of its last stages
                late = pl.col("step") >= own["step"].min()
                same = any(own.equals(read_table(check(run)).select(columns).filter(late)) for run in runs)
                found.expect(same, f"{path} does not hold the losses of the run of {name}, seed {seed}.", *runs)
                found.checked["runs in the tables of losses"] += 1


def check_reused(folder: Path, found: Findings) -> None:
    """Compare what older runs were read from with its digests."""
    for path in sorted((folder / "reused").glob("*.json")):
        with found.noting(path):
            for name, files in read_json(path)["sources"].items():
                there = {file: digest for file, digest in files.items() if Path(file).is_file()}
                for file, digest in there.items():
                    found.expect(digest_file(Path(file)) == digest, f"{path}: {file} has changed since it was reused.")
                found.checked["files of reused runs"] += len(there)
                if len(there) < len(files):
                    found.unchecked.append(f"{path}: {len(files) - len(there)} files of {name} are not there any more.")


def losses_of(folder: Path, model: str, name: str, seed: int) -> list[Path]:
    """Losses of a mixture's finished runs of a seed; of a swarm's run all configurations'."""
    runs = [folder / "runs" / model / name, folder / "runs" / model / f"{name}@{seed}"]
    places = [*runs, *sorted((folder / "swarm" / model / "state" / name).glob("*"))]
    reports = [place / "run.json" for place in places if (place / "run.json").is_file()]
    return [path.with_name("losses.parquet") for path in reports if read_json(path).get("seed") == seed]


def check_laws(folder: Path, found: Findings) -> None:
    """Fit every law again: it must predict and document the same as the written one."""
    for path in sorted((folder / "laws").glob("*/*/*/coefficients.json")):
        model, law, group = path.parts[-4:-1]
        tables = folder / "losses" / model / f"{group}.parquet", folder / "mixtures" / "groups" / f"{group}.parquet"
        absent = [table for table in tables if not table.is_file()]
        if absent:
            found.unchecked.append(f"{absent[0]} is not there: the law in {path}.")
            continue
        with found.noting(path, "laws fitted again"):
            document = checked_law(path)
            observed = observations(*map(found.read, tables), tuple(map(str, tables)), allowed=None)
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
            found.expect(same and gap <= LAW_TOLERANCE, fault, *tables)
            # coefficients of a flat fit may differ where its predictions do not
            entries = ({key: own[key] for key in own if key not in BESIDES} for own in (document, refitted))
            differs = differing(*entries)
            found.expect(differs is None, f"{path}: {differs} is not that of the law fitted again.", *tables)


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
