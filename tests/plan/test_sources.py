"""Who makes which mixture: every name has one source, and what needs a swarm or a block says so."""

import copy

import pytest

from bimix.errors import InputError
from bimix.plan.corpora import vector_moments
from bimix.plan.laws import LAWS, proposal_of
from bimix.plan.sources import (
    Fit,
    epoch_tokens,
    export_data,
    export_run_tokens,
    export_tokens,
    from_swarm,
    last_round,
    observed_names,
    optimum_coefficients,
    optimum_run_tokens,
    optimum_tokens,
    pool_tokens,
    reweighted_mixture,
    reweighting_folders,
    reweighting_paths,
    round_reference,
    source_of,
)

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


def test_an_optimum_is_of_a_law(config: dict) -> None:
    with pytest.raises(InputError, match="'baseline' is not the optimum of a law"):
        optimum_coefficients(config, "own", "baseline")


def test_tokens_are_read_for_epochs_and_for_regmix(config: dict) -> None:
    table = ["results/own/tokens/train.parquet"]
    assert epoch_tokens(config, "own") == optimum_tokens(config, "own", "transfer") == table
    assert optimum_tokens(config, "own", "regmix") == table
    assert optimum_run_tokens(config, "own", "bimix") == "none"
    # the run under `optimum`, 800 updates of 4 rows of 10 tokens, and not the swarm's 50
    assert optimum_run_tokens(config, "own", "bimix_swarm") == 32_000
    config["datasets"]["own"]["optimum"]["max_epochs"] = 4
    assert epoch_tokens(config, "own") == optimum_tokens(config, "own", "bimix") == table
    assert optimum_tokens(config, "seen", "regmix") == []
    config["datasets"]["seen"]["observations"]["tokens"] = "tokens.csv"
    assert optimum_tokens(config, "seen", "regmix") == ["tokens.csv"]


def test_runs_that_repeat_as_the_large_one_will_count_its_tokens(config: dict) -> None:
    table, block = ["results/own/tokens/train.parquet"], config["datasets"]["own"]
    assert pool_tokens(config, "seen") == []
    block["simulate_epochs"] = True
    block["compare"] = {"model": "large", "mixtures": ["baseline"]}
    block["training"]["large"] = {"steps": 5000, "batch_rows": 8}
    assert pool_tokens(config, "own") == epoch_tokens(config, "own") == optimum_tokens(config, "own", "bimix") == table
    assert optimum_run_tokens(config, "own", "bimix") == optimum_run_tokens(config, "own", "bimix_swarm") == 400_000


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


def test_vne_needs_vectors(config: dict) -> None:
    del config["datasets"]["own"]["vectors"]
    with pytest.raises(InputError, match="own: the mixture vne needs document vectors: name it in a group"):
        source_of(config, "own", "vne")
    assert vector_moments(config, "own") == []
    assert vector_moments(CONFIG, "own") == [f"results/own/vectors/{domain}.npz" for domain in "abc"]


def test_an_export_names_the_datasets_own_files_or_those_of_the_config(config: dict) -> None:
    own = config["datasets"]["own"]
    own["training"]["tiny"]["steps"] = 7
    assert export_data(config, "own", "levanter") == "results/own/export/raw.json"
    assert export_data(config, "own", "olmo-core") == "results/own/export/rows.json"
    assert export_tokens(config, "own") == ["results/own/tokens/train.parquet"]
    assert export_run_tokens(config, "own") == [7 * 4 * 10]
    own["export"] = {"data": "files.json", "run_tokens": 5}
    assert export_data(config, "own", "olmo-core") == "files.json"
    assert (export_tokens(config, "own"), export_run_tokens(config, "own")) == ([], [5])


def test_an_export_of_observed_losses_needs_files_of_its_own(config: dict) -> None:
    with pytest.raises(InputError, match="config: datasets/seen/export/data: an export names the files of each domain"):
        export_data(config, "seen", "csv")
    assert export_run_tokens(config, "seen") == []
    config["datasets"]["seen"]["export"] = {"data": "files.json"}
    assert export_data(config, "seen", "csv") == "files.json"


@pytest.mark.parametrize(
    ("mixture", "first", "place"),
    [
        ("transfer", "transfer", 1),
        ("transfer~2", "transfer", 2),
        ("regmix_tuned_swarm~9", "regmix_tuned_swarm", 9),
        ("baseline~2", "baseline~2", 1),  # no law proposes it
        ("published_a~2", "published_a~2", 1),
        ("transfer~1", "transfer~1", 1),
        ("transfer~12", "transfer~12", 1),
    ],
)
def test_a_proposal_is_named_by_its_law_and_its_place(mixture: str, first: str, place: int) -> None:
    assert proposal_of(mixture) == (first, place)
