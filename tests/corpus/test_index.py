"""The index of tokens: the rows of all shards, by domain; a domain without any is an error."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tokenised import call, tokenize, write_records

import index_tokens
from bimix.errors import InputError


def build_index(folder: Path, domains: list[str]) -> None:
    indices = {split: folder / f"{split}.parquet" for split in ("train", "validation")}
    call(index_tokens, folder=folder, shards=folder / "shards.jsonl", domains=domains, **indices)


def test_index_lists_the_rows(tmp_path, tokenizer):
    records = [{"text": f"text {number} " * 9, "meta": {"set": name}} for number in range(60) for name in "bc"]
    records = [record | {"meta": {"set": record["meta"]["set"].replace("b", "b.v2")}} for record in records]
    reports = tokenize(tmp_path, [write_records(tmp_path / "raw.jsonl", records)], tokenizer)
    build_index(tmp_path, ["b.v2", "c"])
    for split, report in reports.items():
        index = pl.read_parquet(tmp_path / f"{split}.parquet")
        assert index["domain"].to_list() == ["b.v2", "c"]
        for domain, path, rows, tokens, documents, dtype, digest, *raw in index.iter_rows():
            found = report["domains"][domain]
            assert (rows, documents, digest) == (found["rows"], found["documents"], found["digest"])
            assert raw == [found["records"], found["ends"]]
            assert np.fromfile(path, dtype).size == tokens == found["tokens_in_rows"]


def test_domain_without_rows_is_told(tmp_path, tokenizer):
    records = [{"text": f"document {number}", "meta": {"set": "c"}} for number in range(20)]
    file = write_records(tmp_path / "raw.jsonl", records)
    tokenize(tmp_path, [file], tokenizer, split="train")
    with pytest.raises(InputError, match="Domain 'c' has no validation text"):
        build_index(tmp_path, ["c"])
    with pytest.raises(InputError, match=r"Domain 'Gutenberg \(PG-19\)' has no train text"):
        build_index(tmp_path, ["Gutenberg (PG-19)", "c"])
    tokenize(tmp_path, [file], tokenizer, **{"validation-share": "0.2", "sequence-length": "100"})
    with pytest.raises(InputError, match=r"The \d validation documents of domain 'c' do not fill one row"):
        build_index(tmp_path, ["c"])
