"""Whether raw files, tokens, n-gram counts and entropies follow from one another."""

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer

from bimix.corpus.counts import add_up
from bimix.corpus.estimators import entropy_table
from bimix.corpus.shards import read_shards
from bimix.digests import check, digest_file
from bimix.errors import InputError
from bimix.results.verify_files import Findings
from bimix.tables import read_json
from bimix.training.rows import check_shard

INDEX = dict.fromkeys(("domain", "path"), pl.String) | dict.fromkeys(("rows", "tokens", "documents"), pl.UInt64)
INDEX |= dict.fromkeys(("dtype", "digest"), pl.String)
REPORTED = {"rows": "rows", "documents": "documents", "dtype": "dtype", "digest": "digest", "tokens": "tokens_in_rows"}
KINDS = {"unigrams": ["token"], "bigrams": ["first", "second"]}
MERGED = {"unigrams": "unigrams", "bigrams": "counts"}  # the folder of a kind's sums over the shards
ENTROPY_TOLERANCE = 1e-9  # relative, of entropies that are measured again


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
    """Compare the indices with the reports of the shards, and all token files and raw files with
    their digests.
    """
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
    """Compare every line of a token index with the report of its shard, and find every shard in
    it.
    """
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
    """Compare the raw files with what was tokenised: other text under an old time of modification
    is another corpus.
    """
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


def check_counts(folder: Path, indices: dict[str, pl.DataFrame], found: Findings) -> None:
    """Compare counts with the rows that they are of, their sums with those of the shards, and the
    entropies with those of the sums.
    """
    for split, index in indices.items():
        for domain, path, rows, tokens in index.select("domain", "path", "rows", "tokens").iter_rows():
            for kind in KINDS if rows else ():
                table = counts_of(path, kind)
                if not table.is_file():
                    found.unchecked.append(f"{table} is not there: the {kind} of {domain}, {split}.")
                    continue
                with found.noting(table, "counts of shards against their rows"):
                    check_sum(table, kind, rows, tokens, found)
    train = indices["train"].filter(pl.col("rows") > 0)
    domains = train["domain"].unique(maintain_order=True).to_list()
    sound = [domain for domain in domains if check_merged(folder, domain, train, found)]
    if (folder / "entropy.csv").is_file():
        with found.noting(folder / "entropy.csv"):
            check_entropy(folder, sound, found)


def counts_of(rows: str, kind: str) -> Path:
    """The counts of a file of rows."""
    return Path(f"{rows.removesuffix('.bin')}.{kind}.parquet")


def check_sum(table: Path, kind: str, rows: int, tokens: int, found: Findings) -> None:
    """Tokens sum to those of the rows. Pairs do not cross rows: each row has one less than
    tokens.
    """
    expected = tokens if kind == "unigrams" else tokens - rows
    if table in found.unreadable:
        raise InputError(found.unreadable[table])
    total = pl.scan_parquet(check(table), glob=False).select(pl.sum("n")).collect().item()
    found.expect(total == expected, f"{table} counts {total:,} {kind}, but its rows hold {expected:,}.")


def check_merged(folder: Path, domain: str, train: pl.DataFrame, found: Findings) -> bool:
    """Whether the counts of a domain are there, and are the sums of those of its shards."""
    before = len(found.faults)
    own = train.filter(pl.col("domain") == domain)
    for kind, keys in KINDS.items():
        table = folder / MERGED[kind] / f"{domain}.parquet"
        if not table.is_file():
            found.unchecked.append(f"{table} is not there: the {kind} of {domain}.")
            return False
        with found.noting(table):
            check_sum(table, kind, own["rows"].sum(), own["tokens"].sum(), found)
            parts = [counts_of(path, kind) for path in own["path"]]
            if not all(part.is_file() for part in parts):  # listed above
                continue
            merged, start, same = pl.scan_parquet(check(table), glob=False).select(*keys, "n"), 0, True
            for piece in add_up([pl.scan_parquet(check(part), glob=False) for part in parts], keys):
                same = same and merged.slice(start, len(piece)).collect().equals(piece)
                start += len(piece)
            same = same and merged.select(pl.len()).collect().item() == start
            found.expect(same, f"{table} does not hold the sums of the {kind} of its {len(parts)} shards.", *parts)
            found.checked["counts of domains against those of their shards"] += 1
    return len(found.faults) == before


def check_entropy(folder: Path, domains: list[str], found: Findings) -> None:
    """Measure the entropies again of the domains whose counts are sound."""
    path = folder / "entropy.csv"
    written = found.read(path)
    for domain in written["domain"].unique(maintain_order=True):
        own = written.filter(pl.col("domain") == domain)
        if domain not in domains:
            found.unchecked.append(f"{path}: the entropies of {domain}, whose counts are not there or not sound.")
            continue
        vectors = folder / "vectors" / f"{domain}.npz"
        tables = [folder / MERGED[kind] / f"{domain}.parquet" for kind in KINDS]
        with found.noting(path, "domains whose entropies were measured again"):
            again = entropy_table([domain], *([table] for table in tables), [vectors] if vectors.is_file() else [])
            wanted = own["measure"].to_list()
            if "VNE" in wanted and not vectors.is_file():
                found.unchecked.append(f"{vectors} is not there: the VNE of {domain}.")
                own = own.filter(pl.col("measure") != "VNE")
            again = again.filter(pl.col("measure").is_in(wanted))
            same = own["measure"].equals(again["measure"]) and own.columns == again.columns
            for name in again.columns[2:] if same else ():
                numbers = (table[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for table in (own, again))
                same = same and np.allclose(*numbers, rtol=ENTROPY_TOLERANCE, atol=0, equal_nan=True)
            found.expect(same, f"{path}: the entropies of {domain} are not those of its counts.", *tables)
