"""How a law over sizes is scored on runs of a large model."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, of_sizes, write_runs
from refusals import refused

import score_sizes
from bimix.judge.law_scores import SIZES, ranks, size_scores
from bimix.observations.observations import read_observations

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
