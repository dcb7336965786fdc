"""Which mixture is recommended: the lowest, the cheapest tie, a promise where nothing was run."""

import argparse

import numpy as np
import polars as pl

from bimix.judge.comparison import Comparison, compared
from bimix.judge.evidence import outside
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import Known
from bimix.judge.verdict import Promise, decide
from bimix.mixtures.names import EQUAL, GIVEN, SEARCHED, TOKEN_SHARES

RANKS = {"baseline": TOKEN_SHARES, "uniform": EQUAL, "unimax": GIVEN, "transfer": SEARCHED, "bimix": SEARCHED}
WOBBLE = np.array([[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1]]) * 0.001  # noise of 0.12 %


def runs(known: Known | None = None, seeds: int = 3, criterion: Criterion | None = None, **ends: float) -> Comparison:
    """Runs of up to four mixtures with these ends, and a noise that does not move their means."""
    shares = {name: (end,) * 2 if isinstance(end, float) else end for name, end in ends.items()}
    rows = [
        (name, seed, 10, domain, loss * np.exp(WOBBLE[n, seed] if seeds > 1 else 0.0))
        for n, (name, pair) in enumerate(shares.items())
        for seed in range(seeds)
        for domain, loss in zip("ab", pair, strict=True)
    ]
    table = pl.DataFrame(rows, ["mixture", "seed", "step", "domain", "loss"], orient="row")
    return compared(measured(table), criterion or Criterion("baseline"), known)


def promise(value: float, law: str = "transfer", left_out: float | None = 0.005, width: float = 0.01) -> Promise:
    ends = (value * np.exp(-width), value * np.exp(width))
    return Promise(law, law, "proxy", 10, value, *ends, 0.9, 12, left_out)


def test_the_lowest_wins_where_it_is_significantly_below_all() -> None:
    found = decide(runs(baseline=4.0, uniform=3.9, transfer=3.8), None, [promise(3.7)], RANKS)
    assert (found.outcome, found.best) == ("wins", "transfer")
    found = decide(runs(baseline=4.0, uniform=3.7, transfer=3.8), None, [promise(3.7)], RANKS)
    assert (found.outcome, found.best) == ("wins", "uniform")


def test_of_those_that_tie_the_cheapest_is_taken_and_two_names_of_one_mixture_do_not_tie() -> None:
    near = {"unimax": 3.8002, "transfer": 3.8}
    found = decide(runs(baseline=4.0, uniform=3.8004, **near), None, [promise(3.7)], RANKS)
    assert (found.outcome, found.best, found.rival) == ("ties", "uniform", "transfer")
    assert "ends 0.01 % lower, and is cheaper" in found.why and found.seeds is None
    assert decide(runs(baseline=3.801, uniform=3.8004, **near), None, [promise(3.7)], RANKS).best == "baseline"
    assert decide(runs(baseline=4.0, uniform=3.9, **near), None, [promise(3.7)], RANKS).best == "unimax"
    found = decide(runs(baseline=4.0, uniform=3.8, transfer=3.809), None, [promise(3.7)], RANKS)
    assert (found.outcome, found.best, found.rival) == ("ties", "uniform", "transfer") and found.seeds in (4, 5, 6)
    exact = decide(runs(seeds=1, baseline=2.0, transfer=2.0), None, [promise(3.7)], RANKS)
    assert exact.best == "baseline", "a search that gives nothing is not recommended over token shares"
    # the same runs stand there twice, as where two laws found one mixture
    rows = [
        (name, seed, 10, "a", loss * np.exp(WOBBLE[n, seed]))
        for name, n, loss in (("baseline", 0, 4.0), ("transfer", 1, 3.8), ("bimix", 1, 3.8), ("uniform", 2, 3.9))
        for seed in range(3)
    ]
    table = pl.DataFrame(rows, ["mixture", "seed", "step", "domain", "loss"], orient="row")
    found = decide(compared(measured(table), Criterion("baseline")), None, [promise(3.7)], RANKS)
    assert (found.outcome, found.best, found.rival) == ("wins", "transfer", "uniform")


def test_nobody_wins_where_the_noise_is_not_known() -> None:
    found = decide(runs(seeds=1, baseline=2.0, transfer=1.99), None, [promise(1.9)], RANKS)
    assert (found.outcome, found.best, found.rival) == ("lower", "transfer", "baseline")
    known = Known(0.001, 11, "left out")
    assert decide(runs(known, 1, baseline=2.0, transfer=1.99), None, [promise(1.9)], RANKS).outcome == "wins"
    assert decide(runs(known, 1, baseline=2.0, transfer=1.999), None, [promise(1.9)], RANKS).best == "baseline"
    # one mixture alone is called so
    criterion = Criterion("transfer")
    found = decide(runs(seeds=1, criterion=criterion, transfer=2.0), None, [promise(1.9)], RANKS)
    assert (found.outcome, found.best) == ("alone", "transfer")


def test_a_promise_of_the_law_with_the_least_error_is_taken_only_where_no_proxy_was_run() -> None:
    """Else the lowest run is: which of both is better is for the posterior to say."""
    promises = [promise(1.9, "bimix", None), promise(2.0, "transfer", 0.005)]
    target, proxies = runs(baseline=1.5, uniform=1.45), runs(baseline=2.1, m1=2.05)
    for model in (None, target):
        found = decide(model, None, promises, RANKS)
        assert (found.outcome, found.best, found.tested) == ("promised", "transfer", False)
        assert decide(model, proxies, promises, RANKS).best == "m1"
    trained = runs(baseline=1.5, transfer=1.45)
    assert decide(trained, proxies, promises, RANKS).best == "transfer", "it was measured itself"


def test_who_breaks_the_objective_is_behind_all_that_hold_it() -> None:
    criterion = Criterion("baseline", "no_worse_than", margin=0.01)
    found = decide(
        runs(criterion=criterion, baseline=4.0, transfer=(3.0, 4.1), uniform=3.9), None, [promise(3.7)], RANKS
    )
    assert found.best == "uniform" and found.outcome == "wins"
    assert found.why == "significantly below all others that hold the objective and the bounds"
    only = decide(runs(criterion=criterion, baseline=4.0, transfer=(3.0, 4.1)), None, [promise(3.7)], RANKS)
    assert only.best == "baseline" and "only mixture that holds" in only.why


def test_a_mixture_that_the_bounds_or_epochs_forbid_is_outside() -> None:
    """One path for `bimix solve` and the summary."""
    mixtures = {"even": {"a": 0.5, "b": 0.5}, "much": {"a": 0.8, "b": 0.2}}
    limits = argparse.Namespace(lower=None, upper='{"a": 0.7}', max_epochs=None)
    assert outside(mixtures, limits, None, None) == ["much"]
    limits = argparse.Namespace(lower='{"b": 0.3}', upper=None, max_epochs=4.0)
    assert outside(mixtures, limits, {"a": 1e6, "b": 1e9}, 1e6) == ["much"]
    assert outside(mixtures, limits, {"a": 1e6, "b": 1e9}, 1e7) == ["even", "much"]  # of `a` 5 and 8 epochs
    assert outside(mixtures, limits, {"a": 1e6, "b": 1e9}, None) == ["much"], "epochs are not known"
