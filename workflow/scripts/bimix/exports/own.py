"""The data of a dataset of the workflow's own, as an export wants it: its raw files, or its rows of
tokens.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bimix.corpus.shards import Shard
from bimix.errors import InputError

FILES = ("raw", "rows")


def raw_data(shards: Mapping[str, Shard], train: pl.DataFrame, validation: pl.DataFrame) -> dict:
    """data.json of raw files, which share their domain's tokens by their bytes.

    `train`, `validation`: the token indices, with the columns domain, path, tokens, records. A
    document of a raw file is a record, whatever is held out of it and however it is cut.
    Errors: a shard whose records name their own domains.
    """
    counts = _counts(train, "records")
    domains = {name: {"train": [], "validation": [], "unit": "bytes"} for name in counts}
    for shard in shards.values():
        if shard.domain is None:
            raise InputError(
                f"{shard.files[0]} has several domains, for its records name theirs: no consumer can weigh them; name data"
                " of your own by the dataset's key `export`."
            )
        if shard.domain in domains:
            split = "validation" if shard.split == "validation" else "train"
            domains[shard.domain][split] += [_file(path) for path in shard.files]
    # what was held out of the same raw files, not files of validation
    own = [shards[Path(path).parent.name].split != "validation" for path in validation["path"]]
    whole = _counts(pl.concat([train, validation.filter(pl.Series(own, dtype=pl.Boolean))]), "records")
    for name, (tokens, records) in whole.items():
        if name in domains:
            domains[name] |= {"unique_tokens": counts[name][0], "tokens_per_document": tokens / records}
    return {"records": "documents", "domains": domains}


def rows_data(train: pl.DataFrame, validation: pl.DataFrame) -> dict:
    """data.json of the tokenised files: flat ids, as OLMo-core reads them.

    Both tables have the columns domain, path, rows, tokens, documents.
    """
    domains = {}
    for name, (tokens, documents) in _counts(train, "documents").items():
        splits = {
            split: [
                {"path": path, "size": size}
                for path, size in table.filter(pl.col("domain") == name, pl.col("tokens") > 0)
                .select("path", "tokens")
                .iter_rows()
            ]
            for split, table in (("train", train), ("validation", validation))
        }
        domains[name] = splits | {"unit": "tokens", "tokens_per_document": tokens / documents}
    row = train["tokens"].sum() // train["rows"].sum()
    return {"sequence_length": row, "records": "samples", "domains": domains}


def _counts(index: pl.DataFrame, unit: str) -> dict[str, tuple[int, int]]:
    """{domain: (tokens, records or documents)} of the domains that have tokens."""
    table = index.group_by("domain").agg(pl.col("tokens", unit).sum()).sort("domain")
    return {name: (tokens, count) for name, tokens, count in table.iter_rows() if tokens}


def _file(path: str) -> dict:
    """A file with its bytes; one far away has none."""
    return {"path": path} if "://" in path else {"path": path, "size": os.path.getsize(path)}
