"""All laws behind one interface: intervals, tables to tables."""

import numpy as np
import polars as pl
import pytest
from laws.known import observe, of_three, write_tables
from refusals import refused

import estimate_intervals
import fit_law
from bimix.laws import exponential
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations
from bimix.optimum.intervals import intervals, left_out, resampled
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import Sought

DOMAINS = ["code", "law", "web"]


def tables(folder, name, n, seed, steps=(500, 1000, 2000, 4000, 8000), noise=0.002):
    draw = np.random.default_rng(seed)
    observed = observe(of_three(True), draw.dirichlet(np.ones(3) * 3, n), steps, noise, draw, DOMAINS, name)
    return write_tables(observed, folder / f"{name}_losses.csv", folder / f"{name}_mixtures.csv")


@pytest.mark.parametrize("law", ["bimix", "transfer"])
def test_intervals(tmp_path, law):
    """Losses from fits without each run; coefficients and shares by refits, where requested."""
    pair, out = tables(tmp_path, "run", 8, 3), tmp_path / "c.json"
    fit_law.main(["--law", law, *pair, "--out", str(out)])
    arguments = [
        "--coefficients",
        str(out),
        *pair,
        "--step",
        "8000",
        "--level",
        "0.8",
        "--out",
        str(tmp_path / "i.csv"),
    ]
    estimate_intervals.main([*arguments, "--baseline", "run0"])
    alone = pl.read_csv(tmp_path / "i.csv")
    assert set(alone["kind"]) == {"left_out"}
    quantities = {"loss", "average_loss", "optimum_loss", "optimum_average_loss", "gain"}
    assert set(alone["quantity"]) == quantities | {"ahead"}
    estimate_intervals.main([*arguments, "--baseline", "run0", "--resamples", "40", "--seed", "1"])
    table = pl.read_csv(tmp_path / "i.csv")
    assert table.columns == ["law", "quantity", "mixture", "step", "domain", "estimate", "low", "high", "level", "kind"]
    kinds = dict(table.select("quantity", "kind").unique().iter_rows())
    assert {kinds[name] for name in ("alpha", "beta", "proportion")} == {"residuals"}
    assert table.filter(pl.col("kind") == "left_out").equals(alone)
    known = table.filter(pl.col("quantity") != "ahead")
    assert (known["low"] <= known["high"]).all()
    known = known.filter(pl.col("kind") == "left_out")
    assert (known["low"] < known["estimate"]).all() and (known["estimate"] < known["high"]).all()
    shares = table.filter(pl.col("quantity") == "proportion")
    assert abs(shares["estimate"].sum() - 1) < 1e-9 and (shares["high"] > shares["low"]).all()
    one = dict(table.select("quantity", "estimate").iter_rows())
    baseline = table.filter((pl.col("quantity") == "average_loss") & (pl.col("mixture") == "run0"))["estimate"][0]
    assert one["gain"] == pytest.approx(baseline - one["optimum_average_loss"]) and one["gain"] > 0
    refused("--baseline 'nothing'", estimate_intervals.main, [*arguments, "--baseline", "nothing"])
    refused(
        "--resamples is -1: it must be a number of refits", estimate_intervals.main, [*arguments, "--resamples", "-1"]
    )


def test_intervals_hold_the_truth_about_as_often_as_they_say(tmp_path):
    """Losses at one mixture, 90 % intervals, 30 worlds with noise shared along a run."""
    inside = []
    for seed in range(30):
        draw = np.random.default_rng(seed)
        shares, a = draw.dirichlet(np.full(3, 2.0), 12), draw.uniform(0.05, 0.4, 3)
        truth = lambda r, a=a: r[:, None, :] ** -a * np.array([3.0])  # noqa: E731
        losses = truth(shares) * np.exp(0.01 * draw.standard_normal((12, 1, 3)))
        names = tuple("abc")
        observed = Observations(tuple(map(str, range(12))), names, np.array([100]), names, shares, losses)
        fitted = laws.fit("bimix", observed)
        new = np.full((1, 3), 1 / 3)
        guesses = [laws.predict(one, new, [100])[0, 0] for one in resampled(fitted, observed, 100, seed)]
        low, high = np.quantile(guesses, [0.05, 0.95], axis=0)
        inside.append((low <= truth(new)[0, 0]) & (truth(new)[0, 0] <= high))
    assert 0.75 <= np.mean(inside) <= 0.98


def test_left_out_intervals_hold_new_runs_and_the_level_moves_them():
    """Losses of laws of no form here."""
    held = {0.9: [], 0.5: []}
    for seed in range(12):
        draw = np.random.default_rng(seed)
        shares = draw.dirichlet(np.full(3, 2.0), 52)
        k, a = np.exp(draw.normal(-1.5, 1, (3, 3))), draw.uniform(0.05, 0.4, 3)
        k[range(3), range(3)] = 1
        losses = (3 * (shares @ k.T) ** -a * np.exp(0.003 * draw.standard_normal((52, 3))))[:, None]
        names = tuple("abc")
        every = Observations(tuple(map(str, range(52))), names, np.array([100]), names, shares, losses)
        observed, new = every.take(np.arange(12)), every.take(np.arange(12, 52))
        fitted = laws.fit("bimix", observed)
        left = left_out(fitted, observed, 100)
        mixtures = dict(zip(new.mixtures, new.proportions, strict=True))
        for level, inside in held.items():
            sought = Sought(fitted, 100, Objective(), np.zeros(3), np.ones(3))
            table = intervals(sought, level, mixtures, None, left)
            own = table.filter(pl.col("quantity") == "loss")
            low, high = (own[end].to_numpy().reshape(40, 3) for end in ("low", "high"))
            inside.append(((low <= new.losses[:, 0]) & (new.losses[:, 0] <= high)).mean())
    share = {key: np.mean(inside) for key, inside in held.items()}
    assert 0.84 <= share[0.9] <= 0.98 and 0.4 <= share[0.5] <= 0.72


def test_an_average_that_no_two_runs_have_whole_has_no_interval(tmp_path, capsys):
    pair, out = tables(tmp_path, "run", 6, 3, steps=(8000,)), tmp_path / "c.json"
    losses = pl.read_csv(pair[1]).with_row_index()
    losses.filter(pl.col("index") % 4 != 0).drop("index").write_csv(pair[1])
    fit_law.main(["--law", "bimix", *pair, "--out", str(out)])
    arguments = ["--coefficients", str(out), *pair, "--step", "8000", "--level", "0.9"]
    estimate_intervals.main([*arguments, "--baseline", "run0", "--out", str(tmp_path / "i.csv")])
    table = pl.read_csv(tmp_path / "i.csv")
    assert table["estimate"].null_count() == 0
    bare = table.filter(pl.col("low").is_null())
    whole = losses.filter(pl.col("index") % 4 != 0).group_by("mixture").len().filter(pl.col("len") == 3).height
    assert set(bare["quantity"]) == ({"average_loss", "optimum_average_loss", "gain"} if whole < 2 else set())
    assert whole < 2 and "averages have no interval" in capsys.readouterr().err


def test_intervals_keep_to_max_epochs_and_take_a_baseline_of_their_own(tmp_path):
    pair, out = tables(tmp_path, "run", 8, 3), tmp_path / "c.json"
    fit_law.main(["--law", "bimix", *pair, "--out", str(out)])
    arguments = ["--coefficients", str(out), *pair, "--step", "8000", "--resamples", "20"]
    arguments += ["--level", "0.9", "--seed", "1", "--out", str(tmp_path / "i.csv")]
    epochs = ["--max-epochs", "2", "--tokens", '{"code": 50, "law": 1000, "web": 1000}']
    (tmp_path / "tokens.json").write_text(epochs.pop())
    epochs += [str(tmp_path / "tokens.json"), "--run-tokens", "1000"]
    baseline = ["--baseline", "mine", "--baseline-mixture", '{"code": 0.2, "law": 0.3, "web": 0.5}']
    estimate_intervals.main([*arguments, *epochs, *baseline])
    table = pl.read_csv(tmp_path / "i.csv")
    code = table.filter((pl.col("quantity") == "proportion") & (pl.col("domain") == "code"))
    assert code["estimate"][0] == pytest.approx(0.1) and code["high"][0] <= 0.1 + 1e-12
    assert table.filter(pl.col("quantity") == "gain")["mixture"].to_list() == ["mine"]
    refused("--max-epochs needs --run-tokens", estimate_intervals.main, [*arguments, *epochs[:-2]])


def test_exponential_recovers_its_own_losses_and_is_not_led_astray_by_one_wild_run():
    draw = np.random.default_rng(0)
    shares, t = draw.dirichlet(np.ones(4), 30), draw.normal(-1, 1, 4)
    fitted = exponential.fit_step(shares, 2 + 1.5 * np.exp(shares @ t), np.ones(30), "abcd")
    new = draw.dirichlet(np.ones(4), 20)
    assert np.allclose(exponential.predict_step(fitted, "abcd", new), 2 + 1.5 * np.exp(new @ t), rtol=1e-5)
    # huber of width 0.05: a run off by 1 pulls no more than one off by 0.05
    draw = np.random.default_rng(1)
    shares, t = draw.dirichlet(np.ones(3), 30), np.array([-2.0, -0.5, 0.3])
    law = lambda r: 2 + 1.5 * np.exp(r @ t)  # noqa: E731
    losses = law(shares)
    losses[4] += 1
    fitted = exponential.fit_step(shares, losses, np.ones(30), "abc")
    off = np.abs(exponential.predict_step(fitted, "abc", shares) - law(shares))
    assert np.delete(off, 4).mean() < 0.005 and off[4] < 0.02
