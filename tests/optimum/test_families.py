"""Families, their weights by domain, and what is refused."""

from refusals import refused

from bimix.optimum.families import by_domain, checked
from bimix.optimum.objective import objective_of


def test_weights_by_domain_are_means_within_families():
    families = {"math": ["a", "b"], "code": ["c"]}
    assert by_domain({}, families) == {"a": 0.5, "b": 0.5, "c": 1.0}
    assert by_domain({"math": 3.0}, families) == {"a": 1.5, "b": 1.5, "c": 0.0}
    assert by_domain({"a": 2.0}, {}) == {"a": 2.0}
    refused("'a', which is no family: there are math, code", by_domain, {"a": 1.0}, families)
    refused("all target weights are 0", by_domain, {"math": 0.0}, families)
    # domains that are not there, or twice
    refused("names 'c', whose loss is not known", checked, {"x": ["a", "c"]}, ["a", "b"])
    refused("'a' is in the families 'x' and 'y'", checked, {"x": ["a"], "y": ["a"]}, ["a", "b"])


def test_objectives_that_are_refused():
    for given, more, words in (
        ("best", {}, "it must be weighted, minimax or no_worse_than"),
        ("minimax", {}, "minimax needs --reference"),
        (
            '{"kind": "minimax", "margin": 0.1}',
            {"reference": '{"a": 1}'},
            "margin is of no_worse_than: minimax has none",
        ),
        ('{"kind": "no_worse_than", "margin": -0.1}', {"reference": '{"a": 1}'}, "margin is -0.1: it must be a finite"),
        ('{"kinds": 1}', {}, "has the key 'kinds'"),
        ("{kind", {}, "is not valid JSON"),
    ):
        refused(words, objective_of, given, **more)


def test_the_weights_of_a_block_stand_before_those_of_domains():
    block = '{"kind": "no_worse_than", "margin": 0.1, "families": {"x": ["a"]}, "weights": {"x": 2}, "reference": "r"}'
    found = objective_of(block, weights={"a": 1.0}, reference='{"a": 1.0}')
    assert (found.kind, found.margin, found.weights, found.families) == ("no_worse_than", 0.1, {"x": 2}, {"x": ["a"]})
    assert found.reference == {"a": 1.0}
    # a workflow gives the weights of the domains beside a block of families without weights
    found = objective_of('{"families": {"x": ["a"]}}', weights={"a": 1.0})
    assert found.weights == {} and found.domain_weights() == {"a": 1.0}
