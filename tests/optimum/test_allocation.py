"""A budget of FLOPs is divided as the law that made the runs divides it."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from scipy.optimize import minimize_scalar

import allocate_budget
import fit_law
from bimix.errors import InputError

DOMAINS = ["books", "code", "web"]
B, D, C = np.array([40.0, 60, 50]), np.array([30.0, 20, 25]), np.array([1.6, 1.2, 2.0])
BETA, DELTA, ALPHA = 0.28, 0.33, np.array([0.08, 0.12, 0.05])


def loss(shares: np.ndarray, parameters: float, tokens: float) -> np.ndarray:
    """r^-alpha (B / T^beta + D / N^delta + C), by domain."""
    return shares**-ALPHA * (B / tokens**BETA + D / parameters**DELTA + C)


def runs(folder: Path, lengths: tuple[float, ...]) -> list[str]:
    """Runs of three sizes and so many tokens a parameter, fitted; the law's flags."""
    draw = np.random.default_rng(7).dirichlet(np.full(3, 3.0), 7)
    losses, mixtures = [], []
    for k, shares in enumerate(draw):
        mixtures += [(f"m{k}", domain, share) for domain, share in zip(DOMAINS, shares.tolist(), strict=True)]
        for parameters in (2e7, 6e7, 2e8):
            for ratio in lengths:
                values = loss(shares, parameters, ratio * parameters).tolist()
                rows = zip(DOMAINS, values, strict=True)
                losses += [(f"m{k}", 1000, ratio * parameters, parameters, domain, own) for domain, own in rows]
    columns = ["mixture", "step", "tokens", "parameters", "domain", "loss"]
    table = pl.DataFrame(losses, columns, orient="row")
    # A schedule of its own for each length: a run's last row counts.
    table = table.with_columns(
        mixture=pl.format("{}_{}", "mixture", (pl.col("tokens") / pl.col("parameters")).cast(pl.Int64))
    )
    names = table["mixture"].unique().sort()
    shares = {f"m{k}": own for k, own in enumerate(draw)}
    rows = [
        (name, domain, share)
        for name in names
        for domain, share in zip(DOMAINS, shares[name.split("_")[0]].tolist(), strict=True)
    ]
    table.write_csv(folder / "losses.csv")
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_csv(folder / "mixtures.csv")
    flags = ["--losses", str(folder / "losses.csv"), "--mixtures", str(folder / "mixtures.csv")]
    fit_law.main(["--law", "transfer", *flags, "--out", str(folder / "law.json")])
    return ["--coefficients", str(folder / "law.json"), "--out", str(folder / "allocation.json")]


def test_a_law_gives_back_its_own_division(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, flops = runs(tmp_path, (5.0, 20.0, 80.0)), 6e17

    def true(log_parameters: float) -> float:
        parameters = np.exp(log_parameters)
        tokens = flops / 6 / parameters
        height = B / tokens**BETA + D / parameters**DELTA + C
        share = (ALPHA * height) ** (1 / (1 + ALPHA))  # near the optimum of sum r^-alpha h
        return float(loss(share / share.sum(), parameters, tokens).mean())

    best = minimize_scalar(true, bounds=(np.log(1e6), np.log(1e10)), method="bounded")
    allocate_budget.main([*flags, "--flops", f"{flops:g}"])
    found = json.loads((tmp_path / "allocation.json").read_text())
    assert found["parameters"] * found["tokens"] * 6 == pytest.approx(flops)
    assert np.log(found["parameters"]) == pytest.approx(best.x, abs=0.25)  # the valley is flat: 0.1 % in the loss
    assert found["objective"] == pytest.approx(best.fun, rel=5e-3)
    assert sum(found["mixture"].values()) == pytest.approx(1) and list(found["mixture"]) == DOMAINS
    table = capsys.readouterr().out.splitlines()
    assert all(float(line.split()[-2]) >= 0 for line in table[-5:])


def test_runs_of_one_length_cannot_divide(tmp_path: Path) -> None:
    flags = runs(tmp_path, (20.0,))
    allocate_budget.main([*flags, "--flops", "6e17"])
    said = json.loads((tmp_path / "allocation.json").read_text())["warnings"]
    assert any("about 20 tokens a parameter" in text for text in said)
    allocate_budget.main([*flags, "--flops", "6e24"])
    said = json.loads((tmp_path / "allocation.json").read_text())["warnings"]
    assert any("a guess" in text for text in said)


def test_scarce_text_asks_for_a_larger_model(tmp_path: Path) -> None:
    flags = runs(tmp_path, (5.0, 20.0, 80.0))
    sizes = []
    for pools in (None, dict.fromkeys(DOMAINS, 2e8)):
        more = [] if pools is None else ["--tokens", json.dumps(pools)]
        allocate_budget.main([*flags, "--flops", "6e18", *more])
        sizes.append(json.loads((tmp_path / "allocation.json").read_text())["parameters"])
    assert sizes[1] > 1.1 * sizes[0]
    scarce = ["--tokens", json.dumps(dict.fromkeys(DOMAINS, 2e8)), "--max-epochs", "4"]
    allocate_budget.main([*flags, "--flops", "6e18", *scarce])
    found = json.loads((tmp_path / "allocation.json").read_text())
    assert found["tokens"] <= 4 * 6e8 and max(found["mixture"].values()) * found["tokens"] <= 4 * 2e8 * (1 + 1e-5)
    with pytest.raises(InputError, match=r"leaves 2.4e\+09 tokens, and 6e\+22 FLOPs on them are a model of 4.17e\+12"):
        allocate_budget.main([*flags, "--flops", "6e22", *scarce])
    capped = [*scarce, "--upper", json.dumps({DOMAINS[0]: 0.1})]  # 8e8 tokens of each other domain are 90 %
    refused(r"leaves 1.78e\+09 tokens", allocate_budget.main, [*flags, "--flops", "6e22", *capped])


def test_another_law_is_refused_in_a_sentence(tmp_path: Path) -> None:
    flags = runs(tmp_path, (20.0,))
    law = json.loads((tmp_path / "law.json").read_text())
    for values in law["coefficients"].values():
        values["size"]["tokens"] = None
    law["provenance"] = {}
    (tmp_path / "law.json").write_text(json.dumps(law))
    refused("no law over sizes and tokens", allocate_budget.main, [*flags, "--flops", "1e18"])
    refused("--flops is -1", allocate_budget.main, [*flags, "--flops", "-1"])
