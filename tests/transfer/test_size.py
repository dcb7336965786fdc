"""`transfer` over sizes: known laws, one size as before, separate tables, public runs."""

import json
from dataclasses import replace
from pathlib import Path

import bench_size
import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, of_schedules, of_sizes, write_runs
from refusals import refused

import estimate_intervals
import fit_law
import optimize_mixture
import predict_losses
from bimix.errors import InputError
from bimix.laws import fitted as laws
from bimix.observations.observations import observations, read_observations
from bimix.optimum.intervals import left_out
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best
from bimix.transfer import sizes
from bimix.transfer.repetition import LARGER

PUBLIC = Path(__file__).parents[3] / "shared" / "data"
DOMAINS = ("a", "b", "c", "d")
SMALL, MIDDLE, LARGE = (5e7, 1e9), (1.5e8, 3e9), (1.2e9, 2e10)


def runs_of(truth, shares, name, at, noise=0.002, seed=0):
    parameters, tokens = at
    losses = truth(shares, *at) * np.exp(noise * np.random.default_rng(seed).standard_normal(shares.shape))
    further = {"parameters": parameters, "tokens": tokens}
    return [(f"{name}{n}", shares[n], losses[n], further, None) for n in range(len(shares))]


def fitted_to(tmp_path, found, law="transfer"):
    flags = write_runs(found, DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    observed = read_observations(flags[1], flags[3])
    return laws.fit(law, observed), observed


def error(fitted, truth, at, seed=9):
    new = mixtures(seed, 40, 4)
    there = laws.at_run(fitted, *at)
    return np.abs(laws.predict(there, new, there["steps"])[:, 0] / truth(new, *at) - 1)


def test_a_larger_model_is_predicted_and_its_own_runs_mend_the_level(tmp_path):
    truth = of_sizes(3)
    small = mixtures(1, 20, 4)
    found = runs_of(truth, small, "m", SMALL) + runs_of(truth, small[:8], "m", MIDDLE, seed=1)
    none = error(fitted_to(tmp_path, found)[0], truth, LARGE)
    assert none.mean() < 0.05
    some = error(fitted_to(tmp_path, found + runs_of(truth, small[:2], "m", LARGE, seed=2))[0], truth, LARGE)
    assert some.mean() < 0.004 and some.mean() < none.mean()


def test_sizes_that_share_no_mixture_are_joined_by_the_law(tmp_path):
    truth = of_sizes(4)
    found = runs_of(truth, mixtures(1, 20, 4), "m", SMALL) + runs_of(truth, mixtures(2, 6, 4), "other", LARGE, seed=1)
    assert error(fitted_to(tmp_path, found)[0], truth, LARGE).mean() < 0.006


def test_runs_that_reverse_the_order_have_next_to_no_effect_and_a_warning(tmp_path):
    """The truth of the largest size has the exponent -0.5, which no convex loss has."""
    rng = np.random.default_rng(0)
    factor = 0.05 * rng.standard_normal((12, 3))
    y = 2 - 0.5 * factor + 0.001 * rng.standard_normal((12, 3))
    assert (sizes.slopes(factor, y, np.ones(12), np.zeros((12, 3)))[0] == sizes.LEAST_NU).all()

    truth, shares = of_sizes(3), mixtures(1, 12, 4)
    small, large = runs_of(truth, shares, "m", SMALL), runs_of(truth, shares, "m", MIDDLE, seed=1)
    fitted, observed = fitted_to(tmp_path, small + large)
    assert not any("other way round" in sentence for sentence in fitted["warnings"])
    losses, big = observed.losses.copy(), observed.parameters == MIDDLE[0]
    logs = np.log(losses[big])
    losses[big] = np.exp(1.5 * np.nanmean(logs, axis=0) - 0.5 * logs)
    fitted = laws.fit("transfer", replace(observed, losses=losses))
    assert any("rank the mixtures the other way round" in sentence for sentence in fitted["warnings"])
    assert min(values["run"]["nu"] for values in fitted["coefficients"].values()) == sizes.LEAST_NU
    even = np.zeros(4), np.ones(4)
    assert best(fitted, 1, Objective(), *even).gap < 1e-6


def test_a_law_says_whether_earlier_checkpoints_were_left_out(tmp_path):
    truth, shares = of_sizes(3), mixtures(1, 8, 4)
    found = runs_of(truth, shares, "m", SMALL) + runs_of(truth, shares[:3], "m", MIDDLE)
    whole, _ = fitted_to(tmp_path, found)
    ends = pl.read_csv(tmp_path / "l.csv")
    earlier = ends.with_columns(pl.col("step") // 2, pl.col("loss") * 1.1)
    read = observations(pl.concat([earlier, ends]), pl.read_csv(tmp_path / "m.csv"))
    decayed = laws.fit("transfer", read)
    assert (whole["rows"], decayed["rows"]) == ("all", "last")
    assert not any("last row" in sentence for sentence in whole["warnings"])
    assert any("of each run its last row counts" in sentence for sentence in decayed["warnings"])


def test_what_cannot_be_asked_is_refused(tmp_path):
    truth, shares = of_sizes(5), mixtures(1, 6, 4)
    found = runs_of(truth, shares, "m", SMALL) + runs_of(truth, shares, "m", MIDDLE)
    fitted, observed = fitted_to(tmp_path, found)
    refused("--parameters needs --run-tokens", laws.at_run, fitted, 1e9)
    refused("models of 2 sizes", laws.fit, "bimix", observed)
    one = laws.fit("transfer", observed.take(np.nonzero(observed.parameters == SMALL[0])[0]))
    assert "size" in one["coefficients"]["a"]
    plain = laws.fit("transfer", replace(observed.take(range(6)), parameters=None))
    refused("fitted at one", laws.at_run, plain, 1e9, 1e10)
    flags = write_runs(
        [(*one[:3], one[3] | {"parameters": -1.0}, None) for one in found],
        DOMAINS,
        tmp_path / "n.csv",
        tmp_path / "o.csv",
    )
    refused(r"n.csv, line 2: parameters is -1.0", read_observations, flags[1], flags[3])


def test_scripts_fit_predict_optimise_and_give_intervals_at_a_size(tmp_path, capsys):
    truth, shares = of_sizes(3), mixtures(1, 12, 4)
    found = runs_of(truth, shares, "m", SMALL) + runs_of(truth, shares[:6], "m", MIDDLE, seed=1)
    flags = write_runs(found, DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    law, at = str(tmp_path / "c.json"), ["--parameters", "1.2e9", "--run-tokens", "2e10"]
    fit_law.main(["--law", "transfer", *flags, "--out", law])
    out = str(tmp_path / "p.csv")
    predict_losses.main(["--coefficients", law, "--mixtures", flags[3], *at, "--out", out])
    predicted = pl.read_csv(out)["loss"].to_numpy().reshape(12, 4)
    assert np.abs(predicted / truth(shares, *LARGE) - 1).mean() < 0.05
    best = tmp_path / "best.json"
    optimize_mixture.main(["--coefficients", law, *at, "--out", str(best)])
    assert "1.2e+09 parameters" in capsys.readouterr().out
    share = np.array(list(json.loads(best.read_text(encoding="utf-8")).values()))
    others = mixtures(7, 300, 4)
    assert truth(share[None], *LARGE).sum() < 1.001 * truth(others, *LARGE).sum(axis=1).min()
    table = str(tmp_path / "i.csv")
    more = ["--step", "100", "--level", "0.99", "--out", table]
    # At a size that was fitted: the level of another one is not in the intervals.
    at = ["--parameters", str(MIDDLE[0]), "--run-tokens", str(MIDDLE[1])]
    estimate_intervals.main(["--coefficients", law, *flags, *at, *more])
    rows = pl.read_csv(table, infer_schema_length=None).filter(pl.col("quantity") == "optimum_average_loss")
    assert rows["low"][0] < truth(share[None], *MIDDLE).mean() < rows["high"][0]


def test_a_law_is_read_at_the_run_that_it_was_fitted_for_unless_another_is_asked(tmp_path, capsys):
    truth, shares = of_sizes(3), mixtures(1, 12, 4)
    found = runs_of(truth, shares, "m", SMALL) + runs_of(truth, shares[:6], "m", MIDDLE, seed=1)
    flags = write_runs(found, DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    (tmp_path / "run.json").write_text('{"parameters": 1.2e9, "tokens": 2e10, "steps": 7}')
    law, plain = str(tmp_path / "c.json"), str(tmp_path / "plain.json")
    fit_law.main(["--law", "transfer", *flags, "--out", plain])
    fit_law.main(["--law", "transfer", *flags, "--asked", str(tmp_path / "run.json"), "--out", law])

    def predicted(coefficients, *at):
        out = str(tmp_path / "p.csv")
        predict_losses.main(["--coefficients", coefficients, "--mixtures", flags[3], *at, "--out", out])
        return pl.read_csv(out)["loss"].to_list()

    large, middle = (["--parameters", str(n), "--run-tokens", str(t)] for n, t in (LARGE, MIDDLE))
    assert predicted(law) == predicted(plain, *large) != predicted(plain)
    assert predicted(law, *middle) == predicted(plain, *middle) == predicted(plain)
    capsys.readouterr()
    optimize_mixture.main(["--coefficients", law, "--step", "9", "--out", str(tmp_path / "best.json")])
    assert "predicted for 1.2e+09 parameters" in capsys.readouterr().out
    one = [run for run in found if run[3]["parameters"] == SMALL[0]]
    flags = write_runs(one, DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    with pytest.raises(InputError, match="is a size, and the law transfer was fitted at one"):
        fit_law.main(["--law", "transfer", *flags, "--asked", str(tmp_path / "run.json"), "--out", plain])


def test_a_law_over_schedules_has_no_size():
    """Another size is of a larger model, of which only the harm by its prior is known."""
    fitted = laws.fit("transfer", of_schedules(1))
    own, larger = (laws.at_run(fitted, size, 4e9)["coefficients"]["a"]["run"] for size in (None, 1.2e9))
    assert (larger["c"], larger["level"]) == (LARGER, own["level"]) and "c" not in own


def test_a_model_far_larger_than_those_fitted_is_warned_of(tmp_path, capsys):
    truth, shares = of_sizes(3), mixtures(1, 6, 4)
    found = runs_of(truth, shares, "m", SMALL) + runs_of(truth, shares, "m", MIDDLE, seed=1)
    flags = write_runs(found, DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    law = str(tmp_path / "c.json")
    fit_law.main(["--law", "transfer", *flags, "--out", law])
    for parameters, warned in (("7e8", False), ("1e10", True)):
        at = ["--parameters", parameters, "--run-tokens", "1e11"]
        predict_losses.main(["--coefficients", law, "--mixtures", flags[3], *at, "--out", str(tmp_path / "p.csv")])
        assert ("times smaller" in capsys.readouterr().err) == warned


def test_a_mixture_is_left_out_at_all_its_sizes(tmp_path):
    truth, shares = of_sizes(3), mixtures(1, 5, 4)
    found = runs_of(truth, shares, "m", SMALL) + runs_of(truth, shares, "m", MIDDLE, seed=1)
    fitted, observed = fitted_to(tmp_path, found)
    left = left_out(fitted, observed, 100)
    assert len(left.refitted) == 5
    assert np.abs(left.predicted / left.observed - 1).max() < 0.1


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public runs are not beside the checkout")
def test_the_public_runs_of_a_larger_model_from_those_of_a_smaller_and_one_of_its_own():
    """Ye et al., SlimPajama, 70M to 160M: 0.62 % in the mean of four draws."""
    one = bench_size.score(bench_size.TABLES["SlimPajama 70M -> 160M"](PUBLIC), 1, 0)
    assert one.error < 0.8 and one.rank > 0.95


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public runs are not beside the checkout")
def test_the_public_runs_of_regmix_at_1b_from_1m_and_60m():
    eight = bench_size.score(bench_size.TABLES["RegMix 1M, 60M -> 1B"](PUBLIC), 8, 0)
    assert eight.error < 2.3 and eight.rank > 0.94
