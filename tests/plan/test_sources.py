"""Who makes which mixture: every name has one source, and what needs a swarm or a block says so."""

import copy
import re

import pytest
from refusals import refused

from bimix.laws.table import LAWS
from bimix.mixtures.names import SOURCES, groups_of, known_names, round_of, rounds, search_names, search_runs
from bimix.plan.budget import search_flags, search_prices, searched_with
from bimix.plan.dataset import Dataset, Fit
from bimix.plan.sources import constraint, datasets_with, names_under, observed_names, one_of


def test_every_mixture_has_its_rule(config: dict) -> None:
    own = Dataset(config, "own")
    rules = {"baseline": "mix_tokens", "uniform": "mix_uniform", "vne": "mix_entropy", "mine": "mix_given"}
    rules |= {
        "published_doremi": "mix_published",
        "swarm_0002": "mix_swarm",
        "doremi": "mix_given",
        "doge": "mix_given",
    }
    rules |= {f"{law}{swarm}": "optimize_mixture" for law in LAWS for swarm in ("", "_swarm")}
    for mixture, rule in rules.items():
        assert own.source(mixture).rule == rule
        assert (own.fit(mixture) is None) == (rule != "optimize_mixture")
        assert re.fullmatch(constraint([own], rule), mixture)


def test_observed_mixtures_are_taken_but_for_optima(config: dict) -> None:
    assert (
        Dataset(config, "seen").source("baseline").rule == Dataset(config, "seen").source("m7").rule == "mix_observed"
    )
    assert Dataset(config, "seen").fit("bimix") == Fit("observed", "bimix", "all", 9)
    config["datasets"]["seen"]["compare"]["mixtures"] += ["transfer"]  # which optimize_mixture makes
    assert observed_names([Dataset(config, name) for name in config["datasets"]]) == ["m0", "m1", "m2"]
    config["datasets"]["seen"] |= {"centre": "m5"}  # of tables, and in no group
    config["datasets"]["seen"]["optimum"]["objective"] = {"reference": "m6"}
    assert observed_names([Dataset(config, "seen")]) == ["m0", "m1", "m2", "m5", "m6"]


def test_a_mixture_that_nothing_makes_is_refused(config: dict) -> None:
    own, block = Dataset(config, "own"), config["datasets"]["own"]
    for mixture, left_out in (
        ("swarm_0003", None),
        ("seven", None),
        ("doge", "reweighting"),
        ("published_x", "published"),
        ("mine", "mixture_files"),
    ):
        block.pop(left_out, None)
        refused(f"config: datasets/own: no mixture '{mixture}'", own.source, mixture)


def test_optima_come_from_the_swarm_where_their_law_needs_it(config: dict) -> None:
    own = Dataset(config, "own")
    assert Dataset(config, "own").fit("bimix") == Fit("proxy", "bimix", "entropy", 800)
    assert Dataset(config, "own").fit("bimix_swarm") == Fit("small", "bimix", "swarm", 50)
    assert Dataset(config, "own").fit("regmix") == Fit("small", "regmix", "swarm", 50)
    assert own.coefficients(own.fit("regmix")) == "results/own/laws/small/regmix/swarm/coefficients.json"
    config["laws"]["optimise"].append("regmix")
    assert Dataset(config, "own").fit("regmix") == Fit("proxy", "regmix", "entropy", 800)
    assert Dataset(config, "own").fit("exponential").group == "swarm"
    del config["datasets"]["own"]["swarm"]
    assert not own.from_swarm("exponential")
    assert Dataset(config, "own").fit("exponential").group == "entropy"
    refused("'bimix_swarm' needs a block `swarm`", Dataset(config, "own").source, "bimix_swarm")


def test_the_optimum_of_another_group_has_its_name(config: dict) -> None:
    own, groups = Dataset(config, "own"), config["datasets"]["own"]["groups"]
    groups |= {"more": ["se", "uniform"], "my_swarm": ["je", "ce"]}
    assert own.fit("bimix_of_more") == Fit("proxy", "bimix", "more", 800)
    assert own.fit("transfer_of_my_swarm") == Fit("proxy", "transfer", "my_swarm", 800)
    assert own.source("bimix_of_more").rule == "optimize_mixture"
    assert "bimix_of_more" in known_names(own, ()) and "bimix_of_compare" not in known_names(own, ())
    for name in ("bimix_of_less", "bimix_of_", "bimix_more"):
        refused(f"no mixture '{name}'", own.source, name)


def test_a_swarm_below_the_least_runs_is_refused(config: dict) -> None:
    own, swarm = Dataset(config, "own"), config["datasets"]["own"]["swarm"]
    for law, entry in LAWS.items():
        swarm["runs"] = least = entry.least_runs(3)
        assert own.fit(f"{law}_swarm").law == law
        swarm["runs"] = least - 1
        sentence = f"'{law}_swarm' needs a swarm of {least} runs at least for 3 domains; `swarm` has {least - 1}"
        refused(f"swarm/runs: {sentence}", own.source, f"{law}_swarm")


def test_the_best_of_runs_is_judged_by_the_objective_where_they_have_its_reference(config: dict) -> None:
    block = config["datasets"]["own"]
    block["optimum"]["objective"] = {"kind": "minimax", "reference": "baseline"}
    refused("'best' is judged by minimax against the losses of 'baseline'", Dataset(config, "own").source, "best")
    block["groups"]["entropy"].append("baseline")
    assert Dataset(config, "own").source("best").rule == "mix_best"


def test_what_groups_may_name_is_what_can_be_made(config: dict) -> None:
    """One table: a name that is known has a rule that makes it and a rank, whoever it is."""
    own = Dataset(config, "own")
    own.block.update({"stages": {"late": []}, "search": {"start": ["baseline"], "rounds": 2, "of": 1}})
    own.block["optimum"]["weights"] = {"a": 1}
    own.groups.update(groups_of(own.block))
    own.block["swarm"]["runs"] = max(law.least_runs(3) for law in LAWS.values())
    known = known_names(own, ["published_doremi"])
    made = {name: own.source(name) for name in known}
    assert len(set(known)) == len(known) > 30
    assert {source.rule for source in SOURCES} - {source.rule for source in made.values()} == {"mix_swarm", "mix_best"}
    assert {name for name, source in made.items() if source.rank is None} == {"late"}


START = ["baseline", "se", "wanted_4"]
BLOCK = {
    "corpus": {},
    "domains": ["a", "b"],
    "groups": {},
    "training": {"proxy": {"seed": 1}},
    "optimum": {"model": "proxy", "group": "search", "step": 8, "weights": {"a": 1}},
    "compare": {"model": "proxy", "mixtures": ["baseline", "found"]},
    "search": {"start": START, "rounds": 3, "of": 1, "law": "transfer"},
}


@pytest.fixture
def block() -> dict:
    return copy.deepcopy(BLOCK)


def dataset_of(block: dict) -> Dataset:
    block["groups"] |= groups_of(block)
    return Dataset({"datasets": {"d": block}}, "d")


def test_a_group_has_all_runs_before_a_round_and_a_budget_of_runs_bounds_it(block: dict) -> None:
    assert groups_of(block) == {
        "search_0": START,
        "search_1": [*START, "round1"],
        "search_2": [*START, "round1", "round2"],
        "search": [*START, "round1", "round2", "round3"],
    }
    assert search_names(block) == ["round1", "round2", "round3", "found"]
    assert search_runs(block) == groups_of(block)["search"]
    block["search"] |= {"of": 2, "budget": 8}
    assert groups_of(block)["search"] == [*START, "round1", "round1_2", "round2", "round2_2"]
    assert round_of("round12_2") == 12 and round_of("rounds") is None


def test_who_makes_them_and_with_which_runs(block: dict) -> None:
    own = dataset_of(block)
    assert own.source("round2").rule == "mix_round"
    assert own.source("found").rule == "mix_found"
    refused("no mixture 'round4'", own.source, "round4")
    assert [run.name for run in searched_with(own, "round2")] == [*START, "round1"]
    assert [run.name for run in searched_with(own, "found")] == [*START, "round1", "round2", "round3"]
    del block["search"]
    refused("no mixture 'found'", own.source, "found")


def test_a_budget_of_flops_reads_what_runs_cost(block: dict) -> None:
    """All rounds are planned, and each reads what a run costs; a budget of runs needs no prices."""
    block |= {"optimum": {"model": "proxy"}, "compare": {"model": "large"}}
    own = dataset_of(block)
    assert search_prices(own) == search_flags(own) == []
    for budget in ("5%", 2e18):
        block["search"]["budget"] = budget
        assert len(rounds(block)) == 3 and search_prices(own) == ["results/d/search/prices.csv"]
        assert search_flags(own) == ["--budget", str(budget), "--large", "large", "--offered", "proxy"]
    for budget in (5.0, "5", "5.0"):  # quoted, it is the same number of runs
        block["search"]["budget"] = budget
        assert search_prices(own) == [] and len(rounds(block)) == 2


# What a wildcard may be

PARTS = {
    "datasets": {
        "web": {"groups": {"entropy": ["se", "je"], "swarm": ["swarm_1"]}, "tokenizer": {"train": {"share": 1}}},
        "given": {"groups": {"all": ["a.b"]}, "tokenizer": {"file": "t.json"}},
        "none": {"groups": {}},
    },
}


def test_a_constraint_takes_its_names_and_no_others() -> None:
    assert not re.fullmatch(one_of([]), "")
    dotted = names_under(PARTS, "groups", but=["swarm"])
    assert [bool(re.fullmatch(dotted, name)) for name in ("entropy", "all", "swarm", "entro")] == [1, 1, 0, 0]
    assert re.fullmatch(one_of(["a.b"]), "a.b") and not re.fullmatch(one_of(["a.b"]), "acb")
    assert datasets_with(PARTS, "tokenizer/train") == "web"
    assert datasets_with(PARTS, "tokenizer", but="tokenizer/train") == "given"
    assert datasets_with(PARTS, "groups") == "web|given"
    assert not re.fullmatch(datasets_with(PARTS, "swarm"), "web")
