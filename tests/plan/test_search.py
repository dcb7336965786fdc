"""A search by rounds as it is planned: names, groups, what each round reads, what is refused."""

import copy

import pytest

from bimix.errors import InputError
from bimix.plan import search
from bimix.plan.costs import searched_with
from bimix.plan.sources import rules_without_runs, source_of

START = ["baseline", "se", "wanted_4"]
BLOCK = {
    "corpus": {},
    "domains": ["a", "b"],
    "groups": {},
    "training": {"tiny": {"seed": 1}},
    "optimum": {"model": "tiny", "group": "search", "step": 8, "weights": {"a": 1}},
    "compare": {"model": "tiny", "mixtures": ["baseline", "found"]},
    "search": {"start": START, "rounds": 3, "of": 1, "law": "transfer"},
}


@pytest.fixture
def block() -> dict:
    return copy.deepcopy(BLOCK)


def config_of(block: dict) -> dict:
    block["groups"] |= search.groups_of(block)
    return {"datasets": {"d": block}, "mixtures": {"wanted": {"epochs": [4]}}}


def test_a_group_has_all_runs_before_a_round(block: dict) -> None:
    assert search.groups_of(block) == {
        "search_0": START,
        "search_1": [*START, "round1"],
        "search_2": [*START, "round1", "round2"],
        "search": [*START, "round1", "round2", "round3"],
    }
    assert search.search_names(block) == ["round1", "round2", "round3", "found"]
    assert search.search_runs(block) == search.groups_of(block)["search"]
    assert search.losses_before("d", "tiny", "2") == "results/d/losses/tiny/search_1.parquet"
    assert search.reports_before("d", "tiny", "3") == [f"results/d/search/tiny/{n}/report.json" for n in (1, 2)]


def test_rounds_of_two_and_a_budget_of_runs(block: dict) -> None:
    block["search"] |= {"of": 2, "budget": 8}
    assert search.groups_of(block)["search"] == [*START, "round1", "round1_2", "round2", "round2_2"]
    assert search.round_of("round12_2") == 12 and search.round_of("rounds") is None


def test_a_budget_of_flops_is_read_from_the_plan_of_costs(block: dict) -> None:
    """All rounds are planned, and each reads what a run costs; a budget of runs needs no plan."""
    block |= {"optimum": {"model": "tiny"}, "compare": {"model": "large"}}
    config = config_of(block)
    assert search.budget_plan(config, "d") == search.budget_flags(config, "d") == []
    for budget in ("5%", 2e18):
        block["search"]["budget"] = budget
        assert len(search.rounds(block)) == 3 and search.budget_plan(config, "d") == ["results/d/plan.csv"]
        words = ["--budget", str(budget), "--large", "large", "--offered", "tiny"]
        assert search.budget_flags(config, "d") == words
    block["search"]["budget"] = 8.0
    assert search.budget_plan(config, "d") == []


def test_who_makes_them_and_with_which_runs(block: dict) -> None:
    config = config_of(block)
    assert source_of(config, "d", "round2").rule == "mix_round"
    assert source_of(config, "d", "found").rule == "mix_found"
    with pytest.raises(InputError, match="no mixture 'round4'"):
        source_of(config, "d", "round4")
    assert [run.name for run in searched_with(config, "d", "round2")] == [*START, "round1"]
    assert [run.name for run in searched_with(config, "d", "found")] == [*START, "round1", "round2", "round3"]
    assert rules_without_runs(config, "d") == ["baseline", "wanted_4"]
    del block["search"]
    with pytest.raises(InputError, match="no mixture 'found'"):
        source_of(config, "d", "found")
