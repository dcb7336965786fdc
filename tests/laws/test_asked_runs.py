"""`transfer` read at a run: between the sizes that were fitted, at one of them and above."""

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("asked", "at", "shift", "nu"),
    [
        ((1e8, 1.1e9), (1e8, 1.1e9), 0.1, 1.0),
        ((1.04e8, 3e9), (1.04e8, 3e9), 0.2, 0.9),  # the schedule is nearer to the longer one
        ((1e8, None), (1e8, 9e9), 0.2, 0.9),
        ((1.2e8, 1e9), (1.2e8, 1e9), 0.0, 1.0),  # no size that was fitted
        ((None, None), (1e9, 9e9), 0.4, 0.8),
        ((7e9, 5e10), (7e9, 5e10), 0.0, 0.8),  # above all: the effects of the largest
    ],
)
def test_level_and_effects_at_a_run(asked: tuple, at: tuple, shift: float, nu: float) -> None:
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
