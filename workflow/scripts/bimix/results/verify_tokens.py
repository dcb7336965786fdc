"""Whether raw files, tokens and their indices follow from one another."""

from collections import Counter
from functools import partial
from pathlib import Path

import polars as pl
from tokenizers import Tokenizer

from bimix.corpus.shards import read_shards
from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.results.verify_files import Findings
from bimix.tables import read_json
from bimix.training.rows import check_shard

INDEX = dict.fromkeys(("domain", "path"), pl.String) | dict.fromkeys(("rows", "tokens", "documents"), pl.UInt64)
INDEX |= dict.fromkeys(("dtype", "digest"), pl.String)
REPORTED = {"rows": "rows", "documents": "documents", "dtype": "dtype", "digest": "digest", "tokens": "tokens_in_rows"}


def read_indices(folder: Path, found: Findings) -> dict[str, pl.DataFrame] | None:
    """{split: token index} of a dataset; None where it has none, or one is damaged."""
    indices = {}
    for split in ("train", "validation"):
        path = folder / "tokens" / f"{split}.parquet"
        if not path.is_file():
            found.unchecked.append(f"{path} is not there: the tokens.")
            return None
        with found.noting(path):
            indices[split] = found.read(path)
            if not INDEX.items() <= dict(indices[split].schema).items():
                raise InputError(f"{path} is no token index: its columns are {dict(indices.pop(split).schema)}.")
    return indices if len(indices) == 2 else None


def read_manifest(path: Path) -> dict:
    """The shards by name."""
    with path.open(encoding="utf-8") as lines:
        try:
            return read_shards(lines)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no manifest of shards ({error}).") from error


def check_tokens(folder: Path, indices: dict[str, pl.DataFrame], found: Findings) -> None:
    """Compare indices with the shards' reports, token and raw files with their digests."""
    try:
        vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    except Exception as error:  # the library raises nothing narrower
        found.fault(f"{folder / 'tokenizer.json'} is no tokenizer ({error}).", folder / "tokenizer.json")
        return
    manifest = folder / "shards.jsonl"
    if manifest.is_file():
        with found.noting(manifest):
            shards = read_manifest(manifest)
            for split, index in indices.items():
                check_index(folder, split, index, list(shards), found)
            check_raw(folder, shards, found)
    else:
        found.unchecked.append(f"{manifest} is not there: the token index against its shards' reports, and raw files.")
    for index in indices.values():
        columns = index.filter(pl.col("rows") > 0).select("path", "dtype", "rows", "tokens", "digest").rows()
        checks = {Path(row[0]): partial(check_shard, *row, vocabulary) for row in columns}
        found.compare(checks, "files of tokens against their digests")


def check_index(folder: Path, split: str, index: pl.DataFrame, shards: list[str], found: Findings) -> None:
    """Compare a token index with its shards' reports, line by line."""
    listed = {row["path"]: row for row in index.iter_rows(named=True)}
    table = folder / "tokens" / f"{split}.parquet"
    for shard in shards:
        own = folder / "shards" / split / shard
        with found.noting(own / "report.json"):
            for domain, report in read_json(own / "report.json").get("domains", {}).items():
                row = listed.pop(str(own / f"{domain}.bin"), {})
                same = all(report.get(key) == row.get(name) for name, key in REPORTED.items())
                found.expect(same, f"{own / 'report.json'}: {domain} is not as tokens/{split}.parquet lists it.", table)
                found.checked["lines of the token index against the reports of shards"] += 1
    for path in listed:
        found.fault(f"tokens/{split}.parquet lists {path}, which no shard of shards.jsonl has made.", table)


def check_raw(folder: Path, shards: dict, found: Findings) -> None:
    """Compare raw files with what was tokenised: other text under an old time differs."""
    left = Counter()
    for shard in shards.values():
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
