"""Objectives of convex laws: certified, not beaten by random mixtures, restarts or brute force."""

from dataclasses import replace

import numpy as np
import pytest
from optimum.fitted_laws import KINDS, even, fitted_law, optimum
from refusals import refused

from bimix.errors import InputError
from bimix.laws.fitted import at_run, predict
from bimix.mixtures.draws import TEMPERATURE
from bimix.optimum import optimum as module
from bimix.optimum.families import by_domain, check_known
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.objective import Objective, objective_of, target_weights
from bimix.optimum.optimum import best, certificate

CLOSE = 1e-8
GAP = 1e-7  # what the certificate leaves open; values agree to CLOSE


def asked(fitted, kind, **more):
    """An objective of a kind, with two families and uneven weights where it has weights."""
    return Objective(kind=kind, reference=even(fitted) if kind != "weighted" else None, **more)


def bounds(fitted, low=0.0, high=1.0):
    m = len(fitted["domains"])
    return np.full(m, low), np.full(m, high)


CASES = [("minimax", {}), ("no_worse_than", {}), ("no_worse_than", {"margin": 0.02})]


def test_a_convex_objective_is_certified_and_beats_what_is_drawn():
    for kind, more in CASES:
        for law in KINDS:
            fitted = fitted_law(law, 1, 6)
            objective = asked(fitted, kind, **more)
            found = best(fitted, 100, objective, *bounds(fitted))
            goal = Goal(fitted, 100, objective)
            assert found.gap < GAP and abs(found.shares.sum() - 1) < 1e-12 and (found.shares >= 0).all()
            assert goal.excess(found.shares).max(initial=0) <= HELD
            draw = np.random.default_rng(0)
            near = found.shares + draw.normal(0, 10 ** draw.uniform(-5, -1, (4000, 1)), (4000, 6))
            drawn = np.vstack([draw.dirichlet(np.ones(6), 4000), np.maximum(near, 1e-9)])
            drawn /= drawn.sum(axis=1, keepdims=True)
            held = drawn[(goal.excess(drawn) <= 0).all(axis=1)]
            assert len(held) > (0 if more.get("margin", kind != "no_worse_than") else -1)
            assert (goal.value(held) >= found.value - CLOSE).all()


def test_minimax_levels_its_worst_parts_where_shares_are_free():
    """At the best worst ratio the parts that bind are equal, and no other is above."""
    for law in KINDS:
        fitted = fitted_law(law, 7, 5)
        reference = dict(zip(fitted["domains"], [0.6, 0.1, 0.1, 0.1, 0.1], strict=True))
        objective = Objective(kind="minimax", reference=reference)
        found = best(fitted, 100, objective, *bounds(fitted))
        before = predict(fitted, np.array([list(reference.values())]), [100])[0, 0]
        ratios = predict(fitted, found.shares[None], [100])[0, 0] / before
        assert ratios.max() == pytest.approx(found.value, abs=1e-9)
        tied = [name for name, one in zip(fitted["loss_domains"], ratios, strict=True) if one > ratios.max() - 1e-6]
        assert set(found.binding) <= set(tied) and len(tied) >= 2


def test_bimix_by_minimax_against_itself_is_the_reference():
    """Every loss of bimix falls with its own share alone: no mixture is better in all."""
    fitted = fitted_law("bimix", 3, 5)
    found = best(fitted, 100, asked(fitted, "minimax"), *bounds(fitted))
    assert np.allclose(found.shares, 0.2, atol=1e-6) and found.value == pytest.approx(1)


def test_ten_benchmarks_of_one_family_do_not_outvote_one():
    """The optimum by families is the plain one of weights 1/10 and 1."""
    fitted = fitted_law("transfer", 4, 3, extra=8)
    many, one = fitted["loss_domains"][1:], fitted["loss_domains"][0]
    objective = Objective(families={"many": many, "one": [one]})
    found = best(fitted, 100, objective, *bounds(fitted))
    weights = dict.fromkeys(many, 1 / len(many)) | {one: 1.0}
    assert np.allclose(found.shares, optimum(fitted, 100, weights, *bounds(fitted)), atol=1e-12)
    plain = best(fitted, 100, Objective(), *bounds(fitted))
    assert np.abs(plain.shares - found.shares).max() > 0.01
    tilted = best(fitted, 100, objective.model_copy(update={"weights": {"many": 1.0}}), *bounds(fitted))
    assert np.allclose(tilted.shares, optimum(fitted, 100, dict.fromkeys(many, 1.0), *bounds(fitted)), atol=1e-12)


def test_minimax_over_families_takes_the_mean_ratio_of_each():
    fitted = fitted_law("transfer", 4, 3, extra=4)
    families = {"a": fitted["loss_domains"][:2], "b": fitted["loss_domains"][2:]}
    objective = asked(fitted, "minimax", families=families)
    found = best(fitted, 100, objective, *bounds(fitted))
    before, after = (predict(fitted, np.atleast_2d(r), [100])[0, 0] for r in (np.full(3, 1 / 3), found.shares))
    means = (after / before)[:2].mean(), (after / before)[2:].mean()
    assert max(means) == pytest.approx(found.value, abs=1e-9)
    draws = np.random.default_rng(0).dirichlet(np.ones(3), 20_000)
    ratios = predict(fitted, draws, [100])[:, 0] / before
    assert np.maximum(ratios[:, :2].mean(axis=1), ratios[:, 2:].mean(axis=1)).min() >= found.value - 1e-9


def test_the_gap_of_any_mixture_is_at_least_what_it_loses():
    for law in KINDS:
        fitted = fitted_law(law, 9, 5)
        goal = Goal(fitted, 100, Objective())
        least = best(fitted, 100, Objective(), *bounds(fitted)).value
        for shares in np.random.default_rng(1).dirichlet(np.ones(5) * 2, 20):
            other = certificate(goal, shares, *bounds(fitted))
            assert other.gap >= other.value - least - 1e-12


def test_a_gap_that_proves_no_optimum_of_a_plain_average_is_told(monkeypatch):
    fitted = fitted_law("transfer", 9, 5)
    assert best(fitted, 100, Objective(), *bounds(fitted)).loose() == ""
    monkeypatch.setattr(module, "best_shares", lambda *asked: np.array([0.6, 0.1, 0.1, 0.1, 0.1]))
    found = best(fitted, 100, Objective(), *bounds(fitted))
    assert (
        found.loose() == f"no optimum is proved: another mixture may be better by up to {found.gap:.2g} (kkt_residual)."
    )
    assert replace(found, gap=None).loose() == ""  # a search has no proof


def test_a_run_that_repeats_its_text_is_solved_too():
    """At a run with small pools the losses of transfer are others, and convex still."""
    fitted = fitted_law("transfer", 4, 4)
    for values in fitted["coefficients"].values():
        values["repetition"] = {"R": 6.0, "P": 0.02, "kappa": 0.3, "mu": 2.0, "scale": 1e8}
    pools = {"d00": 2e7, "d01": 2e8, "d02": 1e9, "d03": 5e8}
    at = at_run(fitted, tokens=1e9, pools=pools, step=100)
    objective = asked(fitted, "no_worse_than", margin=0.02, weights={"d00": 1.0, "d01": 0.2})
    found = best(at, 100, objective, *bounds(at))
    goal = Goal(at, 100, objective)
    assert found.gap < GAP and goal.excess(found.shares).max() <= HELD
    once = best(fitted, 100, objective, *bounds(fitted)).shares
    assert found.shares[0] < once[0] - 0.01  # text that is read fifty times is worth less
    drawn = np.random.default_rng(0).dirichlet(np.ones(4) * 2, 20_000)
    held = drawn[(goal.excess(drawn) <= 0).all(axis=1)]
    assert len(held) and (goal.value(held) >= found.value - CLOSE).all()


def test_a_share_of_exactly_nothing_may_be_best():
    """A domain that helps no loss gets its lower bound, by a constrained objective too."""
    fitted = fitted_law("transfer", 8, 4)
    for values in fitted["coefficients"].values():
        values["terms"][0]["transfer"]["d03"] = 0.0
    fitted["loss_domains"] = fitted["loss_domains"][:3]
    del fitted["coefficients"]["d03"]
    found = best(fitted, 100, asked(fitted, "minimax"), *bounds(fitted))
    assert found.shares[3] < 1e-9 and found.gap < GAP


def test_what_cannot_be_held_is_named():
    fitted = fitted_law("bimix", 1, 3)
    upper = np.array([0.1, 1.0, 1.0])
    with pytest.raises(InputError, match="d00 cannot be held within the bounds: the best mixture misses by"):
        best(fitted, 100, asked(fitted, "no_worse_than", margin=0.01), np.zeros(3), upper)
    # with a margin that lets it, it holds, and exactly so
    objective = asked(fitted, "no_worse_than", margin=0.6)
    found = best(fitted, 100, objective, np.zeros(3), upper)
    assert Goal(fitted, 100, objective).excess(found.shares).max() <= HELD
    # half of the mixture is bound: what is left holds d00 or d01, not both
    lower = np.array([0, 0, 0.5])
    refused("d00, d01 cannot be held together", best, fitted, 100, asked(fitted, "no_worse_than"), lower, np.ones(3))
    # a reference without a loss
    objective = Objective(kind="minimax", reference={"d00": 0.5, "d01": 0.5})
    words = "the reference mixture has proportion 0 of d02, where the law bimix has no loss"
    refused(words, best, fitted, 100, objective, *bounds(fitted))


def test_weights_by_domain_are_means_within_families_and_a_blocks_stand_first():
    families = {"math": ["a", "b"], "code": ["c"]}
    assert by_domain({}, families) == {"a": 0.5, "b": 0.5, "c": 1.0}
    assert by_domain({"math": 3.0}, families) == {"a": 1.5, "b": 1.5, "c": 0.0}
    assert by_domain({"a": 2.0}, {}) == {"a": 2.0}
    refused("'a', which is no family: there are math, code", by_domain, {"a": 1.0}, families)
    refused("all weights are 0", by_domain, {"math": 0.0}, families)
    refused("names 'c', of no known loss", check_known, {"x": ["a", "c"]}, ["a", "b"])
    # the weights of a block stand before those of domains
    block = '{"kind": "no_worse_than", "margin": 0.1, "families": {"x": ["a"]}, "weights": {"x": 2}, "reference": "r"}'
    found = objective_of(block, weights={"a": 1.0}, reference='{"a": 1.0}')
    assert (found.kind, found.margin, found.weights, found.families) == ("no_worse_than", 0.1, {"x": 2}, {"x": ["a"]})
    assert found.reference == {"a": 1.0}
    # a workflow gives the weights of the domains beside a block of families without weights
    found = objective_of('{"families": {"x": ["a"]}}', weights={"a": 1.0})
    assert found.weights == {} and found.domain_weights() == {"a": 1.0}


def test_objectives_that_are_refused():
    for given, more, words in (
        ("best", {}, 'kind: "best" is given'),
        ("minimax", {}, "minimax needs --reference"),
        (
            '{"kind": "minimax", "margin": 0.1}',
            {"reference": '{"a": 1}'},
            "margin: it is of the kind no_worse_than",
        ),
        ('{"kind": "no_worse_than", "margin": -0.1}', {"reference": '{"a": 1}'}, "margin: -0.1 is given"),
        ('{"kinds": 1}', {}, "kinds: unknown key; did you mean kind"),
        ("{kind", {}, "is not valid JSON"),
    ):
        refused(words, objective_of, given, **more)


FITTED = {"loss_domains": ["a", "b", "c"]}


def test_losses_that_are_not_named_weigh_nothing() -> None:
    assert target_weights(FITTED, None).tolist() == target_weights(FITTED, {}).tolist() == [1, 1, 1]
    assert target_weights(FITTED, {"c": 2, "a": 1}).tolist() == [1, 0, 2]
    refused("the weights name 'x', which is no loss domain", target_weights, FITTED, {"x": 1, "a": 1})
    refused("all weights are 0", target_weights, FITTED, {"a": 0})


def exponential(mixtures: int) -> dict:
    t = {"a": -3.0, "b": -1.0, "c": 0.5}
    return {
        "law": "exponential",
        "domains": list(t),
        "loss_domains": ["x", "y"],
        "steps": [5],
        "mixtures": [str(number) for number in range(mixtures)],
        "proportions_seen": {name: {"mean": 1 / 3} for name in t},
        "coefficients": {
            "x": {"steps": {"5": {"c": 1.0, "k": 1.0, "t": t}}},
            "y": {"steps": {"5": {"c": 1.0, "k": 1.0, "t": t | {"a": 4.0}}}},
        },
    }


def test_a_simulated_law_averages_the_draws_it_predicts_best_around_the_shares_of_tokens(monkeypatch) -> None:
    asked, drawn = [], np.random.default_rng(0).dirichlet(np.ones(3), 500)

    def simulate(centre, lower, upper, between):
        asked.append((centre, between))
        return drawn

    monkeypatch.setattr(module, "simulate", simulate)
    fitted = exponential(9)
    fitted["proportions_seen"] = {name: {"mean": mean} for name, mean in zip("abc", (0.2, 0.3, 0.5), strict=True)}
    free = np.zeros(3), np.ones(3)

    def best_of(weights, tokens):
        return module._simulated(Goal(fitted, 5, Objective(weights=weights)), *free, tokens)

    found = best_of({"y": 2.0}, {"a": 10, "b": 20, "c": 70})
    best = drawn[np.argsort(drawn @ [4, -1, 0.5], kind="stable")[: module.AVERAGED]]
    assert np.allclose(found, best.mean(axis=0), atol=1e-12)
    best_of({}, None)
    (of_tokens, between), (of_runs, _) = asked
    assert np.allclose(of_tokens, [0.1, 0.2, 0.7]) and between == (0.1, 5.0)
    assert np.allclose(of_runs, np.array([0.2, 0.3, 0.5]) ** (1 / TEMPERATURE))
    refused("the token counts do not name 'b'", best_of, {}, {"a": 10, "c": 70})
