"""Laws over models of several sizes, through Snakemake: two small models are trained and fitted
together, a third is optimised for and trained on what was found.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from checkout import said
from mini_dataset import mini_config, write_checkout

from bimix.laws.fitted import at_run, predict_defined
from bimix.results.verify import verify

SHARES = {"a": 0.8, "b": 0.5, "c": 0.2}  # proportion of the domain sea
SHAPES = {
    "slim": {"layers": 1, "width": 16, "heads": 2},
    "mid": {"layers": 2, "width": 32, "heads": 2},
    "wide": {"layers": 2, "width": 64, "heads": 2},
}
LAW = Path("results/mini/laws/slim+mid/transfer/all")
pytestmark = [pytest.mark.slow, pytest.mark.full]


def prepare(folder: Path) -> dict:
    """A copy of the workflow with a config of three sizes."""
    config = mini_config(6, 2, slim={}, mid={"batch_rows": 6}, wide={"batch_rows": 8})
    for model, shape in SHAPES.items():
        config["models"][model]["shape"] = shape
    config["laws"] = {"optimise": ["bimix", "transfer"], "intervals": {"resamples": 4}}
    block = config["datasets"]["mini"]
    block["groups"] = {"all": list(SHARES)}
    block["optimum"] = {"models": ["slim", "mid"], "for": "wide", "group": "all"}
    block["training"]["wide"]["steps"] = 8
    block["compare"] = {"model": "wide", "mixtures": ["a", "b", "transfer"]}
    del block["vectors"]
    write_checkout(folder, config, SHARES)
    return config


def call(folder: Path, *arguments: str) -> str:
    return said(folder, *arguments, "--configfile", "mini.yaml")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which three sizes were trained, and what follows from them made."""
    folder = tmp_path_factory.mktemp("sizes")
    prepare(folder)
    figures = [f"results/mini/figures/{name}_slim+mid_transfer_all.svg" for name in ("sizes", "optimum")]
    call(folder, "results/mini/mixtures/transfer.json", str(LAW / "sizes.csv"), *figures)
    return folder


def sizes_of(folder: Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("results/mini/sizes/*.json")}


def test_the_sizes_are_those_of_the_runs(built: Path) -> None:
    sizes = sizes_of(built)
    assert sorted(sizes) == sorted(SHAPES)
    for model, size in sizes.items():
        report = json.loads((built / f"results/mini/runs/{model}/a/run.json").read_text())
        assert size == {name: report[name] for name in ("parameters", "tokens")}


def test_the_table_of_all_sizes_holds_the_losses_of_each(built: Path) -> None:
    table = pl.read_parquet(built / "results/mini/losses/slim+mid/all.parquet")
    for model, size in sizes_of(built).items():
        own = table.filter(pl.col("model") == model)
        if model == "wide":
            assert not own.height
            continue
        assert own["parameters"].unique().to_list() == [size["parameters"]]
        alone = pl.read_parquet(built / f"results/mini/losses/{model}/all.parquet")
        assert own.select(alone.columns).equals(alone)


def test_optimum_and_intervals_are_for_the_whole_run_of_the_third(built: Path) -> None:
    """Read without a size, the law is at that of `wide`; so is the gain in the intervals."""
    wide = sizes_of(built)["wide"]
    fitted = json.loads((built / LAW / "coefficients.json").read_text())
    assert {one["run"]["parameters"] for one in fitted["coefficients"].values()} == {wide["parameters"]}
    best = json.loads((built / "results/mini/mixtures/transfer.json").read_text())
    shares = [[best[domain] for domain in fitted["domains"]]]
    pools = dict(
        pl.read_parquet(built / "results/mini/tokens/train.parquet")
        .group_by("domain")
        .agg(pl.sum("tokens"))
        .iter_rows()
    )
    there = at_run(fitted, wide["parameters"], wide["tokens"], pools, 8)
    expected = predict_defined(there, np.array(shares), [8])[0, 0].mean()
    spans = pl.read_csv(built / LAW / "intervals.csv", infer_schema_length=None)
    (row,) = spans.filter(pl.col("quantity") == "optimum_average_loss").to_dicts()
    assert row["step"] == 8
    assert row["estimate"] == pytest.approx(expected, rel=1e-9)


def test_the_score_has_as_many_large_runs_as_there_are(built: Path) -> None:
    table = pl.read_csv(built / LAW / "sizes.csv")
    assert table.select("large_runs", "draw").rows() == [(0, 0), *((1, draw) for draw in range(5))]
    assert table["error"].is_finite().all()


def test_everything_is_planned_to_the_summary(built: Path) -> None:
    said = call(built, "-n", "--quiet", "rules")
    assert "bimix (in laws/optimise) is fitted to losses of one size of model: left out here." in said
    assert "summarize_results" in said
    assert not {"pretrain_model", "fit_law", "score_law", "compare_laws"} & set(said.split())


def test_results_of_several_sizes_agree_with_themselves(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)
    found = verify(Path("results/mini"))
    assert not found.faults
    assert found.checked["laws fitted again"] == 1
    assert found.checked["runs in the tables of losses"] == 3 + 3 + 6 + 3
