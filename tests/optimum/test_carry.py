"""Bounds that hold at a larger model: the growth of effects, and a margin for the law's error."""

import numpy as np
import pytest
from optimum.fitted_laws import even, fitted_law

from bimix.errors import InputError
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.objective import LEAST_CARRY, Objective, growth, objective_of
from bimix.optimum.optimum import best

BOUNDS = np.zeros(4), np.ones(4)


def asked(law: dict, **more: float) -> Objective:
    return Objective("no_worse_than", {"d00": 1.0}, reference=even(law), **more)


def erring(seed: int, error: float) -> dict:
    """A law that says it is off by so much, in each of its losses."""
    law = fitted_law("transfer", seed, 4)
    return law | {"choice": {"errors": [error] * 4}}


@pytest.mark.parametrize("seed", range(3))
def test_what_grows_stays_within_the_promise_and_the_problem_convex(seed: int) -> None:
    law = erring(seed, 0.0)
    objective = asked(law, margin=0.05, carry=1.4)
    found = best(law, 100, objective, *BOUNDS)
    goal = Goal(law, 100, objective)
    rises = np.log(goal.predicted(found.shares) / goal.before)
    assert (1.4 * rises).max() <= np.log(1.05) + 2 * HELD
    assert found.gap < 1e-5 and "d00" not in found.binding and found.binding
    assert found.value > best(law, 100, asked(law, margin=0.05), *BOUNDS).value


def test_a_law_that_errs_leaves_a_margin_and_never_less_than_the_reference() -> None:
    few, many = (asked(erring(0, 0.0), margin=0.05).limits(erring(0, error), ["d01"]) for error in (0.005, 0.5))
    width = 0.5 * 1.2816 * np.sqrt(2) * 1.2533 * 0.005
    assert few == pytest.approx(1.05 * np.exp(-width), rel=1e-4) and many == 1
    whole = asked(erring(0, 0.0), margin=0.05, confidence=0.0)
    assert whole.limits(erring(0, 0.5), ["d01"]) == pytest.approx(1.05)
    assert best(erring(0, 0.5), 100, asked(erring(0, 0.0), margin=0.05), *BOUNDS).gap < 1e-5


def test_growth_is_foretold_from_the_losses_of_the_reference() -> None:
    nu = growth([4.0, 3.0, 50_000])
    assert nu == pytest.approx(np.log(np.log(50_000) / 3) / np.log(np.log(50_000) / 4)) and nu > 1
    assert growth(1.3) == growth([1.3]) == 1.3
    for carry, words in (
        ([4.0, 3.0], "must be a number"),
        ([4.0, 12.0, 100], "below that of a guess"),
        (0.01, "turned"),
    ):
        with pytest.raises(InputError, match=words):
            growth(carry)
    assert growth(LEAST_CARRY) == LEAST_CARRY


def test_a_block_of_a_config_says_both_and_other_kinds_refuse_them() -> None:
    block = '{"kind": "no_worse_than", "reference": "%s", "carry": [4, 3, 50000], "confidence": 1}'
    reference = '{\\"a\\": 1}'
    found = objective_of(block % reference)
    assert found.carry == growth([4, 3, 50_000]) and found.confidence == 1
    with pytest.raises(InputError, match="--carry is of the objective no_worse_than"):
        objective_of("minimax", reference='{"a": 1}', carry=1.2)
