"""A domain that is measured and not trained on: from its file to a mixture."""

import json
from pathlib import Path

import polars as pl
import pytest
from checkout import said
from mini_dataset import mini_config, texts, write_checkout

MIXTURES = {"salt": 0.2, "even": 0.5, "wet": 0.8}  # proportion of the domain sea
COPIES = 7


def block(config: dict) -> dict:
    return config["datasets"]["mini"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workflow that measures `tasks`, which shares documents with training."""
    folder = tmp_path_factory.mktemp("measured")
    config = mini_config(6, 2, slim={})
    config["laws"] = {"compare": ["bimix", "transfer"], "optimise": ["transfer"], "intervals": {"resamples": 5}}
    del block(config)["vectors"]
    block(config)["corpus"]["validation_only"] = {"tasks": "tasks.jsonl"}
    block(config)["groups"] = {"all": list(MIXTURES)}
    block(config)["compare"]["mixtures"] = ["even", "transfer"]
    block(config)["optimum"]["weights"] = {"tasks": 1}
    write_checkout(folder, config, MIXTURES)
    copies = (folder / "sea.jsonl").read_text().splitlines(keepends=True)[:COPIES]
    (folder / "tasks.jsonl").write_text("".join([*copies, *texts(["Meer", "Möwe", "Öl", "海", "tide"])]))
    return folder


@pytest.mark.full
@pytest.mark.slow
def test_it_is_measured_fitted_and_a_target_and_nothing_trains_on_it(checkout: Path) -> None:
    results = checkout / "results/mini"
    figures = [f"figures/{name}_slim_transfer_all.svg" for name in ("optimum", "proportions", "steps")]
    wanted = ["mixtures/transfer.json", "mixtures/se.json", "tables/comparison.csv", *figures]
    said(checkout, *(f"results/mini/{name}" for name in wanted), "--configfile", "mini.yaml")
    index = {split: pl.read_parquet(results / f"tokens/{split}.parquet") for split in ("train", "validation")}
    assert set(index["train"]["domain"]) == {"kitchen", "sea"}
    assert set(index["validation"]["domain"]) == {"kitchen", "sea", "tasks"}
    reports = [json.loads(path.read_text()) for path in results.glob("shards/train/*/report.json")]
    left_out = sum(report["in_validation"] for report in reports)
    assert 0 < left_out <= COPIES  # the rest of the copies the hash has put into validation
    losses = pl.read_parquet(results / "losses/slim/all.parquet")
    assert losses.group_by("domain").len().sort("domain").rows() == [("kitchen", 9), ("sea", 9), ("tasks", 9)]
    law = json.loads((results / "laws/slim/transfer/all/coefficients.json").read_text())
    assert law["domains"] == ["kitchen", "sea"] and law["loss_domains"] == ["kitchen", "sea", "tasks"]
    for name in ("transfer", "se"):
        mixture = json.loads((results / f"mixtures/{name}.json").read_text())
        assert set(mixture) == {"kitchen", "sea"} and sum(mixture.values()) == pytest.approx(1)
    assert "weighted: tasks 1" in (results / "logs/optimize_mixture/transfer.log").read_text()
    factors = dict(pl.read_csv(results / "tokens/bytes/slim.csv").select("domain", "bits_per_nat").iter_rows())
    table = pl.read_csv(results / "tables/comparison.csv")
    last = pl.read_parquet(results / "losses/slim/compare.parquet").filter(step=6)
    for row in table.iter_rows(named=True):
        own = dict(last.filter(mixture=row["mixture"]).select("domain", "loss").iter_rows())
        assert row["domains"] == 3
        assert row["average_loss"] == pytest.approx(own["tasks"])  # all that weighs
        assert row["bits_per_byte"] == pytest.approx(own["tasks"] * factors["tasks"])
