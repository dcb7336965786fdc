"""What an optimum is of: weights of losses, their average, and the simulation around shares."""

import numpy as np
import pytest

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.mixtures.draws import TEMPERATURE
from bimix.optimum import optimum as module
from bimix.optimum.optimum import MOST_NAMED, average, optimum, target_weights, weighed

FITTED = {"loss_domains": ["a", "b", "c"]}


def test_losses_that_are_not_named_weigh_nothing() -> None:
    assert target_weights(FITTED, None).tolist() == target_weights(FITTED, {}).tolist() == [1, 1, 1]
    assert target_weights(FITTED, {"c": 2, "a": 1}).tolist() == [1, 0, 2]
    with pytest.raises(InputError, match="the weights name 'x', whose loss the law does not predict"):
        target_weights(FITTED, {"x": 1, "a": 1})
    with pytest.raises(InputError, match="all target weights are 0"):
        target_weights(FITTED, {"a": 0})


def test_an_average_is_of_the_losses_that_weigh() -> None:
    losses = np.array([[2.0, 4.0, 6.0], [1.0, np.nan, 3.0]])
    assert average(losses, np.array([1.0, 0, 3])).tolist() == [5.0, 2.5]
    assert np.isnan(average(losses, np.ones(3))[1]) and average(losses, np.ones(3))[0] == pytest.approx(4)


def test_weights_are_named_up_to_so_many() -> None:
    many = {"loss_domains": [str(number) for number in range(MOST_NAMED + 3)]}
    weights = {name: number + 1 for number, name in enumerate(many["loss_domains"])}
    named = ", ".join(f"{number} {number + 1}" for number in range(MOST_NAMED))
    assert weighed(many, weights) == f"{named}, and 3 more"
    few = dict(list(weights.items())[:MOST_NAMED])
    assert weighed(many, few) == named


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


def test_a_simulated_law_is_asked_for_what_weighs_around_the_shares_of_tokens(monkeypatch) -> None:
    """The mixtures are drawn elsewhere: here it is what they are drawn around, and what they are
    worth.
    """
    seen = {}

    def drawn(value, shares, lower, upper, between):
        seen.update(value=value, shares=shares, lower=lower, upper=upper, between=between)
        return lower

    monkeypatch.setattr(module, "best_simulated", drawn)
    fitted = exponential(9)
    fitted["proportions_seen"] = {name: {"mean": mean} for name, mean in zip("abc", (0.2, 0.3, 0.5), strict=True)}
    lower, upper, target = np.zeros(3), np.full(3, 0.9), np.array([0.0, 2.0])
    module.simulated_optimum(fitted, 5, target, lower, upper, {"a": 10, "b": 20, "c": 70})
    assert seen["shares"] == pytest.approx([0.1, 0.2, 0.7]) and seen["lower"] is lower and seen["upper"] is upper
    assert seen["between"] == (0.1, 5.0)
    shares = np.array([[0.2, 0.3, 0.5], [1.0, 0, 0]])
    assert np.allclose(seen["value"](shares), 2 * (1 + np.exp(shares @ [4, -1, 0.5])))
    module.simulated_optimum(fitted, 5, np.ones(2), lower, upper)
    assert np.allclose(seen["shares"], np.array([0.2, 0.3, 0.5]) ** (1 / TEMPERATURE))
    assert np.allclose(seen["value"](shares), 2 + np.exp(shares @ [4, -1, 0.5]) + np.exp(shares @ [-3, -1, 0.5]))
    with pytest.raises(InputError, match="the token counts do not name 'b'"):
        module.simulated_optimum(fitted, 5, target, lower, upper, {"a": 10, "c": 70})
