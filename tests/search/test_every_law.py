"""The table of cells of a round: every law by every objective, within bounds and without. Each
proposes mixtures that keep to the bounds and away from all runs, or refuses in one sentence.
"""

import json

import numpy as np
import polars as pl
import pytest
from made_search import DOMAINS, runs, tables
from refusals import refused

import propose_round
from bimix.errors import InputError
from bimix.laws import fitted
from bimix.laws.table import LAWS
from bimix.search import answer
from bimix.search.posterior import total_variation

SHARES = np.random.default_rng(3).dirichlet(np.full(3, 2.0), 12)
REFERENCE = json.dumps(dict(zip(DOMAINS, SHARES[0].tolist(), strict=True)))
OBJECTIVES = {
    "mean": [],
    "weights": ["--weights", '{"law": 2, "web": 1}'],
    "metric": ["--weights", '{"error_rate": 1}'],
    "no_worse_than": ["--weights", '{"law": 1}', "--objective", "no_worse_than", "--reference", REFERENCE],
}
TOKENS = ["--tokens", '{"code": 1e6, "law": 1e6, "web": 1e7}', "--run-tokens", "1e7", "--max-epochs", "4"]
BOUNDS = ["--lower", '{"web": 0.1}', "--upper", '{"code": 0.3}', *TOKENS]
LOWER, UPPER = np.array([0.0, 0.0, 0.1]), np.array([0.3, 0.4, 1.0])  # 0.4: four epochs of law
# Whether an objective is within bounds; the other half of the cells is run in full.
HALF = {"mean": False, "weights": True, "metric": False, "no_worse_than": True}


@pytest.fixture
def flags(tmp_path) -> dict[bool, list[str]]:
    """Flags of the runs without and with a metric, for which not every law is made."""
    given = tables(tmp_path, runs(SHARES))
    losses = pl.read_csv(tmp_path / "losses.csv").with_columns(metric=pl.lit(False))
    rate = losses.filter(pl.col("domain") == "code").with_columns(
        domain=pl.lit("error_rate"), loss=pl.col("loss") / 5, metric=pl.lit(True)
    )
    pl.concat([losses, rate]).write_csv(tmp_path / "metrics.csv")
    return {False: given, True: ["--losses", str(tmp_path / "metrics.csv"), *given[2:]]}


@pytest.mark.parametrize("other", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("law", LAWS)
def test_every_law_proposes_by_every_objective_or_says_why_not(tmp_path, flags, monkeypatch, law, other) -> None:
    known = {}  # one fit of the law to the losses, one to losses and the metric
    monkeypatch.setattr(answer, "fit", lambda law, observed: known.setdefault(
        observed.loss_domains, fitted.fit(law, observed)
    ))  # fmt: skip
    for objective, of in OBJECTIVES.items():
        within, out = HALF[objective] != other, tmp_path / "next.csv"
        given = [*flags[objective == "metric"], "--law", law, *of, *(BOUNDS if within else []), "--out", str(out)]
        if objective == "metric" and not LAWS[law].measured_only:
            refused(r"'error_rate' were observed but .* training domains only; use the law", propose_round.main, given)
            continue
        propose_round.main([*given, "--count", "2", "--report", str(tmp_path / "report.json")])
        report = json.loads((tmp_path / "report.json").read_text())
        promised = [report["best_posterior"], *(one["promised"] for one in report["proposals"])]
        assert promised == pytest.approx([report["best_measured"]] * 3, rel=0.2), objective
        found = pl.read_csv(out)["proportion"].to_numpy().reshape(2, 3)
        assert found.sum(axis=1) == pytest.approx([1, 1]), objective
        apart = total_variation(found, SHARES).min(), total_variation(found[:1], found[1:]).min()
        assert min(apart) >= 0.05 - 1e-5, objective
        low, high = (LOWER, UPPER) if within else (np.zeros(3), np.ones(3))
        assert (found >= low - 1e-6).all() and (found <= high + 1e-6).all(), objective
    if not LAWS[law].over_sizes:
        with pytest.raises(InputError, match=r"is a size, and the law .* was fitted at one"):
            propose_round.main([*flags[False], "--law", law, "--parameters", "1e9", "--out", str(out)])
