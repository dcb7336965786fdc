"""Bounds of a run: epochs of its tokens, unanswered domains, rounding."""

import pytest
from refusals import refused

from bimix.errors import InputError
from bimix.optimum.bounds import feasible_bounds, run_bounds


def fitted(tokens_per_step: float | None = 50.0, **alphas: float) -> dict:
    return {
        "law": "bimix",
        "domains": ["a", "b"],
        "loss_domains": ["a", "b", "c"],
        "coefficients": {name: {"alpha": alphas.get(name, 0.2)} for name in "abc"},
        "proportions_seen": {name: {"min": 0.1, "max": 0.6} for name in "ab"},
        "tokens_per_step": tokens_per_step,
    }


def test_epochs_are_of_the_tokens_that_so_many_steps_train_on() -> None:
    # 40 steps of 50 tokens: 2000 in all; two epochs of 300 are 600 of them
    low, high = run_bounds(fitted(), 40, max_epochs=2, tokens={"a": 300, "b": 5000})
    assert low.tolist() == [0, 0] and high.tolist() == [0.3, 1.0]
    _, high = run_bounds(fitted(), 40, max_epochs=2, tokens={"a": 300, "b": 5000}, run_tokens=1000)
    assert high.tolist() == [0.6, 1.0]
    _, high = run_bounds(fitted(), 40, upper={"a": 0.2}, max_epochs=2, tokens={"a": 300, "b": 5000})
    assert high.tolist() == [0.2, 1.0]
    _, high = run_bounds(fitted(), 40, max_epochs=2, tokens={"a": 300})  # of b there is no end
    assert high.tolist() == [0.3, 1.0]


def test_epochs_of_what_is_not_known_are_refused() -> None:
    refused("--max-epochs needs --tokens", run_bounds, fitted(), 40, max_epochs=2)
    with pytest.raises(InputError, match=r"needs --run-tokens.*a run of 40 steps"):
        run_bounds(fitted(None), 40, max_epochs=2, tokens={"a": 300, "b": 5000})


def test_what_did_not_answer_keeps_its_floor_below_the_upper_bound() -> None:
    level = fitted(a=0.0, c=0.0)  # c is not trained on: nothing to keep
    assert run_bounds(level, 40)[0].tolist() == [0.1, 0]
    assert run_bounds(level, 40, upper={"a": 0.05})[0].tolist() == [0.05, 0]
    assert run_bounds(level, 40, lower={"a": 0.3, "b": 0.2})[0].tolist() == [0.3, 0.2]
    assert run_bounds(level, 40, weights={"b": 1, "c": 1})[0].tolist() == [0, 0]


def test_bounds_may_meet_and_sum_to_one_but_for_rounding() -> None:
    ten = [str(number) for number in range(10)]
    tenths = dict.fromkeys(ten, 0.1)
    assert sum(tenths.values()) != 1
    low, high = feasible_bounds(ten, tenths, tenths)
    assert low.tolist() == high.tolist() == [0.1] * 10
    over = tenths | {"0": 0.1 + 1e-13}
    assert feasible_bounds(ten, lower=over)[0].sum() > 1
    under = tenths | {"0": 0.1 - 1e-13}
    assert feasible_bounds(ten, upper=under)[1].sum() < 1
    refused("lower bounds sum to 1", feasible_bounds, ten, lower=tenths | {"0": 0.1 + 1e-11})
    refused("upper bounds sum to 1", feasible_bounds, ten, upper=tenths | {"0": 0.1 - 1e-11})
