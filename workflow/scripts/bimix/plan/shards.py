"""Groups the raw files of a corpus into shards, and gives the inputs and parameters of their jobs.

Snakemake remakes outputs that are older than their inputs, and misses new text with an old mtime.
So the report of a shard has the digest and the stamp of each raw file at the time it was read. A
file with the same stamp is unchanged; one with another stamp (replaced, copied, moved to another
disk) is read and compared with the digest. Other bytes are a new version, which is a parameter of
the shard's job, and a job whose parameters have changed runs again. Versions are stored in
results/{dataset}/contents/{shard}.json, since parameters must not change back, with the stamps of
compared files, so that each is read once.
"""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bimix.corpus.files import (
    has_wildcards,
    held_by_hash,
    is_remote,
    missing_files,
    missing_sentence,
    named_files,
    raw_files,
    unknown_endings,
)
from bimix.corpus.reading import Reading
from bimix.corpus.shards import Shard, group_files, longest_of, parts_of, read_shards, write_shards
from bimix.digests import digest_file, stamp_file
from bimix.errors import InputError, masked
from bimix.plan.dataset import Dataset
from bimix.plan.inputs import task_inputs

TABLES = ("losses", "mixtures", "metrics", "tokens", "cross_entropy")  # of the block observations
MOST_DIGESTED = 2**28  # bytes: a digest in half a second
SMALL_SHARD = 32 * 10**6  # bytes of raw files; the start of a job of fewer takes as long as its encoding
Versions = Callable[[Shard], list[str]]  # of a shard's files that have changed since they were first tokenised


@dataclass(frozen=True, eq=False)
class Shards:
    """The shards of a dataset by name, and the versions of their raw files."""

    dataset: Dataset
    by_name: Mapping[str, Shard]
    versions: Versions

    def in_split(self, split: str) -> list[Shard]:
        """Shards with documents of a split."""
        return [shard for shard in self.by_name.values() if (shard.split == "validation") == (split == "validation")]

    def inputs(self, split: str) -> list[str]:
        """Inputs of a job that reads all documents of a split."""
        return self.local_files(path for shard in self.in_split(split) for path in shard.files)

    def made_inputs(self, *splits: str) -> list[str]:
        """The files among `inputs` that jobs make. The tokenizer's rule needs no others: for each
        shard Snakemake searches its inputs, which took half the time of planning 10,000 shards.
        """
        return [path for split in splits for path in self.inputs(split) if is_made(self.dataset, path)]

    def digest(self, split: str) -> str:
        """The digest of the names and versions of all files of a split."""
        shards = self.in_split(split)
        files = [path for shard in shards for path in shard.files]
        return digest([*files, *(version for shard in shards for version in self.versions(shard))])

    def local_files(self, paths: Iterable[str]) -> list[str]:
        """The local raw files."""
        return [path for path in paths if not is_remote(path)]

    def hashes(self, shard: str) -> list[str]:
        """The file of hashes of validation documents, which a shard of training files leaves out;
        none without validation files. It is called for each shard, so it reads the config alone.
        """
        has_files = not held_by_hash(self.dataset.block["corpus"]) or self.dataset.only_measured
        trains = self.by_name[shard].split != "validation"
        return [f"{self.dataset.folder}/held_out.hashes"] if trains and has_files else []

    def settings(self, shard: str) -> list[str | None]:
        """The settings that decide a shard's content, and the versions of its local files."""
        chosen = self.by_name[shard]
        remote = list(filter(is_remote, chosen.files))
        # Snakemake stores and prints parameters: a digest replaces secrets
        secrets = [digest(remote)] if any(masked(path) != path for path in remote) else []
        return [chosen.split, chosen.domain, *map(masked, remote), *secrets, *self.versions(chosen)]

    def threads(self, shard: str) -> int:
        """Threads of a shard's job: 1 for few bytes, run in parallel; 2 for many or unknown."""
        chosen = self.by_name[shard]
        harvested = self.dataset.block["corpus"].get("harvest", {})
        if chosen.domain in harvested:
            size = harvested[chosen.domain]["megabytes"] * 10**6
        elif all(map(os.path.isfile, chosen.files)):
            size = sum(map(os.path.getsize, chosen.files))
        else:
            return 2
        return 1 if size < SMALL_SHARD else 2

    def domains(self, shard: str) -> list[str]:
        """Domains that the files of a shard may hold."""
        domain = self.by_name[shard].domain
        return [domain] if domain else self.dataset.block["domains"]

    def longest_held_out(self, shard: str) -> int:
        """The longest document of a shard that is held out whole; 1 where all of its files are."""
        chosen = self.by_name[shard]
        lengths = self.dataset.block["corpus"]["held_out_characters"]
        return 1 if chosen.split == "validation" else longest_of(lengths, chosen.domain)


def held_out_length(dataset: Dataset) -> str:
    """The characters above which a document's end is held out, as JSON; `false` if they are by domain."""
    length = dataset.block["corpus"]["held_out_characters"]
    return "false" if isinstance(length, dict) else json.dumps(length)


def reading(dataset: Dataset) -> dict:
    """Settings of a corpus that decide the text of its documents."""
    corpus = dataset.block["corpus"]
    return {key: corpus[key] for key in Reading.model_fields if key in corpus}


def split_patterns(dataset: Dataset) -> dict[str, dict[str | None, str | list[str]]]:
    """{split: {domain: paths and globs}}; the domain is None where each record names its own."""
    corpus = dataset.block["corpus"]
    harvested = {domain: f"{dataset.folder}/corpus/{domain}.jsonl" for domain in corpus.get("harvest", {})}
    train = harvested or corpus["train"]
    train = train if isinstance(train, dict) else {None: train}
    validation = {} if held_by_hash(corpus) else corpus["validation"]
    validation = validation if isinstance(validation, dict) else {None: validation}
    return {"train": train, "validation": validation | corpus.get("validation_only", {})}


def plan_shards(dataset: Dataset, without_text: bool = False) -> dict[str, Shard]:
    """All shards of a dataset by name, ordered by domain; `without_text`: a glob of no file counts
    as one. Errors: two of one name; no files, or files of unknown form.
    """
    by_hash, target = held_by_hash(dataset.block["corpus"]), dataset.block["corpus"]["shard_megabytes"] * 10**6
    planned: dict[str, Shard] = {}
    for split, source in split_patterns(dataset).items():
        key = f"config: datasets/{dataset.name}/corpus/{split}"
        prefix = ["validation"] if split == "validation" else []
        for domain, patterns in sorted(source.items(), key=lambda entry: entry[0] or ""):
            for name, paths in group_files(raw_files(patterns, target, key, without_text), target):
                name = ".".join([*prefix, *filter(None, [domain]), name])
                if name in planned:
                    raise InputError(f"{key}: {paths[-1]!r} and {planned[name].files[-1]!r} share a name: rename one.")
                planned[name] = Shard(name, "hash" if by_hash and split == "train" else split, domain, paths)
    paths = [] if without_text else [path for shard in planned.values() for path in shard.files]
    if fault := unknown_endings(dataset.block["corpus"]["formats"], paths):
        raise dataset.fault("corpus/formats", fault)
    return planned


def missing(dataset: Dataset) -> dict[str, tuple]:
    """Files that a dataset of text names and that are not there, with their keys."""
    return missing_files(named_files(dataset.block, dataset.folder), dataset.folder)


def open_shards(dataset: Dataset, planning: bool, runs_jobs: bool, without_text: bool = False) -> dict[str, Shard]:
    """Shards of a dataset by name, as its manifest lists them. Errors: those of `plan_shards`.

    The main process of a call that runs jobs writes the manifest before the first job, and its jobs
    read it. A dry run does not write it, since jobs of other calls may be reading.
    """
    manifest = Path(dataset.folder, "shards.jsonl")
    written = manifest.read_text(encoding="utf-8") if manifest.exists() else ""
    if written and not planning:
        return read_shards(written.splitlines())
    gone = {} if without_text else missing(dataset)
    if any(key[0] == "corpus" and (path[0] == "@" or has_wildcards(path)) for path, key in gone.items()):
        raise dataset.fault("", missing_sentence(gone))
    shards = plan_shards(dataset, without_text)
    if runs_jobs and (planned := write_shards(shards.values())) != written:
        manifest.parent.mkdir(parents=True, exist_ok=True)
        temporary = manifest.with_name(f".shards.{os.getpid()}.partial")
        # jobs need unmasked addresses; a manifest with secrets is readable by its owner alone
        temporary.touch(mode=0o666 if masked(planned) == planned else 0o600)
        temporary.write_text(planned, encoding="utf-8")
        os.replace(temporary, manifest)
    return shards


def digest(names: Iterable[str]) -> str:
    """A digest to replace a long list as a parameter, whose change makes the job run again."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def versions_of(dataset: Dataset, looks: bool, writes: bool) -> Versions:
    """A function from a shard to its versions, which `looks` at its files once and `writes` what is new."""
    notices: list[str] = []

    @functools.cache
    def find(shard: Shard) -> list[str]:
        path = Path(dataset.folder, "contents", f"{shard.name}.json")
        known = read_json(path, {"versions": {}, "stamps": {}})
        if looks and update_versions(dataset, shard, known, notices) and writes:
            from bimix.outputs import write_json  # here only: it imports polars, for the fewest calls

            write_json(path, known)
        return sorted(known["versions"].values())

    return find


def update_versions(dataset: Dataset, shard: Shard, known: dict, notices: list[str]) -> bool:
    """Update the `known` versions and stamps of a shard's files; return whether anything was new."""
    formats = dataset.block["corpus"]["formats"]
    local = [part for path in shard.files if not is_made(dataset, path) for part in parts_of(path, formats)]
    report = read_json(Path(dataset.folder, "shards/train", shard.name, "report.json"), {}) if local else {}
    new = False
    for path in local:
        recorded = report.get("raw", {}).get(str(Path(path)))
        if recorded is None or not Path(path).is_file():
            continue
        stamp = stamp_file(Path(path))
        if stamp in (recorded.get("stamp"), known["stamps"].get(path)):
            continue
        if not notices:  # one for all files of a call
            notices.append(f"{path} was changed, copied or moved since it was tokenised: it and its like are read.")
            print(notices[0], file=sys.stderr, flush=True)
        found = digest_file(Path(path))
        known["stamps"][path] = stamp
        if found != recorded["digest"]:
            known["versions"][path] = found
        new = True
    return new


def read_json(path: Path, otherwise: dict) -> dict:
    """The JSON in a file; `otherwise` where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return otherwise


def task_versions(dataset: Dataset) -> list[str | None]:
    """The digests of the files that tasks read."""
    return [file_version(dataset, place) for place in task_inputs(dataset)]


def table_versions(dataset: Dataset) -> list[str | None]:
    """The versions of the tables that a dataset of losses names."""
    return [file_version(dataset, path) for table in TABLES for path in dataset.brought(table)]


def file_version(dataset: Dataset, path: str | None) -> str | None:
    """The digest of a local file; None if it is made by a job, missing or remote."""
    if path is None or is_made(dataset, path) or not Path(path).is_file():
        return None
    return _version(path, *stamp_file(Path(path)))


def vectors_version(dataset: Dataset, writes: bool) -> str | int:
    """The version of the user's model of vectors, or the last known one if the file is gone; for a
    model that is trained here, the number of documents (which the rule has as a parameter anyway).
    """
    kept = Path(dataset.folder, "contents", "vectors.json")
    known = read_json(kept, {"version": dataset.block["vectors"]["documents"]})
    found = file_version(dataset, dataset.block["vectors"].get("file"))
    if found not in (None, known["version"]) and writes:
        from bimix.outputs import write_json  # here only, as in `versions_of`

        write_json(kept, {"version": found})
    return found or known["version"]


@functools.cache
def _version(path: str, size: int, written: int, changed: int) -> str:
    """The digest of a file; its size and time if it is large, as a digest would delay each plan."""
    return digest_file(Path(path)) if size <= MOST_DIGESTED else f"{size} bytes of {written}"


def is_made(dataset: Dataset, path: str) -> bool:
    """Whether a file is remote or made by jobs, whose changes Snakemake notices."""
    return is_remote(path) or path.startswith(f"{dataset.folder}/")
