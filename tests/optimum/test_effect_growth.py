"""Bounds that hold at a larger model: the growth of effects, and a margin for the law's error."""

from pathlib import Path

import numpy as np
import pytest
from laws.known import mixtures, of_sizes, write_runs
from optimum.fitted_laws import even, fitted_law
from refusals import refused

import optimize_mixture
from bimix.laws import fitted as laws
from bimix.observations.observations import read_observations
from bimix.optimum.config import LEAST_GROWTH
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.objective import Objective, objective_of
from bimix.optimum.optimum import best
from bimix.outputs import write_json

BOUNDS = np.zeros(4), np.ones(4)


def asked(law: dict, **more: float) -> Objective:
    return Objective(kind="no_worse_than", weights={"d00": 1.0}, reference=even(law), **more)


def erring(seed: int, error: float) -> dict:
    """A law that says it is off by so much, in each of its losses."""
    law = fitted_law("transfer", seed, 4)
    return law | {"choice": {"errors": [error] * 4}}


def test_what_grows_stays_within_the_promise_and_the_problem_convex() -> None:
    for seed in range(3):
        law = erring(seed, 0.0)
        objective = asked(law, margin=0.05, effect_growth=1.4)
        found = best(law, 100, objective, *BOUNDS)
        goal = Goal(law, 100, objective)
        rises = np.log(goal.predicted(found.shares) / goal.before)
        assert (1.4 * rises).max() <= np.log(1.05) + 2 * HELD
        assert found.gap < 1e-5 and "d00" not in found.binding and found.binding
        assert found.value > best(law, 100, asked(law, margin=0.05), *BOUNDS).value


def test_a_margin_is_at_least_what_the_law_errs() -> None:
    few, many = (asked(erring(0, 0.0), margin=0.05).limits(erring(0, error), ["d01"]) for error in (0.005, 0.5))
    width = 0.5 * 1.2816 * np.sqrt(2) * 1.2533 * 0.005
    assert few == pytest.approx(1.05 * np.exp(-width), rel=1e-4) and many == 1
    assert asked(erring(0, 0.0), margin=0.05).allowed == 1.05
    assert best(erring(0, 0.5), 100, asked(erring(0, 0.0), margin=0.05), *BOUNDS).gap < 1e-5


def test_the_block_of_a_config_has_the_growth_and_other_kinds_refuse_it() -> None:
    reference = '{"a": 1}'
    found = objective_of(f'{{"kind": "no_worse_than", "effect_growth": {LEAST_GROWTH}}}', reference=reference)
    assert found.effect_growth == LEAST_GROWTH
    for block, words in (
        ('{"kind": "no_worse_than", "effect_growth": 0.01}', "effect_growth: 0.01 is given"),
        ('{"kind": "minimax", "effect_growth": 1.2}', "effect_growth: it is of the kind no_worse_than"),
        ('{"kind": "no_worse_than", "carry": 1.2}', "carry: unknown key"),
    ):
        refused(words, objective_of, block, reference=reference)


def over_sizes(folder: Path, *sizes: tuple[float, float, int]) -> dict:
    """A law of runs of (parameters, tokens, how many)."""
    truth, found = of_sizes(1), []
    for parameters, tokens, count in sizes:
        shares = mixtures(count, count, 4)
        losses = truth(shares, parameters, tokens)
        more = {"parameters": parameters, "tokens": tokens}
        found += [(f"{parameters:g}_{n}", shares[n], losses[n], more, None) for n in range(count)]
    flags = write_runs(found, ("a", "b", "c", "d"), folder / "l.csv", folder / "m.csv")
    return laws.fit("transfer", read_observations(flags[1], flags[3]))


def test_a_report_says_at_what_growth_the_bound_holds(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    law = over_sizes(tmp_path, (5e7, 1e9, 8), (1.5e8, 3e9, 6))
    write_json(tmp_path / "law.json", law)
    flags = ["--coefficients", f"{tmp_path}/law.json", "--objective"]
    flags += [
        '{"kind": "no_worse_than", "margin": 0.05, "effect_growth": 1.3}',
        "--reference",
        '{"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}',
        "--weights",
        '{"a": 1}',
    ]
    flags += ["--parameters", "1.2e9", "--run-tokens", "2.5e10", "--out", f"{tmp_path}/mixture.json"]
    optimize_mixture.main(flags)
    assert "promised is 5 % at a model, where effects are 1.3 times as large" in capsys.readouterr().out
