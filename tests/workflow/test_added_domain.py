"""A domain that is added: tokenizer, shards and earlier runs stay, and are joined."""

import json
import sys
from pathlib import Path

import forked
import polars as pl
import pytest
from checkout import jobs, said
from mini_dataset import mini_config, texts, write_checkout

RUNS = "results/mini/losses/slim/all.parquet", "results/mini/mixtures/groups/all.parquet"


def kept(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Bytes and times of the tokenizer and of the first two domains' shards."""
    paths = [folder / "results/mini/tokenizer.json"]
    paths += [folder / f"results/mini/shards/train/{name}.{name}/report.json" for name in ("kitchen", "sea")]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.mark.slow
def test_a_domain_that_is_added_keeps_tokenizer_shards_and_runs(tmp_path: Path) -> None:
    config = mini_config(4, 2, slim={})
    write_checkout(tmp_path, config, ["plain"])
    said(tmp_path, *RUNS, "--configfile", "mini.yaml")
    before, results = kept(tmp_path), tmp_path / "results"

    block = config["datasets"]["mini"]
    block["domains"].append("wood")
    block["corpus"]["train"]["wood"] = "wood.jsonl"
    (tmp_path / "wood.jsonl").write_text("".join(texts(["oak", "elm", "birch", "bark", "leaf"])))
    (tmp_path / "mini.yaml").write_text(json.dumps(config))
    planned = said(tmp_path, *RUNS, "--configfile", "mini.yaml", "-n")
    assert jobs(planned)["tokenize_shard"] == 1 and "train_tokenizer" not in jobs(planned)
    assert "Domains of mini are new: wood. Its tokenizer is kept" in planned and ": 1 shard is tokenised." in planned
    assert "Runs without them (1) are trained again where they are requested." in planned

    block["tokenizer"]["train"]["vocabulary"] += 1  # a setting of its own
    (tmp_path / "other.yaml").write_text(json.dumps(config))
    planned = said(tmp_path, *RUNS, "--configfile", "other.yaml", "-n")
    assert jobs(planned) | {"tokenize_shard": 3, "train_tokenizer": 1} == jobs(planned)
    assert "are new" not in planned

    block["tokenizer"]["train"]["vocabulary"] -= 1
    block["groups"]["all"] = ["third"]
    block["compare"]["mixtures"] = ["third"]
    block["mixture_files"] = {"third": "third.json"}
    (tmp_path / "third.json").write_text('{"kitchen": 0.3, "sea": 0.5, "wood": 0.2}')
    (tmp_path / "mini.yaml").write_text(json.dumps(config))
    (results / "mini_before").mkdir()
    (results / "mini/runs").rename(results / "mini_before/runs")
    said(tmp_path, *RUNS, "--configfile", "mini.yaml")
    assert kept(tmp_path) == before
    assert "are new" not in said(tmp_path, *RUNS, "--configfile", "mini.yaml", "-n")

    flags = ["--losses", RUNS[0], "--mixtures", RUNS[1], "--runs", "results/mini", "--reuse", "results/mini_before"]
    outputs = ["--out-losses", "losses.csv", "--out-mixtures", "mixtures.csv"]
    command = [sys.executable, "workflow/scripts/reuse_runs.py", *flags, *outputs]
    done = forked.run(command, cwd=tmp_path, env=forked.jobs())
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr and "has changed" not in done.stderr
    table = pl.read_csv(tmp_path / "losses.csv")
    assert set(table["mixture"]) == {"third", "plain (mini_before)"}
    assert set(table.filter(mixture="plain (mini_before)")["domain"]) == {"kitchen", "sea"}
