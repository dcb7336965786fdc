"""List the token files of all shards of a dataset, in which training and counting find their rows.

manifest of the shards, report.json of each -> an index per split (domain, path, rows, tokens,
documents, dtype, digest, records, ends), parquet
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from bimix.corpus.shards import read_shards
from bimix.digests import check
from bimix.errors import InputError, run
from bimix.judge.remarks import same_text, thin_text
from bimix.outputs import write_table

SCHEMA = {
    "domain": pl.String,
    "path": pl.String,
    "rows": pl.UInt64,
    "tokens": pl.UInt64,  # in rows, so rows x sequence length
    "documents": pl.UInt64,
    "dtype": pl.String,
    "digest": pl.String,  # of the rows: the index changes whenever they do, and what depends on it runs again
    "records": pl.UInt64,  # of the raw files, counted in the split that they begin in; documents are their pieces
    "ends": pl.UInt64,  # of them, held-out ends of documents whose beginnings train
}
COPIED = ("rows", "documents", "dtype", "digest", "records", "ends")
NAMED = 5  # raw files in a sentence
LOST = 0.05  # of a domain's tokens, in the ends of shards that fill no row


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder with train/{shard} and validation/{shard}")
    parser.add_argument("--shards", type=Path, required=True, help="manifest of the shards")
    parser.add_argument("--domains", nargs="+", required=True, help="domains with text in both splits; others in one")
    parser.add_argument("--weights", type=json.loads, default={}, help="{domain: weight in the objective}, JSON")
    parser.add_argument("--train", type=Path, required=True, help="index to write")
    parser.add_argument("--validation", type=Path, required=True, help="index to write")
    options = parser.parse_args(argv)

    with options.shards.open(encoding="utf-8") as lines:
        shards = read_shards(lines)
    only_measured = {shard.domain for shard in shards.values() if shard.domain} - set(options.domains)
    reports = {split: read_reports(options.folder / split, shards) for split in ("train", "validation")}
    indexes = {split: index_reports(found) for split, found in reports.items()}
    said = files_without_text(reports["train"])  # those of validation have the same account of raw files
    for split, index in indexes.items():
        sums = index.group_by("domain").agg(pl.sum("rows", "documents", "tokens", "dropped"), pl.len().alias("shards"))
        check_rows(sums, split, [*options.domains, *(sorted(only_measured) if split == "validation" else [])])
        for domain, _, _, tokens, dropped, count in sums.sort("domain").iter_rows():
            if count > 1 and dropped > LOST * (tokens + dropped):
                said.append(
                    f"{dropped / (tokens + dropped):.0%} of the {split} tokens of {domain} are dropped, as they fill no row"
                    f" at the ends of {count} shards: raise corpus.shard_megabytes or lower sequence_length."
                )
    tokens = dict(indexes["train"].group_by("domain").agg(pl.sum("tokens")).iter_rows())
    said += [*thin_text(indexes["validation"], tokens, options.weights), *same_text(indexes["train"])]
    trained = [report for path, report in reports["train"].items() if shards[path.name].split != "validation"]
    for remark in [*said, *copied_files(trained)]:
        print(f"Remark: {remark}", file=sys.stderr)
    for split, index in indexes.items():
        write_table(index.drop("dropped"), getattr(options, split))


def read_reports(folder: Path, shards: Iterable[str]) -> dict[Path, dict]:
    """{folder of a shard: its report} of one split. Errors: rows of several lengths."""
    reports, lengths = {}, {}
    for shard in shards:
        report = json.loads(check(folder / shard / "report.json").read_text(encoding="utf-8"))
        reports[folder / shard] = report
        lengths[report["sequence_length"]] = folder / shard
    if len(lengths) > 1:
        said = " and ".join(f"of {length} tokens in {path}" for length, path in sorted(lengths.items()))
        raise InputError(f"Rows have several lengths: {said}; delete the older folder and call Snakemake again.")
    return reports


def index_reports(reports: Mapping[Path, Mapping]) -> pl.DataFrame:
    """Index of one split, sorted by domain and path, and the tokens `dropped`."""
    entries = []
    for shard, report in reports.items():
        for domain, found in report["domains"].items():
            entry = {"domain": domain, "path": str(shard / f"{domain}.bin"), "tokens": found["tokens_in_rows"]}
            entry["dropped"] = found["dropped_tail"]
            entries.append(entry | {name: found[name] for name in COPIED})
    return pl.DataFrame(entries, schema=SCHEMA | {"dropped": pl.UInt64}).sort("domain", "path")


def files_without_text(reports: Mapping[Path, Mapping]) -> list[str]:
    """A sentence on raw files that gave no document, if there are any."""
    empty = [path for report in reports.values() for path in report.get("without_text", [])]
    if not empty:
        return []
    more = f" and {len(empty) - NAMED} more" if len(empty) > NAMED else ""
    return [f"raw files without any text: {', '.join(empty[:NAMED])}{more}; look whether they were fetched whole."]


def copied_files(reports: Iterable[Mapping]) -> list[str]:
    """A sentence on raw files of training text that hold the same bytes, if there are any."""
    paths: dict[str, set[str]] = {}
    for report in reports:
        for path, found in report.get("raw", {}).items():
            if found["bytes"]:
                paths.setdefault(found["digest"], set()).add(path)
    copied = [sorted(same) for same in paths.values() if len(same) > 1]
    if not copied:
        return []
    more = f" and {len(copied) - NAMED} more" if len(copied) > NAMED else ""
    pairs = ", ".join(" = ".join(same) for same in copied[:NAMED])
    return [f"raw files of the same bytes, whose text trains once for each name: {pairs}{more}; leave out the copies."]


def check_rows(sums: pl.DataFrame, split: str, domains: list[str]) -> None:
    """Refuse a split in which a domain has no row at all; `sums` are by domain."""
    found = {domain: (rows, documents) for domain, rows, documents, *_ in sums.iter_rows()}
    for domain in domains:
        rows, documents = found.get(domain, (0, 0))
        if not rows:
            raise InputError(
                f"Domain {domain!r} has no row of {split} text ({documents} documents); add files for it, check the label of"
                " its records (corpus.labels), hold out a larger share, set a smaller sequence_length or take it out of"
                " domains."
            )


if __name__ == "__main__":
    sys.exit(run(main))
