"""docs/proof.md and README tell what the kept tables hold: every number of their tables of runs is
computed again.
"""

import re
from functools import cache
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest

from bimix.judge.comparison import compared
from bimix.judge.measured import Criterion, measured
from bimix.judge.worth import verdict

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "resources" / "observations" / "proof"
WANTED = ["FreeLaw", "NIH ExPorter", "USPTO Backgrounds"]
REFERENCE = "published_baseline"


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """{mixture: the other cells} of the first table under a heading."""
    cells = table((ROOT / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1])
    return {re.match("`([^`]+)`", own[0])[1]: own[1:] for own in cells}


@cache
def ends(model: str) -> dict[str, dict[str, float]]:
    """{mixture: {domain: last loss}} of a table of a model's runs, means over their seeds."""
    losses = pl.read_csv(KEPT / f"{model}.csv")
    last = losses.filter(pl.col("step") == pl.col("step").max())
    means = last.group_by("mixture", "domain").agg(pl.col("loss").mean())
    return {name: dict(own.drop("mixture").iter_rows()) for (name,), own in means.group_by("mixture")}


def wanted(model: str, mixture: str) -> float:
    return fmean(ends(model)[mixture][domain] for domain in WANTED)


def others(model: str, mixture: str) -> float:
    """The mean loss of what is not wanted, in percent above the reference's."""
    means = [
        fmean(loss for domain, loss in ends(model)[name].items() if domain not in WANTED)
        for name in (mixture, REFERENCE)
    ]
    return 100 * (means[0] / means[1] - 1)


def check_domains(model: str, mixture: str, cells: list[str]) -> None:
    """Cells of the three domains, of the others and of the worst."""
    own = ends(model)[mixture]
    *told, rest, worst = cells
    assert [float(cell) for cell in told] == pytest.approx([own[domain] for domain in WANTED], abs=6e-3), mixture
    assert mixture == REFERENCE or percent(rest) == pytest.approx(others(model, mixture), abs=0.06), mixture
    assert worst == f"{max(own, key=own.get)} {max(own.values()):.2f}"


def percent(cell: str) -> float:
    return float(cell.removesuffix(" %"))


@cache
def judged(model: str) -> dict[str, dict]:
    """Rows of the verdict on a model's runs."""
    losses = pl.read_csv(KEPT / f"{model}.csv")
    columns = ("search_runs", "search_flops", "search_percent", "steps_ratio")
    prices = losses.select("mixture").unique().with_columns(pl.lit(None, pl.Float64).alias(name) for name in columns)
    comparison = compared(measured(losses), Criterion(REFERENCE, weights=dict.fromkeys(WANTED, 1)))
    found = verdict(comparison, prices, {})
    return {row["mixture"]: row for row in found.iter_rows(named=True)}


def test_every_loss_of_the_proxies_is_that_of_the_tables() -> None:
    told = rows("docs/proof.md", "### The proxies: law, patents, grants")
    base = wanted("tiny_first", REFERENCE)
    for name, (average, gain, _, *domains) in told.items():
        own = wanted("tiny_first", name)
        assert float(average) == pytest.approx(own, abs=6e-4), name
        assert name == REFERENCE or percent(gain) == pytest.approx(100 * (own / base - 1), abs=0.06), name
        check_domains("tiny_first", name, domains)
    assert list(told) == sorted(told, key=lambda name: wanted("tiny_first", name))


def test_every_price_stands_beside_the_loss_that_it_bought() -> None:
    told = rows("docs/costs.md", "### The price list of the proof")
    prices = {row["mixture"]: row for row in pl.read_csv(KEPT / "costs.csv").iter_rows(named=True)}
    for name, (runs, flops, share, average, gain, predicted, _) in told.items():
        own = prices.get(name, {"search_runs": 0, "search_flops": 0, "large_flops": 1, "predicted_gain_percent": None})
        assert float(runs) == own["search_runs"] and float(flops) == pytest.approx(own["search_flops"], rel=0.04), name
        assert percent(share) == pytest.approx(100 * own["search_flops"] / own["large_flops"], abs=0.51), name
        assert float(average) == pytest.approx(wanted("tiny_first", name), abs=6e-4), name
        lower = 100 * (1 - wanted("tiny_first", name) / wanted("tiny_first", REFERENCE))
        assert name == REFERENCE or percent(gain) == pytest.approx(lower, abs=0.06), name
        promised = own["predicted_gain_percent"]
        assert predicted == ("" if promised is None else f"{promised:.1f} %"), name


def test_every_larger_run_is_told_with_the_gain_that_the_verdict_finds() -> None:
    told = rows("docs/proof.md", "### At the size of the larger model")
    assert list(told) == list(judged("larger"))
    for name, (runs, _, average, gain, _, _, *domains) in told.items():
        own = judged("larger")[name]
        assert (int(runs), float(average)) == (own["runs"], pytest.approx(own["average_loss"], abs=6e-4)), name
        if name != REFERENCE:
            expected = [own[key] for key in ("gain_percent", "gain_low", "gain_high")]
            assert [float(number) for number in re.findall(r"-?[\d.]+", gain)] == pytest.approx(expected, abs=0.06)
        check_domains("larger", name, domains)


def table(text: str) -> list[list[str]]:
    """The cells of the first table of a text, its head left out."""
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in lines]


def test_every_answer_is_that_of_the_table() -> None:
    told = rows("docs/proof.md", "### Answers")
    answers = pl.read_csv(KEPT / "answers.csv").filter(pl.col("model") == "larger")
    assert set(told) == set(answers["mixture"])
    for name, (runs, *cells) in told.items():
        own = answers.filter(pl.col("mixture") == name)
        assert int(runs) == own["seed"].n_unique(), name
        for task, cell in zip(("lambada", "webquestions"), cells, strict=True):
            assert float(cell) == pytest.approx(own.filter(pl.col("task") == task)["bits_per_byte"].mean(), abs=6e-3)
