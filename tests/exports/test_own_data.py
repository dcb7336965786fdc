"""The data of a dataset of the workflow: raw files or rows, and what consumers read of them."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import consumers
import numpy as np
import polars as pl
import pytest
from refusals import refused
from tokenised import flags, reading, words

import describe_data
import export_mixture
import index_tokens
import tokenize_shard
from bimix.corpus.shards import Shard, write_shards
from bimix.exports.formats import FORMATS

LENGTH = 16
WORDS = 4000
COLUMNS = ["domain", "path", "rows", "tokens", "documents", "records"]
INDEX = {
    "train": [
        ("web", "train/web.b/web.bin", 10, 160, 80, 40),
        ("web", "train/web.d/web.bin", 5, 80, 40, 10),
        ("code", "train/code.c/code.bin", 5, 80, 20, 2),
    ],
    # a share of the text of web.b, and a file of its own
    "validation": [
        ("web", "validation/web.b/web.bin", 10, 160, 80, 30),
        ("web", "validation/validation.web.v/web.bin", 100, 1600, 3, 3),
        ("code", "validation/code.c/code.bin", 0, 0, 0, 0),
    ],
}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two token indices and a manifest of five raw files, one of them far away."""
    for split, rows in INDEX.items():
        pl.DataFrame(rows, COLUMNS, orient="row").write_parquet(tmp_path / f"{split}.parquet")
    for name, size in (("a.jsonl", 200), ("b.jsonl", 100), ("d.jsonl", 100), ("v.jsonl", 10)):
        (tmp_path / name).write_bytes(b"x" * size)
    shards = [
        Shard("web.b", "hash", "web", (str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))),
        Shard("web.d", "train", "web", (str(tmp_path / "d.jsonl"),)),
        Shard("code.c", "train", "code", ("s3://far/c.jsonl.gz",)),
        Shard("validation.web.v", "validation", "web", (str(tmp_path / "v.jsonl"),)),
    ]
    (tmp_path / "shards.jsonl").write_text(write_shards(shards))
    return tmp_path


def described(folder: Path, kind: str) -> dict:
    """data.json of the folder's indices and manifest."""
    index = [str(folder / f"{split}.parquet") for split in ("train", "validation")]
    shards = ["--shards", str(folder / "shards.jsonl")]
    describe_data.main(["--files", kind, *shards, "--index", *index, "--out", str(folder / "data.json")])
    return json.loads((folder / "data.json").read_text())


def exported(folder: Path, form: str, mixture: dict | None = None, run_tokens: int = 960) -> str:
    (folder / "mixture.json").write_text(json.dumps(mixture or {"web": 0.75, "code": 0.25}))
    given = ["--mixture", str(folder / "mixture.json"), "--data", str(folder / "data.json"), "--format", form]
    out = folder / f"out{FORMATS[form].ending}"
    export_mixture.main([*given, "--run-tokens", str(run_tokens), "--out", str(out)])
    return consumers.written(out)


def test_raw_files_have_bytes_and_the_tokens_of_the_index(tables: Path) -> None:
    domains = described(tables, "raw")["domains"]
    assert {Path(file["path"]).name: file.get("size") for block in domains.values() for file in block["train"]} == {
        "a.jsonl": 200,
        "b.jsonl": 100,
        "d.jsonl": 100,
        "c.jsonl.gz": None,
    }
    assert [file["path"] for file in domains["web"]["validation"]] == [str(tables / "v.jsonl")]
    assert {name: block["unique_tokens"] for name, block in domains.items()} == {"web": 240, "code": 80}
    assert {name: block["tokens_per_document"] for name, block in domains.items()} == {"web": 5, "code": 40}
    weights = consumers.huggingface(exported(tables, "huggingface"))
    # 0.75 of the tokens in records of 5, 0.25 in records of 40
    assert sorted(weights.values()) == pytest.approx([0.25 / 40 / 0.15625, 0.75 / 5 / 0.15625], abs=1e-6)
    assert sorted(consumers.table(exported(tables, "csv")).values()) == pytest.approx([0.1875, 0.1875, 0.25, 0.375])


def test_rows_are_exported_to_olmo_core_with_the_epochs_they_need(tables: Path) -> None:
    data = described(tables, "rows")
    assert data["sequence_length"] == 16 and data["domains"]["code"]["validation"] == []
    config = consumers.olmo_config(exported(tables, "olmo-core"))
    (web, code) = sorted(config.source_list.sources, key=lambda source: -source.target_ratio)
    assert (web.paths, code.paths) == (["train/web.b/web.bin", "train/web.d/web.bin"], ["train/code.c/code.bin"])
    assert (web.max_repetition_ratio, code.max_repetition_ratio) == (3.03, 3.03)


def test_raw_files_whose_records_name_their_domains_are_refused(tables: Path) -> None:
    (tables / "shards.jsonl").write_text(write_shards([Shard("all", "hash", None, ("all.jsonl",))]))
    refused(r"all\.jsonl has several domains, for its records name theirs", described, tables, "raw")


def tokenised_text(folder: Path, domains: dict[str, list[Path]], cut: int | None, kind: str) -> dict:
    """Tokenise a shard for each domain; data.json of the raw files or of the rows."""
    tokenizer = words(folder / "words.json", WORDS)
    shards = [Shard(name, "hash", name, tuple(map(str, paths))) for name, paths in domains.items()]
    for shard in shards:
        changes = {"domains": shard.domain, "domain-field": "null", "shard": shard.name, "validation-share": "0.1"}
        changes |= {split: str(folder / "shards" / split / shard.name) for split in ("train", "validation")}
        given = flags(folder, [], tokenizer, reading=reading(cut_characters=cut), **changes)
        (folder / "shards.jsonl").write_text(write_shards(shards))
        tokenize_shard.main(given)
    manifest = ["--folder", str(folder / "shards"), "--shards", str(folder / "shards.jsonl"), "--domains", *domains]
    splits = [f"--{split}={folder / split}.parquet" for split in ("train", "validation")]
    index_tokens.main([*manifest, *splits])
    return described(folder, kind)


def write_lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> tuple[Path, float]:
    """Rows of two domains, in which each word says where in its file it stands; tokens of web."""
    folder = tmp_path_factory.mktemp("rows")
    texts = [
        " ".join(str(word) for word in range(first, first + 40) for _ in range(10)) for first in range(0, WORDS, 40)
    ]
    files = [write_lines(folder / f"{name}.jsonl", [f"{name} {text}" for text in texts]) for name in ("a", "b", "code")]
    data = tokenised_text(folder, {"web": files[:2], "code": files[2:]}, None, "rows")
    return folder, sum(file["size"] for file in data["domains"]["web"]["train"])


def test_olmo_core_reads_rows_from_all_over_each_file(rows: tuple[Path, float], capsys) -> None:
    for share in (0.05, 2.2):
        folder, tokens = rows
        text = exported(folder, "olmo-core", {"web": 0.5, "code": 0.5}, int(2 * share * tokens))
        read = consumers.olmo_rows(consumers.olmo_config(text), LENGTH, "<u2")["web"]
        assert len(read) * LENGTH == pytest.approx(share * tokens, rel=0.05)
        fifths = np.bincount(read[:, 1] * 5 // WORDS, minlength=5)[:5] / len(read)
        assert fifths.min() > 0.1 and fifths.max() < 0.3
        assert f"Rows of {LENGTH} tokens stand in a permuted order" in capsys.readouterr().err


def test_rows_of_the_table_are_flat_ids_that_numpy_maps(rows: tuple[Path, float]) -> None:
    """The layout of the docs, for stacks that have no format here: so many little-endian ids a
    file, each document followed by the end of text, none of them an end that a text wrote.
    """
    folder, tokens = rows
    exported(folder, "csv", {"web": 0.5, "code": 0.5})
    table = pl.read_csv(folder / "out.csv").filter(pl.col("domain") == "web")
    mapped = [np.memmap(path, "<u2", "r") for path in table["path"]]
    assert [len(ids) for ids in mapped] == table["size"].to_list() and table["size"].sum() == tokens
    assert table["weight"].to_list() == pytest.approx((0.5 * table["size"] / tokens).to_list())
    for ids in mapped:
        first = np.flatnonzero(ids == WORDS)[0]  # the end of a text: the word before it is the last of its forty
        assert ids.max() <= WORDS + 1 and ids[first - 1] % 40 == 39


def numbers(first: int, last: int) -> str:
    return " ".join(map(str, range(first, last)))


TEXTS = {
    "web": [numbers(number, number + 30) for number in range(1000, 1200)],
    "code": [numbers(number, number + 400) + "\n" + numbers(1000, 1050) for number in range(1000, 1040)],
}


@pytest.fixture(scope="module", params=[".jsonl", ".txt"])
def raw(request, tmp_path_factory) -> Path:
    """A folder with data.json of raw text, whose documents are cut for tokenising."""
    folder, files = tmp_path_factory.mktemp("raw"), {}
    for name, texts in TEXTS.items():
        if request.param == ".jsonl":
            files[name] = [write_lines(folder / f"{name}.jsonl", texts)]
        else:
            files[name] = [folder / f"{name}{number}.txt" for number in range(20)]
            for path, text in zip(files[name], texts, strict=False):
                path.write_text(text)
    tokenised_text(folder, files, 100, "raw")
    return folder


def test_hugging_face_datasets_draws_the_mixture_of_raw_files_whose_documents_are_cut(raw: Path) -> None:
    pytest.importorskip("datasets")
    mixture = consumers.executed(exported(raw, "huggingface", {"web": 0.5, "code": 0.5}))["mixture"](seed=1)
    drawn = Counter()
    for row in islice(mixture, 4000):
        drawn["code" if "\n" in row["text"] else "web"] += len(row["text"])
    assert drawn["code"] / drawn.total() == pytest.approx(0.5, abs=0.05)
