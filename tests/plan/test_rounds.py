"""The rounds of DoReMi: how many there are, and where each of them lies."""

import pytest

from bimix.plan.rounds import last_round, reweighted_mixture, reweighting_folders, reweighting_paths, round_reference


@pytest.fixture
def config() -> dict:
    settings = {"model": "tiny", "reference": "baseline", "doremi": {"rounds": 3, "settled": 0.01}}
    return {"datasets": {"own": {"reweighting": settings}}}


def test_doremi_ends_with_the_round_that_has_settled(config: dict) -> None:
    sizes = {1: 0.5, 2: 0.001}
    assert last_round(config, "own", sizes.__getitem__) == 2
    assert last_round(config, "own", lambda number: 0.5) == 3
    config["datasets"]["own"]["reweighting"]["doremi"]["rounds"] = 1
    assert last_round(config, "own", {}.__getitem__) == 1  # asks for no round's report


def test_a_method_has_a_folder_for_each_round(config: dict) -> None:
    folder, sizes = "results/own/reweighting/tiny", {1: 0.5, 2: 0.001}.__getitem__
    assert reweighting_folders(config, "own", "doremi", sizes) == [f"{folder}/doremi/1", f"{folder}/doremi/2"]
    assert reweighting_paths(config, "own", "doremi_round3", sizes) == [f"{folder}/doremi/3/path.parquet"]
    assert reweighted_mixture(config, "own", "doremi", sizes) == f"{folder}/doremi/2/mixture.json"
    assert reweighted_mixture(config, "own", "doge", sizes) == f"{folder}/doge/mixture.json"
    assert [round_reference(config, "own", number) for number in "123"] == [
        "baseline",
        "doremi_round1",
        "doremi_round2",
    ]
