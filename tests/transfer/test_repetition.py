"""Repeated text: nothing repeated, derivatives, one optimum, known laws, public runs."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from bench_repetition import POOL, wikipedia
from laws.known import mixtures, of_sizes, with_transfer, write_runs
from optimum.fitted_laws import optimum
from scipy.interpolate import CubicSpline

import fit_law
import optimize_mixture
import predict_losses
from bimix.laws import fitted as laws
from bimix.laws.transfer import own_domains
from bimix.observations.observations import Observations, read_observations
from bimix.transfer import law, repetition

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "repetition"
KEPT = Path(__file__).parents[2] / "resources" / "observations"
DOMAINS = ("a", "b", "c", "d")


def of_repeats(shares, tokens, pools, form):
    """Losses (n, 4) of a known law of runs that repeat their pools."""
    per_share = tokens / pools
    counted = repetition.counted(shares, per_share, form.R)[0]
    mixed = with_transfer(3, 4)(counted, [1e12])[:, 0]
    return mixed + repetition.own_harm(form, shares, per_share, pools, form.scale, np.arange(4))


FORM = repetition.Repetition(R=10.0, P=0.05, mu=1.5, kappa=0.5, scale=1e8)


def repeated_runs(n=30, noise=0.001):
    draw = np.random.default_rng(0)
    shares, runs = mixtures(1, n, 4), []
    for i, share in enumerate(shares):
        tokens = float(draw.choice([5e8, 1e9, 2e9]))
        pools = np.array([draw.choice([2e7, 5e7, 1e8]), 1e10, 1e10, draw.choice([5e7, 2e8])])
        level = 1 + 0.3 * (tokens / 1e9) ** -0.3
        losses = level * of_repeats(share[None], tokens, pools[None], FORM)[0] * np.exp(noise * draw.standard_normal(4))
        runs.append((f"m{i}", share, losses, {"tokens": tokens}, pools))
    return runs


def test_where_nothing_is_read_twice_all_is_as_without_pools(tmp_path):
    truth, shares = of_sizes(2), mixtures(1, 8, 4)
    losses = truth(shares, 1e8, 1e9)
    further = {"tokens": 1e9}
    plain = [(f"m{n}", shares[n], losses[n], further, None) for n in range(8)]
    pooled = [(*one[:4], np.full(4, 1e9)) for one in plain]
    one, other = (
        laws.fit(
            "transfer",
            read_observations(*write_runs(found, DOMAINS, tmp_path / f"{n}l.csv", tmp_path / f"{n}m.csv")[1::2]),
        )
        for n, found in enumerate((plain, pooled))
    )
    assert max(other.pop("epochs_seen").values()) < 1
    assert one == other and "repetition" not in one["coefficients"]["a"]
    new = mixtures(4, 20, 4)
    large = laws.at_run(one, tokens=1e9, pools=dict.fromkeys(DOMAINS, 1e9))
    assert np.allclose(laws.predict(large, new, [100]), laws.predict(one, new, [100]), rtol=1e-14)
    bounds = np.zeros(4), np.ones(4)
    assert np.allclose(optimum(large, 100, None, *bounds), optimum(one, 100, None, *bounds), atol=1e-9)


def test_a_known_law_of_repeated_runs_is_recovered_and_predicts_more_epochs(tmp_path):
    flags = write_runs(repeated_runs(), DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    fitted = laws.fit("transfer", read_observations(flags[1], flags[3]))
    form = fitted["coefficients"]["a"]["repetition"]
    assert 5 < form["R"] < 25 and 0.7 < form["mu"] < 3
    new, tokens, pools = mixtures(5, 40, 4), 4e9, np.array([5e7, 1e10, 1e10, 1e8])
    truth = (1 + 0.3 * 4**-0.3) * of_repeats(new, tokens, pools[None], FORM)
    errors = {}
    for name, asked in (("read", dict(zip(DOMAINS, pools.tolist(), strict=True))), ("ignored", None)):
        at = laws.at_run(fitted, tokens=tokens, pools=asked)
        guess = laws.predict(at, new, at["steps"])[:, 0]
        errors[name] = np.abs(guess / truth - 1).mean()
    assert errors["read"] < 0.02 and errors["read"] < 0.4 * errors["ignored"]


def test_matched_runs_asked_at_a_larger_matched_run_have_the_same_harm():
    """All fitted runs have the same pools: no run says what larger pools change."""
    draw, shares, pools = np.random.default_rng(0), mixtures(1, 24, 4), np.array([2e7, 1e8, 5e7, np.inf])
    losses = of_repeats(shares, 1e9, pools[None], FORM) * np.exp(0.001 * draw.standard_normal((24, 4)))
    runs = [f"m{n}" for n in range(24)]
    observed = Observations(tuple(runs), DOMAINS, np.array([1]), DOMAINS, shares, losses[:, None])
    observed = replace(observed, tokens=np.full(24, 1e9), pools=np.tile(pools, (24, 1)))
    fitted = json.loads(json.dumps(laws.fit("transfer", observed)))
    form = fitted["coefficients"]["a"]["repetition"]
    assert form["P"] > 1e-3 and form["pools"] == dict(zip(DOMAINS[:3], pools[:3], strict=True))
    found = []
    for grown in (1, 3.27):
        at = laws.at_run(fitted, tokens=grown * 1e9, pools=dict(zip(DOMAINS, grown * pools, strict=True)))
        found.append(laws.predict(at, shares, [1])[:, 0])
    assert np.allclose(*found, rtol=1e-12) and np.allclose(found[0], losses, rtol=0.02)
    # runs on other pools say it
    observed.pools[0] /= 2
    assert law.repeated(observed, np.arange(4), None).pools is None


@pytest.mark.parametrize("proof", ["proof", "proof2"])
def test_priors_hold_where_the_law_misses_by_more_than_noise(proof):
    observed = read_observations(KEPT / proof / "tiny.csv", KEPT / proof / "tiny_mixtures.csv")
    form = law.repeated(observed, own_domains(observed), observed.runs.astype(float))
    assert 8 < form.R < 40 and 1 < form.mu < 2.5 and 0.2 < form.kappa < 1


def of_many(m, d, n, groups):
    """Arguments of `repetition.fit`: made runs of m domains, losses of d, one foreign."""
    draw = np.random.default_rng(m)
    shares, own = draw.dirichlet(np.full(m, 2.0), n), np.arange(d)
    own[-1] = -1
    group = np.arange(n) % groups
    tokens, pools = 1e9 * (1 + 2.0 * group), np.full((n, m), 2e9 / m)
    losses = 2 * (0.3 * shares[:, :d] + 0.01) ** -0.1 * np.exp(0.003 * draw.standard_normal((n, d)))
    losses += repetition.own_harm(FORM, shares, tokens[:, None] / pools, pools, 1e8, own)
    weights = np.ones(n)
    weights[:2] = 2.0, 0.0
    losses[4, 0] = np.nan
    return shares, losses, own, group, tokens, pools, 1e8, weights


def test_the_numbers_are_those_of_one_dense_system_and_the_memory_is_that_of_a_domain_each(monkeypatch):
    monkeypatch.setattr(repetition, "FITS", 1)
    form = repetition.fit(*of_many(6, 4, 30, 3))
    # by the normal equations of all numbers at once, as they were solved before
    dense = [31.0916909033, 0.0316402003024, 1.32520458969, 0.517781128833]
    assert [form.R, form.P, form.mu, form.kappa] == pytest.approx(dense, rel=1e-6)
    many = of_many(40, 40, 100, 1)
    tracemalloc.start()
    repetition.fit(*many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 40 * 100 * 45 * 8  # a dense Jacobian alone has 40 such blocks


def test_gradient_convexity_and_the_one_optimum(tmp_path):
    flags = write_runs(repeated_runs(), DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    fitted = laws.fit("transfer", read_observations(flags[1], flags[3]))
    pools = dict(zip(DOMAINS, (2e7, 1e10, 1e10, 5e7), strict=True))
    at = laws.at_run(fitted, tokens=4e9, pools=pools)
    step, target = at["steps"][0], np.array([1.0, 2.0, 0.0, 1.0])
    function = laws.LAWS["transfer"].code.objective(at, step, target)
    for r in mixtures(6, 10, 4):
        value, gradient = function(r)
        assert value == pytest.approx(float(laws.predict(at, r[None], [step])[0, 0] @ target))
        for j, move in enumerate(1e-6 * np.eye(4)):
            up, down = function(r + move), function(r - move)
            assert gradient[j] == pytest.approx((up[0] - down[0]) / 2e-6, rel=1e-5, abs=1e-6)
        for other in mixtures(9, 20, 4):
            assert (gradient - function(other)[1]) @ (r - other) > 0
    weights = dict(zip(DOMAINS, target, strict=True))
    best = optimum(at, step, weights, np.zeros(4), np.ones(4))
    near = best + 0.01 * (mixtures(7, 500, 4) - best)
    others = np.concatenate([mixtures(8, 500, 4), near])
    assert best.sum() == pytest.approx(1)
    assert function(best)[0] <= (laws.predict(at, others, [step])[:, 0] @ target).min() * (1 + 1e-9)


def test_the_optimum_turns_a_scarce_domain_down_and_max_epochs_stays_a_cap(tmp_path, capsys):
    flags = write_runs(repeated_runs(), DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    law, out = str(tmp_path / "c.json"), tmp_path / "best.json"
    fit_law.main(["--law", "transfer", *flags, "--out", law])
    (tmp_path / "pools.csv").write_text("domain,tokens\na,20000000\nb,1e10\nc,1e10\nd,1e10\n", encoding="utf-8")
    shares = {}
    for name, more in (
        ("plenty", []),
        ("scarce", ["--tokens", str(tmp_path / "pools.csv"), "--max-epochs", "inf"]),
        ("capped", ["--tokens", str(tmp_path / "pools.csv"), "--max-epochs", "2"]),
    ):
        optimize_mixture.main(["--coefficients", law, "--run-tokens", "4e9", *more, "--out", str(out)])
        shares[name] = json.loads(out.read_text(encoding="utf-8"))["a"]
    assert shares["scarce"] < 0.7 * shares["plenty"] and shares["scarce"] > 2 * 2e7 / 4e9
    assert shares["capped"] == pytest.approx(2 * 2e7 / 4e9)
    some = ["--tokens", '{"a": 2e7}', "--max-epochs", "inf"]
    optimize_mixture.main(["--coefficients", law, "--run-tokens", "4e9", *some, "--out", str(out)])
    assert json.loads(out.read_text(encoding="utf-8"))["a"] == pytest.approx(shares["scarce"], abs=1e-6)
    said = capsys.readouterr()
    assert "epochs" in said.out and "does not name b, c, d: taken to be never repeated" in said.err
    predicted = str(tmp_path / "p.csv")
    more = ["--run-tokens", "4e9", "--tokens", str(tmp_path / "pools.csv")]
    predict_losses.main(["--coefficients", law, "--mixtures", flags[3], *more, "--out", predicted])
    assert pl.read_csv(predicted)["loss"].is_finite().all()


def test_a_law_without_pools_reads_the_published_constant(tmp_path):
    truth, shares = of_sizes(2), mixtures(1, 8, 4)
    losses = truth(shares, 1e8, 1e9)
    found = [(f"m{n}", shares[n], losses[n], {"tokens": 1e9}, None) for n in range(8)]
    flags = write_runs(found, DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    fitted = laws.fit("transfer", read_observations(flags[1], flags[3]))
    at = laws.at_run(fitted, tokens=1e9, pools=dict(zip(DOMAINS, (1e7, 1e9, 1e9, 1e9), strict=True)))
    r = np.full((1, 4), 0.25)
    counted = np.array([[0.01 * (1 + 15.4 * (1 - np.exp(-24 / 15.4))), 0.25, 0.25, 0.25]])
    assert np.allclose(laws.predict(at, r, [100]), laws.predict(fitted, counted, [100]))


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public runs are not beside the checkout")
def test_the_best_share_of_wikipedia_at_a_horizon_that_was_not_fitted():
    """Fitted to 16 pools, asked at 32; with runs on parts of the pool."""
    rows = pl.read_csv(PUBLIC / "wikipedia_fineweb_124M.csv")
    whole = pl.col("subsample") == 1
    observed = wikipedia(rows.filter(pl.col("horizon_over_pool") <= 16), limited=True)
    fitted = laws.fit("transfer", observed)
    errors = np.abs(laws.predict_runs(fitted, observed)[:, 0] / observed.last() - 1)
    assert errors.mean() < 0.005 and np.sqrt((errors**2).mean()) < 0.01
    asked = rows.filter((pl.col("horizon_over_pool") == 32) & whole).sort("share_fineweb", descending=True)
    at = laws.at_run(fitted, tokens=float(asked["tokens"][0]), pools={"wiki": POOL, "web": 1e15})
    best = optimum(at, at["steps"][0], None, np.zeros(2), np.ones(2))[at["domains"].index("wiki")]
    assert abs(best - 0.35) <= 0.07
    measured = CubicSpline(1 - asked["share_fineweb"].to_numpy(), asked["val_loss_target"].to_numpy())
    assert measured(best) / asked["val_loss_target"].min() - 1 <= 0.003


def test_runs_of_longer_schedules_count_more_where_pools_are_repeated() -> None:
    observed = Observations(
        mixtures=("a", "b", "c"),
        domains=("x", "y"),
        steps=np.array([1]),
        loss_domains=("x",),
        proportions=np.array([[0.5, 0.5], [0.2, 0.8], [0.8, 0.2]]),
        losses=np.array([3.0, 3.2, 2.9])[:, None, None],
        tokens=np.array([100.0, 200.0, 400.0]),
        pools=np.full((3, 2), 50.0),
    )
    assert law.by_horizon(observed, None) == pytest.approx([1 / 4, 1 / 2, 1])
    assert law.by_horizon(observed, np.array([2.0, 0, 1])) == pytest.approx([1 / 2, 0, 1])
    assert law.by_horizon(replace(observed, pools=None), None) is None
    assert law.by_horizon(replace(observed, tokens=np.full(3, 400.0)), None) is None
    assert law.by_horizon(replace(observed, parameters=np.array([1.0, 2, 3])), None) is None
