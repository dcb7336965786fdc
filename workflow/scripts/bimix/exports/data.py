"""data.json: the files or prefixes of each domain that a training run reads, with their sizes.

docs/export.md describes it with an example. For a dataset of the workflow it is made from the raw
files or from the token rows.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
from pydantic import AfterValidator, Field, model_validator

from bimix.blocks import Block, Faults, checked
from bimix.corpus.shards import Shard
from bimix.errors import InputError

Amount = Annotated[float, Field(gt=0), AfterValidator(lambda value: int(value) if value == int(value) else value)]


class File(Block):
    """A file, folder or prefix under the consumer's name; `size` in the unit of its domain."""

    path: str = Field(min_length=1, pattern=r"^[^\x00-\x1f]*$")
    size: Amount | None = None

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, entry: object) -> object:
        return {"path": entry} if isinstance(entry, str) else entry


class Domain(Block):
    """The files of a domain and how much text they hold; bytes only divide a weight among them."""

    train: list[File] = Field(min_length=1)
    validation: list[File] = Field(default=[])
    unit: Literal["tokens", "samples", "documents", "bytes"] = "tokens"
    tokens_per_document: Amount | None = None
    unique_tokens: Amount | None = None


class Document(Block):
    """data.json. A record is a document or a sample of `sequence_length` tokens."""

    domains: dict[str, Domain] = Field(min_length=1)
    sequence_length: Annotated[Amount, Field(multiple_of=1)] | None = None
    records: Literal["documents", "samples"] | None = None

    def faults(self) -> Faults:
        """Refuse a path that is there twice."""
        seen: dict[str, str] = {}
        for name, domain in self.domains.items():
            for file in (*domain.train, *domain.validation):
                if file.path in seen:
                    yield "domains", f"{file.path!r} is there twice, of {seen[file.path]!r} and of {name!r}."
                seen[file.path] = name


class Data(Document):
    """The domains; `name` is that of the file, for messages."""

    name: str

    @property
    def validation(self) -> list[str]:
        """The validation files of all domains, whatever their weights."""
        return [file.path for domain in self.domains.values() for file in domain.validation]

    def pool(self, name: str) -> float | None:
        """Unique tokens of a domain, as stated or from its sizes; None if neither is known."""
        domain = self.domains[name]
        if domain.unique_tokens is not None:
            return domain.unique_tokens
        sizes = [file.size for file in domain.train]
        per_unit = {"tokens": 1.0, "samples": self.sequence_length, "documents": domain.tokens_per_document}
        each = per_unit.get(domain.unit)
        return None if None in sizes or each is None else math.fsum(sizes) * each


def as_data(content: Mapping, name: str) -> Data:
    """The checked content of data.json. Errors: all wrong values, with their keys."""
    return Data(name=name, **checked(Document, content, name))


def raw_data(shards: Mapping[str, Shard], train: pl.DataFrame, validation: pl.DataFrame) -> dict:
    """data.json of raw files, among which a domain's tokens are divided by bytes.

    `train`, `validation`: the token indices, with the columns domain, path, tokens, records. A
    record is a document of a raw file, even if a part of it is held out or it is cut. Errors: a
    shard whose records name their own domains.
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
            # a remote file has no known size
            domains[shard.domain][split] += [
                {"path": path} if "://" in path else {"path": path, "size": os.path.getsize(path)}
                for path in shard.files
            ]
    # what was held out of the same raw files, not files of validation
    own = [shards[Path(path).parent.name].split != "validation" for path in validation["path"]]
    whole = _counts(pl.concat([train, validation.filter(pl.Series(own, dtype=pl.Boolean))]), "records")
    for name, (tokens, records) in whole.items():
        if name in domains:
            domains[name] |= {"unique_tokens": counts[name][0], "tokens_per_document": tokens / records}
    return {"records": "documents", "domains": domains}


def rows_data(train: pl.DataFrame, validation: pl.DataFrame) -> dict:
    """data.json of tokenised files, from tables of domain, path, rows, tokens, documents."""
    domains = {}
    for name, (tokens, documents) in _counts(train, "documents").items():
        splits = {
            split: table.filter(pl.col("domain") == name, pl.col("tokens") > 0).select("path", size="tokens").to_dicts()
            for split, table in (("train", train), ("validation", validation))
        }
        domains[name] = splits | {"unit": "tokens", "tokens_per_document": tokens / documents}
    row = train["tokens"].sum() // train["rows"].sum()
    return {"sequence_length": row, "records": "samples", "domains": domains}


def _counts(index: pl.DataFrame, unit: str) -> dict[str, tuple[int, int]]:
    """{domain: (tokens, records or documents)} of the domains that have tokens."""
    table = index.group_by("domain").agg(pl.col("tokens", unit).sum()).sort("domain")
    return {name: (tokens, count) for name, tokens, count in table.iter_rows() if tokens}
