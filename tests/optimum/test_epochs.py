"""An optimum that repeats text more often than any fitted run says so, whatever the law."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laws.known import bivariate, mixtures, observe, write_tables

import fit_law
import optimize_mixture
from bimix.laws import fitted as laws
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best
from bimix.optimum.report import epochs_sentence, further_epochs
from bimix.tables import read_json

TOKENS, STEP = 1e6, 1000
POOLS = {"d00": 1e6, "d01": 5e5, "d02": 1e9}


def runs(n: int = 24):
    """Runs of 1e6 tokens on the pools: d01 is read twice at most, the others once at most."""
    observed = observe(bivariate(0, 3), mixtures(0, n, 3), [STEP], 0.002)
    return replace(observed, tokens=np.full(n, TOKENS), pools=np.tile(list(POOLS.values()), (n, 1)))


@pytest.mark.parametrize("law", ["bimix", "transfer", "exponential"])
def test_epochs_beyond_those_of_the_fitted_runs_are_found(law: str) -> None:
    observed = runs()
    fitted = laws.fit(law, observed)
    most = 2 * observed.proportions[:, 1].max()
    assert fitted["epochs_seen"]["d01"] == pytest.approx(most)
    shares = np.array([0.5, 0.3, 0.2])
    assert further_epochs(fitted, shares, POOLS, TOKENS) == {}
    found = further_epochs(fitted, shares, POOLS, 8 * TOKENS)
    assert found["d00"]["epochs"] == 4 and found["d01"] == {"epochs": 4.8, "most_fitted": fitted["epochs_seen"]["d01"]}
    assert "d02" not in found  # not read once
    assert f"d01 4.8 times (fitted runs {most:.3g} at most)" in epochs_sentence(found)
    unknown = laws.fit(law, replace(observed, pools=None))
    found = further_epochs(unknown, shares, POOLS, 8 * TOKENS)
    assert found["d01"] == {"epochs": 4.8, "most_fitted": None}
    for pools, tokens in ((None, TOKENS), (POOLS, None)):
        assert further_epochs(fitted, shares, pools, tokens) == {}
    assert epochs_sentence({}) == ""


@pytest.mark.parametrize("run_tokens", [1e12, 1e15, 1e18])
def test_an_optimum_is_found_where_a_run_reads_all_pools_very_often(run_tokens: float) -> None:
    fitted = laws.fit("transfer", replace(runs(), pools=None))
    at = laws.at_run(fitted, tokens=run_tokens, pools=POOLS)
    found = best(at, STEP, Objective(), np.zeros(3), np.ones(3))
    assert found.shares.sum() == pytest.approx(1, abs=1e-12) and found.gap < 1e-6 * found.value
    others = laws.predict(at, mixtures(1, 200, 3), [STEP])[:, 0].mean(axis=1)
    assert found.value <= others.min() * (1 + 1e-9)


def test_the_report_and_standard_error_say_it(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags = write_tables(runs(8), tmp_path / "l.csv", tmp_path / "m.csv", int(TOKENS / STEP))
    table = pl.read_csv(flags[3])
    table.with_columns(pool=pl.col("domain").replace_strict(POOLS)).write_csv(flags[3])
    law, report = str(tmp_path / "law.json"), tmp_path / "report.json"
    fit_law.main(["--law", "bimix", *flags, "--out", law])
    asked = ["--coefficients", law, "--out", str(tmp_path / "best.json"), "--report", str(report)]
    for times, there in ((0.2, False), (20, True)):
        capsys.readouterr()
        pools = "{" + ", ".join(f'"{name}": {pool}' for name, pool in POOLS.items()) + "}"
        optimize_mixture.main([*asked, "--tokens", pools, "--run-tokens", str(times * TOKENS)])
        assert bool(read_json(report)["epochs_beyond_fitted"]) == there
        assert ("more often than any fitted run" in capsys.readouterr().err) == there
