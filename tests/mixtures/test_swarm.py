"""RegMix's swarm: its distribution, its purity, its optimum by simulation, and what is refused."""

import json

import numpy as np
import polars as pl
import pytest
from optimum.fitted_laws import optimum
from refusals import refused
from tokenised import call

import sample_mixtures
from bimix.errors import InputError
from bimix.laws.fitted import fit
from bimix.mixtures import draws
from bimix.observations.observations import Observations
from bimix.optimum import search
from bimix.optimum.search import simulate

SHARES = np.array([0.5, 0.3, 0.1, 0.08, 0.02])
LOOSE = np.array([0.3, 0.25, 0.2, 0.15, 0.1])  # 15 times each is above 1: nothing is thrown away


def sampled(tmp_path, shares, runs, **flags):
    (tmp_path / "baseline.json").write_text(json.dumps(shares))
    names, out = [f"swarm_{number:04d}" for number in range(1, runs + 1)], tmp_path / "swarm.parquet"
    call(sample_mixtures, baseline=tmp_path / "baseline.json", names=names, seed=0, out=out, **flags)
    return pl.read_parquet(out)


def test_draws_have_the_moments_of_their_dirichlets():
    drawn = draws.simulated(LOOSE, 150_000, 0)
    centre = draws.prior(LOOSE)
    assert np.allclose(centre, np.sqrt(LOOSE) / np.sqrt(LOOSE).sum())
    # E w = p; Var w = p (1 - p) / (strength + 1), averaged over the strengths: all
    # draws have the same mean
    spread = centre * (1 - centre) * np.mean(1 / (draws.strengths(draws.STRENGTHS) + 1))
    assert np.allclose(drawn.mean(axis=0), centre, atol=4 * np.sqrt(spread.max() / len(drawn)))
    assert np.allclose(drawn.var(axis=0), spread, rtol=0.02)


def test_strengths_that_are_no_range_are_refused(tmp_path):
    shares = {"a": 0.5, "b": 0.5}
    for given in ([5, 0.1], [0, 1]):
        refused("--strengths is .* the least and the greatest", sampled, tmp_path, shares, 2, strengths=given)


def test_a_mixture_depends_on_seed_and_number_alone_as_simulated_ones_do():
    one_by_one = np.array([draws.mixture(SHARES, 3, number) for number in range(1, 2001)])
    together = simulate(SHARES, np.zeros(5), np.ones(5))
    assert np.allclose(one_by_one.mean(axis=0), together.mean(axis=0), atol=0.025)
    assert np.allclose(one_by_one.std(axis=0), together.std(axis=0), atol=0.02)
    for drawn in (one_by_one, together):
        assert np.allclose(drawn.sum(axis=1), 1, atol=1e-12)
        assert ((drawn == 0) | (drawn >= draws.LEAST)).all() and (drawn == 0).mean() > 0.05
        # 15 times 0.02 is 0.3, and cutting what is below 2e-4 raises the
        # others by a thousandth at most
        assert 0.25 < drawn[:, 4].max() <= 0.3 * 1.001
    # a mixture depends on seed and number alone
    first = [draws.mixture(SHARES, 7, number) for number in (1, 2, 3)]
    assert np.array_equal(draws.mixture(SHARES, 7, 2), first[1])
    assert np.allclose(draws.mixture(1000 * SHARES, 7, 2), first[1]), "counts of tokens are as good as shares"
    assert not np.allclose(draws.mixture(SHARES, 8, 2), first[1])
    assert not np.allclose(first[0], first[1])


def test_more_runs_keep_the_first_and_a_domain_that_never_occurs_is_refused(tmp_path):
    shares = dict(zip("abcde", SHARES.tolist(), strict=True))
    few, many = sampled(tmp_path, shares, 6), sampled(tmp_path, shares, 9)
    assert many.head(few.height).equals(few)
    sums = many.group_by("mixture").agg(pl.col("proportion").sum())["proportion"]
    assert many["mixture"].n_unique() == 9 and np.allclose(sums, 1, atol=1e-12)
    # a domain that never occurs is refused with the numbers
    (tmp_path / "swarm.parquet").unlink()
    shares = {"web": 0.999, **{f"rare{number}": 0.001 / 8 for number in range(8)}}
    refused(r"in the 2 mixtures of the swarm rare.* of 9 domains\) never occurs", sampled, tmp_path, shares, 2)
    assert not (tmp_path / "swarm.parquet").exists()


def best_simulated(value, centre, lower, upper, between=draws.STRENGTHS):
    """The mean of the draws of least value, as the optimum of trees takes it."""
    drawn = search.simulate(centre, lower, upper, between)
    return drawn[np.argsort(value(drawn))[: search.AVERAGED]].mean(axis=0)


def test_the_best_simulated_mixtures_are_near_a_known_optimum():
    weights = np.array([1.0, 3.0, 0.5, 1.5, 0.2])
    known = np.sqrt(weights * SHARES) / np.sqrt(weights * SHARES).sum()  # argmin of sum w s / r

    def value(shares):
        return (weights * SHARES / np.maximum(shares, 1e-6)).sum(axis=1)

    found = best_simulated(value, SHARES, np.zeros(5), np.ones(5))
    assert abs(found.sum() - 1) < 1e-12 and np.abs(found - known).max() < 0.02
    assert value(found[None]) < 1.01 * value(known[None])
    lower, upper = np.array([0.3, 0, 0, 0, 0]), np.array([1, 0.3, 1, 1, 1])
    bounded = best_simulated(value, SHARES, lower, upper)
    assert (bounded >= lower).all() and (bounded <= upper).all() and abs(bounded.sum() - 1) < 1e-12
    with pytest.raises(InputError, match="of 2,000,000 simulated mixtures 0 lie within the bounds"):
        best_simulated(value, SHARES, np.array([0, 0, 0, 0, 0.4]), np.ones(5))


def swarm_of(runs):
    """Known losses of three domains: each falls with its own proportion, the third is hard."""
    shares = np.array([draws.mixture(np.array([0.5, 0.3, 0.2]), 1, number) for number in range(1, runs + 1)])
    losses = np.array([2.0, 2.0, 3.0]) * (shares + 0.02) ** -0.2
    names = tuple("abc")
    return Observations(tuple(map(str, range(runs))), names, np.array([10]), names, shares, losses[:, None])


def test_the_regmix_optimum_of_a_swarm_is_near_that_of_its_losses(monkeypatch):
    monkeypatch.setattr(search, "SIMULATED", 5000)  # trees take a second for a thousand mixtures of three domains
    monkeypatch.setattr("bimix.optimum.optimum.AVERAGED", 32)
    observed = swarm_of(60)
    fitted = fit("regmix", observed)
    grid = np.random.default_rng(0).dirichlet(np.ones(3), 20_000)
    known = grid[(np.array([2.0, 2.0, 3.0]) * (grid + 0.02) ** -0.2).sum(axis=1).argmin()]
    tokens = {"a": 50.0, "b": 30.0, "c": 20.0}
    found = optimum(fitted, 10, None, np.zeros(3), np.ones(3), tokens)
    assert abs(found.sum() - 1) < 1e-12 and np.abs(found - known).max() < 0.08
    only = optimum(fitted, 10, {"c": 1.0}, np.zeros(3), np.ones(3), tokens)
    assert only[2] > found[2] + 0.2, "the weights of loss domains count"
    unknown = optimum(fitted, 10, None, np.zeros(3), np.ones(3))
    assert np.abs(unknown - known).max() < 0.1, "without tokens the fitted mixtures say where to draw"


def test_too_few_runs_are_refused_with_the_numbers():
    for law, runs, needed in (("regmix", 9, 10), ("exponential", 4, 5)):
        fitted = fit(law, swarm_of(runs))
        with pytest.raises(InputError, match=f"fitted to {runs} mixtures of 3 domains, and its optimum needs {needed}"):
            optimum(fitted, 10, None, np.zeros(3), np.ones(3))
