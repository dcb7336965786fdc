"""docs/proof.md and README tell what the kept tables hold: every number of their tables of runs is
computed again.
"""

import re
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from bimix.costs.worth import verdict

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "resources" / "observations" / "proof"
WANTED = ["FreeLaw", "NIH ExPorter", "USPTO Backgrounds"]
REFERENCE = "published_baseline"


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """{mixture: the other cells} of the first table under a heading."""
    text = (ROOT / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()[2:]
    cells = [[cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in table]
    return {re.match("`([^`]+)`", own[0])[1]: own[1:] for own in cells}


@cache
def ends(model: str) -> pl.DataFrame:
    """Last losses of a model's mixtures, means over their seeds."""
    losses = pl.read_csv(KEPT / f"{model}.csv")
    last = losses.filter(pl.col("step") == pl.col("step").max())
    return last.group_by("mixture", "domain").agg(pl.col("loss").mean())


def mean(model: str, mixture: str, *domains: str) -> float:
    own = ends(model).filter(pl.col("mixture") == mixture)
    return own.filter(pl.col("domain").is_in(domains or own["domain"].to_list()))["loss"].mean()


@cache
def judged() -> dict[str, dict]:
    """Rows of the verdict on the larger runs."""
    losses = pl.read_csv(KEPT / "larger.csv")
    columns = ("search_runs", "search_flops", "search_percent", "steps_ratio")
    prices = losses.select("mixture").unique().with_columns(pl.lit(None, pl.Float64).alias(name) for name in columns)
    found = verdict(losses, prices, REFERENCE, {}, weights=dict.fromkeys(WANTED, 1))
    return {row["mixture"]: row for row in found.iter_rows(named=True)}


def test_every_mean_and_loss_of_the_proxies_is_that_of_the_tables() -> None:
    told = rows("docs/proof.md", "### The proxies: law, patents, grants")
    base = mean("tiny", REFERENCE, *WANTED)
    for name, (average, gain, _, *domains, whole) in told.items():
        own = mean("tiny", name, *WANTED)
        assert float(average) == pytest.approx(own, abs=6e-4), name
        assert name == REFERENCE or float(gain.removesuffix(" %")) == pytest.approx(100 * (own / base - 1), abs=0.06)
        assert [float(cell) for cell in domains] == pytest.approx([mean("tiny", name, d) for d in WANTED], abs=6e-3)
        assert float(whole) == pytest.approx(mean("tiny", name), abs=6e-4), name
    assert list(told) == sorted(told, key=lambda name: mean("tiny", name, *WANTED))


def test_every_larger_run_is_told_with_the_gain_that_the_verdict_finds() -> None:
    told = rows("docs/proof.md", "### At the size of the larger model")
    assert list(told) == list(judged())
    for name, (runs, average, gain, _, _, *domains, whole) in told.items():
        own = judged()[name]
        assert (int(runs), float(average)) == (own["runs"], pytest.approx(own["average_loss"], abs=6e-4)), name
        if name != REFERENCE:
            expected = [own[key] for key in ("gain_percent", "gain_low", "gain_high")]
            assert [float(number) for number in re.findall(r"-?[\d.]+", gain)] == pytest.approx(expected, abs=0.06)
        assert [float(cell) for cell in domains] == pytest.approx([mean("larger", name, d) for d in WANTED], abs=6e-3)
        assert float(whole) == pytest.approx(mean("larger", name), abs=6e-4), name


def test_the_first_screen_tells_the_same_gains() -> None:
    shown = {
        "8 small runs by design": "by_transfer_8_prior",
        "the paper's 4 small runs": "by_transfer_4_prior",
        "26 small runs": "by_mariner_26",
        "the same 26": "by_regmix_26",
        "the same 4": "by_bimix_4",
        "hand": "wanted_four",
    }
    lines = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in lines]
    told = {shown[own[1]]: own[2:] for own in cells if len(own) == 5 and own[1] in shown}
    assert set(told) == set(shown.values())
    base = mean("tiny", REFERENCE, *WANTED)
    for name, (small, large, whole) in told.items():
        lower = 100 * (mean("tiny", name, *WANTED) / base - 1)
        assert float(small.removesuffix(" %")) == pytest.approx(lower, abs=0.06), name
        if name not in judged():
            assert large == whole == "", name
            continue
        own = judged()[name]
        half = (own["gain_high"] - own["gain_low"]) / 2
        numbers = [float(number) for number in re.findall(r"[\d.]+", large)]
        assert numbers == pytest.approx([own["gain_percent"], half], abs=0.06), name
        rise = 100 * (mean("larger", name) / mean("larger", REFERENCE) - 1)
        assert float(whole.removesuffix(" %")) == pytest.approx(rise, abs=0.6), name


def test_every_answer_is_that_of_the_table() -> None:
    told = rows("docs/proof.md", "### Answers")
    answers = pl.read_csv(KEPT / "answers.csv").filter(pl.col("model") == "larger")
    bits = {
        (mixture, task.lower()): value
        for mixture, task, value in answers.select("mixture", "task", "bits_per_byte").iter_rows()
    }
    assert bits and told
    for name, cells in told.items():
        found = [value for (mixture, _), value in sorted(bits.items()) if mixture == name]
        assert [float(cell) for cell in cells] == pytest.approx(found, abs=6e-3), name
