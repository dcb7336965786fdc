"""A domain without runs: worth from the prior, wider intervals, proposed by a search."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from laws.known import mixtures, observe, with_transfer
from optimum.fitted_laws import optimum

from bimix.laws import fitted as laws
from bimix.optimum.goal import Goal
from bimix.optimum.intervals import left_out
from bimix.optimum.objective import Objective
from bimix.search.rounds import Search
from bimix.transfer.unseen import confounded, deviations, unseen, unseen_sentence

M = 4
LAW = with_transfer(3, M)


def observed(with_it: int = 0):
    """Twelve runs without the last domain, and so many that train on it."""
    shares = mixtures(1, 12 + with_it, M)
    shares[:12, -1] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    return observe(LAW, shares, [1000], 0.001)


def test_a_domain_that_no_run_trains_on_gets_a_share_where_its_loss_counts() -> None:
    runs = observed()
    fitted = laws.fit("transfer", runs)
    assert unseen(fitted) == ["d03"]
    best = optimum(fitted, 1000, None, np.zeros(M), np.ones(M))
    assert best[-1] > 0.05
    at_best, without = (
        observe(LAW, one[None], [1000], 0).losses.mean() for one in (best, np.append(best[:3], 0) / best[:3].sum())
    )
    assert at_best < without


def test_intervals_are_wider_where_a_mixture_has_it() -> None:
    runs, shares = observed(), np.array([[0.3, 0.3, 0.4, 0.0], [0.2, 0.3, 0.3, 0.2]])
    fitted = laws.fit("transfer", runs)
    assert not deviations(fitted, shares[:1], 1000).any() and (deviations(fitted, shares[1:], 1000) > 0).all()
    of_runs = left_out(fitted, runs, 1000)
    low, high = of_runs.ends(np.ones(2), shares, 1000, np.ones(M), 0.9)
    truth = observe(LAW, shares, [1000], 0).losses[:, 0].mean(axis=1)
    guess = laws.predict(fitted, shares, [1000])[:, 0].mean(axis=1)
    widths = np.log(high / low)
    assert widths[1] > 3 * widths[0]
    assert (guess * low < truth).all() and (truth < guess * high).all()
    assert "no fitted run trains on d03: what it is worth is taken from the other domains" in unseen_sentence(
        fitted, shares[1]
    )
    assert unseen_sentence(fitted, shares[0]) == ""


@pytest.mark.parametrize("sized", [False, True])
def test_deviations_are_what_log_k_of_it_moves_at_each_step_and_size(sized: bool) -> None:
    """By finite differences, in units of the deviation of log k; effects grow by step or size."""
    grown = lambda shares, steps: LAW(shares, steps) ** np.linspace(0.5, 1, len(steps))[:, None]  # noqa: E731
    steps = [1000] if sized else [500, 1000, 2000, 4000]
    runs = observe(grown, observed().proportions, steps, 0.0)
    if sized:
        larger = observe(lambda shares, at: LAW(shares, at) ** 2, runs.proportions, steps, 0.0)
        both = {
            name: np.concatenate([getattr(one, name) for one in (runs, larger)]) for name in ("proportions", "losses")
        }
        sizes = {"parameters": np.repeat([1e6, 2e6], 12), "tokens": np.full(24, 1e6)}
        runs = replace(runs, mixtures=runs.mixtures * 2, **both, **sizes)
    fitted, shares, h = laws.fit("transfer", runs), np.full((1, M), 1 / M), 1e-5
    moved = copy.deepcopy(fitted)
    for values in moved["coefficients"].values():
        for term in values["terms"]:
            term["transfer"]["d03"] *= np.exp(h)
    slopes = np.log(laws.predict(fitted, shares, steps) / laws.predict(moved, shares, steps))[0, :, :3] / h
    found = np.array([deviations(fitted, shares, step)[0, :3] for step in steps])
    assert np.allclose(found / found[-1, 0], slopes / slopes[-1, 0], rtol=1e-3)
    assert sized or found[0].max() < 0.8 * found[-1].max()
    units = found[-1, 0] / slopes[-1, 0]
    assert units >= 1.6 - 1e-3, "the deviation of log k, at least"


def test_runs_that_lack_two_domains_together_do_not_tell_them_apart() -> None:
    shares = mixtures(0, 9, M)
    shares[:3, :2] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    assert confounded(shares) == [(0, 1), (1, 0)]
    fitted = laws.fit("transfer", observe(LAW, shares, [100], 0.002))
    assert any("d00 and d01, d01 and d00; run a mixture without" in sentence for sentence in fitted["warnings"])
    shares[0, 1] = 0.4  # one run with the second, and without the first
    shares /= shares.sum(axis=1, keepdims=True)
    assert confounded(shares) == [(1, 0)]


def test_the_next_runs_train_on_it() -> None:
    runs = observed()
    fitted = laws.fit("transfer", runs)
    search = Search(Goal(fitted, 1000, Objective()), fitted, runs, np.zeros(M), np.ones(M), 0.001)
    found = search.next(0)
    assert found.shares[-1] > 0.1 and found.gain > 0.001
    seen = laws.fit("transfer", observed(2))
    assert unseen(seen) == [] and not deviations(seen, np.full((1, M), 0.25), 1000).any()
    # a loss of its own text that old runs lack is fitted to further ones
    runs = observed(2)
    losses = runs.losses.copy()
    losses[:12, :, -1] = np.nan
    fitted = laws.fit("transfer", replace(runs, losses=losses))
    predicted = laws.predict(fitted, np.full((1, M), 0.25), [1000])[0, 0]
    truth = observe(LAW, np.full((1, M), 0.25), [1000], 0).losses[0, 0]
    assert abs(predicted[-1] / truth[-1] - 1) < 0.1
