"""Learning rates against their formulas."""

import itertools
import subprocess
import sys

import pytest
from tiny_run import RECIPE

from bimix.training import recipe
from bimix.training.recipe import SCHEDULES, Recipe, schedule_fault, wsds


def test_exponential_decays_by_its_factor() -> None:
    rate = SCHEDULES["exponential"]
    assert rate(0, 200, 1e-3, 1e-4, 0.06) == 1e-3
    for step in range(201):
        assert rate(step, 200, 1e-3, 1e-4, 0.06) == pytest.approx(1e-3 * 10 ** (-step / 200), rel=1e-12)


def test_the_warm_exponential_rises_and_then_decays_by_the_same_factor() -> None:
    rate = SCHEDULES["warm_exponential"]
    steps, peak, final = 200_000, 1e-3, 1e-4
    assert [rate(step, steps, peak, final, 0.06) for step in (0, 5999, 11_999)] == pytest.approx(
        [1e-3 / 12_000, 5e-4, 1e-3]
    )
    assert [rate(step, steps, peak, final, 0.06) for step in (12_000, 106_000, steps)] == pytest.approx(
        [1e-3, 10**-3.5, 1e-4]
    )
    assert rate(77, 200, peak, final, 0.0) == SCHEDULES["exponential"](77, 200, peak, final, 0.0)


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


ANNEALED = RECIPE | {"steps": 40, "evaluate_every": 5, "schedule": "wsds", "warmup_share": 0.1, "horizons": [10, 20]}


def test_wsds_decays_to_each_horizon_and_goes_on_at_the_full_rate() -> None:
    # the authors' own run: horizons 12,500, 26,250 and the end, decays a tenth of them
    peak, final, ends = 1e-3, 1e-4, (12_500, 26_250, 53_750)
    rates = [wsds(step, ends, peak, final, 0.04, 0.1) for step in range(ends[-1])]
    assert rates[:2150] == pytest.approx([peak * (step + 1) / 2150 for step in range(2150)], rel=1e-12)
    for end in ends:
        length = round(end / 10)
        begin = end - length
        assert rates[begin - 1] == peak and rates[end - 1] == pytest.approx(final, rel=1e-12)
        own = rates[begin:end]
        assert own == pytest.approx([peak - (peak - final) * (k + 1) / length for k in range(length)], rel=1e-9)
    assert set(rates[2150:11_250]) == {peak}
    for end, following in itertools.pairwise(ends):
        assert set(rates[end : following - round(following / 10)]) == {peak}
    assert wsds(ends[-1], ends, peak, final, 0.04, 0.1) == pytest.approx(final, rel=1e-12)


def test_the_losses_of_wsds_are_measured_where_a_decay_ends_and_nowhere_else() -> None:
    own = Recipe(**ANNEALED)
    assert [step for step in range(1, 41) if own.evaluates(step)] == [10, 20, 40]
    for step in (10, 20, 40):
        assert own.rate(step - 1) == pytest.approx(own.final_learning_rate)
    assert own.rate(10) == own.rate(20) == own.learning_rate
    assert [step for step in range(1, 41) if Recipe(**RECIPE).evaluates(step)] == [10, 20, 30, 40]
    assert [step for step in range(1, 41) if Recipe(**RECIPE | {"evaluate_every": 30}).evaluates(step)] == [30, 40]


def test_a_recipe_without_the_new_keys_is_fingerprinted_as_before() -> None:
    assert Recipe(**RECIPE).settings() == RECIPE
    assert Recipe(**RECIPE | {"horizons": [], "decay_share": 0.1, "pool_share": 1.0}).settings() == RECIPE
    assert Recipe(**ANNEALED).settings() == ANNEALED
    assert Recipe(**ANNEALED | {"decay_share": 0.2}).settings() == ANNEALED | {"decay_share": 0.2}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"horizons": [12]}, "12 is not measured, as losses are every 5 steps (evaluate_every)."),
        ({"horizons": [10, 40]}, "40 is not before the end of the run, 40, which is a horizon anyway."),
        ({"horizons": [5]}, "the decay to 5 begins at step 4, before the warm-up ends, 8:"),
        ({"horizons": [20, 10]}, "the decay to 10 begins at step 9, before the one before it ends, 20:"),
        ({"decay_share": 0.8}, "the decay to 20 begins at step 4, before the one before it ends, 10:"),
        ({"schedule": "cosine"}, "only the schedule wsds decays to horizons, and this recipe's is cosine."),
    ],
)
def test_what_does_not_go_together_in_a_schedule_is_one_sentence(changes: dict, sentence: str) -> None:
    assert schedule_fault(ANNEALED) is None and schedule_fault(RECIPE) is None
    warm = {"warmup_share": 0.2} if changes == {"horizons": [5]} else {"warmup_share": 0.0}
    key, found = schedule_fault(ANNEALED | warm | changes)
    assert key == "horizons" and found.startswith(sentence)
