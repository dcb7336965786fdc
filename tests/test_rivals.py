"""All laws behind one interface: scores, learning curve, proposals and intervals, from tables to tables."""

import json

import numpy as np
import polars as pl
import pytest

import compare_laws
import estimate_intervals
import fit_law
import optimize_mixture
import propose_runs
import trace_learning
from bimix import laws
from bimix.errors import InputError
from bimix.laws import exponential
from bimix.observations import Observations
from bimix.proposals import propose

DOMAINS = ["code", "law", "web"]


def tables(folder, name, n, seed, steps=(500, 1000, 2000, 4000, 8000), noise=0.002):
    draw = np.random.default_rng(seed)
    shares = draw.dirichlet(np.ones(3) * 3, n)
    k = np.array([[1, 0.05, 0.1], [0.02, 1, 0.2], [0.05, 0.1, 1]])
    steps = np.array(steps)
    losses = ((shares @ k.T) ** -np.array([0.1, 0.2, 0.05]))[:, None, :] * (
        20 / steps[:, None] ** 0.4 + np.array([1, 2, 3])
    )
    losses = losses * np.exp(noise * draw.standard_normal((n, 1, 3)))
    runs = [f"{name}{i}" for i in range(n)]
    mixtures = pl.DataFrame(
        {"mixture": np.repeat(runs, 3), "domain": np.tile(DOMAINS, n), "proportion": shares.ravel()}
    )
    size = losses[0].size
    rows = pl.DataFrame(
        {
            "mixture": np.repeat(runs, size),
            "step": np.tile(np.repeat(steps, 3), n),
            "domain": np.tile(DOMAINS, n * len(steps)),
            "loss": losses.ravel(),
        }
    )
    mixtures.write_csv(folder / f"{name}_mixtures.csv")
    rows.write_csv(folder / f"{name}_losses.csv")
    return ["--losses", str(folder / f"{name}_losses.csv"), "--mixtures", str(folder / f"{name}_mixtures.csv")]


def held_out(pair):
    return ["--held-out-losses", pair[1], "--held-out-mixtures", pair[3]]


def test_compare_all_laws(tmp_path):
    steps = (1000, 2000, 4000, 8000)
    fitted, new = tables(tmp_path, "run", 8, 1, steps), tables(tmp_path, "new", 4, 2, steps)
    out = tmp_path / "comparison.csv"
    compare_laws.main(["--laws", *laws.LAWS, *fitted, *held_out(new), "--out", str(out)])
    table = pl.read_csv(out)
    assert table.columns == ["law", "score", "domain", "value", "runs", "coefficients", "note"]
    means = {
        (law, score): value
        for law, score, value in table.filter(pl.col("domain").is_null()).select("law", "score", "value").iter_rows()
    }
    assert means["transfer", "generalization_mre"] < 0.01 and means["bimix", "left_out_spearman"] > 0.9
    assert means["transfer", "extrapolation_mre"] < 0.005 and means["exponential", "extrapolation_mre"] is None
    sizes = dict(table.select("law", "coefficients").unique().iter_rows())
    assert sizes["bimix"] == 12 and sizes["exponential"] == 5 * 3 * 4


def test_a_law_that_refuses_is_noted(tmp_path):
    pair = tables(tmp_path, "run", 6, 1)
    mixtures = pl.read_csv(pair[3])
    zero = (
        pl.when((pl.col("mixture") == "run0") & (pl.col("domain") == "code")).then(0.0).otherwise(pl.col("proportion"))
    )
    mixtures = mixtures.with_columns(proportion=zero).with_columns(
        pl.col("proportion") / pl.col("proportion").sum().over("mixture")
    )
    mixtures.write_csv(pair[3])
    compare_laws.main(["--laws", "bimix", "transfer", *pair, "--out", str(tmp_path / "c.csv")])
    table = pl.read_csv(tmp_path / "c.csv")
    assert "proportion 0 of 'code'" in table.filter(pl.col("score") == "refused")["note"][0]
    assert table.filter(pl.col("law") == "transfer").height > 3


def test_learning_curve(tmp_path):
    pair = tables(tmp_path, "run", 16, 1)
    arguments = ["--laws", "bimix", "transfer", *pair, "--draws", "2", "--seed", "0", "--out", str(tmp_path / "l.csv")]
    trace_learning.main([*arguments, "--counts", "4", "12"])
    table = pl.read_csv(tmp_path / "l.csv")
    assert table.height == 8 and table["mre"].null_count() == 0
    errors = {n: table.filter((pl.col("law") == "transfer") & (pl.col("runs") == n))["mre"].mean() for n in (4, 12)}
    assert errors[12] < errors[4]
    trace_learning.main([*arguments, "--counts", "4", "14", "64"])
    assert set(pl.read_csv(tmp_path / "l.csv")["runs"]) == {4}  # 13 would leave three to predict, 14 does not
    with pytest.raises(InputError, match="16 mixtures are to be fitted, but there are 16"):
        trace_learning.main([*arguments, "--counts", "16"])


@pytest.mark.parametrize("law", ["bimix", "transfer"])
@pytest.mark.parametrize("kind", ["mixtures", "residuals"])
def test_intervals(tmp_path, law, kind):
    pair, out = tables(tmp_path, "run", 8, 3), tmp_path / "c.json"
    fit_law.main(["--law", law, *pair, "--out", str(out)])
    arguments = [
        "--coefficients",
        str(out),
        *pair,
        "--step",
        "8000",
        "--resample",
        kind,
        "--resamples",
        "40",
        "--level",
        "0.9",
    ]
    estimate_intervals.main([*arguments, "--seed", "1", "--baseline", "run0", "--out", str(tmp_path / "i.csv")])
    table = pl.read_csv(tmp_path / "i.csv")
    assert table.columns == ["law", "quantity", "mixture", "step", "domain", "estimate", "low", "high", "level"]
    assert {"alpha", "beta", "loss", "average_loss", "proportion", "gain", "optimum_average_loss"} <= set(
        table["quantity"]
    )
    assert (table["low"] <= table["high"]).all()
    shares = table.filter(pl.col("quantity") == "proportion")
    assert abs(shares["estimate"].sum() - 1) < 1e-9 and (shares["high"] > shares["low"]).all()
    one = dict(table.select("quantity", "estimate").iter_rows())
    baseline = table.filter((pl.col("quantity") == "average_loss") & (pl.col("mixture") == "run0"))["estimate"][0]
    assert one["gain"] == pytest.approx(baseline - one["optimum_average_loss"]) and one["gain"] > 0
    with pytest.raises(InputError, match="--baseline 'nothing'"):
        estimate_intervals.main([*arguments, "--seed", "1", "--baseline", "nothing", "--out", str(tmp_path / "i.csv")])


def test_intervals_hold_the_truth_about_as_often_as_they_say(tmp_path):
    """Predicted losses at one mixture, 90 % intervals, 30 worlds of the bimix law with noise shared along a run."""
    from bimix.uncertainty import resampled

    inside = []
    for seed in range(30):
        draw = np.random.default_rng(seed)
        shares, a = draw.dirichlet(np.full(3, 2.0), 12), draw.uniform(0.05, 0.4, 3)
        truth = lambda r, a=a: r[:, None, :] ** -a * np.array([3.0])  # noqa: E731
        losses = truth(shares) * np.exp(0.01 * draw.standard_normal((12, 1, 3)))
        names = tuple("abc")
        observed = Observations(tuple(map(str, range(12))), names, np.array([100]), names, shares, losses)
        document = laws.fit("bimix", observed)
        new = np.full((1, 3), 1 / 3)
        guesses = [laws.predict(one, new, [100])[0, 0] for one in resampled(document, observed, "residuals", 100, seed)]
        low, high = np.quantile(guesses, [0.05, 0.95], axis=0)
        inside.append((low <= truth(new)[0, 0]) & (truth(new)[0, 0] <= high))
    assert 0.75 <= np.mean(inside) <= 0.98


def test_intervals_keep_to_max_epochs_and_take_a_baseline_of_their_own(tmp_path):
    pair, out = tables(tmp_path, "run", 8, 3), tmp_path / "c.json"
    fit_law.main(["--law", "bimix", *pair, "--out", str(out)])
    arguments = ["--coefficients", str(out), *pair, "--step", "8000", "--resample", "residuals", "--resamples", "20"]
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
    with pytest.raises(InputError, match="--max-epochs needs --run-tokens"):
        estimate_intervals.main([*arguments, *epochs[:-2]])


def test_proposals_tell_more_than_random_mixtures(tmp_path):
    draw = np.random.default_rng(0)
    done = draw.dirichlet(np.ones(5) * 20, 4)
    lower, upper = np.full(5, 0.02), np.full(5, 0.6)
    shares, information = propose(done, 4, lower, upper, 0.001, 0)
    assert (shares >= lower - 1e-12).all() and (shares <= upper).all() and np.allclose(shares.sum(axis=1), 1)
    assert (np.diff(information) > 0).all()

    def volume(runs):
        logs = np.log(runs) - np.log(runs).mean(axis=0)
        return np.linalg.slogdet(np.eye(5) + logs.T @ logs)[1]

    random = [volume(np.vstack([done, 0.02 + 0.9 * draw.dirichlet(np.ones(5), 4)])) for _ in range(200)]
    assert volume(np.vstack([done, shares])) > max(random)

    pair = tables(tmp_path, "run", 4, 1)
    out = tmp_path / "next.csv"
    propose_runs.main(
        [
            "--mixtures",
            pair[3],
            "--count",
            "2",
            "--floor",
            "0.001",
            "--seed",
            "0",
            "--lower",
            '{"web": 0.1}',
            "--out",
            str(out),
        ]
    )
    table = pl.read_csv(out)
    assert table.height == 6 and table.filter(pl.col("domain") == "web")["proportion"].min() >= 0.1


def test_optimum_of_exponential_and_transfer_by_script(tmp_path):
    pair, out = tables(tmp_path, "run", 12, 3), tmp_path / "c.json"
    for law in ("transfer", "exponential"):
        fit_law.main(["--law", law, *pair, "--out", str(out)])
        optimize_mixture.main(
            ["--coefficients", str(out), "--step", "8000", "--lower", '{"web": 0.3}', "--out", str(tmp_path / "m.json")]
        )
        mixture = json.loads((tmp_path / "m.json").read_text())
        assert abs(sum(mixture.values()) - 1) < 1e-12 and mixture["web"] >= 0.3
    pair = tables(tmp_path, "few", 4, 3)
    fit_law.main(["--law", "exponential", *pair, "--out", str(out)])
    with pytest.raises(InputError, match="fitted to 4 mixtures of 3 domains, and its optimum needs 5"):
        optimize_mixture.main(["--coefficients", str(out), "--step", "8000", "--out", str(tmp_path / "m.json")])


def test_exponential_recovers_its_own_losses():
    draw = np.random.default_rng(0)
    shares, t = draw.dirichlet(np.ones(4), 30), draw.normal(-1, 1, 4)
    c, k, fitted = exponential.fit_step(shares, 2 + 1.5 * np.exp(shares @ t), np.ones(30))
    new = draw.dirichlet(np.ones(4), 20)
    assert np.allclose(c + k * np.exp(new @ fitted), 2 + 1.5 * np.exp(new @ t), rtol=1e-5)


def test_laws_of_single_steps_refuse_other_steps(tmp_path):
    pair, out = tables(tmp_path, "run", 8, 3), tmp_path / "c.json"
    for law in ("exponential", "regmix"):
        fit_law.main(["--law", law, *pair, "--out", str(out)])
        document = json.loads(out.read_text())
        shares = np.full((1, 3), 1 / 3)
        assert np.isfinite(laws.predict(document, shares, [500, 8000])).all()
        with pytest.raises(InputError, match="says nothing about step 700"):
            laws.predict(document, shares, [700])
