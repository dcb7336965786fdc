"""What an optimum is of: weights of losses, their average, and the simulation around shares."""

import numpy as np
import pytest
from refusals import refused

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.mixtures.draws import TEMPERATURE
from bimix.optimum import optimum as module
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective, target_weights
from bimix.optimum.optimum import optimum

FITTED = {"loss_domains": ["a", "b", "c"]}


def test_losses_that_are_not_named_weigh_nothing() -> None:
    assert target_weights(FITTED, None).tolist() == target_weights(FITTED, {}).tolist() == [1, 1, 1]
    assert target_weights(FITTED, {"c": 2, "a": 1}).tolist() == [1, 0, 2]
    refused("the weights name 'x', whose loss the law does not predict", target_weights, FITTED, {"x": 1, "a": 1})
    refused("all target weights are 0", target_weights, FITTED, {"a": 0})


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


def test_a_law_of_fewer_runs_than_its_numbers_has_no_optimum() -> None:
    least = LAWS["exponential"].least_runs(3)
    best = optimum(exponential(least), 5, {"x": 1}, np.zeros(3), np.ones(3))
    assert np.allclose(best, [1, 0, 0], atol=1e-8)
    with pytest.raises(InputError, match=f"its optimum needs {least} at least"):
        optimum(exponential(least - 1), 5, {"x": 1}, np.zeros(3), np.ones(3))


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
