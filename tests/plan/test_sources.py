"""Who makes which mixture: every name has one source, and what needs a swarm or a block says so."""

import re

import pytest
from made_configs import demo_dataset
from refusals import refused

from bimix.laws.table import LAWS
from bimix.mixtures.names import SOURCES, groups_of, known_names, round_of, rounds, search_names, search_runs
from bimix.plan.budget import search_flags, search_prices, searched_with
from bimix.plan.dataset import Dataset, Fit
from bimix.plan.sources import constraint, datasets_with, names_under, observed_names, one_of


@pytest.fixture
def own() -> Dataset:
    """The demo with all blocks that make mixtures."""
    dataset = demo_dataset()
    dataset.block.update({"published": "pile", "mixture_files": {"mine": "mine.json"}})
    return dataset


def test_every_mixture_has_its_rule(own: Dataset) -> None:
    rules = {
        "baseline": "mix_tokens",
        "uniform": "mix_uniform",
        "vne": "mix_entropy",
        "mine": "mix_given",
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


def test_observed_mixtures_are_taken_but_for_optima(own: Dataset, seen: Dataset) -> None:
    assert seen.source("baseline").rule == seen.source("m7").rule == "mix_observed"
    assert seen.fit("bimix") == Fit("observed", "bimix", "all", 9)
    assert observed_names([own, seen]) == ["m0", "m1", "m2"]
    seen.block["centre"] = "m5"  # of tables, and in no group
    seen.block["optimum"]["objective"] = {"reference": "m6"}
    assert observed_names([seen]) == ["m0", "m1", "m2", "m5", "m6"]


@pytest.mark.parametrize(
    ("mixture", "left_out"),
    [
        ("swarm_0033", None),
        ("seven", None),
        ("bimix_of_less", None),
        ("bimix_of_", None),
        ("bimix_more", None),
        ("round1", None),
        ("found", None),
        ("doge", "reweighting"),
        ("published_x", "published"),
        ("mine", "mixture_files"),
    ],
)
def test_a_mixture_that_nothing_makes_is_refused(own: Dataset, mixture: str, left_out: str | None) -> None:
    own.block.pop(left_out, None)
    refused(f"config: datasets/demo: no mixture '{mixture}'", own.source, mixture)


def test_optima_come_from_the_swarm_where_their_law_needs_it(own: Dataset) -> None:
    assert own.fit("bimix") == Fit("proxy", "bimix", "entropy", 400)
    assert own.fit("bimix_swarm") == Fit("proxy", "bimix", "swarm", 50)
    assert own.fit("regmix") == Fit("proxy", "regmix", "swarm", 50)
    assert own.coefficients(own.fit("regmix")) == "results/demo/laws/proxy/regmix/swarm/coefficients.json"
    own.config["laws"]["optimise"].append("regmix")
    assert own.fit("regmix") == Fit("proxy", "regmix", "entropy", 400)
    assert own.fit("exponential").group == "swarm"
    del own.block["swarm"]
    assert not own.from_swarm("exponential") and own.fit("exponential").group == "entropy"
    refused("'bimix_swarm' needs a block `swarm`", own.source, "bimix_swarm")


def test_the_optimum_of_another_group_has_its_name(own: Dataset) -> None:
    own.groups.update({"more": ["se", "uniform"], "my_swarm": ["je", "ce"]})
    assert own.fit("bimix_of_more") == Fit("proxy", "bimix", "more", 400)
    assert own.fit("transfer_of_my_swarm") == Fit("proxy", "transfer", "my_swarm", 400)
    assert own.source("bimix_of_more").rule == "optimize_mixture"
    assert "bimix_of_more" in known_names(own, ()) and "bimix_of_compare" not in known_names(own, ())


@pytest.mark.parametrize("law", LAWS)
def test_a_swarm_below_the_least_runs_is_refused(own: Dataset, law: str) -> None:
    own.block["swarm"]["runs"] = least = LAWS[law].least_runs(8)
    assert own.fit(f"{law}_swarm").law == law
    own.block["swarm"]["runs"] = least - 1
    refused(f"swarm/runs: '{law}_swarm' needs a swarm of {least} runs at least", own.source, f"{law}_swarm")


def test_the_best_of_runs_is_judged_by_the_objective_where_they_have_its_reference(own: Dataset) -> None:
    own.block["optimum"]["objective"] = {"kind": "minimax", "reference": "baseline"}
    refused("'best' is judged by minimax against the losses of 'baseline'", own.source, "best")
    own.groups["entropy"].append("baseline")
    assert own.source("best").rule == "mix_best"


def search_of(own: Dataset, start: list[str], **settings: object) -> None:
    """A search of three rounds by `settings`."""
    own.block["search"] = {"start": start, "rounds": 3, "of": 1, "law": "transfer"} | settings
    own.groups.update(groups_of(own.block))


def test_what_groups_may_name_is_what_can_be_made(own: Dataset) -> None:
    """One table: a name that is known has a rule that makes it and a rank, whoever it is."""
    own.block["stages"] = {"late": []}
    search_of(own, ["baseline"])
    own.block["optimum"]["weights"] = {"web": 1}
    own.block["swarm"]["runs"] = max(law.least_runs(8) for law in LAWS.values())
    known = known_names(own, ["published_doremi"])
    made = {name: own.source(name) for name in known}
    assert len(set(known)) == len(known) > 30
    assert {source.rule for source in SOURCES} - {source.rule for source in made.values()} == {"mix_swarm", "mix_best"}
    assert {name for name, source in made.items() if source.rank is None} == {"late"}


START = ["baseline", "se", "wanted_4"]


def test_a_group_has_all_runs_before_a_round_and_a_budget_of_runs_bounds_it(own: Dataset) -> None:
    search_of(own, START)
    assert groups_of(own.block) == {
        "search_0": START,
        "search_1": [*START, "round1"],
        "search_2": [*START, "round1", "round2"],
        "search": [*START, "round1", "round2", "round3"],
    }
    assert search_names(own.block) == ["round1", "round2", "round3", "found"]
    assert search_runs(own.block) == groups_of(own.block)["search"]
    search_of(own, START, of=2, budget=8)
    assert groups_of(own.block)["search"] == [*START, "round1", "round1_2", "round2", "round2_2"]
    assert round_of("round12_2") == 12 and round_of("rounds") is None


def test_who_makes_them_and_with_which_runs(own: Dataset) -> None:
    search_of(own, START)
    own.block["optimum"] |= {"group": "search", "weights": {"web": 1}}
    assert own.source("round2").rule == "mix_round"
    assert own.source("found").rule == "mix_found"
    refused("no mixture 'round4'", own.source, "round4")
    assert [run.name for run in searched_with(own, "round2")] == [*START, "round1"]
    assert [run.name for run in searched_with(own, "found")] == [*START, "round1", "round2", "round3"]


def test_a_budget_of_flops_reads_what_runs_cost(own: Dataset) -> None:
    """All rounds are planned, and each reads what a run costs; a budget of runs needs no prices."""
    search_of(own, START)
    assert search_prices(own) == search_flags(own) == []
    for budget in ("5%", 2e18):
        own.block["search"]["budget"] = budget
        assert len(rounds(own.block)) == 3 and search_prices(own) == ["results/demo/search/prices.csv"]
        assert search_flags(own) == ["--budget", str(budget), "--large", "target", "--offered", "proxy"]
    for budget in (5.0, "5", "5.0"):  # quoted, it is the same number of runs
        own.block["search"]["budget"] = budget
        assert search_prices(own) == [] and len(rounds(own.block)) == 2


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
