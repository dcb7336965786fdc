"""Files of tokens that datatrove 0.10.1 wrote (datatrove/words.ds, by DocumentTokenizer) give the rows, counts
and samples of the texts that it read.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
from refusals import refused
from tokenised import call, list_shard, reading, tokenize, train, write_records

import hash_validation
from bimix.corpus.documents import hash_text, is_within
from bimix.corpus.files import raw_files, unknown_endings
from bimix.corpus.sources import read_tokens

WRITTEN = Path(__file__).parent / "datatrove/words.ds"
TEXTS = [f"The {word} of {word}s;\n    return {number}  # 日本 é" for number, word in enumerate("abcdef" * 5)]
READING = reading(formats={".jsonl": "lines", ".ds": "tokens"})
ONE_DOMAIN = {"domains": "c", "domain-field": "null", "labels": "{}", "reading": READING}


def documents(path: Path) -> list[np.ndarray]:
    return [ids for _, ids in read_tokens(str(path), [], 10**6)]


def write_ids(path: Path, texts: list[list[int]], dtype: str) -> Path:
    np.concatenate(texts).astype(dtype).tofile(path)
    np.cumsum([len(ids) for ids in texts]).astype("<u8").tofile(f"{path}.index")
    return path


def test_tokens_become_what_their_texts_become(tmp_path: Path, tokenizer: Path) -> None:
    raw = write_records(tmp_path / "raw.jsonl", [{"text": text} for text in TEXTS])
    settings = ONE_DOMAIN | {"sample-documents": "30", "split": "train"}
    wide = write_ids(tmp_path / "wide.ds", documents(WRITTEN), "<u4")
    reports = {file: tokenize(tmp_path / file.stem, [file], tokenizer, **settings) for file in (raw, WRITTEN, wide)}
    domains = [report["train"]["domains"]["c"] for report in reports.values()]
    assert domains[0] == domains[1] == domains[2] and domains[0]["documents"] == len(TEXTS)
    folders = [tmp_path / file.stem / "train/s" for file in reports]
    for folder in folders[1:]:
        assert (folder / "c.bin").read_bytes() == (folders[0] / "c.bin").read_bytes()
        for name in ("c.unigrams.parquet", "c.bigrams.parquet"):
            assert pl.read_parquet(folder / name).equals(pl.read_parquet(folders[0] / name))
        sample = [json.loads(line)["text"] for line in (folder / "c.sample.jsonl").read_text().splitlines()]
        assert sorted(sample) == sorted(TEXTS)


def test_documents_of_tokens_are_held_out_whole_by_share_or_by_files(tmp_path: Path, tokenizer: Path) -> None:
    keys = [hash_text(ids[:-1]) for ids in documents(WRITTEN)]
    held = [is_within(key[:8], 0.3) for key in keys]
    reports = tokenize(tmp_path, [WRITTEN], tokenizer, **ONE_DOMAIN, **{"held-out-characters": "1"})
    found = {split: report["domains"]["c"]["documents"] for split, report in reports.items()}
    assert found == {"train": held.count(False), "validation": held.count(True)} and 0 < sum(held) < len(held)

    few = write_ids(tmp_path / "few.ds", documents(WRITTEN)[3:9], "<u4")
    manifest = list_shard(tmp_path, [few], "validation", "c")
    call(hash_validation, shards=manifest, reading=READING, out=tmp_path / "hashes")
    settings = ONE_DOMAIN | {"split": "train", "held-out": [str(tmp_path / "hashes")]}
    report = tokenize(tmp_path, [WRITTEN], tokenizer, **settings)["train"]
    assert (report["in_validation"], report["domains"]["c"]["documents"]) == (6, len(TEXTS) - 6)


def test_tokens_that_cannot_be_meant_are_refused(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "a.ds"
    write_ids(path, [[5, 1], [300, 0]], "<u2")
    for texts, words in (
        ([[5, 0], [6, 1]], r"a\.ds:2: the document ends with the id 1 .* the end of text is 0 of 300 ids"),
        ([[300, 0]], r"a\.ds:1: .* holds 300, but"),
    ):
        write_ids(path, texts, "<u2")
        refused(words, tokenize, tmp_path, [path], tokenizer, **ONE_DOMAIN)
    refused(r"a\.ds:1: files of tokens have no fields", tokenize, tmp_path, [path], tokenizer, reading=READING)
    manifest = list_shard(tmp_path, [path], "hash", "c").rename(tmp_path / "tokens.jsonl")
    refused(r"a\.ds holds tokens: name the tok", train, tmp_path, [], reading=READING, shards=str(manifest))
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    refused("holds 7 bytes, and its index ends with the id 2", documents, path)
    Path(f"{path}.index").unlink()
    refused(r"a\.ds\.index cannot be read", documents, path)
    refused("are read from a disk", documents, "s3://bucket/a.ds")
    assert [len(ids) for ids in documents(write_ids(path, [[]], "<u2"))] == [0]


def test_a_folder_of_tokens_is_its_token_files(tmp_path: Path) -> None:
    for name in ("words.ds", "words.ds.index"):
        (tmp_path / "in/deep").mkdir(parents=True, exist_ok=True)
        shutil.copy(WRITTEN.with_name(name), tmp_path / "in/deep" / name)
    (tmp_path / "in/deep/words.ds.metadata").write_text("tokenizer|2\n")
    (tmp_path / "in/.hidden").touch()
    words = str(tmp_path / "in/deep/words.ds")
    for pattern in (f"{tmp_path}/in", f"{tmp_path}/in/", f"{tmp_path}/in/*/*"):
        assert list(raw_files(pattern, 1, "train")) == [("deep.words.ds", words, WRITTEN.stat().st_size)]
    assert '".ds": tokens' in unknown_endings({}, [words])
