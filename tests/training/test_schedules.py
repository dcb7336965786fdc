"""Learning rates against their formulas."""

import subprocess
import sys

import pytest

from bimix.training import recipe
from bimix.training.recipe import SCHEDULES


def test_exponential_decays_by_its_factor() -> None:
    rate = SCHEDULES["exponential"]
    assert rate(0, 200, 1e-3, 1e-4, 0.06) == 1e-3
    for step in range(201):
        assert rate(step, 200, 1e-3, 1e-4, 0.06) == pytest.approx(1e-3 * 10 ** (-step / 200), rel=1e-12)


def test_doremi_warms_up_and_then_is_flat() -> None:
    steps, peak, final = 200_000, 1e-3, 1e-4
    rates = [SCHEDULES["doremi"](step, steps, peak, final, 0.06) for step in range(0, steps, 1000)]
    assert rates[:12] == pytest.approx([peak * (1000 * k + 1) / 12_000 for k in range(12)], rel=1e-12)
    assert rates[12] == pytest.approx(peak, rel=1e-12)
    assert rates[12:] == sorted(rates[12:], reverse=True)
    assert rates[80] == pytest.approx(final, rel=0.05)
    assert SCHEDULES["doremi"](steps, steps, peak, final, 0.06) - final == pytest.approx(1e-10, rel=1e-4)


def test_cosine_warms_up_and_ends_at_the_final_rate() -> None:
    rate = SCHEDULES["cosine"]
    peak, final = 5e-4, 1e-4
    assert rate(0, 10_000, peak, final, 0.05) == pytest.approx(peak / 500, rel=1e-12)
    assert rate(499, 10_000, peak, final, 0.05) == pytest.approx(peak, rel=1e-12)
    assert rate(5250, 10_000, peak, final, 0.05) == pytest.approx((peak + final) / 2, rel=1e-12)
    assert rate(10_000, 10_000, peak, final, 0.05) == pytest.approx(final, rel=1e-12)


def test_a_recipe_is_read_without_torch() -> None:
    program = "import sys; import bimix.training.recipe; sys.exit('torch' in sys.modules)"
    package = recipe.__file__.removesuffix("bimix/training/recipe.py")
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": package}, check=True)
