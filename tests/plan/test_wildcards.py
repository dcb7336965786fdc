"""Entries of the config by path, and what a wildcard may be."""

import re

from bimix.plan.sources import datasets_with, names_under, one_of

CONFIG = {
    "models": {"1B": {"launch": {"gpus": 8, "compile": False}}},
    "datasets": {
        "web": {"groups": {"entropy": ["se", "je"], "swarm": ["swarm_1"]}, "tokenizer": {"train": {"share": 1}}},
        "given": {"groups": {"all": ["a.b"]}, "tokenizer": {"file": "t.json"}},
        "none": {"groups": {}},
    },
}


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
