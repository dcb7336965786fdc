"""The shards that the raw files of a corpus are put together into.

All functions take the checked and completed config, or a dataset's shards by name. Paths are
relative to the folder of `results`.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bimix.addresses import masked
from bimix.corpus.shards import Shard, group_files, longest_of, read_shards, write_shards
from bimix.errors import InputError
from bimix.plan.contents import Versions
from bimix.plan.raw import is_remote, raw_files, shard_bytes

# The settings that decide the text of a corpus's documents.
READING = ("formats", "text_field", "document_megabytes", "cut_characters", "rejects")

SMALL_SHARD = 32 * 10**6  # bytes of raw files; the start of a job of fewer takes as long as its encoding

Shards = Mapping[str, Shard]


def validation_kind(config: dict, dataset: str) -> str:
    """How validation documents are found: share (by hash), tokens (so many are drawn), files."""
    validation = config["datasets"][dataset]["corpus"]["validation"]
    # A dict of paths may have a domain called share or tokens.
    given = validation if isinstance(validation, dict) else {}
    kinds = (kind for kind in ("tokens", "share") if isinstance(given.get(kind), (int, float)))
    return next(kinds, "files")


def split_patterns(config: dict, dataset: str) -> dict[str, dict[str | None, str | list[str]]]:
    """{split: {domain: paths and globs}}; the domain is None where each record names its own.

    Validation has domains of its own, too, on which nothing trains.
    """
    block = config["datasets"][dataset]
    corpus, kind = block["corpus"], validation_kind(config, dataset)
    harvested = {domain: f"results/{dataset}/corpus/{domain}.jsonl" for domain in corpus.get("harvest", {})}
    train, validation = harvested or corpus["train"], corpus["validation"]
    if kind == "share":
        validation = {}
    elif kind == "tokens":
        validation = {domain: f"results/{dataset}/held_out/{domain}.jsonl" for domain in block["domains"]}
    splits = {
        split: source if isinstance(source, dict) else {None: source}
        for split, source in (("train", train), ("validation", validation))
    }
    return splits | {"validation": splits["validation"] | corpus.get("validation_only", {})}


def only_measured(config: dict, dataset: str) -> list[str]:
    """Domains whose loss is measured and on which nothing trains."""
    return sorted(config["datasets"][dataset]["corpus"].get("validation_only", {}))


def count_measured(config: dict, dataset: str) -> int:
    """How many domains a run measures the losses of."""
    return len(config["datasets"][dataset]["domains"]) + len(only_measured(config, dataset))


def plan_shards(config: dict, dataset: str) -> dict[str, Shard]:
    """All shards of a dataset by name, in the order of their domains.

    Errors: two that share a name; as of `raw_files`.
    """
    by_hash = validation_kind(config, dataset) == "share"
    planned: dict[str, Shard] = {}
    for split, source in split_patterns(config, dataset).items():
        for domain, patterns in sorted(source.items(), key=lambda entry: entry[0] or ""):
            files = raw_files(config, dataset, split, patterns)
            for name, paths in group_files(files, shard_bytes(config, dataset)):
                name = ".".join([*(["validation"] if split == "validation" else []), *filter(None, [domain]), name])
                if name in planned:
                    raise InputError(
                        f"config: datasets/{dataset}/corpus/{split}: {paths[-1]!r} and"
                        f" {planned[name].files[-1]!r} share a name."
                    )
                planned[name] = Shard(name, "hash" if by_hash and split == "train" else split, domain, paths)
    return planned


def open_shards(config: dict, dataset: str, planning: bool, runs_jobs: bool) -> dict[str, Shard]:
    """Shards of a dataset by name, as its manifest lists them.

    The manifest is written by the call that plans what it will run. So all shards are known before
    the first job runs, and no command line has to hold their names. Jobs on other machines read it,
    instead of asking for 10,000 files each. A call that runs nothing (-n, --dag) leaves it alone:
    jobs of another call may be reading it. Errors: as of `plan_shards`.
    """
    manifest = Path("results", dataset, "shards.jsonl")
    written = manifest.read_text(encoding="utf-8") if manifest.exists() else ""
    if written and not planning:
        return read_shards(written.splitlines())
    shards = plan_shards(config, dataset)
    planned = write_shards(shards.values())
    if planned != written and runs_jobs:
        manifest.parent.mkdir(parents=True, exist_ok=True)
        temporary = manifest.with_name(f".shards.{os.getpid()}.partial")
        # jobs need addresses as they are; those with secrets are for their owner alone
        temporary.touch(mode=0o666 if masked(planned) == planned else 0o600)
        temporary.write_text(planned, encoding="utf-8")
        os.replace(temporary, manifest)
    return shards


def files_of(shards: Iterable[Shard]) -> list[str]:
    """The raw files of shards, those far away included."""
    return [path for shard in shards for path in shard.files]


def training_files(shards: Shards) -> list[str]:
    """All files that training documents come from."""
    return files_of(shard for shard in shards.values() if shard.split != "validation")


def validation_files(shards: Shards) -> list[str]:
    """All files of validation documents."""
    return files_of(shard for shard in shards.values() if shard.split == "validation")


def local_files(dataset: str, paths: Iterable[str]) -> list[str]:
    """Inputs that stand for raw files.

    Those far away are none, drawn validation files are one folder.
    """
    drawn = Path("results", dataset, "held_out")
    near = (path for path in paths if not is_remote(path))
    return list(dict.fromkeys(str(drawn) if Path(path).parent == drawn else path for path in near))


def training_inputs(dataset: str, shards: Shards) -> list[str]:
    """Inputs of a job that reads all training documents."""
    return local_files(dataset, training_files(shards))


def validation_inputs(dataset: str, shards: Shards) -> list[str]:
    """Inputs of a job that reads all validation documents."""
    return local_files(dataset, validation_files(shards))


def shard_inputs(dataset: str, shards: Shards, shard: str) -> list[str]:
    """Inputs of the job that reads one shard."""
    return local_files(dataset, shards[shard].files)


def shard_hashes(config: dict, dataset: str, shards: Shards, shard: str) -> list[str]:
    """Hashes of the documents that a shard of training files must leave out; none where validation
    has no files.

    From the config, not from all shards: it is called for each of them.
    """
    has_files = validation_kind(config, dataset) != "share" or only_measured(config, dataset)
    trains = shards[shard].split != "validation"
    return [f"results/{dataset}/held_out.hashes"] if trains and has_files else []


def tokenizer_hashes(config: dict, dataset: str) -> list[str]:
    """Hashes that the tokenizer must leave out; drawn documents are of a share it does not read."""
    published = validation_kind(config, dataset) == "files" or only_measured(config, dataset)
    return [f"results/{dataset}/held_out.hashes"] if published else []


def shard_settings(shards: Shards, versions: Versions, shard: str) -> list[str | None]:
    """What decides the content of a shard besides its local files, and versions of those."""
    chosen = shards[shard]
    far = list(filter(is_remote, chosen.files))
    # Snakemake keeps and prints parameters: a digest stands for what is hidden
    own = [digest(far)] if any(masked(path) != path for path in far) else []
    return [chosen.split, chosen.domain, *map(masked, far), *own, *versions(chosen)]


def shard_threads(config: dict, dataset: str, shards: Shards, shard: str) -> int:
    """Threads of the job that reads one shard: 1 for few bytes, so that small shards run side by
    side; 2 where they are many or unknown before the job, as those far away are.

    Text that is harvested has at most the megabytes that the config says.
    """
    chosen = shards[shard]
    harvested = config["datasets"][dataset]["corpus"].get("harvest", {})
    if chosen.domain in harvested:
        return 1 if harvested[chosen.domain]["megabytes"] * 10**6 < SMALL_SHARD else 2
    if not all(os.path.isfile(path) for path in chosen.files):
        return 2
    return 1 if sum(os.path.getsize(path) for path in chosen.files) < SMALL_SHARD else 2


def shard_domains(config: dict, dataset: str, shards: Shards, shard: str) -> list[str]:
    """Domains that the files of a shard may hold."""
    domain = shards[shard].domain
    return [domain] if domain else config["datasets"][dataset]["domains"]


def longest_held_out(config: dict, dataset: str, shards: Shards, shard: str) -> int:
    """The longest document of a shard that is held out whole; 1 where all of its files are."""
    chosen = shards[shard]
    lengths = config["datasets"][dataset]["corpus"]["held_out_characters"]
    return 1 if chosen.split == "validation" else longest_of(lengths, chosen.domain)


def digest(names: Iterable[str]) -> str:
    """Stands for a long list as a parameter: a job that has it runs again when the list changes."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def training_digest(shards: Shards, versions: Versions) -> str:
    """The digest of all files of training documents, and of their versions."""
    chosen = [shard for shard in shards.values() if shard.split != "validation"]
    return digest([*files_of(chosen), *versions_of(chosen, versions)])


def validation_digest(shards: Shards, versions: Versions) -> str:
    """The digest of all files of validation documents, and of their versions."""
    chosen = [shard for shard in shards.values() if shard.split == "validation"]
    return digest([*files_of(chosen), *versions_of(chosen, versions)])


def versions_of(shards: Iterable[Shard], versions: Versions) -> list[str]:
    """The versions of the files of shards, one shard after the other."""
    return [version for shard in shards for version in versions(shard)]


def shard_names(shards: Shards) -> list[str]:
    """The names of all shards."""
    return list(shards)


def names_digest(shards: Shards) -> str:
    """The digest of these names."""
    return digest(shards)


def reading(config: dict, dataset: str) -> dict:
    """Settings of a corpus that decide the text of its documents: fields of `reading.Reading`."""
    corpus = config["datasets"][dataset]["corpus"]
    return {key: corpus[key] for key in READING}


def vector_moments(config: dict, dataset: str) -> list[str]:
    """Second moments of the document vectors of all domains; none where the dataset has no
    vectors.
    """
    block = config["datasets"][dataset]
    return [f"results/{dataset}/vectors/{domain}.npz" for domain in block["domains"]] if "vectors" in block else []


def vectors_model(config: dict, dataset: str) -> str:
    """The FastText model of a dataset: the file that the config names, else one of its own."""
    return config["datasets"][dataset]["vectors"].get("file", f"results/{dataset}/vectors/model.bin")
