"""The tables that are kept of the proof's runs, from a small folder of results."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest

SCRIPT = Path(__file__).parents[2] / "resources" / "observations" / "proof" / "collect_runs.py"
COST = {
    "parameters": 9,
    "tokens": 64,
    "flops": 5,
    "seconds": 1.0,
    "device": "cpu",
    "commit": "c",
    "seed": 1,
    "recipe": {"pool_share": 0.5},
}


def losses(value: float) -> pl.DataFrame:
    return pl.DataFrame({"step": [2], "tokens": [64], "domain": ["web"], "loss": [value]})


def test_runs_of_laws_are_renamed_and_parts_of_the_swarm_are_joined(tmp_path: Path, monkeypatch) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    for run, value in {"ce": 3.0, "ce@4": 3.5, "transfer@4": 2.5, "doge": 2.7}.items():
        folder = results / "runs" / "larger" / run
        folder.mkdir(parents=True)
        losses(value).write_parquet(folder / "losses.parquet")
        (folder / "run.json").write_text(json.dumps(COST | {"parameters": 90, "seed": 4 if "@" in run else 1}))
    (results / "mixtures" / "groups").mkdir(parents=True)
    for name in ("ce", "transfer", "doge"):
        (results / "mixtures" / f"{name}.json").write_text('{"web": 0.25, "code": 0.75}')
    (results / "tokens").mkdir()
    rows = pl.DataFrame({"domain": ["code", "web"], "rows": [14, 16], "tokens": [140, 160]})
    rows.write_parquet(results / "tokens" / "train.parquet")
    drawn = {
        "mixture": ["swarm_0001"] * 2 + ["swarm_0002"],
        "domain": ["code", "web", "web"],
        "proportion": [0.5, 0.5, 1],
    }
    pl.DataFrame(drawn).write_parquet(results / "mixtures" / "groups" / "swarm.parquet")
    part = results / "swarm" / "tiny" / "1"
    part.mkdir(parents=True)
    pl.DataFrame([COST | {"mixture": "swarm_0001"}]).write_parquet(part / "runs.parquet")
    own = results / "swarm" / "tiny" / "state" / "swarm_0001" / "digest"
    own.mkdir(parents=True)
    (own / "run.json").write_text(json.dumps(COST))
    losses(9.0).write_parquet(own / "losses.parquet")  # the part's row goes before
    under_way = results / "swarm" / "tiny" / "state" / "swarm_0002" / "digest"
    under_way.mkdir(parents=True)
    (under_way / "run.json").write_text(json.dumps(COST))
    losses(5.0).write_parquet(under_way / "losses.parquet")
    losses(4.0).with_columns(mixture=pl.lit("swarm_0001")).write_parquet(part / "losses.parquet")
    asked = {"task": ["words"] * 2, "step": [2] * 2, "normalised": [True, False], "gold_bits": [8.0, 6.0]}
    (results / "downstream" / "larger").mkdir(parents=True)
    for run in ("ce", "doge@3"):
        table = pl.DataFrame(asked).with_columns(gold_bytes=pl.Series([2, 3]))
        table.write_parquet(results / "downstream" / "larger" / f"{run}.parquet")
    out.mkdir()
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(results), "--out", str(out)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    answers = pl.read_csv(out / "answers.csv").rows()
    assert answers == [
        ("larger", name, seed, "words", 2, 2, 0.5, 3.0, 1.0) for name, seed in (("by_doge", 3), ("ce", 1))
    ]
    larger = pl.read_csv(out / "larger.csv").select("mixture", "seed", "loss").rows()
    assert larger == [("by_doge", 1, 2.7), ("by_transfer", 4, 2.5), ("ce", 1, 3.0), ("ce", 4, 3.5)]
    tiny = pl.read_csv(out / "tiny.csv").rows()
    assert tiny == [("swarm_0001", 1, 2, 64, "web", 4.0), ("swarm_0002", 1, 2, 64, "web", 5.0)]
    assert pl.read_csv(out / "tiny_first.csv").rows() == tiny
    names = {model: pl.read_csv(out / f"{model}_mixtures.csv") for model in ("tiny", "larger")}
    assert set(names["larger"]["mixture"]) == {"ce", "by_transfer", "by_doge"}
    assert set(names["tiny"]["mixture"]) == {"swarm_0001", "swarm_0002"}
    ends = pl.read_csv(out / "sizes.csv")
    sizes = {name: (90 if name.startswith("larger_") else 9) for name in ends["mixture"]}
    assert set(sizes) == {"swarm_0001", "swarm_0002", "larger_ce", "larger_by_transfer", "larger_by_doge"}
    assert dict(ends.select("mixture", "parameters").iter_rows()) == sizes
    assert ends.filter(pl.col("mixture") == "larger_ce")["loss"].to_list() == [3.0]  # a law reads one seed
    assert set(pl.read_csv(out / "sizes_mixtures.csv")["mixture"]) == set(sizes)
    assert pl.read_csv(out / "blind_mixtures.csv").equals(names["tiny"].drop("pool"))
    for table in names.values():
        assert dict(table.select("domain", "pool").unique().iter_rows()) == {"code": 70.0, "web": 80.0}


def test_runs_that_are_gone_stay_in_the_tables_and_those_made_again_are_replaced(tmp_path: Path, monkeypatch) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(results), "--out", str(out)])
    (results / "mixtures").mkdir(parents=True)
    for name, value in (("ce", 3.0), ("je", 5.0), ("ce", 2.0)):
        folder = results / "runs" / "tiny" / name
        folder.mkdir(parents=True)
        losses(value).write_parquet(folder / "losses.parquet")
        (folder / "run.json").write_text(json.dumps(COST))
        (results / "mixtures" / f"{name}.json").write_text(json.dumps({"web": value / 10, "code": 1 - value / 10}))
        runpy.run_path(str(SCRIPT), run_name="__main__")
        shutil.rmtree(folder)
    assert dict(pl.read_csv(out / "tiny.csv").select("mixture", "loss").iter_rows()) == {"ce": 2.0, "je": 5.0}
    mixtures = pl.read_csv(out / "tiny_mixtures.csv").filter(pl.col("domain") == "web")
    assert dict(mixtures.select("mixture", "proportion").iter_rows()) == {"ce": 0.2, "je": 0.5}
    assert pl.read_csv(out / "runs.csv")["mixture"].to_list() == ["ce", "je"]


def test_a_folder_without_runs_is_refused(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path), "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "has no finished run" in capsys.readouterr().err
