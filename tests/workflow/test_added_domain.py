"""A domain that is added: tokenizer, shards and earlier runs stay, and are joined."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from checkout import jobs, said
from mini_dataset import mini_config, texts, write_checkout

import reuse_runs

RUNS = "results/mini/losses/slim/all.parquet", "results/mini/mixtures/groups/all.parquet"


def kept(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Bytes and times of the tokenizer and of the first two domains' shards."""
    paths = [folder / "results/mini/tokenizer.json"]
    paths += [folder / f"results/mini/shards/train/{name}.{name}/report.json" for name in ("kitchen", "sea")]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.mark.slow
def test_a_domain_that_is_added_keeps_tokenizer_shards_and_runs(tmp_path: Path) -> None:
    config = mini_config(4, 4, slim={})
    block = config["datasets"]["mini"]
    del block["tokenizer"]["train"]["vocabulary"], block["corpus"]["cut_characters"]  # they are chosen by the text
    write_checkout(tmp_path, config, ["plain"])
    printed = said(tmp_path, *RUNS, "--configfile", "mini.yaml")
    before = kept(tmp_path)
    (tmp_path / "before").mkdir()
    older = {name: str(tmp_path / f"before/{name}.parquet") for name in ("losses", "mixtures")}
    for path, kept_table in zip(RUNS, older.values(), strict=True):
        shutil.copy(tmp_path / path, kept_table)

    (chosen,) = re.findall(r"by the size of its text: tokenizer/train/vocabulary (\d+)\.", printed)
    block["tokenizer"]["train"]["vocabulary"] = int(chosen)  # as the first call printed it
    block["domains"].append("wood")
    block["corpus"]["train"]["wood"] = "wood.jsonl"
    (tmp_path / "wood.jsonl").write_text("".join(texts(["oak", "elm", "birch", "bark", "leaf"])))
    (tmp_path / "mini.yaml").write_text(json.dumps(config))
    planned = said(tmp_path, *RUNS, "--configfile", "mini.yaml", "-n")
    assert jobs(planned)["tokenize_shard"] == 1 and "train_tokenizer" not in jobs(planned)

    sea = (tmp_path / "sea.jsonl").read_text()
    (tmp_path / "sea.jsonl").write_text(sea + texts(["whale", "cod", "ray", "eel", "crab"])[0])
    planned = said(tmp_path, *RUNS, "--configfile", "mini.yaml", "-n")
    assert jobs(planned)["tokenize_shard"] == 2 and "train_tokenizer" not in jobs(planned)
    (tmp_path / "sea.jsonl").write_text(sea)

    block["tokenizer"]["train"]["vocabulary"] += 1  # a setting of its own
    (tmp_path / "other.yaml").write_text(json.dumps(config))
    planned = said(tmp_path, *RUNS, "--configfile", "other.yaml", "-n")
    assert jobs(planned) | {"tokenize_shard": 3, "train_tokenizer": 1} == jobs(planned)

    block["tokenizer"]["train"]["vocabulary"] -= 1
    block["groups"]["all"] = ["third"]
    block["compare"]["mixtures"] = ["third"]
    block["mixture_files"] = {"third": "third.json"}
    (tmp_path / "third.json").write_text('{"kitchen": 0.3, "sea": 0.5, "wood": 0.2}')
    (tmp_path / "mini.yaml").write_text(json.dumps(config))
    said(tmp_path, *RUNS, "--configfile", "mini.yaml")
    assert kept(tmp_path) == before

    joined = [str(tmp_path / name) for name in ("losses.parquet", "mixtures.parquet")]
    flags = [
        "--losses",
        str(tmp_path / RUNS[0]),
        "--mixtures",
        str(tmp_path / RUNS[1]),
        "--reuse",
        json.dumps(older),
    ]
    reuse_runs.main([*flags, "--out-losses", joined[0], "--out-mixtures", joined[1]])
    table = pl.read_parquet(joined[0])
    assert set(table["mixture"]) == {"third", "plain (before)"}
    assert set(table.filter(mixture="plain (before)")["domain"]) == {"kitchen", "sea"}
