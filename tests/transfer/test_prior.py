"""The prior of `transfer`: its table, its gain where right, its cost where wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laws.known import STEPS, mixtures, observe, who_speak_alike, write_prior, write_tables
from refusals import refused

import compare_laws
import estimate_intervals
import fit_law
import trace_learning
from bimix.laws import fitted as laws
from bimix.laws import transfer
from bimix.observations.prior import read_gaps, recorded
from bimix.results.verify import verify
from bimix.transfer import mixing
from bimix.transfer.choice import choose

ROOT = Path(__file__).parents[2]
SEED = 4  # of a known law of which five runs hear the prior
NAMES = tuple(f"d{j:02d}" for j in range(7))


def error(fitted: dict, truth, seed: int) -> float:
    new = mixtures(seed + 500, 100)
    return float(np.abs(laws.predict(fitted, new, STEPS[-1:]) / truth(new, STEPS[-1:]) - 1).mean())


def permuted(entropies: np.ndarray, seed: int) -> np.ndarray:
    """The entropies under names that are all wrong."""
    draw, m = np.random.default_rng(seed), len(entropies)
    while True:
        order = draw.permutation(m)
        if (order != np.arange(m)).all():
            return entropies[np.ix_(order, order)]


def centred(entropies: np.ndarray) -> np.ndarray:
    others = ~np.eye(len(entropies), dtype=bool)
    means = np.where(others, entropies, 0.0).sum(axis=1, keepdims=True) / (len(entropies) - 1)
    return np.where(others, entropies - means, 0.0)


def test_a_table_that_is_no_prior_is_refused_in_one_sentence(tmp_path):
    for change, message in (
        (lambda t: t.drop("under"), "has no column 'under'"),
        (lambda t: t[1:], "has no row of 'a' under 'b'"),
        (lambda t: t.filter(pl.col("under") != "b"), r"has no domain 'b' under `under`.*\(it has a, c\)"),
        (lambda t: pl.concat([t, t[:1]]), "'a' under 'b' is there twice"),
        (lambda t: t.with_columns(nats=pl.lit(float("nan"))), "nats of 'a' under 'b' is nan"),
    ):
        table = pl.DataFrame(
            [(i, j, 2.0) for i in "abc" for j in "abc" if i != j], schema=["domain", "under", "nats"], orient="row"
        )
        change(table).write_csv(tmp_path / "prior.csv")
        refused(f"prior.csv.*{message}", read_gaps, tmp_path / "prior.csv", ("a", "b", "c"), ("a", "b", "c"))


def test_k_without_data_is_what_the_prior_says_and_many_runs_keep_it_off():
    """A ridge that holds everything: only gaps tell the k of a row apart."""
    _, entropies = who_speak_alike(0)
    gaps = centred(entropies)
    k = mixing.fit(mixtures(0, 4), np.zeros((4, 7)), np.arange(7), 1e4, gaps=gaps).parts()[3][:, 0]
    others = ~np.eye(7, dtype=bool)
    relative = np.log(k) - np.where(others, np.log(k), 0.0).sum(axis=1, keepdims=True) / 6
    assert np.allclose(relative[others], -gaps[others], atol=1e-3)
    assert (np.diagonal(k) == 1).all()
    # the choice keeps the prior off where runs are plenty
    truth, entropies = who_speak_alike(1, 3)
    observed = observe(truth, mixtures(0, 30, 3), [1000], 0.003)
    y, own = transfer.run_levels(observed), transfer.own_domains(observed)
    choice, _ = choose(observed.proportions, y, own, gaps=centred(entropies))
    assert choice["prior"] is False and not any(one["prior"] for one in choice["cross_validated"])


def test_a_right_prior_helps_and_a_wrong_one_costs_next_to_nothing_in_any_draw():
    """20 draws of known laws, 4 runs; a wrong prior (names permuted) is never 5 % worse than none."""
    errors = []
    for seed in range(20):
        truth, entropies = who_speak_alike(seed)
        bare = observe(truth, mixtures(seed, 4), STEPS[-1:], 0.003, seed)
        told = [replace(bare, gaps=centred(one)) for one in (entropies, permuted(entropies, seed))]
        errors.append([error(laws.fit("transfer", observed), truth, seed) for observed in (bare, *told)])
    without, right, wrong = np.array(errors).T
    assert right.mean() < 0.85 * without.mean()
    assert (wrong <= 1.05 * without).all()


@pytest.fixture
def told(tmp_path):
    """Tables of five runs and their prior, as flags, and what is fitted with it."""
    truth, entropies = who_speak_alike(SEED)
    observed = observe(truth, mixtures(SEED, 5), STEPS[::4], 0.003, SEED)
    (tmp_path / "losses" / "proxy").mkdir(parents=True)
    (tmp_path / "mixtures" / "groups").mkdir(parents=True)
    tables = write_tables(
        observed, tmp_path / "losses" / "proxy" / "g.parquet", tmp_path / "mixtures" / "groups" / "g.parquet"
    )
    prior = ["--prior", write_prior(entropies, NAMES, tmp_path / "cross_entropy.csv")]
    out = tmp_path / "laws" / "proxy" / "transfer" / "g" / "coefficients.json"
    out.parent.mkdir(parents=True)
    fit_law.main(["--law", "transfer", *tables, *prior, "--out", str(out)])
    return tmp_path, tables, prior, out


def test_a_fitted_law_says_its_prior_and_is_refitted_with_it(told):
    folder, tables, _, out = told
    fitted = json.loads(out.read_text())
    assert fitted["choice"]["prior"] is True
    gaps = recorded(fitted, NAMES, NAMES)
    _, entropies = who_speak_alike(SEED)
    assert np.allclose(gaps, centred(entropies), atol=1e-9)
    bare = observe(who_speak_alike(SEED)[0], mixtures(SEED, 5), STEPS[::4], 0.003, SEED)
    assert bare.gaps is None  # the json alone is enough for a refit
    again = fitted | {"coefficients": next(transfer.refit([(bare, None)], fitted))}
    forgetful = fitted | {"choice": fitted["choice"] | {"prior": False}}
    without = fitted | {"coefficients": next(transfer.refit([(bare, None)], forgetful))}
    new = mixtures(9, 20)
    level = laws.predict(fitted, new, STEPS[-1:])
    assert np.allclose(laws.predict(again, new, STEPS[-1:]), level, rtol=2e-3)
    assert np.abs(laws.predict(without, new, STEPS[-1:]) / level - 1).max() > 0.005

    found = verify(folder)
    assert found.checked["laws fitted again"] == 1
    assert not [sentence for sentence in found.faults if "coefficients.json" in sentence]
    intervals = ["--coefficients", str(out), *tables, "--step", str(STEPS[16]), "--out", str(folder / "i.csv")]
    estimate_intervals.main([*intervals, "--level", "0.9"])
    assert pl.read_csv(folder / "i.csv").height


def test_all_scripts_that_fit_laws_take_a_prior(told, monkeypatch):
    folder, tables, prior, _ = told
    seen = []
    monkeypatch.setattr(compare_laws, "compare", lambda laws, observed, _: seen.append(observed.gaps) or pl.DataFrame())
    curve = lambda laws, observed, *_: seen.append(observed.gaps) or pl.DataFrame()  # noqa: E731
    monkeypatch.setattr(trace_learning, "learning_curve", curve)
    for script, more in ((compare_laws, []), (trace_learning, ["--counts", "2", "--draws", "2", "--seed", "0"])):
        for flags in (prior, ["--prior"], []):  # the flag alone, as the workflow gives it where there is none
            script.main(["--laws", "bimix", "transfer", *tables, *flags, *more, "--out", str(folder / "t.csv")])
        assert np.allclose(seen[-3], centred(who_speak_alike(SEED)[1]), atol=1e-9)
        assert seen[-2] is None and seen[-1] is None


def test_losses_that_the_prior_does_not_know_are_said(tmp_path, capsys):
    truth, entropies = who_speak_alike(1, 3)
    observed = observe(truth, mixtures(1, 5, 3), [1000], 0.003, 1)
    renamed = replace(observed, loss_domains=("d00", "d01", "metric"))
    tables = write_tables(renamed, tmp_path / "l.csv", tmp_path / "m.csv")
    prior = write_prior(entropies, NAMES[:3], tmp_path / "p.csv")
    fit_law.main(["--law", "transfer", *tables, "--prior", prior, "--out", str(tmp_path / "c.json")])
    assert "warning: the prior says nothing of metric" in capsys.readouterr().err
