"""Snakemake on text and a tokenizer that change under an old time, as `cp -p` leaves them, and on
files far away that change under their name.
"""

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml
from checkout import jobs, link_checkout, said
from mini_dataset import WORDS, mini_config, texts
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from bimix.digests import digest_file

END = "<|endoftext|>"
SPLITS = ("train", "validation")
CONFIG = mini_config(20, 10, slim={})
CONFIG["datasets"]["mini"] |= {"tokenizer": {"file": "words.json", "end_of_text": END}}
CONFIG["datasets"]["mini"] |= {"mixture_files": {"plain": "mixture.json"}}


def call(folder: Path, *flags: str) -> str:
    """What Snakemake says of the tokens of both domains."""
    return said(folder, "results/mini/tokens/train.parquet", "--configfile", "mini.yaml", *flags)


def write(path: Path, text: str) -> None:
    """Text of the same length under the time of modification that the file has."""
    before = path.stat() if path.exists() else None
    path.write_text(text)
    if before is not None:
        assert before.st_size == path.stat().st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def documents(words: str) -> str:
    return "".join(texts(words.split()))


def tokenizer(words: str) -> str:
    model = WordLevel({word: number for number, word in enumerate([END, *words.split()])}, unk_token=END)
    made = Tokenizer(model)
    made.pre_tokenizer = Whitespace()
    return made.to_str()


@pytest.mark.slow
def test_text_and_tokenizers_under_an_old_time_are_read_again_and_copies_are_not(tmp_path: Path) -> None:
    link_checkout(tmp_path)
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(CONFIG))
    write(tmp_path / "mixture.json", '{"kitchen": 0.4, "sea": 0.6}')
    write(tmp_path / "kitchen.jsonl", documents("salt oven dough whisk pan"))
    write(tmp_path / "sea.jsonl", documents("tide wave salt gull mast"))
    write(tmp_path / "words.json", tokenizer("salt oven dough whisk pan tide wave gull mast"))
    call(tmp_path)
    shards = tmp_path / "results/mini/shards/train"
    kitchen = (shards / "kitchen.kitchen/report.json").read_bytes()

    write(tmp_path / "sea.jsonl", documents("mast tide wave salt gull"))
    assert "tokenize_shard" in call(tmp_path, "-n") and not (tmp_path / "results/mini/contents").exists()
    call(tmp_path)
    report = json.loads((shards / "sea.sea/report.json").read_text())
    assert report["raw"]["sea.jsonl"]["digest"] == digest_file(tmp_path / "sea.jsonl")
    assert (shards / "kitchen.kitchen/report.json").read_bytes() == kitchen

    shutil.copy2(tmp_path / "kitchen.jsonl", tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "kitchen.jsonl")
    assert "Nothing to be done" in call(tmp_path)

    turned = json.loads(json.dumps(CONFIG))
    block = turned["datasets"]["mini"]
    block["domains"] = block["domains"][::-1]
    block["corpus"]["train"] = dict(reversed(block["corpus"]["train"].items()))
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(turned, sort_keys=False))
    assert "Nothing to be done" in call(tmp_path, "-n")

    write(tmp_path / "words.json", tokenizer("oven salt dough whisk pan tide wave gull mast"))
    assert "fetch_tokenizer" in call(tmp_path, "-n")


@pytest.mark.slow
def test_validation_text_and_rows_that_change_are_tokenised_and_the_tokenizer_is_kept(tmp_path: Path) -> None:
    link_checkout(tmp_path)
    config = mini_config(20, 10, slim={})
    block = config["datasets"]["mini"] | {"mixture_files": {"plain": "mixture.json"}}
    config["datasets"]["mini"] = block
    block["corpus"]["validation"] = {domain: f"val_{domain}.jsonl" for domain in WORDS}
    write(tmp_path / "mixture.json", '{"kitchen": 0.4, "sea": 0.6}')
    for domain, words in WORDS.items():
        (tmp_path / f"{domain}.jsonl").write_text(documents(words))
        (tmp_path / f"val_{domain}.jsonl").write_text("".join(texts(words.split()[::-1])[:40]))
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
    call(tmp_path)
    with (tmp_path / "val_sea.jsonl").open("a") as more:
        more.write(json.dumps({"text": "a whale and two gulls at the mast"}) + "\n")
    planned = jobs(call(tmp_path, "-n"))
    # both shards that train, as they leave validation documents out, and sea's validation shard
    assert planned == {"hash_validation": 1, "tokenize_shard": 3, "index_tokens": 1}
    block["sequence_length"] = 32
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
    assert jobs(call(tmp_path, "-n")) == planned | {"tokenize_shard": 4}
    call(tmp_path)
    index = pl.concat(pl.read_parquet(tmp_path / f"results/mini/tokens/{split}.parquet") for split in SPLITS)
    assert set(index["tokens"] // index["rows"]) == {32}
    assert index.filter(pl.col("path").str.contains("validation.sea"))["documents"].to_list() == [41]
    assert "Nothing to be done" in call(tmp_path, "-n")


@pytest.mark.slow
def test_a_harvest_that_changes_with_the_share_held_out_is_split_again(tmp_path: Path) -> None:
    link_checkout(tmp_path)
    config = mini_config(20, 10, slim={})
    block = config["datasets"]["mini"] | {"mixture_files": {"plain": "mixture.json"}}
    config["datasets"]["mini"] = block
    write(tmp_path / "mixture.json", '{"kitchen": 0.4, "sea": 0.6}')
    named = {"kitchen": "click", "sea": "jinja2"}
    kind = {"kind": "files", "suffixes": [".py"], "megabytes": 0.05}
    block["corpus"]["harvest"] = {domain: kind | {"packages": [package]} for domain, package in named.items()}
    block["corpus"]["held_out_characters"] = 500
    del block["corpus"]["train"]
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
    call(tmp_path)
    block["corpus"]["harvest"]["sea"] = block["corpus"]["harvest"]["sea"] | {"megabytes": 0.06}
    block["corpus"]["validation"]["share"] = 0.1
    (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
    planned = {"collect_text": 1, "train_tokenizer": 1, "tokenize_shard": 2, "index_tokens": 1}
    assert jobs(call(tmp_path, "-n")) == planned
