"""The verdict over methods: regret, gain and its interval, ties and optimism against sums by hand,
and what it says.
"""

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

import judge_methods
import mix_best
import plot_verdict
from bimix import laws
from bimix.costs.worth import VERDICT, sentence, verdict
from bimix.errors import InputError
from bimix.observed.observations import Observations
from bimix.outputs import write_json

LOSSES = {"baseline": [4.0, 4.02, 3.99], "law": [3.9, 3.93, 3.88], "uniform": [3.91, 3.92, 3.89]}


def tidy(losses: dict[str, list[float]]) -> pl.DataFrame:
    rows = [
        (name, seed, step, domain, value + (0.5 if step < 20 else 0) + shift)
        for name, values in losses.items()
        for seed, value in enumerate(values)
        for step in (10, 20)
        for domain, shift in (("web", 0.2), ("code", -0.2))
    ]
    return pl.DataFrame(rows, schema=["mixture", "seed", "step", "domain", "loss"], orient="row")


def prices(losses: dict) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "mixture": name,
                "search_runs": 4 if name == "law" else 0,
                "search_flops": 8e9 if name == "law" else 0.0,
                "search_percent": 20.0 if name == "law" else 0.0,
                "steps_ratio": {"baseline": 1.0, "law": 0.75}.get(name),
            }
            for name in losses
        ]
    )


def by_name(table: pl.DataFrame) -> dict[str, dict]:
    return {row["mixture"]: row for row in table.iter_rows(named=True)}


def test_numbers_are_those_of_pairs_by_seed() -> None:
    table = verdict(tidy(LOSSES), prices(LOSSES), "baseline", {"law": 4.0})
    assert table.schema == pl.Schema(VERDICT) and table["mixture"].to_list() == ["law", "uniform", "baseline"]
    rows = by_name(table)
    logs = {name: np.log(values) for name, values in LOSSES.items()}
    mean = {name: np.exp(one.mean()) for name, one in logs.items()}
    assert rows["uniform"]["regret_percent"] == pytest.approx(100 * (mean["uniform"] / mean["law"] - 1))
    assert rows["law"]["gain_percent"] == pytest.approx(100 * (1 - mean["law"] / mean["baseline"]))
    pairs = [logs["baseline"] - logs[name] for name in ("law", "uniform")]
    width = stats.t.ppf(0.975, 4) * np.sqrt(np.mean([one.var(ddof=1) for one in pairs])) / np.sqrt(3)
    assert rows["law"]["gain_low"] == pytest.approx(100 * (1 - np.exp(-(pairs[0].mean() - width))))
    assert rows["law"]["gain_high"] == pytest.approx(100 * (1 - np.exp(-(pairs[0].mean() + width))))
    assert rows["law"]["optimism_percent"] == pytest.approx(4.0 - rows["law"]["gain_percent"])
    assert rows["law"]["steps_saved_percent"] == pytest.approx(25) and rows["uniform"]["steps_saved_percent"] is None
    assert (
        rows["law"]["ties_with_best"] and rows["uniform"]["ties_with_best"] and not rows["baseline"]["ties_with_best"]
    )
    assert rows["baseline"]["gain_percent"] == 0 and rows["baseline"]["gain_low"] is None


def test_what_all_seeds_share_is_no_spread() -> None:
    """Seeds that are all worse together say nothing against a difference that is always there."""
    shared = np.array([0.0, 0.3, 0.6])
    losses = {
        "a": list(4 + shared),
        "b": list((4 + shared) * 1.004),
        "c": list((4 + shared) * np.array([1.004, 1.005, 1.006])),
    }
    rows = by_name(verdict(tidy(losses), prices(losses), "a", {}))
    assert rows["a"]["ties_with_best"] and not rows["b"]["ties_with_best"]


def test_one_seed_tells_no_tie() -> None:
    losses = {"baseline": [4.0], "law": [3.9]}
    table = verdict(tidy(losses), prices(losses), "baseline", {})
    assert table["ties_with_best"].null_count() == 2 and table["gain_low"].null_count() == 2
    assert "no verdict" in sentence(table, "baseline", {"baseline"})


def test_mixtures_with_other_seeds_are_refused() -> None:
    losses = tidy(LOSSES).filter((pl.col("mixture") != "law") | (pl.col("seed") != 2))
    with pytest.raises(InputError, match="'law' lacks a seed"):
        verdict(losses, prices(LOSSES), "baseline", {})


def test_the_sentence_spares_nobody() -> None:
    said = sentence(
        verdict(tidy(LOSSES), prices(LOSSES), "baseline", {"law": 9.0}), "baseline", {"baseline", "uniform"}
    )
    assert "uniform cannot be told from it" in said and "a search paid for nothing" in said
    assert "law is furthest off" in said and "too much" in said
    simple = {"uniform": [3.5, 3.6, 3.5], "baseline": [4.0, 4.02, 3.99], "law": [3.9, 3.93, 3.88]}
    said = sentence(verdict(tidy(simple), prices(simple), "baseline", {}), "baseline", {"baseline", "uniform"})
    assert "no method earned its cost" in said
    clear = {"law": [3.5, 3.52, 3.49], "baseline": [4.0, 4.02, 3.99], "uniform": [3.9, 3.92, 3.89]}
    said = sentence(verdict(tidy(clear), prices(clear), "baseline", {}), "baseline", {"baseline", "uniform"})
    assert "uniform, is" in said and "% behind" in said


def test_the_scripts_judge_and_draw(tmp_path) -> None:
    shares = np.array([[0.5, 0.5], [0.2, 0.8], [0.8, 0.2], [0.35, 0.65]])
    names = ("baseline", "law", "uniform", "other")
    truth = np.array([[3.0, 5.0]]) * np.stack([shares[:, 0] ** -0.1, shares[:, 1] ** -0.3], axis=1)
    observed = Observations(names, ("code", "web"), np.array([20]), ("code", "web"), shares, truth[:, None])
    write_json(tmp_path / "law.json", laws.fit("bimix", observed))
    tidy(LOSSES).write_parquet(tmp_path / "losses.parquet")
    prices(LOSSES).write_csv(tmp_path / "methods.csv")
    rows = [
        (name, domain, one[j])
        for name, one in zip(names, shares, strict=True)
        for j, domain in enumerate(("code", "web"))
    ]
    pl.DataFrame(rows, schema=["mixture", "domain", "proportion"], orient="row").write_parquet(
        tmp_path / "mixtures.parquet"
    )
    files = {
        "losses": "losses.parquet",
        "prices": "methods.csv",
        "mixtures": "mixtures.parquet",
        "out": "v.csv",
        "page": "v.txt",
    }
    flags = [part for flag, name in files.items() for part in (f"--{flag}", str(tmp_path / name))]
    proposed = json.dumps({"law": {"coefficients": str(tmp_path / "law.json"), "step": 20}})
    more = ["--reference", "baseline", "--run-tokens", "1000"]
    judge_methods.main([*flags, *more, "--laws", proposed])
    found = by_name(pl.read_csv(tmp_path / "v.csv"))
    expected = 100 * (1 - truth[1].mean() / truth[0].mean())
    assert found["law"]["predicted_gain_percent"] == pytest.approx(expected, abs=1e-3)
    assert found["uniform"]["predicted_gain_percent"] is None
    assert (tmp_path / "v.txt").read_text().startswith("law ends lowest")
    plot_verdict.main(["--verdict", str(tmp_path / "v.csv"), "--out", str(tmp_path / "v.svg")])
    drawn = (tmp_path / "v.svg").read_text()
    assert all(name in drawn for name in LOSSES) and "hollow: predicted" in drawn


def test_mixtures_of_one_cost_stand_side_by_side() -> None:
    places = [plot_verdict.beside([0.0, 0.0, 20.0, 20.0], place) for place in range(4)]
    assert len(set(places)) == 4 and places[0] == 0 and places[2] == 20 and places[3] < 30


def test_the_best_of_a_search_is_the_run_with_the_least_loss(tmp_path) -> None:
    tidy(LOSSES).write_parquet(tmp_path / "losses.parquet")
    rows = [
        (name, domain, share)
        for name in LOSSES
        for domain, share in (("code", len(name) / 10), ("web", 1 - len(name) / 10))
    ]
    pl.DataFrame(rows, schema=["mixture", "domain", "proportion"], orient="row").write_parquet(tmp_path / "m.parquet")
    flags = [
        "--losses",
        str(tmp_path / "losses.parquet"),
        "--mixtures",
        str(tmp_path / "m.parquet"),
        "--out",
        str(tmp_path / "b.json"),
    ]
    mix_best.main([*flags, "--step", "20"])
    assert json.loads((tmp_path / "b.json").read_text()) == pytest.approx({"code": 0.3, "web": 0.7})  # of `law`
    with pytest.raises(InputError, match="no losses at step 30"):
        mix_best.main([*flags, "--step", "30"])
