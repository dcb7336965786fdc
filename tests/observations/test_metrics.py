"""Metrics of runs as loss domains: read, refused, fitted by every law but bimix."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, observe, with_transfer, write_tables
from refusals import refused

import fit_law
import import_losses
import optimize_mixture
import take_observations
from bimix.errors import InputError
from bimix.laws import transfer
from bimix.laws.fitted import fit, predict_defined
from bimix.laws.table import LAWS
from bimix.observations.metrics import losses_only, with_metrics
from bimix.observations.observations import observations, read_observations
from bimix.optimum.intervals import left_out
from bimix.tables import read_json, read_table

STEPS = np.array([1000, 2000, 4000, 8000])
RUNS = 16
SLOPE = np.array([0.8, -0.4, 0.1])


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Losses of three domains over steps, and two metrics of the last: an error rate that grows
    with the first domain's share and falls with the second's, and bits per byte.
    """
    shares = mixtures(0, RUNS, 3)
    observed = observe(with_transfer(0, 3), shares, STEPS)
    losses, mixed = write_tables(observed, tmp_path / "losses.csv", tmp_path / "mixtures.csv", 512)[1::2]
    error, bits = 0.5 * np.exp(shares @ SLOPE), 1.2 * (0.2 + 0.8 * shares[:, 1]) ** -0.3
    wide = {"mixture": observed.mixtures, "arc error": error, "mmlu_bpb": bits}
    pl.DataFrame(wide).write_csv(tmp_path / "metrics.csv")
    return [losses, mixed, str(tmp_path / "metrics.csv")]


def joined(tables: list[str], folder: Path) -> tuple[str, str]:
    out = str(folder / "all.parquet"), str(folder / "mixed.parquet")
    flags = ["--losses", tables[0], "--mixtures", tables[1], "--metrics", tables[2], "--names"]
    take_observations.main([*flags, "--group-losses", out[0], "--group-mixtures", out[1]])
    return out


@pytest.mark.parametrize("law", ["transfer", "exponential", "regmix"])
def test_laws_fit_metrics_of_the_last_step(tables: list[str], tmp_path: Path, law: str) -> None:
    observed = read_observations(*map(Path, joined(tables, tmp_path)))
    assert observed.loss_domains == ("arc error", "d00", "d01", "d02", "mmlu_bpb")
    assert np.isnan(observed.losses[:, :-1, 0]).all() and np.isfinite(observed.losses[:, -1]).all()
    fitted = fit(law, observed)
    told = predict_defined(fitted, observed.proportions, observed.steps)
    truth = 0.5 * np.exp(observed.proportions @ SLOPE)
    error = np.abs(told[:, -1, 0] / truth - 1).mean()
    assert error < (0.03 if law == "exponential" else 0.12)
    if law == "transfer":  # one step says nothing of others
        assert np.allclose(told[:, 0, 0], told[:, -1, 0])
        assert "arc error was observed at one step alone: the law has no curve over steps of it." in fitted["warnings"]
    else:
        assert np.isnan(told[:, 0, 0]).all()
    refused("the bimix law covers training domains only; use the law transfer", fit, "bimix", observed)


def test_a_mixture_that_is_best_for_a_metric(tables: list[str], tmp_path: Path) -> None:
    """Of the error rate alone what lowers it gets all but all; held to the losses, less. Without weights
    losses and metrics have no common unit.
    """
    losses, mixed = joined(tables, tmp_path)
    out, mixture = tmp_path / "c.json", tmp_path / "mixture.json"
    fit_law.main(["--law", "exponential", "--losses", losses, "--mixtures", mixed, "--out", str(out)])
    flags = ["--coefficients", str(out), "--step", "8000", "--out", str(mixture)]
    refused("of losses and of metrics (arc error, mmlu_bpb), whose units have no common", optimize_mixture.main, flags)
    assert not mixture.exists()
    optimize_mixture.main([*flags, "--objective", '{"families": {"all": ["d00", "d01", "d02"]}}'])
    assert mixture.exists()
    flags += ["--weights", '{"arc error": 1}']
    optimize_mixture.main(flags)
    alone = read_json(mixture)
    assert alone["d01"] > 0.98
    reference = json.dumps({"d00": 0.4, "d01": 0.3, "d02": 0.3})
    held = '{"kind": "no_worse_than", "margin": 0.02}'
    optimize_mixture.main([*flags, "--objective", held, "--reference", reference])
    assert 0.3 < read_json(mixture)["d01"] < alone["d01"]


def test_an_import_takes_metrics_along(tables: list[str], tmp_path: Path) -> None:
    """A table of metric and value with seeds, at a step of their own."""
    rows = [(name, seed, 8000, "arc error", 0.5 + 0.01 * seed) for name in ("a", "b") for seed in (0, 1)]
    schema = ["mixture", "seed", "step", "metric", "value"]
    pl.DataFrame(rows, schema, orient="row").write_csv(tmp_path / "m.csv")
    logs = {"run": ["a0", "a1", "b0", "b1"] * 2, "step": [4000] * 4 + [8000] * 4, "web": [3.0] * 8, "code": [2.0] * 8}
    pl.DataFrame(logs).write_csv(tmp_path / "logs.csv")
    (tmp_path / "runs.csv").write_text("run,mixture,seed\na0,a,0\na1,a,1\nb0,b,0\nb1,b,1\n")
    (tmp_path / "mix.csv").write_text("mixture,web,code\na,0.5,0.5\nb,0.2,0.8\n")
    flags = ["--pattern", "{domain}", "--run", "run", "--runs", str(tmp_path / "runs.csv")]
    places = {"mixtures": "mix.csv", "metrics": "m.csv", "out": "in"}
    paths = [word for flag, name in places.items() for word in (f"--{flag}", str(tmp_path / name))]
    import_losses.main([str(tmp_path / "logs.csv"), *flags, *paths])
    table = read_table(tmp_path / "in/losses.csv").filter(pl.col("domain") == "arc error")
    assert table["loss"].to_list() == [0.5, 0.51] * 2 and table["step"].to_list() == [8000] * 4
    observed = read_observations(tmp_path / "in/losses.csv", tmp_path / "in/mixtures.csv")
    assert observed.losses[0, -1, 0] == pytest.approx(np.sqrt(0.5 * 0.51))


LOSSES = pl.DataFrame(
    {
        "mixture": ["a", "a", "b"],
        "step": [1, 2, 2],
        "domain": ["web"] * 3,
        "loss": [3.0] * 3,
        "tokens": [512, 1024, 1024],
    }
)


def test_a_metric_without_a_step_is_of_each_runs_last_and_keeps_its_parts() -> None:
    found = with_metrics(LOSSES, pl.DataFrame({"mixture": ["a", "b"], "bpb": [0.9, None]}), "m.csv")
    row = {"mixture": "a", "step": 2, "domain": "bpb", "loss": 0.9, "tokens": 1024, "metric": True}
    assert found.tail(1).row(0, named=True) == row
    assert losses_only(found).equals(LOSSES)
    assert len(found) == 4
    # also where all losses are whole numbers
    whole = LOSSES.with_columns(pl.col("loss").round().cast(pl.Int64))
    found = with_metrics(whole, pl.DataFrame({"mixture": ["a"], "error": [0.3]}), "m.csv")
    assert found.filter(pl.col("domain") == "error")["loss"].to_list() == [0.3]


def test_what_is_no_metric_is_refused() -> None:
    for metrics, words in (
        (
            {"mixture": ["a"], "arc_accuracy": [0.3]},
            r"of 'arc_accuracy' more is better, by its name.*error rate above 0",
        ),
        ({"mixture": ["a"], "arc/acc_norm": [0.3]}, "more is better"),
        ({"mixture": ["a"], "pass@1": [0.3]}, "more is better"),
        (
            {"mixture": ["a", "b"], "error": [0.3, 0.0]},
            r"m.csv, line 3: 'error' is 0.0: it must be a number above 0; the laws",
        ),
        ({"mixture": ["a"], "error": ["n/a"]}, r"line 2: 'error' is n/a: it must be a number above 0"),
        ({"mixture": ["a"], "web": [0.3]}, "'web' has losses in losses already"),
        ({"mixture": ["c"], "error": [0.3]}, "mixture 'c' has metrics, no losses in losses"),
        ({"mixture": ["a"], "step": [3], "error": [0.3]}, "mixture 'a' has metrics, no losses at step 3"),
        ({"who": ["a"], "error": [0.3]}, "has no column 'mixture'"),
        ({"mixture": ["a"], "step": [1]}, "has no metric"),
    ):
        refused(words, with_metrics, LOSSES, pl.DataFrame(metrics), "m.csv")
    table = pl.DataFrame({"mixture": ["a"], "step": [2], "domain": ["err"], "loss": [0.3]})
    with pytest.raises(InputError, match=r"m\.csv has a column 'domain': write metrics as mixture, metric, value"):
        with_metrics(LOSSES, table, "m.csv")


def test_metrics_of_mixtures_that_were_run_at_several_sizes_say_of_which() -> None:
    losses = pl.concat([LOSSES.with_columns(parameters=pl.lit(size)) for size in (1e6, 2e6)])
    with pytest.raises(InputError, match=r"m\.csv needs a column 'parameters'"):
        with_metrics(losses, pl.DataFrame({"mixture": ["a"], "error": [0.3]}), "m.csv")
    own = pl.DataFrame({"mixture": ["a", "a"], "parameters": [2e6, 1e6], "error": [0.3, 0.4]})
    for kind in (pl.Float64, pl.Int64):
        found = with_metrics(losses.cast({"parameters": pl.Int64}), own.cast({"parameters": kind}), "m.csv")
        assert found.tail(2)["parameters"].to_list() == [2e6, 1e6]


def test_metrics_move_no_loss_by_a_bit() -> None:
    """Twelve metrics of noise beside the losses, over steps where the law has them."""
    for law in [law for law in LAWS if law != "bimix"]:
        steps = STEPS if LAWS[law].over_steps else STEPS[-1:]
        losses = observe(with_transfer(0, 3), mixtures(0, RUNS, 3), steps, noise=0.002)
        if law == "transfer":  # pools that repeat: how repetition counts is read off the losses too
            tokens, pools = np.full(RUNS, 8e6), np.tile([2e6, 8e6, 9e6], (RUNS, 1))
            losses = replace(losses, tokens=tokens, pools=pools, gaps=np.log(mixtures(1, 3, 3)))
        noise = np.exp(0.05 * np.random.default_rng(1).standard_normal((RUNS, len(steps), 12)))
        noise[:, :-1] = np.nan
        names = tuple(f"a{i:02d}" for i in range(12))  # before the losses by name
        beside = replace(
            losses,
            loss_domains=names + losses.loss_domains,
            losses=np.concatenate([noise, losses.losses], axis=2),
            gaps=None if losses.gaps is None else np.concatenate([np.full((12, 3), np.nan), losses.gaps]),
            metrics=names,
        )
        alone, together = fit(law, losses), fit(law, beside)
        assert together["metrics"] == list(names) and list(together["coefficients"]) == list(beside.loss_domains)
        of_losses = {name: together["coefficients"][name] for name in losses.loss_domains}
        assert of_losses == alone["coefficients"] and together.get("choice") == alone.get("choice"), law
        if law == "transfer":
            assert together["choice_of_metrics"] != together["choice"]
            both = left_out(alone, losses, 8000), left_out(together, beside, 8000)
            assert np.array_equal(both[0].spread()[0], both[1].spread()[0][12:])
            del together["choice_of_metrics"]
            refused("earlier version", next, transfer.refit([(beside, None)], together))


def test_a_table_of_losses_says_which_are_metrics_and_the_noise_is_of_losses(tables: list[str], tmp_path: Path) -> None:
    observed = read_observations(*map(Path, joined(tables, tmp_path)))
    assert observed.metrics == ("arc error", "mmlu_bpb")
    assert [one.loss_domains for one in observed.groups()] == [("d00", "d01", "d02"), ("arc error", "mmlu_bpb")]
    seeds = pl.DataFrame({"mixture": "a", "step": 1, "seed": [0, 1] * 2, "domain": ["web"] * 2 + ["error"] * 2})
    rows = seeds.with_columns(loss=pl.Series([2.0, 2.1, 0.2, 0.9]), metric=pl.Series([False] * 2 + [True] * 2))
    mixed = pl.DataFrame({"mixture": ["a"], "domain": ["web"], "proportion": [1.0]})
    assert observations(rows, mixed).noise == observations(rows.filter(~pl.col("metric")), mixed).noise


def test_metrics_with_fewer_terms_than_losses_are_predicted_with_their_own() -> None:
    shares = mixtures(0, 60, 3)
    made = observe(with_transfer(0, 3), shares, STEPS[-1:], noise=0.002)
    fitted = fit("transfer", replace(made, metrics=("d02",)))
    one = {**fitted["coefficients"]["d02"]}
    one["terms"] = one["terms"][:1]
    alone = fitted | {"loss_domains": ["d02"], "coefficients": {"d02": one}}
    two = {**one, "terms": one["terms"] * 2}
    both = fitted | {"loss_domains": ["x", "d02"], "coefficients": {"x": two, "d02": one}}
    of_both, of_one = (predict_defined(law, shares, STEPS[-1:])[:, :, -1] for law in (both, alone))
    assert np.allclose(of_both, of_one, rtol=1e-12, atol=0)
    value = LAWS["transfer"].code.objective
    at = np.full(3, 1 / 3)
    for one, other in zip(value(both, 8000, np.array([0.0, 1.0]))(at), value(alone, 8000, np.ones(1))(at), strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=0)
