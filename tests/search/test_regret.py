"""When to stop: regrets of laws that are known, the noise of a run, the sentence."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, observe, of_three

from bimix import laws
from bimix.optimum.best import best
from bimix.optimum.intervals import LeftOut, left_out
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import optimum
from bimix.search.regret import (
    Regret,
    advice,
    drawn_laws,
    expected_regret,
    left_out_regret,
    noise_of_average,
)

BOUNDS = np.zeros(3), np.ones(3)


def regret_of(n: int, noise: float, draws: int = 40) -> Regret:
    observed = observe(of_three(True), mixtures(1, n, 3), [4000], noise, 1)
    fitted = laws.fit("transfer", observed)
    left = left_out(fitted, observed, 4000)
    drawn = list(drawn_laws(fitted, observed, observed.proportions, left, draws, 0))
    return expected_regret(fitted, drawn, 4000, Objective(), *BOUNDS, left)


def test_the_regret_is_never_negative_and_falls_with_the_runs_and_their_noise() -> None:
    few, many, noisy = regret_of(6, 0.002), regret_of(40, 0.002), regret_of(40, 0.05)
    for one in (few, many, noisy):
        assert (one.draws >= -1e-9).all() and one.nats >= one.draws.mean() - 1e-12
    assert many.nats < 0.5 * few.nats
    assert many.nats < 0.2 * noisy.nats


def test_the_regret_covers_what_the_pick_loses_in_truth() -> None:
    truth, lost, expected = of_three(True), [], []
    fine = np.random.default_rng(0).dirichlet(np.ones(3), 20_000)
    best = truth(fine, [4000])[:, 0].sum(axis=1).min() / 3
    for seed in range(5):
        observed = observe(truth, mixtures(seed, 8, 3), [4000], 0.01, seed)
        fitted = laws.fit("transfer", observed)
        pick = optimum(fitted, 4000, None, *BOUNDS)
        lost.append(truth(np.maximum(pick, 1e-12)[None], [4000])[0, 0].mean() - best)
        left = left_out(fitted, observed, 4000)
        drawn = list(drawn_laws(fitted, observed, observed.proportions, left, 40, 0))
        expected.append(expected_regret(fitted, drawn, 4000, Objective(), *BOUNDS, left).nats)
    assert 0.3 < np.mean(expected) / np.mean(lost) < 10


def test_draws_of_a_seed_are_the_same() -> None:
    observed = observe(of_three(True), mixtures(1, 6, 3), [4000], 0.01, 1)
    fitted = laws.fit("transfer", observed)
    first, again, other = (
        list(drawn_laws(fitted, observed, observed.proportions, left_out(fitted, observed, 4000), 2, seed))
        for seed in (0, 0, 1)
    )
    assert first == again != other
    for values in first[0]["coefficients"].values():
        assert 0 < values["gamma"] < 1
    assert first[0]["coefficients"]["d00"]["terms"][0]["transfer"]["d00"] == 1


def losses(rows: list[tuple]) -> pl.DataFrame:
    columns = ["mixture", "step", "seed", "domain", "loss"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_the_noise_is_that_of_the_average_between_seeds_at_the_last_step() -> None:
    draw = np.random.default_rng(0)
    rows, spread = [], {}
    for mixture in ("a", "b"):
        for seed in (1, 2, 3):
            at_end = 3 * np.exp(0.01 * draw.standard_normal(2))
            spread.setdefault(mixture, []).append(np.log(at_end @ [0.75, 0.25]))
            rows += [(mixture, 100, seed, name, float(loss)) for name, loss in zip("xy", at_end, strict=True)]
            rows += [(mixture, 50, seed, name, float(draw.uniform(4, 9))) for name in "xy"]
    rows += [("c", 100, 1, "x", 9.0), ("c", 100, 1, "y", 2.0)]
    found = noise_of_average(losses(rows), "losses", ["x", "y"], {"x": 3.0, "y": 1.0, "z": 0.0})
    assert found == pytest.approx(np.sqrt(np.mean([np.var(one, ddof=1) for one in spread.values()])))
    once = losses([row for row in rows if row[2] == 1])
    assert noise_of_average(once, "losses", ["x", "y"], {"x": 1.0, "y": 1.0}) is None
    assert noise_of_average(once.drop("seed"), "losses", ["x", "y"], {"x": 1.0, "y": 1.0}) is None


def test_the_sentence_says_both_numbers() -> None:
    regret = Regret(0.01, 2.0, np.array([0.01]))
    assert advice(regret, 0.004, 20) == (
        "Go on: the mixture that the law picks now is expected to lose 0.0100 nats to the best, "
        "and two runs of one mixture differ by 0.0080 nats (standard deviation)."
    )
    assert advice(regret, 0.006, 12).startswith("Stop: ") and "0.0120 nats" in advice(regret, 0.006, 12)
    few = advice(regret, 0.006, 11)
    assert few.startswith("Go on: ") and few.endswith("but 11 runs are too few to stop by: 12 at least.")
    assert "the noise of a run is not known" in advice(regret, None, 20)


def left_of(predicted: list[float], observed: list[float], groups: list[int] | None = None) -> LeftOut:
    """Left-out errors of runs of one loss domain."""
    two = [np.array(one, dtype=float)[:, None] for one in (observed, predicted)]
    return LeftOut({}, [], 1, *two, np.ones((len(observed), 1)), groups=None if groups is None else np.array(groups))


def test_the_regret_of_left_out_runs_is_what_their_pick_loses() -> None:
    draw = np.random.default_rng(0)
    losses = [2.0, 2.1, 2.2, 2.3, 2.4, 2.5]
    assert left_out_regret(left_of(losses, losses), np.ones(1), draw) == 0
    # the worst of all looks best: where it is drawn, 2 of 3 times, it loses to the best of the rest
    fooled = left_of([*losses[:5], 1.0], losses)
    assert 0.2 < left_out_regret(fooled, np.ones(1), draw) < 0.4
    # levels of another size are no regret, runs that lack a loss no runs
    sizes = left_of([9.0, 9.1, *losses], [1.0, 1.1, *losses], [0, 0, 1, 1, 1, 1, 1, 1])
    assert left_out_regret(sizes, np.ones(1), draw) == 0
    assert left_out_regret(left_of([1.0, 2.0, np.nan], [2.0, 1.0, 3.0]), np.ones(1), draw) == 0


def test_the_regret_is_no_less_than_that_of_left_out_runs() -> None:
    """The law's own draws know nothing of what its form misses."""
    observed = observe(of_three(True), mixtures(1, 12, 3), [4000], 0.002, 1)
    fitted = laws.fit("transfer", observed)
    left = left_out(fitted, observed, 4000)
    drawn = list(drawn_laws(fitted, observed, observed.proportions, left, 5, 0))
    fooled = replace(left, predicted=left.predicted[::-1])
    found = expected_regret(fitted, drawn, 4000, Objective(), *BOUNDS, fooled)
    assert found.nats == left_out_regret(fooled, np.ones(3), np.random.default_rng(0)) > 2 * found.draws.mean()


def test_the_regret_follows_the_objective() -> None:
    observed = observe(of_three(True), mixtures(1, 12, 3), [4000], 0.01, 1)
    fitted = laws.fit("transfer", observed)
    left = left_out(fitted, observed, 4000)
    drawn = list(drawn_laws(fitted, observed, observed.proportions, left, 10, 0))
    even = dict.fromkeys(fitted["domains"], 1 / 3)
    for objective in (Objective(kind="minimax", reference=even), Objective(kind="no_worse_than", reference=even)):
        found = expected_regret(fitted, drawn, 4000, objective, *BOUNDS, left)
        shares = best(fitted, 4000, objective, *BOUNDS)
        assert found.predicted == pytest.approx(shares.value) and (found.draws >= 0).all()
    assert expected_regret(fitted, drawn, 4000, Objective(), *BOUNDS, left).predicted != pytest.approx(shares.value)


def test_numbers_are_known_no_worse_than_the_ridge_holds_them() -> None:
    """A ridge far above the errors: what no run tells lies within sqrt(error^2 / ridge), not within
    1.
    """
    observed = observe(of_three(True), mixtures(1, 6, 3), [4000], 1e-4, 1)
    fitted = laws.fit("transfer", observed)
    fitted["choice"] |= {"ridge": 1.0}
    left = left_out(fitted, observed, 4000)
    drawn = list(drawn_laws(fitted, observed, observed.proportions, left, 40, 0))
    errors = np.log(left.observed / left.predicted)
    logs = [np.log(one["coefficients"]["d00"]["terms"][0]["transfer"]["d02"]) for one in drawn]
    assert np.std(logs) < 5 * np.sqrt((errors**2).mean()) < 0.5
