"""`transfer` read at a run: between the sizes that were fitted, at one of them and above."""

from dataclasses import replace

import numpy as np
import pytest
from laws.known import mixtures, observe, with_transfer

from bimix.laws.fitted import fit, predict_runs
from bimix.observations.observations import joined
from bimix.transfer import run, sizes

SIZES = [
    {"parameters": 1e8, "tokens": 1e9, "shift": 0.1, "nu": 1.0},
    {"parameters": 1e8, "tokens": 4e9, "shift": 0.2, "nu": 0.9},
    {"parameters": 1e9, "tokens": 9e9, "shift": 0.4, "nu": 0.8},
]
LEVELS = {"b": 0.3, "g": 0.2, "B": 1.5, "D": 0.7, "C": 1.2, "parameters": 2e8, "tokens": 2e9, "centre": 0.5}
COEFFICIENTS = {"web": {"size": LEVELS | {"sizes": SIZES}}}


def curve(parameters: float, tokens: float) -> float:
    logs = np.log([[LEVELS["B"], LEVELS["D"], LEVELS["C"]]])
    fitted = sizes.Curve(LEVELS["b"], LEVELS["g"], logs, LEVELS["parameters"], LEVELS["tokens"])
    return float(fitted.level(np.array(parameters), np.array(tokens))[0])


def test_level_and_effects_at_a_run() -> None:
    for asked, at, shift, nu in (
        ((1e8, 1.1e9), (1e8, 1.1e9), 0.1, 1.0),
        ((1.04e8, 3e9), (1.04e8, 3e9), 0.2, 0.9),  # the schedule is nearer to the longer one
        ((1e8, None), (1e8, 9e9), 0.2, 0.9),
        ((1.2e8, 1e9), (1.2e8, 1e9), 0.0, 1.0),  # no size that was fitted
        ((None, None), (1e9, 9e9), 0.4, 0.8),
        ((7e9, 5e10), (7e9, 5e10), 0.0, 0.8),  # above all: the effects of the largest
    ):
        pools = {"web": 3e9}
        there = run.at_run(COEFFICIENTS, ["web"], *asked, pools)["web"]["run"]
        assert there["level"] == pytest.approx(curve(*at) + shift + (1 - nu) * LEVELS["centre"], abs=1e-12)
        assert (there["parameters"], there["tokens"], there["nu"], there["pools"]) == (*at, nu, pools)


def test_refits_are_at_the_run_of_the_law() -> None:
    bare = {"domains": ["web"], "coefficients": COEFFICIENTS}
    assert run.as_asked(COEFFICIENTS, bare) == COEFFICIENTS
    there = run.at_run(COEFFICIENTS, ["web"], 3e8, 2e9, {"web": 3})
    assert run.as_asked(COEFFICIENTS, bare | {"coefficients": there}) == there
    fitted = run.run_of(COEFFICIENTS, ["web"])  # the run that it was fitted at, without repetition
    assert fitted.per_share.tolist() == fitted.level.tolist() == [0.0] and fitted.nu.tolist() == [1.0]
    found = run.run_of(there, ["code", "web"])
    assert found.per_share.tolist() == [0.0, 2e9 / 3]
    assert found.level.tolist() == [there["web"]["run"]["level"]] and found.nu.tolist() == [1.0]


def test_runs_whose_pools_are_not_known_repeat_nothing_next_to_others() -> None:
    made = observe(with_transfer(0, 3), mixtures(0, 9, 3), [100], 0.0)
    known = replace(made, tokens=np.full(9, 1e6), pools=np.tile([1e5, 1e5, 1e9], (9, 1)))
    fitted = fit("transfer", known.take(range(6)))
    with_pools, without = known.take([6, 7]), made.take([8])
    both = predict_runs(fitted, joined(known.take([]), [with_pools, without]))
    assert both[:2] == pytest.approx(predict_runs(fitted, with_pools))
    assert both[2] == pytest.approx(predict_runs(fitted, without)[0])
    assert (np.abs(both[:2] / predict_runs(fitted, made.take([6, 7])) - 1) > 1e-3).any()
    mariner = fit("mariner", known.take(range(6)))
    assert predict_runs(mariner, joined(known.take([]), [with_pools, without]))[2] == pytest.approx(
        predict_runs(mariner, without)[0]
    )
    endless = replace(with_pools, pools=np.array([[1e5, np.inf, 1e9], [1e5, 1e5, 1e9]]))
    assert predict_runs(mariner, endless) == pytest.approx(predict_runs(mariner, with_pools))
