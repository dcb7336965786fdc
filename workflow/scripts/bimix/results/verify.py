"""Whether a dataset's folder of results agrees with itself, from the tokens to the fitted laws.

Nothing is written and nothing is made again, but for the laws, which are fitted anew in memory.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer

from bimix.corpus.shards import read_shards
from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.laws import fit, predict_defined
from bimix.laws.document import checked_law
from bimix.mixtures.mixture import Mixture, as_mixture
from bimix.observations.observations import observations
from bimix.observations.prior import recorded
from bimix.observations.rows import ROUNDING
from bimix.plan.laws import is_optimum
from bimix.results.verify_counts import check_counts
from bimix.results.verify_findings import Findings
from bimix.results.verify_runs import check_run, check_shards, read_report
from bimix.results.verify_written import check_written, name_unvouched
from bimix.tables import read_json, read_table
from bimix.training.artefacts import check
from bimix.transfer.sized import as_asked, far_apart, size_read

INDEX = dict.fromkeys(("domain", "path"), pl.String) | dict.fromkeys(("rows", "tokens", "documents"), pl.UInt64)
INDEX |= dict.fromkeys(("dtype", "digest"), pl.String)
LAW_TOLERANCE = 1e-5  # relative, of a refitted law's predictions: other processors round otherwise
BESIDES = ("provenance", "coefficients")  # of a law's document: not compared word by word with those of a refit
REPORTED = {"rows": "rows", "documents": "documents", "dtype": "dtype", "digest": "digest", "tokens": "tokens_in_rows"}


def verify(folder: Path, drill: bool) -> Findings:
    """Verify a dataset's folder, or that of one finished run. Errors: it is neither."""
    found = Findings()
    if (folder / "run.json").is_file():
        check_run(folder / "run.json", found, indices_near(folder, found), drill)
        return found
    if not any((folder / name).is_dir() for name in ("tokens", "runs", "laws", "mixtures")):
        raise InputError(f"{folder} is neither a dataset's folder of results nor that of a finished run.")
    check_written(folder, found)
    indices = read_indices(folder, found)
    check_tokens(folder, indices, found)
    check_counts(folder, indices, found)
    shares = check_mixtures(folder, found)
    for path in run_reports(folder):
        # what lies in a state alone may be of another configuration, and of other tokens
        current = "state" not in path.relative_to(folder).parts
        check_run(path, found, indices if current else None, drill)
        if current and path.parts[-4] == "runs":
            check_trained(path, shares, found)
    check_gathered(folder, found)
    check_laws(folder, found)
    name_unvouched(folder, found)
    if not drill:
        found.unchecked.append("No state was restored and evaluated (--restore does).")
    return found


def run_reports(folder: Path) -> Iterator[Path]:
    """The run.json of every finished run of a dataset."""
    for pattern in ("runs/*/*", "reweighting/*/doge", "reweighting/*/doremi/*", "swarm/*/state/*/*"):
        yield from sorted(folder.glob(f"{pattern}/run.json"))


def read_indices(folder: Path, found: Findings) -> dict[str, pl.DataFrame] | None:
    """The token indices of a dataset; None where it has none, or one is damaged."""
    paths = {split: folder / "tokens" / f"{split}.parquet" for split in ("train", "validation")}
    absent = [path for path in paths.values() if not path.is_file()]
    if absent:
        found.unchecked.append(f"{absent[0]} is not there: the tokens.")
        return None
    with found.noting(folder / "tokens"):
        return {split: read_index(path, found) for split, path in paths.items()}
    return None


def read_index(path: Path, found: Findings) -> pl.DataFrame:
    """A token index. Errors: it lacks a column, or has one of another kind."""
    table = found.read(path)
    if not INDEX.items() <= dict(table.schema).items():
        raise InputError(f"{path} is no token index: its columns are {dict(table.schema)}.")
    return table


def indices_near(run: Path, found: Findings) -> dict[str, pl.DataFrame] | None:
    """The token indices of the dataset that a run's folder lies in."""
    for folder in run.resolve().parents:
        if (folder / "tokens" / "train.parquet").is_file():
            return read_indices(folder, found)
    found.unchecked.append(f"{run} lies in no dataset with tokens: what it was trained on.")
    return None


def check_tokens(folder: Path, indices: dict[str, pl.DataFrame] | None, found: Findings) -> None:
    """Hold the index against the reports of the shards, and the files it lists against their
    digests.
    """
    if indices is None:
        return
    try:
        vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    except Exception as error:  # the library raises nothing narrower
        found.fault(f"{folder / 'tokenizer.json'} is no tokenizer ({error}).")
        return
    manifest = folder / "shards.jsonl"
    if manifest.is_file():
        with found.noting(manifest):
            check_index(folder, indices, found)
        with found.noting(manifest):
            check_raw(folder, found)
    else:
        found.unchecked.append(
            f"{manifest} is not there: the token index against the reports of its shards, and raw files."
        )
    for index in indices.values():
        check_shards(index, vocabulary, found)


def check_raw(folder: Path, found: Findings) -> None:
    """Hold the raw files against what was tokenised: other text under an old time of modification
    is another corpus.
    """
    left = Counter()
    for shard in read_manifest(folder / "shards.jsonl").values():
        report = folder / "shards" / "train" / shard.name / "report.json"
        noted = read_json(report).get("raw") if report.is_file() else None
        for path in map(Path, shard.files):
            if "://" in str(path) or (noted is not None and str(path) not in noted):
                left["are far away"] += 1
            elif noted is None:
                left["were tokenised by a version that noted no digest of them"] += 1
            elif not path.is_file():
                left["are not there any more"] += 1
            else:
                own = noted[str(path)]
                same = path.stat().st_size == own["bytes"] and digest_file(path) == own["digest"]
                found.expect(
                    same, f"{path} holds other text than was tokenised; touch it to have its shard made again."
                )
                found.checked["raw files against what was tokenised"] += 1
    found.unchecked += [f"{count} raw files {why}." for why, count in left.items()]


def check_index(folder: Path, indices: dict[str, pl.DataFrame], found: Findings) -> None:
    """Hold every line of the token indices against the report of its shard, and find every shard in
    them.
    """
    for split, index in indices.items():
        listed = {row["path"]: row for row in index.iter_rows(named=True)}
        for shard in read_manifest(folder / "shards.jsonl"):
            own = folder / "shards" / split / shard
            with found.noting(own / "report.json"):
                for domain, report in read_json(own / "report.json").get("domains", {}).items():
                    row = listed.pop(str(own / f"{domain}.bin"), {})
                    said = {name: report.get(key) for name, key in REPORTED.items()}
                    found.expect(
                        said == {name: row.get(name) for name in REPORTED},
                        f"{own / 'report.json'}: {domain} is not as tokens/{split}.parquet lists it.",
                    )
                    found.checked["lines of the token index against the reports of shards"] += 1
        for path in listed:
            found.fault(f"tokens/{split}.parquet lists {path}, which no shard of shards.jsonl has made.")


def read_manifest(path: Path) -> dict:
    """The shards by name."""
    with path.open(encoding="utf-8") as lines:
        try:
            return read_shards(lines)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no manifest of shards ({error}).") from error


def check_mixtures(folder: Path, found: Findings) -> dict[str, Mixture]:
    """The mixtures of a dataset by name, after each was found to sum to one and to stand so in its
    groups' tables.
    """
    shares = {}
    for path in sorted((folder / "mixtures").glob("*.json")):
        with found.noting(path):
            shares[path.stem] = Mixture.read(path)
            found.checked["mixtures"] += 1
    for path in sorted((folder / "mixtures" / "groups").glob("*.parquet")):
        with found.noting(path):
            for name, mixture in mixtures_of(path, found).items():
                total = sum(mixture.values())
                found.expect(
                    abs(total - 1) <= ROUNDING, f"{path}: the proportions of {name} sum to {total:.9g}, not to 1."
                )
                if name in shares:  # of one in stages a table may be of one of them: the law's
                    written = as_mixture(list(mixture), list(mixture.values())).document()
                    same = written in [stage.proportions for stage in shares[name].stages]
                    if not same and is_optimum(name) and (folder / "losses/observed").is_dir():
                        # the user's run on an earlier optimum, which has moved with the runs added
                        found.unchecked.append(
                            f"{path}: {name} was run with other proportions than mixtures/{name}.json."
                        )
                    else:
                        found.expect(same, f"{path}: {name} is not what mixtures/{name}.json holds.")
                found.checked["mixtures of groups"] += 1
    return shares


def mixtures_of(path: Path, found: Findings) -> dict[str, dict[str, float]]:
    """The mixtures of a table by name. Errors: it is none."""
    table, mixtures = found.read(path), {}
    if not {"mixture", "domain", "proportion"} <= set(table.columns):
        raise InputError(f"{path} is no table of mixtures: it has the columns {', '.join(table.columns)}.")
    for name, domain, share in table.select("mixture", "domain", "proportion").iter_rows():
        mixtures.setdefault(name, {})[domain] = share
    return mixtures


def check_trained(path: Path, shares: dict[str, Mixture], found: Findings) -> None:
    """Hold the mixture that a run says it was trained on against the dataset's mixture of that
    name.
    """
    name = path.parent.name.partition("@")[0]
    with found.noting(path):
        if name in shares:
            same = Mixture.parse(read_report(path)["mixture"], path) == shares[name]
            found.expect(same, f"{path}: the run was trained on another mixture than mixtures/{name}.json holds now.")
        else:
            found.unchecked.append(f"mixtures/{name}.json is not there: the mixture of {path.parent}.")


def check_gathered(folder: Path, found: Findings) -> None:
    """Hold the tables of losses that laws are fitted to against those of the runs, number by
    number.
    """
    columns = ["step", "tokens", "domain", "loss"]
    for path in sorted((folder / "losses").glob("*/*.parquet")):
        with found.noting(path):
            table = found.read(path)
            if not {"mixture", "seed", *columns} <= set(table.columns):
                found.unchecked.append(f"{path} comes from no runs of this dataset: its losses.")
                continue
            if "model" not in table.columns:  # which a table of several models has
                table = table.with_columns(model=pl.lit(path.parent.name))
            for (model, name, seed), own in table.group_by("model", "mixture", "seed", maintain_order=True):
                candidates = [read_table(check(run)) for run in losses_of(folder, model, name, seed)]
                if not candidates:
                    found.unchecked.append(f"{path}: no finished run of {name}, seed {seed}, is there: its losses.")
                    continue
                same = any(_ends_with(losses.select(columns), own.select(columns)) for losses in candidates)
                found.expect(same, f"{path} does not hold the losses of the run of {name}, seed {seed}.")
                found.checked["runs in the tables of losses"] += 1


def _ends_with(losses: pl.DataFrame, own: pl.DataFrame) -> bool:
    """Whether `own` are a run's losses, or those of its last stages."""
    return own.height > 0 and own.equals(losses.filter(pl.col("step") >= own["step"].min()))


def losses_of(folder: Path, model: str, name: str, seed: int) -> list[Path]:
    """Tables of losses of a mixture's finished runs of a seed, those of all configurations of a
    swarm's run.
    """
    runs = [folder / "runs" / model / name, folder / "runs" / model / f"{name}@{seed}"]
    places = [*runs, *sorted((folder / "swarm" / model / "state" / name).glob("*"))]
    reports = [place / "run.json" for place in places if (place / "run.json").is_file()]
    return [path.with_name("losses.parquet") for path in reports if read_json(path).get("seed") == seed]


def asked_again(refitted: dict, document: dict) -> dict:
    """A law fitted again, read at the run that a written one is read at, with its warning."""
    coefficients = as_asked(refitted["coefficients"], document)
    far = far_apart(coefficients, size_read(document))
    warnings = [*([far] if far else []), *refitted["warnings"]]
    return refitted | {"coefficients": coefficients, "warnings": warnings}


def differing(one: object, other: object, place: str = "") -> str | None:
    """The first place at which two documents differ: names exactly, numbers by more than
    LAW_TOLERANCE; None where they agree.
    """
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


def check_laws(folder: Path, found: Findings) -> None:
    """Fit every law again to its losses: it must predict and say what the written one does."""
    for path in sorted((folder / "laws").glob("*/*/*/coefficients.json")):
        model, law, group = path.parts[-4:-1]
        tables = folder / "losses" / model / f"{group}.parquet", folder / "mixtures" / "groups" / f"{group}.parquet"
        absent = [table for table in tables if not table.is_file()]
        if absent:
            found.unchecked.append(f"{absent[0]} is not there: the law in {path}.")
            continue
        with found.noting(path):
            document = checked_law(path)
            observed = observations(*map(found.read, tables), tuple(map(str, tables)), allowed=None)
            gaps = recorded(document, observed.domains, observed.loss_domains)
            refitted = fit(law, replace(observed, gaps=gaps))
            if "rows" in document:  # a law over sizes, which may be read at a run of its own
                refitted = asked_again(refitted, document)
            same = document["law"] == law and document["domains"] == refitted["domains"]
            written, again = (
                predict_defined(one, observed.proportions, observed.steps) for one in (document, refitted)
            )
            # a loss that a law does not define is NaN in both
            defined = written.shape == again.shape and np.array_equal(np.isnan(written), np.isnan(again))
            gap = np.nanmax(np.abs(written / again - 1)) if defined else np.inf
            found.expect(
                same and gap <= LAW_TOLERANCE,
                f"{path} predicts losses up to {gap:.2g} (relative) away from those of the law fitted anew.",
            )
            # coefficients of a flat fit may differ where its predictions do not
            apart = differing(
                *({name: one for name, one in own.items() if name not in BESIDES} for own in (document, refitted))
            )
            found.expect(apart is None, f"{path}: {apart} is not that of the law fitted anew.")
            found.checked["laws fitted anew"] += 1
