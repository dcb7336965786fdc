"""The data of a dataset of one's own: its raw files with the tokens of its index, or its rows."""

import json
from pathlib import Path

import consumers
import polars as pl
import pytest

import describe_data
import export_mixture
from bimix.corpus.shards import Shard, write_shards
from bimix.errors import InputError

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
def tables(tmp_path: Path) -> list[str]:
    """Two token indices and a manifest of five raw files, one of them far away."""
    for split, rows in INDEX.items():
        table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
        table.write_parquet(tmp_path / f"{split}.parquet")
    for name, size in (("a.jsonl", 200), ("b.jsonl", 100), ("d.jsonl", 100), ("v.jsonl", 10)):
        (tmp_path / name).write_bytes(b"x" * size)
    shards = [
        Shard("web.b", "hash", "web", (str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))),
        Shard("web.d", "train", "web", (str(tmp_path / "d.jsonl"),)),
        Shard("code.c", "train", "code", ("s3://far/c.jsonl.gz",)),
        Shard("validation.web.v", "validation", "web", (str(tmp_path / "v.jsonl"),)),
    ]
    (tmp_path / "shards.jsonl").write_text(write_shards(shards))
    index = [str(tmp_path / f"{split}.parquet") for split in INDEX]
    return ["--shards", str(tmp_path / "shards.jsonl"), "--index", *index]


def described(folder: Path, files: str, tables: list[str]) -> dict:
    describe_data.main(["--files", files, *tables, "--out", str(folder / "data.json")])
    return json.loads((folder / "data.json").read_text())


def exported(folder: Path, form: str, ending: str) -> str:
    (folder / "mixture.json").write_text('{"web": 0.75, "code": 0.25}')
    flags = ["--mixture", str(folder / "mixture.json"), "--data", str(folder / "data.json"), "--format", form]
    export_mixture.main([*flags, "--run-tokens", "960", "--out", str(folder / f"out{ending}")])
    return consumers.written(folder / f"out{ending}")


def test_raw_files_have_bytes_and_the_tokens_of_the_index(tmp_path: Path, tables: list[str]) -> None:
    data = described(tmp_path, "raw", tables)
    sizes = {Path(file["path"]).name: file.get("size") for file in data["domains"]["web"]["train"]}
    assert sizes == {"a.jsonl": 200, "b.jsonl": 100, "d.jsonl": 100}
    assert [file["path"] for file in data["domains"]["web"]["validation"]] == [str(tmp_path / "v.jsonl")]
    assert data["domains"]["code"]["train"] == [{"path": "s3://far/c.jsonl.gz"}]
    assert {name: block["unique_tokens"] for name, block in data["domains"].items()} == {"web": 240, "code": 80}
    assert {name: block["tokens_per_document"] for name, block in data["domains"].items()} == {"web": 5, "code": 40}
    weights = consumers.huggingface(exported(tmp_path, "huggingface", ".py"))
    # 0.75 of the tokens in records of 5, 0.25 in records of 40
    assert sorted(weights.values()) == pytest.approx([0.25 / 40 / 0.15625, 0.75 / 5 / 0.15625], abs=1e-6)
    read = consumers.table(exported(tmp_path, "csv", ".csv"))
    assert sorted(read.values()) == pytest.approx([0.1875, 0.1875, 0.25, 0.375])


def test_rows_are_exported_to_olmo_core_with_the_epochs_they_need(tmp_path: Path, tables: list[str]) -> None:
    data = described(tmp_path, "rows", tables)
    assert data["sequence_length"] == 16
    assert data["domains"]["code"]["validation"] == []
    config = consumers.olmo_config(exported(tmp_path, "olmo-core", ".py"))
    (web, code) = sorted(config.source_list.sources, key=lambda source: -source.target_ratio)
    assert (web.paths, code.paths) == (["train/web.b/web.bin", "train/web.d/web.bin"], ["train/code.c/code.bin"])
    assert consumers.olmo_builds(config, {"web": 240, "code": 80})
    assert (web.max_repetition_ratio, code.max_repetition_ratio) == (3.03, 3.03)


def test_raw_files_whose_records_name_their_domains_are_refused(tmp_path: Path, tables: list[str]) -> None:
    (tmp_path / "shards.jsonl").write_text(write_shards([Shard("all", "hash", None, ("all.jsonl",))]))
    with pytest.raises(InputError, match=r"all\.jsonl has several domains, for its records name theirs"):
        described(tmp_path, "raw", tables)


def test_text_is_said_to_be_none_of_megatrons_prefixes(tmp_path: Path, tables: list[str], capsys) -> None:
    described(tmp_path, "raw", tables)
    content = json.loads((tmp_path / "data.json").read_text())
    content["domains"]["code"]["train"][0]["size"] = 5
    (tmp_path / "data.json").write_text(json.dumps(content))
    exported(tmp_path, "nanotron", ".yaml")
    said = capsys.readouterr().err
    assert "nanotron reads what a tool of its own made of text, and 's3://far/c.jsonl.gz' is text: tokenise it" in said
    exported(tmp_path, "levanter", ".yaml")
    assert "is text" not in capsys.readouterr().err
