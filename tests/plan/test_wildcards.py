"""Entries of the config by path, and what a wildcard may be."""

import inspect
import re

import pytest

from bimix.plan.wildcards import datasets_with, entry_at, names_under, of_wildcards, one_of

CONFIG = {
    "models": {"1B": {"launch": {"gpus": 8, "compile": False}}},
    "datasets": {
        "web": {"groups": {"entropy": ["se", "je"], "swarm": ["swarm_1"]}, "tokenizer": {"train": {"share": 1}}},
        "given": {"groups": {"all": ["a.b"]}, "tokenizer": {"file": "t.json"}},
        "none": {"groups": {}},
    },
}


def test_a_path_leads_through_wildcards_and_lists() -> None:
    assert entry_at(CONFIG, "models/{model}/launch/gpus", {"model": "1B"}) == 8
    assert entry_at(CONFIG, "datasets/{dataset}/groups/{group}/1", {"dataset": "web", "group": "entropy"}) == "je"


def test_a_default_takes_the_place_of_what_is_not_there_and_of_nothing_else() -> None:
    assert entry_at(CONFIG, "models/{model}/launch/nodes", {"model": "1B"}, 1) == 1
    assert entry_at(CONFIG, "models/{model}/none/nodes", {"model": "1B"}, []) == []
    assert entry_at(CONFIG, "models/{model}/launch/compile", {"model": "1B"}, True) is False
    with pytest.raises(KeyError):
        entry_at(CONFIG, "models/{model}/launch/nodes", {"model": "1B"})


def test_the_signature_of_a_function_of_the_wildcards_is_not_worked_out_again() -> None:
    def find(wildcards: dict, threads: int) -> None:
        """Called by Snakemake with what its parameters name."""

    expected = inspect.signature(find)
    found = of_wildcards(find)
    assert found is find and inspect.signature(found) == expected
    assert inspect.signature(found) is inspect.signature(found)


def test_a_constraint_takes_its_names_and_no_others() -> None:
    assert not re.fullmatch(one_of([]), "")
    dotted = names_under(CONFIG, "groups", but=["swarm"])
    assert [bool(re.fullmatch(dotted, name)) for name in ("entropy", "all", "swarm", "entro")] == [1, 1, 0, 0]
    assert re.fullmatch(one_of(["a.b"]), "a.b") and not re.fullmatch(one_of(["a.b"]), "acb")


def test_datasets_are_told_apart_by_what_they_have() -> None:
    assert datasets_with(CONFIG, "tokenizer/train") == "web"
    assert datasets_with(CONFIG, "tokenizer", but="tokenizer/train") == "given"
    assert datasets_with(CONFIG, "groups") == "web|given"
    assert not re.fullmatch(datasets_with(CONFIG, "swarm"), "web")
