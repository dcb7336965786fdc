"""Whether raw files still hold what was tokenised: their bytes decide, whatever their times say.

Snakemake makes again what is older than its inputs. Text that comes with an old time of
modification it does not see. The report of a shard has the digest and the stamp of each raw file as
it was read. A file with the same stamp is the same; one with another (replaced, copied, moved to
another disk) is read and held against the digest. Other bytes are a version, which is a parameter
of the shard's job: a job whose parameters have changed runs again. Versions stay in
results/{dataset}/contents/{shard}.json, for parameters must not change back; so do the stamps of
files that were read, that each is read once.
"""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

from bimix.corpus.shards import Shard
from bimix.digests import digest_file, stamp_file
from bimix.plan.tasks import task_files

Versions = Callable[[Shard], list[str]]  # of the files of a shard; none where it was never tokenised otherwise


def versions(dataset: str, looks: bool, writes: bool) -> Versions:
    """The versions of shards.

    The call that plans `looks` at the files; its jobs take what it wrote.

    A call that runs nothing writes nothing.
    """

    said = []

    @functools.cache
    def find(shard: Shard) -> list[str]:
        path = Path("results", dataset, "contents", f"{shard.name}.json")
        known = read(path, {"versions": {}, "stamps": {}})
        if looks and look(dataset, shard, known, said) and writes:
            from bimix.outputs import write_json  # here only: it imports polars, for the fewest calls

            write_json(path, known)
        return sorted(known["versions"].values())

    return find


def look(dataset: str, shard: Shard, known: dict, said: list[str]) -> bool:
    """Bring what is `known` of a shard's files up to date: whether anything was new.

    Says once that it reads.
    """
    near = [path for path in shard.files if not is_made(dataset, path)]
    report = read(Path("results", dataset, "shards/train", shard.name, "report.json"), {}) if near else {}
    tokenised = report.get("raw", {})
    new = False
    for path in near:
        recorded = tokenised.get(str(Path(path)))
        if recorded is None or not Path(path).is_file():
            continue
        stamp = stamp_file(Path(path))
        if stamp in (recorded.get("stamp"), known["stamps"].get(path)):
            continue
        if not said:
            said.append(
                f"{path} was changed, copied or moved since it was tokenised; it is read, as are others like it."
            )
            print(said[0], file=sys.stderr, flush=True)
        digest = digest_file(Path(path))
        known["stamps"][path] = stamp
        if digest != recorded["digest"]:
            known["versions"][path] = digest
        new = True
    return new


def read(path: Path, otherwise: dict) -> dict:
    """The JSON in a file; `otherwise` where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return otherwise


def tokenizer_version(config: dict, dataset: str) -> str | None:
    """The digest of the tokenizer's file; None where it comes from elsewhere."""
    return file_version(dataset, config["datasets"][dataset]["tokenizer"].get("file"))


def task_versions(config: dict, dataset: str) -> list[str | None]:
    """The digests of the task files that lie on a disk; None stands for others."""
    places = task_files(config, dataset).values()
    return [file_version(dataset, place[key]) for place in places for key in ("items", "shots")]


def file_version(dataset: str, path: str | dict | None) -> str | None:
    """The digest of a small file on a disk; None: not there, made by a job, or far away.

    A file of the hub is a dict.
    """
    if not isinstance(path, str) or is_made(dataset, path) or not Path(path).is_file():
        return None
    return digest_file(Path(path))


def is_made(dataset: str, path: str) -> bool:
    """Whether a file is far away or made by jobs, so that Snakemake knows when."""
    return "://" in path or path.startswith(f"results/{dataset}/")
