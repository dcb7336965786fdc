"""A law is one record: those of the table are in order, and a new one runs from fit to scores."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laws.known import observe, write_tables

import fit_law
import optimize_mixture
from bimix import laws
from bimix.judge.law_scores import compare, complexity, learning_curve
from bimix.observations.observations import Observations
from bimix.observations.record import Law, Size
from bimix.optimum.intervals import intervals, left_out
from bimix.optimum.optimum import optimum
from bimix.plan.laws import LAWS, Planned
from bimix.plan.sources import Fit, Source, source_of

DOMAINS = ("code", "law", "web")
STEPS = np.array([100, 200, 400, 800])


def test_the_table_that_planning_reads_is_that_of_the_records() -> None:
    assert {name: law.plan for name, law in laws.LAWS.items()} == LAWS
    assert list(laws.LAWS) == list(LAWS)


@pytest.mark.parametrize("name", LAWS)
def test_a_record_is_whole(name: str) -> None:
    law = laws.LAWS[name]
    assert law.plan.optimum in ("power_sum", "convex", "searched", "simulated")
    assert (law.objective is None) == (law.plan.optimum == "simulated")
    # more domains never need fewer runs, and two are the least that `fit` takes
    least = [law.plan.least_runs(m) for m in range(2, 30)]
    assert least[0] >= 2 and all(few <= many for few, many in pairwise(least))


def fit_linear(observed, weights=None, start=None):
    """L_i = t_i.r at the last step, by least squares: the law that the test adds."""
    root = np.sqrt(np.ones(len(observed.mixtures)) if weights is None else weights)[:, None]
    t = np.linalg.lstsq(root * observed.proportions, root * observed.losses[:, -1])[0]
    return {name: {"t": column.tolist()} for name, column in zip(observed.loss_domains, t.T, strict=True)}, {}


def predict_linear(coefficients, domains, seen, proportions, steps):
    losses = proportions @ np.array([values["t"] for values in coefficients.values()]).T
    return np.repeat(losses[:, None], len(steps), axis=1)


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> Law:
    law = Law(
        fit=fit_linear,
        refit=lambda samples, fitted: (fit_linear(*sample)[0] for sample in samples),
        predict=predict_linear,
        count=lambda coefficients: sum(len(values["t"]) for values in coefficients.values()),
        formula="t.r",
        size=Size(lambda m: m, lambda m, n: m, ("m", "d m", "d m")),
        plan=Planned(lambda m: m, refuses_few=True, over_steps=False, optimum="simulated"),
    )
    monkeypatch.setitem(laws.LAWS, "linear", law)
    monkeypatch.setitem(LAWS, "linear", law.plan)
    return law


@pytest.fixture
def truth() -> np.ndarray:
    """t (d, m): web costs every loss most, then law, then code."""
    return np.array([[1.0, 2.0, 3.0], [1.5, 1.7, 4.0], [1.0, 3.0, 3.5]])


@pytest.fixture
def observed(truth: np.ndarray) -> Observations:
    shares = np.random.default_rng(0).dirichlet(np.full(3, 3.0), 12)
    return observe(
        lambda shares, steps: np.repeat((shares @ truth.T)[:, None], len(steps), axis=1), shares, STEPS, domains=DOMAINS
    )


def test_a_law_that_is_entered_is_fitted_optimised_and_scored(
    linear: Law, truth: np.ndarray, observed: Observations
) -> None:
    fitted = laws.fit("linear", observed)
    new = np.random.default_rng(1).dirichlet(np.ones(3), 20)
    assert np.allclose(laws.predict(fitted, new, STEPS[-1:])[:, 0], new @ truth.T)
    assert fitted["formula"] == "t.r" and fitted["coefficients_fitted"] == 9

    # simulated optima are averages of the best 128: near the corner that is best, and within bounds
    lower, upper = np.zeros(3), np.array([0.6, 1.0, 1.0])
    best = optimum(fitted, 800, None, lower, upper)
    assert best.sum() == pytest.approx(1) and 0.55 < best[0] <= 0.6 and best[2] < 0.05

    scores = compare(["linear", "bimix"], observed, None).filter(pl.col("domain").is_null())
    left = scores.filter((pl.col("law") == "linear") & (pl.col("score") == "left_out_mre"))
    assert left["value"][0] < 1e-12 < scores.filter(pl.col("law") == "bimix")["value"].max()
    assert complexity(["linear"], 3, 3, 4).row(0, named=True)["all_domains_all_steps_here"] == 9
    curve = learning_curve(["linear"], observed, None, [3, 6], 2, 0)
    assert curve["mre_worst"].max() < 1e-6 and curve["note"].null_count() == 4

    errors = left_out(fitted, observed, 800)
    table = intervals(fitted, 0.9, 800, {"new": new[0]}, None, None, lower, upper, errors, None)
    assert table.filter(pl.col("quantity") == "loss")["estimate"].to_list() == pytest.approx(list(new[0] @ truth.T))


def test_scripts_and_planning_know_a_law_that_is_entered(linear: Law, observed: Observations, tmp_path: Path) -> None:
    write_tables(observed, tmp_path / "l.csv", tmp_path / "m.csv")
    paths = {name: str(tmp_path / name) for name in ("l.csv", "m.csv", "c.json", "best.json")}
    fit_law.main(
        ["--law", "linear", "--losses", paths["l.csv"], "--mixtures", paths["m.csv"], "--out", paths["c.json"]]
    )
    optimize_mixture.main(["--coefficients", paths["c.json"], "--step", "800", "--out", paths["best.json"]])
    best = json.loads(Path(paths["best.json"]).read_text(encoding="utf-8"))
    assert sum(best.values()) == pytest.approx(1) and best["code"] > 0.9

    block = {"domains": dict.fromkeys(DOMAINS), "optimum": {"model": "tiny", "group": "proxies", "step": 800}}
    config = {"datasets": {"own": block}, "laws": {"optimise": ["linear"]}}
    assert source_of(config, "own", "linear") == Source("optimize_mixture", Fit("tiny", "linear", "proxies", 800))
