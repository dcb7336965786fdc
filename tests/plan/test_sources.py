"""Who makes which mixture: every name has one source, and what needs a swarm or a block says so."""

import copy
import re
from pathlib import Path

import pytest

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.plan import sources
from bimix.plan.corpora import vector_moments
from bimix.plan.optimum import optimum_coefficients
from bimix.plan.sources import (
    Fit,
    from_swarm,
    observed_names,
    source_of,
)
from bimix.settings.complete import unsearched

CONFIG = {
    "laws": {"optimise": ["bimix", "transfer"]},
    "datasets": {
        "own": {
            "corpus": {},
            "vectors": {"train": {}, "documents": 3},
            "domains": ["a", "b", "c"],
            "published": "table",
            "mixture_files": {"mine": "mine.json"},
            "groups": {"entropy": ["se", "ce"], "swarm": ["swarm_0001", "swarm_0002"]},
            "training": {"tiny": {"batch_rows": 4}},
            "sequence_length": 10,
            "optimum": {"model": "tiny", "group": "entropy", "step": 800},
            "swarm": {"model": "small", "runs": 12, "step": 50},
            "reweighting": {"model": "tiny", "reference": "baseline", "doremi": {"rounds": 3, "settled": 0.01}},
            "compare": {"model": "tiny", "mixtures": ["baseline", "bimix"]},
        },
        "seen": {
            "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
            "groups": {"all": [], "some": ["m1", "m0"]},
            "optimum": {"model": "observed", "group": "all", "step": 9},
            "compare": {"model": "observed", "mixtures": ["m2", "bimix"]},
        },
    },
}


@pytest.fixture
def config() -> dict:
    return copy.deepcopy(CONFIG)


@pytest.mark.parametrize(
    ("mixture", "rule"),
    [
        ("baseline", "mix_baseline"),
        ("uniform", "mix_uniform"),
        ("vne", "mix_entropy"),
        ("mine", "mix_given"),
        ("published_doremi", "mix_published"),
        ("swarm_0002", "mix_swarm"),
        ("doremi", "mix_reweighted"),
        ("doremi_round2", "mix_reweighted"),
        ("doge", "mix_reweighted"),
        *((law, "optimize_mixture") for law in LAWS),
        *((f"{law}_swarm", "optimize_mixture") for law in LAWS),
    ],
)
def test_every_mixture_has_its_rule(config: dict, mixture: str, rule: str) -> None:
    source = source_of(config, "own", mixture)
    assert source.rule == rule
    assert (source.fit is None) == (rule != "optimize_mixture")


def test_observed_mixtures_are_taken_but_for_optima(config: dict) -> None:
    assert source_of(config, "seen", "baseline").rule == source_of(config, "seen", "m7").rule == "mix_observed"
    assert source_of(config, "seen", "bimix").fit == Fit("observed", "bimix", "all", 9)
    config["datasets"]["seen"]["compare"]["mixtures"] += ["transfer"]  # which optimize_mixture makes
    assert observed_names(config) == ["m0", "m1", "m2"]


@pytest.mark.parametrize(
    ("mixture", "block"),
    [
        ("swarm_0003", None),
        ("seven", None),
        ("doge", "reweighting"),
        ("published_x", "published"),
        ("mine", "mixture_files"),
    ],
)
def test_a_mixture_that_nothing_makes_is_refused(config: dict, mixture: str, block: str | None) -> None:
    if block:
        del config["datasets"]["own"][block]
    with pytest.raises(InputError, match=f"config: datasets/own: no mixture '{mixture}'"):
        source_of(config, "own", mixture)


def test_optima_come_from_the_swarm_where_their_law_needs_it(config: dict) -> None:
    assert source_of(config, "own", "bimix").fit == Fit("tiny", "bimix", "entropy", 800)
    assert source_of(config, "own", "bimix_swarm").fit == Fit("small", "bimix", "swarm", 50)
    assert source_of(config, "own", "regmix").fit == Fit("small", "regmix", "swarm", 50)
    assert optimum_coefficients(config, "own", "regmix") == "results/own/laws/small/regmix/swarm/coefficients.json"
    config["laws"]["optimise"].append("regmix")
    assert source_of(config, "own", "regmix").fit == Fit("tiny", "regmix", "entropy", 800)
    assert source_of(config, "own", "exponential").fit.group == "swarm"
    del config["datasets"]["own"]["swarm"]
    assert not from_swarm(config, "own", "exponential")
    assert source_of(config, "own", "exponential").fit.group == "entropy"
    with pytest.raises(InputError, match="'bimix_swarm' needs a block `swarm`"):
        source_of(config, "own", "bimix_swarm")


@pytest.mark.parametrize("law", LAWS)
def test_a_swarm_below_the_least_runs_is_refused(config: dict, law: str) -> None:
    least = LAWS[law].least_runs(3)
    config["datasets"]["own"]["swarm"]["runs"] = least
    assert source_of(config, "own", f"{law}_swarm").fit.law == law
    config["datasets"]["own"]["swarm"]["runs"] = least - 1
    sentence = (
        f"swarm/runs: '{law}_swarm' needs a swarm of {least} runs at least for 3 domains; `swarm` has {least - 1}"
    )
    with pytest.raises(InputError, match=sentence):
        source_of(config, "own", f"{law}_swarm")


def test_vne_needs_vectors(config: dict) -> None:
    del config["datasets"]["own"]["vectors"]
    with pytest.raises(InputError, match="own: the mixture vne needs document vectors: name it in a group"):
        source_of(config, "own", "vne")
    assert vector_moments(config, "own") == []
    assert vector_moments(CONFIG, "own") == [f"results/own/vectors/{domain}.npz" for domain in "abc"]


@pytest.mark.parametrize(
    ("methods", "optimise", "swarm", "best"),
    [
        (["bimix"], ["bimix"], True, ["best"]),
        (["exponential"], ["bimix"], True, ["best_swarm"]),
        (["exponential"], ["exponential"], True, ["best"]),  # fitted to the group, and no swarm is trained for it
        (["exponential"], ["exponential"], False, ["best"]),
        (["exponential", "exponential_swarm"], ["exponential"], True, ["best", "best_swarm"]),
        (["baseline", "ce"], ["bimix"], True, []),
    ],
)
def test_a_verdict_has_the_best_run_of_each_search_that_its_methods_made(
    config: dict, methods: list[str], optimise: list[str], swarm: bool, best: list[str]
) -> None:
    block = config["datasets"]["own"]
    block["methods"], config["laws"]["optimise"] = methods, optimise
    if not swarm:
        del block["swarm"], block["groups"]["swarm"]
    assert [name for name in unsearched(config, "own") if name.startswith("best")] == best
    for name in best:
        assert source_of(config, "own", name).rule == "mix_best"


def test_the_best_of_runs_is_judged_by_the_objective_where_they_have_its_reference(config: dict) -> None:
    block = config["datasets"]["own"]
    block["methods"] = ["bimix"]
    block["optimum"]["objective"] = {"kind": "minimax", "reference": "baseline"}
    assert "best" not in unsearched(config, "own")
    with pytest.raises(InputError, match="'best' is judged by the objective minimax, against the losses of 'baseline'"):
        source_of(config, "own", "best")
    block["groups"]["entropy"].append("baseline")
    assert "best" in unsearched(config, "own") and source_of(config, "own", "best").rule == "mix_best"
    block["optimum"]["stage"] = 2
    with pytest.raises(InputError, match="'best' is one mixture for the whole run"):
        source_of(config, "own", "best")


def test_every_source_of_mixtures_has_a_rank() -> None:
    """Of mixtures that tie the cheaper is recommended: no kind of source may be forgotten."""
    text = Path(sources.__file__).read_text(encoding="utf-8")
    rules = set(re.findall(r'Source\(\s*"(\w+)"', text)) | set(re.findall(r'else "(mix_\w+)"', text))
    assert len(rules) > 10 and rules - {"mix_stages"} == set(sources.RANKS)
