"""The second stage of runs is optimised, put behind the first, trained and verified."""

import json
from pathlib import Path

import polars as pl
import pytest
from checkout import said
from mini_dataset import mini_config, write_checkout

from bimix.results.verify import verify

SECOND = {"late_dry": 0.2, "late_even": 0.5, "late_wet": 0.8}  # proportion of the domain sea in stage 2
FIRST = {"kitchen": 0.7, "sea": 0.3}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    config = mini_config(10, 1, slim={})
    config["laws"] = {"compare": ["bimix"], "optimise": ["bimix"], "intervals": {"resamples": 5}}
    block = config["datasets"]["mini"]
    del block["vectors"]
    block["groups"] = {"second": list(SECOND)}
    block["optimum"] |= {"group": "second", "stage": 2}
    block["stages"] = {
        name: [{"share": 0.6, "mixture": "first"}, {"share": 0.4, "mixture": last}]
        for name, last in {**{name: f"only_{name}" for name in SECOND}, "late_optimum": "bimix"}.items()
    }
    block["compare"]["mixtures"] = ["first", "late_optimum"]
    write_checkout(folder, config, {"first": FIRST["sea"], **{f"only_{name}": SECOND[name] for name in SECOND}})
    return folder


@pytest.mark.full
@pytest.mark.slow
def test_the_second_stage_is_optimised_and_put_behind_the_first(checkout: Path, monkeypatch) -> None:
    results = checkout / "results/mini"
    wanted = ["losses/slim/compare.parquet", "figures/mixtures.svg", "tables/comparison.csv"]
    said(checkout, *(f"results/mini/{name}" for name in wanted), "--configfile", "mini.yaml")
    table = pl.read_parquet(results / "mixtures/groups/second.parquet")
    assert table.columns == ["mixture", "domain", "proportion"]
    sea = dict(table.filter(domain="sea").select("mixture", "proportion").iter_rows())
    assert sea == pytest.approx(SECOND)
    losses = pl.read_parquet(results / "losses/slim/second.parquet")
    assert sorted(losses["step"].unique()) == [7, 8, 9, 10]  # after the six updates of the first stage
    assert set(json.loads((results / "mixtures/bimix.json").read_text())) == {"kitchen", "sea"}
    found = json.loads((results / "mixtures/late_optimum.json").read_text())["stages"]
    assert [stage["share"] for stage in found] == [0.6, 0.4]
    assert found[0]["mixture"] == FIRST and found[1]["mixture"] == json.loads(
        (results / "mixtures/bimix.json").read_text()
    )
    shown = pl.read_parquet(results / "mixtures/groups/compare.parquet")["mixture"].unique(maintain_order=True)
    assert shown.to_list() == ["first", "late_optimum (stage 1 of 2)", "late_optimum (stage 2 of 2)"]
    # until the boundary the runs are the same to the last bit
    until = {
        name: pl.read_parquet(results / f"runs/slim/{name}/losses.parquet").filter(pl.col("step") <= 6)
        for name in ("first", "late_optimum", *SECOND)
    }
    assert all(table.equals(until["first"]) for table in until.values())
    monkeypatch.chdir(checkout)  # whose paths are relative
    findings = verify(Path("results/mini"))
    assert not findings.faults and findings.checked["fingerprints"] == len(until)
