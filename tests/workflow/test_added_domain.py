"""A domain that is added: tokenizer, shards and earlier runs stay, and are joined."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from checkout import call, jobs, said
from mini_dataset import mini_config, texts, write_checkout

from bimix.results.verify import verify

RUNS = "results/mini/losses/slim/all.parquet", "results/mini/mixtures/groups/all.parquet"


def kept(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Bytes and times of the tokenizer and of the first two domains' shards."""
    paths = [folder / "results/mini/tokenizer.json"]
    paths += [folder / f"results/mini/shards/train/{name}.{name}/report.json" for name in ("kitchen", "sea")]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.mark.slow
def test_a_domain_that_is_added_keeps_tokenizer_shards_and_runs(tmp_path: Path, monkeypatch) -> None:
    config = mini_config(4, 4, slim={})
    block = config["datasets"]["mini"]
    del block["tokenizer"]["train"]["vocabulary"], block["corpus"]["cut_characters"]  # they are chosen by the text
    write_checkout(tmp_path, config, ["plain"])
    printed = said(tmp_path, *RUNS, "--configfile", "mini.yaml")
    before, results = kept(tmp_path), tmp_path / "results"

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
    (results / "mini_before").mkdir()
    (results / "mini/runs").rename(results / "mini_before/runs")
    block["reuse"] = ["results/mini_before"]
    (tmp_path / "mini.yaml").write_text(json.dumps(config))
    law = "results/mini/laws/slim/transfer/all+reused/coefficients.json"
    planned = said(tmp_path, law, "--configfile", "mini.yaml", "-n")
    said(tmp_path, law, "--configfile", "mini.yaml")
    assert kept(tmp_path) == before
    assert "Nothing to be done" in said(tmp_path, law, "--configfile", "mini.yaml", "-n")

    table = pl.read_parquet(results / "mini/losses/slim/all+reused.parquet")
    assert set(table["mixture"]) == {"third", "plain (mini_before)"}
    assert set(table.filter(mixture="plain (mini_before)")["domain"]) == {"kitchen", "sea"}
    assert json.loads((tmp_path / law).read_text())["mixtures"] == ["third", "plain (mini_before)"]
    monkeypatch.chdir(tmp_path)
    found = verify(Path("results/mini"))
    assert not found.faults and found.checked["files of reused runs"] == 1 and found.checked["laws fitted again"] == 1
    losses = "results/mini_before/runs/slim/plain/losses.parquet"

    report = Path(losses).with_name("run.json")  # of another run now
    report.write_text(json.dumps(json.loads(report.read_text()) | {"seed": 7}))
    assert {"reuse_losses", "reuse_mixtures", "fit_law"} <= jobs(
        said(tmp_path, law, "--configfile", "mini.yaml", "-n")
    ).keys()
    shutil.rmtree(results / "mini_before/runs")
    assert any("1 files of mini_before are not there" in one for one in verify(Path("results/mini")).unchecked)
    refused = call(tmp_path, "--configfile", "mini.yaml", "-n")
    assert refused.returncode and "results/mini_before has no finished run of slim" in refused.stdout + refused.stderr
