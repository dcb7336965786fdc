"""Mixtures compared over seeds: differences, intervals and ties by hand; what they were found from."""

import json

import numpy as np
import polars as pl
import pytest
from refusals import refused
from scipy import stats

import compare_mixtures
import mix_best
from bimix.errors import InputError
from bimix.judge.comparison import Comparison, compared, table
from bimix.judge.evidence import noise_between
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import best_quantile, levels
from bimix.outputs import write_json

LOSSES = {"baseline": [4.0, 4.02, 3.99], "law": [3.9, 3.93, 3.88], "uniform": [3.91, 3.92, 3.89]}


def judged(losses: pl.DataFrame, reference: str = "baseline", weights: dict | None = None) -> Comparison:
    return compared(measured(losses), Criterion(reference, weights=weights or {}))


def rows_of(losses: pl.DataFrame, reference: str = "baseline", weights: dict | None = None) -> dict[str, dict]:
    return by_name(table(judged(losses, reference, weights)))


def tidy(losses: dict[str, list[float]], evaluations: bool = True) -> pl.DataFrame:
    """Losses of two domains around each value; with evaluations at two steps."""
    rows = [
        (name, seed, step, domain, value + (0.5 if step < 20 else 0) + shift)
        for name, values in losses.items()
        for seed, value in enumerate(values)
        for step in ((10, 20) if evaluations else (20,))
        for domain, shift in (("web", 0.2), ("code", -0.2))
    ]
    return pl.DataFrame(rows, ["mixture", "seed", "step", "domain", "loss"], orient="row")


def by_name(table: pl.DataFrame) -> dict[str, dict]:
    return {row["mixture"]: row for row in table.iter_rows(named=True)}


def standard_error(losses: dict[str, list[float]]) -> float:
    """Of a difference between two mixtures, from all pairs of mixtures by turns: the variance of a
    pair's difference over seeds, averaged over pairs, is that of the residuals times two.
    """
    logs = [np.log(one) for one in losses.values()]
    pairs = [(a - b).var(ddof=1) for n, a in enumerate(logs) for b in logs[:n]]
    return float(np.sqrt(np.mean(pairs) / len(logs[0])))


def test_weights_judge_as_if_the_other_domains_were_not_there() -> None:
    """`law` is best on average and worst on the web, which alone weighs."""
    losses = tidy(LOSSES).with_columns(
        pl.when((pl.col("mixture") == "law") & (pl.col("domain") == "web"))
        .then(pl.col("loss") + 0.3)
        .when(pl.col("mixture") == "law")
        .then(pl.col("loss") - 0.31)
        .otherwise(pl.col("loss"))
    )
    assert judged(losses).ranked()[0] == "law"
    weights = {"web": 2.0, "code": 0.0}
    assert judged(losses, weights=weights).ranked()[-1] == "law"
    of_web = losses.filter(pl.col("domain") == "web")
    alike = ("average_loss", "difference_percent", "low_percent", "ties_with_best")
    for name, row in rows_of(of_web).items():
        weighed = rows_of(losses, weights=weights)[name]
        assert {key: weighed[key] for key in alike} == {key: row[key] for key in alike}
    both = {"web": 3.0, "code": 1.0}
    ends_by_hand = [np.average([v + 0.2, v - 0.2], weights=[3, 1]) for v in LOSSES["uniform"]]
    found = judged(losses, weights=both)
    names, values = found.mixtures, found.criterion.values(found.runs)[:, :, -1]
    assert values[names.index("uniform")] == pytest.approx(ends_by_hand)
    refused("weights name 'wab'", judged, losses, weights={"wab": 1.0})


def test_numbers_are_those_of_pairs_by_seed() -> None:
    rows = rows_of(tidy(LOSSES))
    logs = {name: np.log(values) for name, values in LOSSES.items()}
    lead, width = (logs["baseline"] - logs["law"]).mean(), stats.t.ppf(0.975, 4) * standard_error(LOSSES)
    assert rows["law"]["difference_percent"] == pytest.approx(100 * np.expm1(-lead))
    assert rows["law"]["low_percent"] == pytest.approx(100 * np.expm1(-(lead + width)))
    assert rows["law"]["high_percent"] == pytest.approx(100 * np.expm1(-(lead - width)))
    deviation = 100 * np.std(LOSSES["law"], ddof=1) / np.mean(LOSSES["law"])
    assert rows["law"]["deviation_percent"] == pytest.approx(deviation)
    assert 0.5 < rows["law"]["steps_ratio"] < 1 and rows["baseline"]["steps_ratio"] == 1
    assert [rows[name]["ties_with_best"] for name in ("law", "uniform", "baseline")] == [True, True, False]
    assert rows["baseline"]["difference_percent"] == 0 and rows["baseline"]["low_percent"] is None


def test_a_tie_is_what_the_best_of_so_many_may_lead_by_as_dunnett_has_it() -> None:
    """Of four mixtures over three seeds by Dunnett (1955): 6 degrees of freedom, three rivals."""
    for behind, tied in ((0.93, True), (1.07, False)):
        least = 2.56
        wobble = (
            np.array([[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1]]) * 0.004
        )  # sums to 0 over mixtures and over seeds
        error = np.sqrt((wobble**2).sum() / 6 * 2 / 3)
        shift = np.array([0, behind * least * error, 0.1, 0.2])
        losses = {name: list(np.exp(1 + shift[n] + wobble[n])) for n, name in enumerate("abcd")}
        rows = rows_of(tidy(losses, evaluations=False), "d")
        assert rows["a"]["ties_with_best"] and rows["b"]["ties_with_best"] is tied
        assert not rows["c"]["ties_with_best"] and not rows["d"]["ties_with_best"]
    # C. W. Dunnett, JASA 50 (1955), table 1a: 95 %, one-sided
    table = {(1, 10): 1.81, (2, 10): 2.15, (3, 10): 2.34, (9, 10): 2.81, (3, 20): 2.19, (9, 20): 2.60, (9, 5): 3.30}
    for (rivals, freedom), quantile in table.items():
        assert best_quantile(rivals, freedom) == pytest.approx(quantile, abs=0.006)


def test_the_noise_of_means_has_the_effects_of_seeds_where_mixtures_have_different_ones() -> None:
    """The second seed ends 3 % lower for all alike: runs of one seed compare to 0.1 %, means do not."""
    alike = {name: [5.0 + n, 0.97 * (5.0 + n)] for n, name in enumerate("abc")}
    alike["a"][0] *= 1.001
    some = alike | {"c": alike["c"][:1]}
    every, paired, means = (
        noise_between(tidy(runs, evaluations=False), Criterion("a"), paired=by_seed).deviation
        for runs, by_seed in ((alike, False), (some, True), (some, False))
    )
    assert every < 0.001 and paired < 0.001
    assert means == pytest.approx(0.03 / 2**0.5, rel=0.05)


def ends(losses: dict[str, list[float]]) -> np.ndarray:
    found = judged(tidy(losses))
    return found.criterion.values(found.runs)[:, :, -1]


def test_the_same_runs_under_two_names_count_once_and_one_seed_tells_no_tie() -> None:
    twice = LOSSES | {"again": [value * (1 + 1e-9) for value in LOSSES["law"]]}
    (_, again), (_, once) = (levels(ends(losses)) for losses in (twice, LOSSES))
    assert (again.freedom, again.mixtures) == (once.freedom, once.mixtures)
    assert again.deviation == pytest.approx(once.deviation, rel=1e-6)
    assert again.errors[:3, :3] == pytest.approx(once.errors) and again.errors[1, 3] == 0
    # one seed tells no tie
    losses = {"baseline": [4.0], "law": [3.9]}
    found = table(judged(tidy(losses)))
    assert found["ties_with_best"].null_count() == 2 and found["low_percent"].null_count() == 2


def test_a_mixture_may_lack_seeds_that_others_have() -> None:
    """Two runs of two mixtures and one of a third: what the second seed did to the first two is
    taken off, and all differences have their errors from the one degree of freedom that is left.
    """
    two = {"baseline": [4.0, 4.4], "law": [3.9, 4.3], "uniform": [3.91]}
    rows, logs = rows_of(tidy(two)), {name: np.log(one) for name, one in two.items()}
    seed = np.mean([logs[name][1] - logs[name][0] for name in ("baseline", "law")])
    level = {name: one.mean() for name, one in logs.items()} | {"uniform": logs["uniform"][0] + seed / 2}
    for name, row in rows.items():
        assert row["average_loss"] == pytest.approx(np.exp(level[name]))
        assert row["difference_percent"] == pytest.approx(100 * np.expm1(level[name] - level["baseline"]))
    deviation = abs((logs["baseline"] - logs["law"]) @ [1, -1]) / 2
    # uniform less baseline is u1 - (b1 - b2 + l2 - l1) / 4 - (b1 + b2) / 2
    error = {"law": 1.0, "uniform": np.linalg.norm([1, -3 / 4, -1 / 4, 1 / 4, -1 / 4])}
    for name, one in error.items():
        width = stats.t.ppf(0.975, 1) * deviation * one
        lead = level["baseline"] - level[name]
        assert rows[name]["high_percent"] == pytest.approx(100 * np.expm1(width - lead))
    assert [rows[name]["runs"] for name in two] == [2, 2, 1] and rows["uniform"]["deviation_percent"] is None
    twice = two | {"again": two["uniform"]}
    again = rows_of(tidy(twice))
    assert {name: again[name] for name in rows} == {name: pytest.approx(row) for name, row in rows.items()}


def test_where_chance_alone_moves_runs_an_interval_that_lacks_seeds_holds_at_its_level() -> None:
    draw, inside = np.random.default_rng(1), []
    for _ in range(2000):
        values = np.exp(1 + draw.normal(size=3) + 0.01 * draw.normal(size=(4, 3)))  # no mixture is better
        values[1, 1:] = values[2, 2] = np.nan
        logs, from_chance = levels(values)
        inside.append(abs(logs[0] - logs[1]) < from_chance.between(0, 1))
    assert 0.92 < np.mean(inside) < 0.98


def test_mixtures_that_no_seed_connects_are_refused() -> None:
    losses = tidy(LOSSES)
    chain = losses.filter(
        (pl.col("mixture") == "baseline") & (pl.col("seed") == 0)
        | (pl.col("mixture") == "law") & (pl.col("seed") < 2)
        | (pl.col("mixture") == "uniform") & (pl.col("seed") == 1)
    )
    assert len(judged(chain).mixtures) == 3
    apart = chain.filter((pl.col("mixture") != "law") | (pl.col("seed") == 0))
    refused("effects of mixtures and seeds cannot be separated", judged, apart)


def test_a_mixture_has_the_runs_that_it_was_found_from(tmp_path) -> None:
    """Each once; a rule is found from none."""
    tidy(LOSSES).write_parquet(tmp_path / "losses.parquet")
    report = {"mixture": {"code": 1.0}, "seed": 1, "parameters": 9, "tokens": 80, "flops": 2e12}
    for name, own in {"a": {}, "b": {"seed": 2}, "again": {}}.items():
        write_json(tmp_path / f"{name}.json", report | own)
    flags = ["--losses", str(tmp_path / "losses.parquet"), "--reference", "baseline", "--out", str(tmp_path / "c.csv")]
    found = {"baseline": [], "law": ["a.json", "b.json", "again.json"]}
    searches = {name: [str(tmp_path / file) for file in files] for name, files in found.items()}
    compare_mixtures.main([*flags, "--searches", json.dumps(searches)])
    rows = by_name(pl.read_csv(tmp_path / "c.csv"))
    spent = {name: (row["search_runs"], row["search_flops"]) for name, row in rows.items()}
    assert spent == {"baseline": (0, 0.0), "law": (2, 4e12), "uniform": (None, None)}
    write_json(tmp_path / "a.json", {"mixture": {"code": 1.0}})
    sentence = r"a\.json does not say its flops"
    refused(sentence, compare_mixtures.main, [*flags, "--searches", json.dumps(searches)])


def test_the_best_of_a_search_is_the_run_with_the_least_loss(tmp_path) -> None:
    tidy(LOSSES).write_parquet(tmp_path / "losses.parquet")
    rows = [
        (name, domain, share)
        for name in LOSSES
        for domain, share in (("code", len(name) / 10), ("web", 1 - len(name) / 10))
    ]
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_parquet(tmp_path / "m.parquet")
    files = {"losses": "losses.parquet", "mixtures": "m.parquet", "out": "b.json"}
    flags = [word for flag, name in files.items() for word in (f"--{flag}", str(tmp_path / name))]
    mix_best.main([*flags, "--step", "20"])
    assert json.loads((tmp_path / "b.json").read_text()) == pytest.approx({"code": 0.3, "web": 0.7})  # of `law`
    refused("none was measured at step 30", mix_best.main, [*flags, "--step", "30"])


def test_the_best_of_a_search_is_judged_by_its_objective(tmp_path) -> None:
    """`narrow` is best on average and worse than the reference in one domain, `even` in none."""
    ends = {"reference": (3.0, 3.0), "narrow": (2.0, 3.3), "even": (2.8, 2.9)}
    losses = [(name, 20, domain, loss) for name, both in ends.items() for domain, loss in zip("ab", both, strict=True)]
    shares = [
        (name, domain, share)
        for name, share in zip(ends, (0.5, 0.9, 0.6), strict=True)
        for domain, share in (("a", share), ("b", 1 - share))
    ]
    pl.DataFrame(losses, ["mixture", "step", "domain", "loss"], orient="row").write_csv(tmp_path / "l.csv")
    pl.DataFrame(shares, ["mixture", "domain", "proportion"], orient="row").write_csv(tmp_path / "m.csv")
    flags = ["--losses", str(tmp_path / "l.csv"), "--mixtures", str(tmp_path / "m.csv"), "--step", "20"]
    for objective, share in (("{}", 0.9), ("minimax", 0.6), ("no_worse_than", 0.6), ("weighted", 0.9)):
        block = objective if objective == "{}" else json.dumps({"kind": objective, "reference": "reference"})
        mix_best.main([*flags, "--objective", block, "--out", str(tmp_path / "b.json")])
        assert json.loads((tmp_path / "b.json").read_text())["a"] == share
    block = json.dumps({"kind": "minimax", "reference": "other"})
    with pytest.raises(InputError, match="'other', the reference, has no losses at step"):
        mix_best.main([*flags, "--objective", block, "--out", str(tmp_path / "b.json")])
