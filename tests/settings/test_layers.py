"""Layers of a config: what null takes away, which of exclusive keys replaces the other, and the lines of faults."""

from pathlib import Path

import pytest
from made_configs import ROOT
from refusals import refused

from bimix.settings.layers import over
from bimix.settings.prepare import Call, Prepared, prepare


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def prepared(*texts: str, given: dict | None = None) -> Prepared:
    """The config of files over the workflow's and --config; no dataset's files must be there."""
    own = [Path(f"{number}.yaml") for number in range(len(texts))]
    for path, text in zip(own, texts, strict=True):
        path.write_text(text + "\n")
    return prepare(Call(ROOT, f"{ROOT}/", [ROOT / "config.yaml", *own], len(own), given or {}, ["results/any"]))


def pile(*texts: str) -> dict:
    """The block `pile` over which each file puts a text."""
    return prepared(*(f"datasets: {{pile: {text}}}" for text in texts)).config["datasets"]["pile"]


def test_null_takes_a_key_or_a_block_of_an_earlier_layer_away() -> None:
    whole = pile("{}")
    assert {"downstream", "reweighting"} <= whole.keys() and "file" in whole["vectors"]
    left = pile("{downstream: null, reweighting: {doge: null}, corpus: {labels: {GitHub: null}}, vectors: null}")
    assert "downstream" not in left and left["corpus"]["labels"] == {}
    assert left["reweighting"]["doge"]["steps"] == 200_000 != whole["reweighting"]["doge"]["steps"]
    assert "file" not in left["vectors"]  # trained, for the mixture vne
    search = "{search: {start: [baseline, uniform], rounds: 2}}"
    assert "search" in pile(search) and "search" not in pile(search, "{search: null}")
    # a block after a null is not put over what the null took away
    again = pile("{reweighting: null}", "{reweighting: {model: 1M, reference: uniform}}")["reweighting"]
    assert again["doge"] == left["reweighting"]["doge"] | {"steps": 1000} | again["doge"]


def test_null_of_the_command_line_takes_away_and_one_that_takes_nothing_is_remarked_at_its_line() -> None:
    own = "models: {own: {shape: {layers: 1, width: 16, heads: 2}, launch: {nodes: 1, gpus: 8, threads: 8}}}"
    config = prepared(own, given={"models": {"own": "null"}, "datasets": {"slimpajama": None}}).config
    assert "own" not in config["models"] and "280M" in config["models"]
    assert "slimpajama" not in config["datasets"] and "pile" in config["datasets"]
    (remark,) = prepared("datasets:\n  pile:\n    search: null\n    downstream: null").remarks
    assert remark.startswith("0.yaml:3: datasets/pile/search: ")


def test_null_is_a_value_where_the_key_takes_it() -> None:
    own = "{cut_characters: null, domain_field: null, train: {ArXiv: a, GitHub: b}, validation: {share: 0.1}}"
    config = prepared(
        "container: null\ncorpus: {domain_field: kind}\n"
        f"datasets: {{pile: {{domains: [ArXiv, GitHub], published: null, corpus: {own}, tokenizer: {{revision: null}},"
        " groups: {published: null}, held_out: null, compare: {mixtures: [baseline, uniform]}}}"
    ).config
    block = config["datasets"]["pile"]
    assert config["container"] is None and block["tokenizer"]["revision"] is None
    assert (block["corpus"]["cut_characters"], block["corpus"]["domain_field"]) == (None, None)


def test_one_of_exclusive_keys_replaces_the_other_of_earlier_layers_and_two_of_one_layer_are_a_fault() -> None:
    assert pile("{tokenizer: {file: own.json}}")["tokenizer"] == {"file": "own.json", "end_of_text": "<|endoftext|>"}
    ways = "{tokenizer: {train: {vocabulary: 300, share: 1.0}}}", "{tokenizer: {hub: a/b, revision: v1}}"
    assert pile(*ways)["tokenizer"].keys() == {"hub", "revision", "end_of_text"}
    assert pile(*reversed(ways))["tokenizer"].keys() == {"train", "end_of_text"}  # the revision was of the hub
    assert pile("{vectors: {train: {epochs: 1}}}")["vectors"] == {"train": {"epochs": 1}, "documents": 10_000}
    sizes = optimum_over({"model": "a", "step": 3, "group": "g"}, {"models": ["a", "b"]})
    assert sizes == {"models": ["a", "b"], "group": "g"}
    assert optimum_over({"models": ["a", "b"]}, {"model": "b"}) == {"model": "b"}
    two = {"datasets": {"pile": {"tokenizer": {"file": "own.json", "hub": "a/b"}}}}
    refused("--config: datasets/pile/tokenizer: exactly one of train, file, hub", prepared, given=two)


def optimum_over(lower: dict, upper: dict) -> dict:
    """The block `optimum` of a dataset of text, over that of an earlier layer."""
    layers = ({"datasets": {"text": {"corpus": {}, "optimum": own}}} for own in (lower, upper))
    return over(*layers)["datasets"]["text"]["optimum"]


def test_the_bound_of_epochs_may_be_lifted() -> None:
    assert pile("{optimum: {max_epochs: .inf}}")["optimum"]["max_epochs"] == float("inf")


def test_neither_layer_changes() -> None:
    defaults, own = {"a": {"b": 1, "c": [1]}, "d": 2}, {"a": {"b": 3, "e": {"f": 4}}}
    both = over(defaults, own)
    assert both == {"a": {"b": 3, "c": [1], "e": {"f": 4}}, "d": 2}
    both["a"]["e"]["f"] = both["a"]["b"] = 5
    both["a"]["c"].append(2)
    assert own == {"a": {"b": 3, "e": {"f": 4}}} and defaults["a"] == {"b": 1, "c": [1]}


SEARCH = """
datasets:
  demo:
    optimum: {group: search, weights: {SymPy: 7, PyPI: 1, Stubs: 1}}
    search: {start: [baseline, uniform, wanted_4], rounds: 3}
    compare: {mixtures: [baseline, wanted_4, round3, found]}
    held_out: null
"""


def test_a_fault_is_at_the_line_of_its_key_or_of_the_block_around_it() -> None:
    for texts, places in (
        (
            (SEARCH, "datasets: {demo: {search: null}}"),
            ["4: optimum/group", "6: compare/mixtures", "6: compare/mixtures"],
        ),
        ((SEARCH.replace("{SymPy: 7, PyPI: 1, Stubs: 1}", "null"),), ["5: search/start", "6: compare/mixtures"]),
    ):
        said = refused("", prepared, *texts).splitlines()[1:]
        found = [line.strip().split(": ")[:2] for line in said]
        assert [f"{file}: {key}" for file, key in found] == [
            f"0.yaml:{place.replace(': ', ': datasets/demo/')}" for place in places
        ]
