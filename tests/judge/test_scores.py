"""Scores of one law, and over sizes."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, of_schedules, of_sizes, write_runs
from refusals import refused

import score_sizes
from bimix.judge import errors as scores
from bimix.judge.errors import GENERALIZATION, generalization, r2_log, rank_correlation
from bimix.judge.law_scores import SIZES, ranks, size_scores
from bimix.laws.fitted import fit, predict_runs
from bimix.observations.observations import Observations, read_observations

STEPS = np.array([1000, 2000, 4000, 8000])


def test_r2_is_of_log_losses_and_rounding_is_no_spread():
    """A guess too high at the largest loss: 0.5 in logs, below 0 of the losses."""
    observed, predicted = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 2.0, 4.0, 8.0 * np.exp(np.log(2) * 2.5**0.5)])
    total = np.log(2) ** 2 * (1.5**2 + 0.5**2) * 2
    missed = np.log(2) ** 2 * 2.5
    assert r2_log(observed, predicted) == pytest.approx(1 - missed / total) == pytest.approx(0.5)
    plain = 1 - np.sum((observed - predicted) ** 2) / np.sum((observed - observed.mean()) ** 2)
    assert plain < 0 and abs(plain - 0.5) > 0.5
    # rounding is no spread
    flat = 2.5 + np.array([0, 4e-16, 0, -4e-16])
    assert np.ptp(flat) > 0
    assert r2_log(flat, np.full(4, 2.6)) is None
    falling = np.array([4.0, 3.0, 2.0, 1.0])
    ranks = rank_correlation(np.stack([falling, flat, falling], axis=1), np.stack([falling, falling, flat], axis=1))
    assert ranks[0] == pytest.approx(1) and np.isnan(ranks[1:]).all()


def test_held_out_runs_of_another_order_are_asked_by_name_and_of_other_losses_not_at_all(monkeypatch):
    curve = {"A": 1.0, "alpha": 0.1, "B": 4.0, "beta": 0.4, "C": 1.1}
    fitted = {"law": "bimix", "domains": ["web", "code"], "loss_domains": ["web", "code"], "steps": STEPS.tolist()}
    fitted["coefficients"] = {"web": curve, "code": curve | {"B": 7.0}}
    losses = np.random.default_rng(0).uniform(2, 4, (2, 4, 2))
    shares, pools, names = np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([[5.0, 9.0], [6.0, 7.0]]), ("one", "two")
    own = Observations(names, ("web", "code"), STEPS, ("web", "code"), shares, losses, pools=pools)
    turned = Observations(
        names, ("code", "web"), STEPS, ("code", "web"), shares[:, ::-1], losses[..., ::-1], pools=pools[:, ::-1]
    )
    asked = []

    def predict(fitted: dict, runs: Observations, steps: np.ndarray) -> np.ndarray:
        asked.append(runs)
        return predict_runs(fitted, runs, steps)

    monkeypatch.setattr(scores, "predict_runs", predict)
    assert generalization(fitted, turned, shares).rows() == generalization(fitted, own, shares).rows()
    for runs in asked:
        assert runs.domains == ("web", "code")
        assert runs.pools.tolist() == pools.tolist() and runs.proportions.tolist() == shares.tolist()
    others = Observations(names, ("web", "code"), STEPS, ("x", "y"), shares, losses)
    none = generalization(fitted, others, shares)
    assert none.is_empty() and dict(none.schema) == GENERALIZATION


def test_a_law_over_schedules_is_scored_at_the_end_of_each_held_out_run():
    runs = of_schedules(1)
    fitted = fit("transfer", runs.take(range(9)))
    table = generalization(fitted, runs.take([9, 10, 11]), runs.proportions[9:])
    assert table.height == 6 and table["mre"].max() < 0.05 and table["r2_log"].null_count() == 6


DOMAINS = ("a", "b", "c", "d")
SMALL, MIDDLE, LARGE = (5e7, 1e9), (1.5e8, 3e9), (1.2e9, 2e10)


def rows_of(truth, shares, name, at, noise=0.001):
    losses = truth(shares, *at) * np.exp(noise * np.random.default_rng(3).standard_normal(shares.shape))
    further = {"parameters": at[0], "tokens": at[1]}
    return [(f"{name}{n}", shares[n], losses[n], further, None) for n in range(len(shares))]


@pytest.fixture(scope="module")
def found():
    truth, shares = of_sizes(3), mixtures(1, 8, 4)
    small = rows_of(truth, shares, "m", SMALL) + rows_of(truth, shares, "m", MIDDLE)
    return small, rows_of(truth, mixtures(2, 6, 4), "n", LARGE)


def test_runs_of_the_large_size_lower_the_error_on_the_others(found, tmp_path):
    flags = write_runs([*found[0], *found[1]], DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    observed = read_observations(flags[1], flags[3])
    large = observed.parameters == LARGE[0]
    table = size_scores("transfer", observed, large, [0, 1, 4, 5], 3, 0)
    assert table.schema == pl.Schema(SIZES)
    # five of six would leave one to be predicted; without a large run all draws are the same
    assert table.select("large_runs", "draw").rows() == [(0, 0), *((n, d) for n in (1, 4) for d in range(3))]
    error = dict(table.group_by("large_runs").agg(pl.col("error").mean()).iter_rows())
    assert error[4] < error[0] and error[1] < error[0]
    assert table.filter(pl.col("large_runs") == 4)["spearman"].null_count() == 3  # two runs have no order
    assert table.filter(pl.col("large_runs") == 0)["spearman"].item() > 0.9
    again = size_scores("transfer", replace(observed), large, [4], 3, 0)
    assert again.equals(table.filter(pl.col("large_runs") == 4))


def test_the_script_joins_both_tables(found, tmp_path):
    small = write_runs(found[0], DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    large = write_runs(
        [(name, shares, losses, {"tokens": LARGE[1]}, pools) for name, shares, losses, _, pools in found[1]],
        DOMAINS,
        tmp_path / "n.csv",
        tmp_path / "o.csv",
    )
    (tmp_path / "run.json").write_text('{"parameters": 1.2e9, "tokens": 2e10, "seed": 1}')
    flags = [*small, "--large-losses", large[1], "--large-mixtures", large[3], "--draws", "2", "--seed", "0"]
    flags += ["--law", "transfer", "--asked", str(tmp_path / "run.json"), "--out", str(tmp_path / "s.csv")]
    score_sizes.main(flags)
    table = pl.read_csv(tmp_path / "s.csv")
    assert table["large_runs"].to_list() == [0, 1, 1, 2, 2, 4, 4]
    assert table["runs"].unique().to_list() == ["transfer"]
    (tmp_path / "run.json").write_text('{"parameters": "1.2B", "tokens": 2e10}')
    refused(r"run.json: parameters is '1.2B': it must be a finite number above 0", score_sizes.main, flags)


def test_an_order_needs_losses_that_differ():
    truth = np.array([[1.0, 2.0, 1.0], [2.0, 2.0, np.nan], [3.0, 2.0, 2.0]])
    assert ranks(truth, truth[::-1]) == -1.0  # the second does not vary, the third was not seen everywhere
    assert ranks(truth[:, 1:], truth[:, 1:]) is None
