"""What each method spent, against sums by hand."""

import json
from pathlib import Path

import polars as pl
import pytest
from refusals import refused

import judge_methods
from bimix.judge.worth import read_cost

RUN = {"flops": 2e12, "gpu_hours": 0.5, "seconds": 1800.0, "processes": 1}


def losses(ends: dict[str, tuple[float, float]]) -> pl.DataFrame:
    rows = []
    for mixture, domains in ends.items():
        for step in (10, 20):
            for domain, last in zip("ab", domains, strict=True):
                rows.append((mixture, step, domain, last + (1.0 if step == 10 else 0.0)))
    return pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    losses({"baseline": (3.0, 4.0), "bimix": (2.9, 3.7), "regmix": (3.1, 3.5)}).write_parquet(
        tmp_path / "losses.parquet"
    )
    shares = {"mixture": ["baseline"] * 2, "domain": ["a", "b"], "proportion": [0.5, 0.5]}
    pl.DataFrame(shares).write_csv(tmp_path / "mixtures.csv")
    (tmp_path / "large.json").write_text(json.dumps(RUN | {"flops": 1e13}))
    for name in ("se", "ce"):
        (tmp_path / f"{name}.json").write_text(json.dumps(RUN))
    swarm = pl.DataFrame(
        {"mixture": ["s1", "s2", "s3"], "flops": [1e12] * 3, "gpu_hours": [0.0] * 3, "seconds": [60.0] * 3}
    )
    swarm.write_parquet(tmp_path / "runs.parquet")
    return tmp_path


def call(folder: Path, searches: dict[str, list[str]]) -> pl.DataFrame:
    paths = {name: [str(folder / file) for file in files] for name, files in searches.items()}
    return judged(folder, "--large", str(folder / "large.json"), "--searches", json.dumps(paths))


def judged(folder: Path, *more: str) -> pl.DataFrame:
    files = {"losses": "losses.parquet", "mixtures": "mixtures.csv", "out": "verdict.csv"}
    flags = [word for flag, file in files.items() for word in (f"--{flag}", str(folder / file))]
    judge_methods.main([*flags, "--reference", "baseline", "--laws", "{}", "--run-tokens", "none", *more])
    return pl.read_csv(folder / "verdict.csv", infer_schema_length=None).sort("mixture")


def test_each_method_pays_for_the_runs_it_was_found_with(folder: Path) -> None:
    table = call(folder, {"bimix": ["se.json", "ce.json"], "regmix": ["runs.parquet"]})
    assert table["mixture"].to_list() == ["baseline", "bimix", "regmix"]
    assert table["search_runs"].to_list() == [0, 2, 3]
    assert table["search_flops"].to_list() == [0, 4e12, 3e12]
    assert table["search_percent"].to_list() == pytest.approx([0, 40, 30])
    assert table["search_gpu_hours"].to_list() == [0, 1, 0]
    assert table["search_device_hours"].to_list() == pytest.approx([0, 1, 0.05])
    assert table["average_loss"].to_list() == pytest.approx([3.5, 3.3, 3.3])
    assert table["worst_domain"].to_list() == ["b", "b", "b"]
    assert table["worst_loss"].to_list() == pytest.approx([4.0, 3.7, 3.5])
    assert table["steps_saved_percent"][0] == pytest.approx(0)
    assert table["steps_saved_percent"][1] > 0


def elsewhere(folder: Path, costs: str | None) -> pl.DataFrame:
    if costs is None:
        return judged(folder)
    (folder / "costs.csv").write_text(costs)
    return judged(folder, "--costs", str(folder / "costs.csv"))


COSTS = "mixture,search_runs,search_flops,large_flops"


def test_costs_of_runs_made_elsewhere_come_from_a_table(folder: Path) -> None:
    table = elsewhere(folder, f"{COSTS},predicted_gain_percent\nbimix,4,2e12,1e13,5.5\nregmix,64,5e13,1e13,\n")
    assert table["mixture"].to_list() == ["baseline", "bimix", "regmix"]
    assert table["search_runs"].to_list() == [0, 4, 64]
    assert table["search_percent"].to_list() == pytest.approx([0, 20, 500])
    assert table["search_gpu_hours"].to_list() == [0, None, None]
    assert table["predicted_gain_percent"].to_list() == [None, 5.5, None]
    assert table["average_loss"].to_list() == pytest.approx([3.5, 3.3, 3.3])
    # without one it is not known what was spent
    table = elsewhere(folder, None)
    assert table["search_runs"].null_count() == 3 and table["search_percent"].null_count() == 3
    assert table["predicted_gain_percent"].null_count() == 3


def test_wrong_costs_are_one_sentence(folder: Path) -> None:
    for costs, sentence in (
        ("mixture,search_runs,search_flops\nbimix,4,1", "the table of costs has no column 'large_flops'"),
        (f"{COSTS}\nbimix,4,much,1e13", "its column 'search_flops' holds something that is no number"),
        (f"{COSTS}\nbimix,4,1,1e13\nbimix,4,1,1e13", "two rows of 'bimix'"),
        (f"{COSTS}\nbimix,4,1,1e13\nregmix,4,1,2e13", "`large_flops` must be one number above 0"),
        (f"{COSTS}\nbimix,4,1,0", "`large_flops` must be one number above 0"),
    ):
        refused(sentence, elsewhere, folder, costs)
    # a report without its FLOPs
    (folder / "ce.json").write_text(json.dumps({"gpu_hours": 0.0, "seconds": 1.0}))
    refused(r"ce\.json does not say its flops", call, folder, {"bimix": ["ce.json"]})
    assert not (folder / "verdict.csv").exists()
    on_cpus, restarted = RUN | {"processes": 8, "gpu_hours": 0.0}, RUN | {"processes": 8, "gpu_hours": 2.5}
    assert read_cost(on_cpus, "x")["device_hours"] == pytest.approx(4)
    assert read_cost(restarted, "x")["device_hours"] == 2.5, "an attempt before had fewer GPUs"
