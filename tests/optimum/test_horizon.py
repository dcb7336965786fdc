"""Steps beyond those fitted: intervals widen, far ones are warned of and further ones refused."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from laws.known import STEPS, mixtures, observe, with_transfer, write_tables
from refusals import refused

import estimate_intervals
import fit_law
import optimize_mixture
import predict_losses
from bimix.laws import fitted as laws
from bimix.optimum.intervals import left_out, losses_of

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import bench_horizon

FEW = STEPS[:8]  # 10,000 to 80,000
LAST = int(FEW[-1])


def test_intervals_hold_the_truth_far_beyond_the_last_step() -> None:
    """A curve of another form: unwidened, half of the intervals miss it at 100 times."""
    for law in ("bimix", "transfer"):
        draws = [bench_horizon.held(law, seed) for seed in range(5)]
        for times in bench_horizon.TIMES:
            inside, width = (np.mean([one[times][part] for one in draws]) for part in (0, 1))
            assert inside >= 0.8
            assert width < 0.03 + 0.04 * np.log(times)


def test_the_width_grows_with_the_distance_and_not_up_to_the_last_step() -> None:
    observed = observe(with_transfer(0, 3), mixtures(0, 8, 3), FEW, 0.003)
    fitted, new = laws.fit("transfer", observed), mixtures(5, 2, 3)
    near, far = (left_out(fitted, observed, step) for step in (LAST, 10 * LAST))
    assert near.shortened == () and len(far.shortened) == 3
    assert near.ahead(LAST, None, 0.9).tolist() == [0, 0, 0] and near.ahead(LAST, np.ones(3), 0.9) == 0
    once, twice = (far.ahead(step, None, 0.9) for step in (10 * LAST, 100 * LAST))
    assert (once > 0).all() and np.allclose(twice, 2 * once)
    # what all runs share cancels between two mixtures
    target = np.ones(3)
    assert far.ahead(10 * LAST, target, 0.9, between=True) < far.ahead(10 * LAST, target, 0.9)
    pair = losses_of([fitted], new, 10 * LAST)[0].mean(axis=1)
    low, high = far.ends_of_gain(pair, new, 10 * LAST, target, 0.9)
    each = [far.width(new, 10 * LAST, target, 0.9) * pair]
    assert high - low < 2 * np.sqrt(np.sum(np.square(each)))


def test_a_fit_without_the_last_evaluations_is_that_of_shorter_runs() -> None:
    observed = observe(with_transfer(1, 3), mixtures(0, 8, 3), FEW, 0.003)
    fitted = laws.fit("bimix", observed)
    short = left_out(fitted, observed, 10 * LAST).shortened[1]
    shorter = laws.fit("bimix", replace(observed, steps=FEW[:4], losses=observed.losses[:, :4]))
    told = laws.predict(shorter, observed.proportions, [LAST])[:, 0]
    assert short.distance == pytest.approx(np.log(2)) and np.allclose(short.losses, told, rtol=1e-4)
    # a metric of the last step alone is left in
    observed = observe(with_transfer(0, 3), mixtures(0, 8, 3), FEW, 0.003)
    observed.losses[:, :-1, 2] = np.nan
    observed = replace(observed, loss_domains=("d00", "d01", "error"), metrics=("error",))
    fitted = laws.fit("transfer", observed)
    found = left_out(fitted, observed, 10 * LAST)
    assert all(np.isfinite(one.losses).all() for one in found.shortened)
    assert np.isfinite(found.ahead(10 * LAST, None, 0.9)).all()
    # laws of one step have no horizon
    observed = observe(with_transfer(0, 3), mixtures(0, 8, 3), FEW[:1])
    for law in ("transfer", "exponential", "bimix"):
        fitted = laws.fit(law, observed)
        assert laws.far_ahead(fitted, 1e15) == "" and left_out(fitted, observed, LAST).shortened == ()


def test_scripts_warn_beyond_ten_times_the_last_step_and_refuse_beyond_a_hundred(tmp_path, capsys) -> None:
    observed = observe(with_transfer(0, 3), mixtures(0, 6, 3), FEW, 0.003)
    tables = write_tables(observed, tmp_path / "l.csv", tmp_path / "m.csv")
    law, out = str(tmp_path / "law.json"), ["--out", str(tmp_path / "out.csv")]
    fit_law.main(["--law", "bimix", *tables, "--out", law])
    asked = ["--level", "0.9"]
    calls = [
        lambda step: optimize_mixture.main(["--coefficients", law, "--step", step, "--out", str(tmp_path / "o.json")]),
        lambda step: predict_losses.main(["--coefficients", law, "--mixtures", tables[3], "--steps", step, *out]),
        lambda step: estimate_intervals.main(["--coefficients", law, *tables, "--step", step, *asked, *out]),
    ]
    for call in calls:
        capsys.readouterr()
        call(str(10 * LAST))
        assert "times the last step" not in capsys.readouterr().err
        call(str(20 * LAST))
        assert "step 1.6e+06 is 20 times the last step that the law was fitted to, 80000" in capsys.readouterr().err
        refused("beyond 100 times the runs do not determine it", call, str(101 * LAST))
