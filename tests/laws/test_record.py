"""A law is one entry of the table: entries are in order, and a new one runs from fit to scores."""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laws.known import observe, write_tables
from optimum.fitted_laws import optimum

import bimix.laws
import fit_law
import optimize_mixture
from bimix.judge.law_scores import compare, complexity, learning_curve
from bimix.laws import fitted as laws
from bimix.laws.table import LAWS, OPTIMUM, Law
from bimix.observations.observations import Observations
from bimix.optimum.intervals import intervals, left_out
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import Sought
from bimix.plan.dataset import Dataset, Fit

DOMAINS = ("code", "law", "web")
STEPS = np.array([100, 200, 400, 800])


def test_more_domains_never_need_fewer_runs_and_two_are_the_least() -> None:
    for name, law in LAWS.items():
        least = [law.least_runs(m) for m in range(2, 30)]
        assert least[0] >= 2 and all(few <= many for few, many in pairwise(least)), name


MODULE = '''"""L_i = t_i.r at a step, by least squares: the module of a law that the test adds."""

import numpy as np


def fit_step(shares, losses, weights, domains, begin=None):
    root = np.sqrt(weights)
    return {"t": np.linalg.lstsq(root[:, None] * shares, root * losses)[0].tolist()}


def predict_step(numbers, domains, shares):
    return shares @ np.array(numbers["t"])


def count_step(numbers):
    return len(numbers["t"])
'''


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Law:
    """One module, one entry: what docs/contributing.md says that a law takes."""
    (tmp_path / "linear.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr("bimix.laws.__path__", [*bimix.laws.__path__, str(tmp_path)])
    sizes = lambda m, d, n: (m, d * m, d * n * m)  # noqa: E731
    law = Law("linear", "t.r", ("m", "d m", "d n m"), "simulated", lambda m: m, numbers=sizes)
    monkeypatch.setitem(LAWS, "linear", law)
    optima = OPTIMUM.pattern.replace("(bimix|", "(linear|bimix|")  # which an entry of the file is in by itself
    monkeypatch.setattr("bimix.plan.dataset.OPTIMUM", re.compile(optima))
    yield law
    sys.modules.pop("bimix.laws.linear", None)


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


def test_a_law_that_is_entered_is_fitted_optimised_and_scored(linear, truth, observed) -> None:
    fitted = laws.fit("linear", observed)
    new = np.random.default_rng(1).dirichlet(np.ones(3), 20)
    assert np.allclose(laws.predict(fitted, new, STEPS[-1:])[:, 0], new @ truth.T)
    assert fitted["formula"] == "t.r" and fitted["coefficients_fitted"] == 36

    # simulated optima are averages of the best 128: near the corner that is best, and within bounds
    lower, upper = np.zeros(3), np.array([0.6, 1.0, 1.0])
    best = optimum(fitted, 800, None, lower, upper)
    assert best.sum() == pytest.approx(1) and 0.55 < best[0] <= 0.6 and best[2] < 0.05

    scores = compare(["linear", "bimix"], observed, None).filter(pl.col("domain").is_null())
    left = scores.filter((pl.col("law") == "linear") & (pl.col("score") == "left_out_mre"))
    assert left["value"][0] < 1e-12 < scores.filter(pl.col("law") == "bimix")["value"].max()
    assert complexity(["linear"], 3, 3, 4).row(0, named=True)["all_domains_all_steps_here"] == 36
    curve = learning_curve(["linear"], observed, None, [3, 6], 2, 0)
    assert curve["mre_worst"].max() < 1e-6 and curve["note"].null_count() == 4

    errors = left_out(fitted, observed, 800)
    table = intervals(Sought(fitted, 800, Objective(), lower, upper), 0.9, {"new": new[0]}, None, errors)
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

    block = {"domains": dict.fromkeys(DOMAINS), "optimum": {"model": "proxy", "group": "proxies", "step": 800}}
    config = {"datasets": {"own": block}, "laws": {"optimise": ["linear"]}}
    assert Dataset(config, "own").fit("linear") == Fit("proxy", "linear", "proxies", 800)
