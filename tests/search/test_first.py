"""The first runs: far from each other, within bounds, rules before draws; models and budgets of a search."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused

import propose_first
from bimix.search.first import NEAR, central, maximin
from bimix.search.models import Model, read_budget, read_models
from bimix.search.posterior import squares

TOKENS = {"code": 2e9, "papers": 1e9, "web": 8e10}


def first(folder: Path, *flags: str, tokens: dict = TOKENS) -> dict[str, dict[str, float]]:
    propose_first.main(["--tokens", json.dumps(tokens), "--out", str(folder / "first.csv"), *flags])
    found: dict[str, dict[str, float]] = {}
    for name, domain, share in pl.read_csv(folder / "first.csv").iter_rows():
        found.setdefault(name, {})[domain] = share
    return found


def test_each_run_is_the_farthest_from_those_before() -> None:
    offered = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    rows = maximin(offered, offered[:0], 6)
    assert rows[0] == 0 and len(set(rows)) == 6
    away = np.sqrt(squares(offered, offered))
    for n in range(1, 6):
        nearest = away[:, rows[:n]].min(axis=1)
        assert nearest[rows[n]] == nearest.max()
    seen = maximin(offered, offered[[rows[1]]], 1)
    assert seen == [int(away[rows[1]].argmax())]
    assert maximin(np.repeat(offered[:1], 3, axis=0), offered[:0], 3) == [0]  # alike ones are run once


def test_draws_near_single_domains_are_left_out() -> None:
    mixtures = np.array([[0.4, 0.6], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    assert central(mixtures).tolist() == [2, 0]


def test_token_shares_come_first_then_rules_and_draws(tmp_path: Path) -> None:
    found = first(tmp_path)
    assert list(found)[:2] == ["baseline", "uniform"] and list(found)[2:] == ["first_001", "first_002", "first_003"]
    assert found["baseline"]["web"] == pytest.approx(80 / 83, abs=1e-6)
    shares = np.array([[own[name] for name in TOKENS] for own in found.values()])
    assert shares.sum(axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    assert (shares >= 0.2499 * shares[0]).all()  # a quarter of each token share
    assert np.sqrt(squares(shares, shares))[~np.eye(5, dtype=bool)].min() > NEAR
    assert first(tmp_path) == found  # the same draws
    assert first(tmp_path, "--seed", "1").keys() == found.keys() and first(tmp_path, "--seed", "1") != found


def test_bounds_hold_and_runs_there_are_kept_away_from(tmp_path: Path) -> None:
    flags = ("--run-tokens", "2e10", "--max-epochs", "8", "--upper", '{"code": 0.3}', "--weights", '{"code": 1}')
    found = first(tmp_path, *flags, "--count", "6")
    assert {"wanted_3", "wanted_4", "wanted_8"} & found.keys()
    assert all(own["code"] <= 0.3 + 1e-6 and own["papers"] <= 8 * 1e9 / 2e10 + 1e-6 for own in found.values())
    (tmp_path / "first.csv").rename(tmp_path / "run.csv")
    more = first(tmp_path, *flags, "--mixtures", str(tmp_path / "run.csv"), "--count", "3")
    assert not more.keys() & found.keys()
    numbers = [max(int(name[6:]) for name in own if name.startswith("first_")) for own in (found, more)]
    assert numbers[1] > numbers[0]


def test_the_first_run_separates_domains_that_runs_there_do_not(tmp_path: Path) -> None:
    """Both runs without code have 0.3 of papers."""
    run = np.array([[0, 0.3, 0.7], [0, 0.3, 0.7], [0.3, 0.1, 0.6], [0.2, 0.4, 0.4]])
    rows = [(f"m{n}", name, one) for n, own in enumerate(run) for name, one in zip(TOKENS, own, strict=True)]
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_csv(tmp_path / "run.csv")
    name, own = next(iter(first(tmp_path, "--mixtures", str(tmp_path / "run.csv"), "--count", "2").items()))
    assert name == "first_001" and own["code"] == 0 and abs(own["papers"] - 0.3) > 0.05
    bounded = first(tmp_path, "--mixtures", str(tmp_path / "run.csv"), "--lower", '{"code": 0.01}')
    assert all(own["code"] >= 0.01 - 1e-6 for own in bounded.values())


def test_mixtures_of_ones_own_are_among_those_to_choose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("se", "code", 0.8), ("se", "papers", 0.1), ("se", "web", 0.1)]
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_csv(tmp_path / "own.csv")
    assert "se" in first(tmp_path, "--candidates", str(tmp_path / "own.csv"))
    bounded = first(tmp_path, "--candidates", str(tmp_path / "own.csv"), "--upper", '{"code": 0.5}')
    assert "se" not in bounded and "se lies outside the bounds" in capsys.readouterr().err


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for flags, sentence in (
        (["--count", "0"], "--count is 0: it must be 1 or more"),
        (["--max-epochs", "4"], "--max-epochs needs --run-tokens"),
        (["--upper", '{"code": 0.024, "papers": 0.013}', "--count", "9"], "within the bounds and 0.05 or more apart"),
    ):
        refused(sentence, first, tmp_path, *flags)
    refused("--tokens is missing", propose_first.main, ["--out", str(tmp_path / "first.csv")])
    refused("has 0 tokens of 'web': no run can read it", first, tmp_path, tokens=TOKENS | {"web": 0})


def test_models_are_those_of_a_plan_of_costs(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(
        "what,model,parameters,tokens_per_run,flops_per_run\npretraining,proxy,1000,5000,4e7\nswarm,proxy,1000,700,5e6\n"
        "total,,,,\npretraining,large,100000,50000,4e11\n"
    )
    assert read_models(plan) == [Model("proxy", 1000, 5000, 4e7), Model("large", 1e5, 5e4, 4e11)]
    (large,) = read_models(plan, ["large"])
    assert large.name == "large" and read_budget("0.05%", large) == pytest.approx(2e8)
    plan.write_text("name,parameters,tokens\na,1e9,2e10\n")
    assert read_models(plan) == [Model("a", 1e9, 2e10, 1.2e20)]
    for text, sentence in (
        ("name,parameters\na,1\n", "has no column 'tokens'"),
        ("name,parameters,tokens\na,1,0\n", "line 2: tokens is 0"),
        ("name,parameters,tokens\na,1,1\na,1,2\n", "line 3: name 'a' is there twice"),
    ):
        plan.write_text(text)
        refused(sentence, read_models, plan)
    refused("it must be FLOPs", read_budget, "much", None)
    refused("is a share of the large run", read_budget, "5%", None)
    plan.write_text("name,parameters,tokens\na,1,1\n")
    refused("no model", read_models, plan, ["b"])
