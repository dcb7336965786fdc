"""The scripts with objectives, from tables to a mixture, its report, intervals and a front."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, observe, with_transfer, write_tables
from refusals import refused

import estimate_intervals
import fit_law
import optimize_mixture
from bimix.optimum.objective import objective_of
from bimix.tables import read_json

STEP = 10_000
REFERENCE = [0.97, 0.01, 0.01, 0.01]
STEPS = np.arange(1000, STEP + 1, 1000)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A law transfer fitted to 12 mixtures of 4 domains: the flags of what reads it."""
    folder = tmp_path_factory.mktemp("fitted")
    observed = observe(with_transfer(0, 4), mixtures(0, 12, 4), STEPS)
    observed = replace(observed, losses=observed.losses / 4)  # in nats that a model can have
    flags = write_tables(observed, folder / "losses.csv", folder / "mixtures.csv", 512)
    out = folder / "coefficients.json"
    fit_law.main(["--law", "transfer", *flags, "--out", str(out)])
    domains = read_json(out)["domains"]
    (folder / "reference.json").write_text(json.dumps(dict(zip(domains, REFERENCE, strict=True))))
    (folder / "tokens.json").write_text(json.dumps({name: 1e9 * (n + 1) for n, name in enumerate(domains)}))
    return folder, domains, flags


def optimise(folder, *flags, law="coefficients.json"):
    """The mixture and its report."""
    out = ["--out", str(folder / "mixture.json"), "--report", str(folder / "report.json")]
    optimize_mixture.main(["--coefficients", str(folder / law), "--step", str(STEP), *out, *flags])
    return read_json(folder / "mixture.json"), read_json(folder / "report.json")


def test_a_centre_stands_for_the_shares_of_tokens(fitted):
    """In the penalty of Olmix, whose own number of epochs is lifted."""
    folder, domains, flags = fitted
    fit_law.main(["--law", "olmix", *flags, "--out", str(folder / "olmix.json")])
    tokens = ["--tokens", str(folder / "tokens.json"), "--max-epochs", "inf"]
    near_tokens, _ = optimise(folder, *tokens, law="olmix.json")
    centre = ["--centre", str(folder / "reference.json")]
    near_centre, _ = optimise(folder, *tokens, *centre, law="olmix.json")
    there = ["--tokens", json.dumps({name: 1e10 * one for name, one in zip(domains, REFERENCE, strict=True)})]
    assert near_centre == pytest.approx(optimise(folder, *there, *tokens[2:], law="olmix.json")[0], abs=1e-6)
    assert near_centre[domains[0]] > near_tokens[domains[0]] + 0.01


def test_minimax_and_its_report(fitted, capsys):
    folder, domains, flags = fitted
    asked = ["--objective", "minimax", "--reference", str(folder / "reference.json")]
    weights = ["--weights", json.dumps({domains[1]: 1, domains[2]: 1})]
    mixture, said = optimise(folder, *asked, *weights, "--mixtures", flags[3])
    assert abs(sum(mixture.values()) - 1) < 1e-12
    ratios = [said["losses"][name]["ratio"] for name in domains[1:3]]
    assert said["objective_value"] == pytest.approx(max(ratios)) and said["reference_objective"] == pytest.approx(1)
    assert max(ratios) < 0.99 and said["kkt_residual"] < 1e-8
    assert said["support"]["nearest"] in pl.read_csv(flags[3])["mixture"].to_list()
    text = capsys.readouterr().out
    assert "objective (worst loss over the reference's): " in text and "KKT residual: " in text
    assert "average loss of the reference: " in text and "no mixture is better" not in text
    _, said = optimise(folder, *asked)
    assert said["objective_value"] == pytest.approx(1) and "no mixture is better than the" in capsys.readouterr().out


def test_no_worse_than_holds_every_loss_where_the_average_alone_does_not(fitted):
    folder, domains, _ = fitted
    weights = ["--weights", json.dumps({domains[1]: 1.0}), "--reference", str(folder / "reference.json")]
    _, free = optimise(folder, *weights)
    _, held = optimise(folder, *weights, "--objective", '{"kind": "no_worse_than", "margin": 0.01}')
    assert max(one["ratio"] for one in free["losses"].values()) > 1.02
    assert max(one["ratio"] for one in held["losses"].values()) <= 1.01 * (1 + 2e-6)
    assert free["average_loss"] < held["average_loss"] <= held["reference_average_loss"]
    assert set(held["binding"]) <= set(domains) and held["binding"]


def test_an_optimum_outside_the_runs_is_warned_of(fitted, capsys):
    folder, domains, flags = fitted
    _, said = optimise(folder, "--lower", json.dumps({domains[0]: 0.97}), "--mixtures", flags[3])
    assert said["support"]["outside"][domains[0]] > 0.01 and said["support"]["hull_distance"] > 0.01
    assert "warning: the mixture lies outside the runs that the law was fitted to" in capsys.readouterr().err


def test_the_intervals_are_of_the_objective(fitted):
    folder, _, flags = fitted
    asked = ["--objective", "minimax", "--reference", str(folder / "reference.json")]
    _, said = optimise(folder, *asked)
    common = ["--coefficients", str(folder / "coefficients.json"), "--step", str(STEP)]
    more = ["--level", "0.9", "--baseline", "even", "--baseline-mixture", str(folder / "reference.json")]
    out = folder / "intervals.csv"
    estimate_intervals.main([*common, *flags, *asked, *more, "--out", str(out)])
    table = pl.read_csv(out)
    worst = table.filter(pl.col("quantity") == "worst_ratio").row(0, named=True)
    assert worst["estimate"] == pytest.approx(said["objective_value"])
    assert worst["low"] <= worst["high"] and set(table["kind"]) == {"left_out"}
    average = table.filter(pl.col("quantity") == "optimum_average_loss").row(0, named=True)
    assert average["low"] < average["high"]
    assert average["estimate"] == pytest.approx(said["average_loss"])
    gain = table.filter(pl.col("quantity") == "gain")["estimate"][0]
    assert gain == pytest.approx(said["reference_average_loss"] - said["average_loss"])


def test_a_value_of_another_type_in_the_json_is_refused_with_its_key():
    for key, given in (
        ("weights", "[1]"), ("weights", '{"a": true}'), ("weights", '{"a": null}'), ("weights", '{"a": -1}'), ("families", '{"a": 3}'),
        ("families", '[["a"]]'),
        ("effect_growth", "[1.2]"), ("effect_growth", "0.01"), ("margin", '"x"'), ("reference", "3"), ("kind", "[1]"),
    ):  # fmt: skip
        others = {"kind": '"no_worse_than"', "reference": '"reference.json"'} | {key: given}
        block = ", ".join(f'"{name}": {one}' for name, one in others.items())
        assert refused("it must be ", objective_of, f"{{{block}}}").startswith(f"--objective: {key}")
