"""Bounds that hold at a larger model: the growth of effects, and a margin for the law's error."""

import json
from pathlib import Path

import numpy as np
import pytest
from laws.known import mixtures, of_sizes, write_runs
from optimum.fitted_laws import even, fitted_law
from refusals import refused

import optimize_mixture
from bimix.errors import InputError
from bimix.laws import fitted as laws
from bimix.observations.observations import read_observations
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.objective import LEAST_CARRY, Objective, growth, objective_of
from bimix.optimum.optimum import best
from bimix.outputs import write_json

BOUNDS = np.zeros(4), np.ones(4)


def asked(law: dict, **more: float) -> Objective:
    return Objective("no_worse_than", {"d00": 1.0}, reference=even(law), **more)


def erring(seed: int, error: float) -> dict:
    """A law that says it is off by so much, in each of its losses."""
    law = fitted_law("transfer", seed, 4)
    return law | {"choice": {"errors": [error] * 4}}


def test_what_grows_stays_within_the_promise_and_the_problem_convex() -> None:
    for seed in range(3):
        law = erring(seed, 0.0)
        objective = asked(law, margin=0.05, carry=1.4)
        found = best(law, 100, objective, *BOUNDS)
        goal = Goal(law, 100, objective)
        rises = np.log(goal.predicted(found.shares) / goal.before)
        assert (1.4 * rises).max() <= np.log(1.05) + 2 * HELD
        assert found.gap < 1e-5 and "d00" not in found.binding and found.binding
        assert found.value > best(law, 100, asked(law, margin=0.05), *BOUNDS).value


def test_a_margin_is_at_least_what_the_law_errs_and_auto_needs_both_losses() -> None:
    few, many = (asked(erring(0, 0.0), margin=0.05).limits(erring(0, error), ["d01"]) for error in (0.005, 0.5))
    width = 0.5 * 1.2816 * np.sqrt(2) * 1.2533 * 0.005
    assert few == pytest.approx(1.05 * np.exp(-width), rel=1e-4) and many == 1
    whole = asked(erring(0, 0.0), margin=0.05, confidence=0.0)
    assert whole.limits(erring(0, 0.5), ["d01"]) == pytest.approx(1.05)
    assert best(erring(0, 0.5), 100, asked(erring(0, 0.0), margin=0.05), *BOUNDS).gap < 1e-5
    # auto is refused where nothing knows both losses
    law = fitted_law("transfer", 0, 4)
    with pytest.raises(InputError, match="transfer was fitted at one: give runs of two sizes, or carry with both"):
        Objective("no_worse_than", reference=even(law), vocabulary=50_000).limits(law, ["d00"])
    for carry in ("auto", ["auto"], ["auto", 0.5], [50_000, "auto"], ["auto", 3, 50_000], ["auto", "auto"]):
        with pytest.raises(InputError, match="carry auto takes one number, that of the vocabulary"):
            objective_of(json.dumps({"kind": "no_worse_than", "carry": carry}), reference='{"a": 1}')


def test_growth_is_foretold_from_the_losses_of_the_reference() -> None:
    nu = growth([4.0, 3.0, 50_000])
    assert nu == pytest.approx(np.log(np.log(50_000) / 3) / np.log(np.log(50_000) / 4)) and nu > 1
    assert growth(1.3) == growth([1.3]) == 1.3
    for carry, words in (
        ([4.0, 3.0], "must be a number"),
        ([4.0, 12.0, 100], "below that of a guess"),
        (0.01, "turned"),
    ):
        refused(words, growth, carry)
    assert growth(LEAST_CARRY) == LEAST_CARRY
    # a block of a config says both and other kinds refuse them
    block = '{"kind": "no_worse_than", "reference": "%s", "carry": [4, 3, 50000], "confidence": 1}'
    reference = '{\\"a\\": 1}'
    found = objective_of(block % reference)
    assert found.carry == growth([4, 3, 50_000]) and found.confidence == 1
    with pytest.raises(InputError, match="--objective: carry is of no_worse_than: minimax has none"):
        objective_of('{"kind": "minimax", "carry": 1.2}', reference='{"a": 1}')


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


def test_auto_takes_the_growth_from_the_levels_of_a_law_over_sizes(tmp_path: Path) -> None:
    law = over_sizes(tmp_path, (5e7, 1e9, 8), (1.5e8, 3e9, 6), (4e8, 8e9, 1))
    reference = dict.fromkeys(law["domains"], 0.25)
    block = '{"kind": "no_worse_than", "margin": 0.05, "carry": ["auto", 50000]}'
    auto = objective_of(block, None, '{"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}')
    assert auto.reference == reference and auto.vocabulary == 50_000
    # one run shows no effects of its size: they are those of the size below it
    known, asked = laws.at_run(law, 1.5e8, 3e9), laws.at_run(law, 1.2e9, 2.5e10)
    before, after = (laws.predict(one, np.full((1, 4), 0.25), one["steps"][-1:]).mean() for one in (known, asked))
    assert auto.growth_by(asked) == pytest.approx(growth([before, after, 50_000])) and after < before
    assert auto.growth_by(asked) > auto.growth_by(laws.at_run(law, 4e8, 8e9)) > 1 == auto.growth_by(known)
    free = Objective("no_worse_than", margin=0.05, reference=reference).limits(asked, ["a"])
    assert np.log(auto.limits(asked, ["a"])) == pytest.approx(np.log(free) / auto.growth_by(asked))


def test_a_report_says_at_what_growth_the_bound_holds(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    law = over_sizes(tmp_path, (5e7, 1e9, 8), (1.5e8, 3e9, 6))
    write_json(tmp_path / "law.json", law)
    flags = ["--coefficients", f"{tmp_path}/law.json", "--objective"]
    flags += [
        '{"kind": "no_worse_than", "margin": 0.05, "carry": ["auto", 50000]}',
        "--reference",
        '{"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}',
        "--weights",
        '{"a": 1}',
    ]
    flags += ["--parameters", "1.2e9", "--run-tokens", "2.5e10", "--out", f"{tmp_path}/mixture.json"]
    optimize_mixture.main(flags)
    assert "promised is 5 % at a model, where effects are 1." in capsys.readouterr().out
