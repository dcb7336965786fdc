"""The second stage of runs is optimised, for a domain that nothing trains on, put behind the first,
trained and verified.
"""

import json
from pathlib import Path

import polars as pl
import pytest
from checkout import said
from mini_dataset import mini_config, texts, write_checkout

from bimix.results.verify import verify

SECOND = {"late_dry": 0.2, "late_even": 0.5, "late_wet": 0.8}  # proportion of the domain sea in stage 2
FIRST = {"kitchen": 0.7, "sea": 0.3}
COPIES = 7  # documents that the measured domain shares with training


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    config = mini_config(10, 1, slim={})
    config["laws"] = {"compare": ["transfer"], "optimise": ["transfer"], "intervals": {"resamples": 5}}
    block = config["datasets"]["mini"]
    del block["vectors"]
    block["corpus"]["validation_only"] = {"tasks": "tasks.jsonl"}
    block["groups"] = {"second": list(SECOND)}
    block["optimum"] |= {"group": "second", "stage": 2, "weights": {"tasks": 1}}
    block["stages"] = {
        name: [{"share": 0.6, "mixture": "first"}, {"share": 0.4, "mixture": last}]
        for name, last in {**{name: f"only_{name}" for name in SECOND}, "late_optimum": "transfer"}.items()
    }
    block["compare"]["mixtures"] = ["first", "late_optimum"]
    write_checkout(folder, config, {"first": FIRST["sea"], **{f"only_{name}": SECOND[name] for name in SECOND}})
    copies = (folder / "sea.jsonl").read_text().splitlines(keepends=True)[:COPIES]
    (folder / "tasks.jsonl").write_text("".join([*copies, *texts(["Meer", "Möwe", "Öl", "海", "tide"])]))
    results = [f"figures/{name}_slim_transfer_second.svg" for name in ("optimum", "proportions", "steps")]
    results += ["losses/slim/compare.parquet", "figures/mixtures.svg", "mixtures/se.json", "tables/comparison.csv"]
    said(folder, *(f"results/mini/{name}" for name in results), "--configfile", "mini.yaml")
    return folder


@pytest.mark.full
@pytest.mark.slow
def test_the_second_stage_is_optimised_and_put_behind_the_first(checkout: Path, monkeypatch) -> None:
    results = checkout / "results/mini"
    table = pl.read_parquet(results / "mixtures/groups/second.parquet")
    assert table.columns == ["mixture", "domain", "proportion"]
    sea = dict(table.filter(domain="sea").select("mixture", "proportion").iter_rows())
    assert sea == pytest.approx(SECOND)
    losses = pl.read_parquet(results / "losses/slim/second.parquet")
    assert sorted(losses["step"].unique()) == [7, 8, 9, 10]  # after the six updates of the first stage
    best = json.loads((results / "mixtures/transfer.json").read_text())
    found = json.loads((results / "mixtures/late_optimum.json").read_text())["stages"]
    assert found == [{"share": 0.6, "mixture": FIRST}, {"share": 0.4, "mixture": best}]
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


@pytest.mark.full
@pytest.mark.slow
def test_a_domain_is_measured_fitted_and_a_target_and_nothing_trains_on_it(checkout: Path) -> None:
    results = checkout / "results/mini"
    index = {split: pl.read_parquet(results / f"tokens/{split}.parquet") for split in ("train", "validation")}
    assert set(index["train"]["domain"]) == {"kitchen", "sea"}
    assert set(index["validation"]["domain"]) == {"kitchen", "sea", "tasks"}
    reports = [json.loads(path.read_text()) for path in results.glob("shards/train/*/report.json")]
    assert 0 < sum(report["in_validation"] for report in reports) <= COPIES  # the hash has held out the rest
    law = json.loads((results / "laws/slim/transfer/second/coefficients.json").read_text())
    assert law["domains"] == ["kitchen", "sea"] and law["loss_domains"] == ["kitchen", "sea", "tasks"]
    for name in ("transfer", "se"):
        mixture = json.loads((results / f"mixtures/{name}.json").read_text())
        assert set(mixture) == {"kitchen", "sea"} and sum(mixture.values()) == pytest.approx(1)
    assert "weighted: tasks 1" in (results / "logs/optimize_mixture/transfer.log").read_text()
    factors = dict(pl.read_csv(results / "tokens/bytes/slim.csv").select("domain", "bits_per_nat").iter_rows())
    last = pl.read_parquet(results / "losses/slim/compare.parquet").filter(step=10)
    for row in pl.read_csv(results / "tables/comparison.csv").iter_rows(named=True):
        own = dict(last.filter(mixture=row["mixture"]).select("domain", "loss").iter_rows())
        assert row["domains"] == 3
        assert row["average_loss"] == pytest.approx(own["tasks"])  # all that weighs
        assert row["bits_per_byte"] == pytest.approx(own["tasks"] * factors["tasks"])
