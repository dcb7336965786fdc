"""The step of a comparison is one that most runs share, and every run that is left out is named."""

import json
from pathlib import Path

import made_laws
import polars as pl
import pytest
from refusals import refused

import propose_round
import solve_mixture
from bimix.observations.chosen import choose

LOSSES, MIXTURES = made_laws.tables(made_laws.law(2), 2, runs=8)
LAST = made_laws.STEPS[-1]


def longer(losses: pl.DataFrame, name: str, times: float = 0.9) -> pl.DataFrame:
    """The losses, and those of one run at twice the last step."""
    further = losses.filter((pl.col("mixture") == name) & (pl.col("step") == LAST))
    return pl.concat([losses, further.with_columns(pl.col("step") * 2, pl.col("loss") * times)])


def answered(folder: Path, losses: pl.DataFrame, *more: str) -> tuple[dict, str]:
    losses.write_csv(folder / "losses.csv")
    MIXTURES.write_csv(folder / "mixtures.csv")
    files = ["--losses", str(folder / "losses.csv"), "--mixtures", str(folder / "mixtures.csv")]
    solve_mixture.main([*files, "--laws", "bimix", "--out", str(folder / "out"), *more])
    return json.loads((folder / "out/verdict.json").read_text()), (folder / "out/summary.txt").read_text()


def test_one_run_that_was_measured_later_is_not_the_whole_comparison(tmp_path, capsys) -> None:
    losses = longer(LOSSES, "m03")
    chosen = choose(losses, {}, None)
    assert chosen.step == LAST and len(chosen.mixtures) == 8 and "m03" in chosen.remarks[0]
    assert choose(LOSSES, {}, None).remarks == () and choose(LOSSES, {}, None).losses.height == LOSSES.height
    longest = pl.concat([longer(LOSSES, f"m0{n}") for n in range(5)]).unique()
    chosen = choose(longest, {}, None)  # five of eight are most
    assert chosen.step == 2 * LAST and sorted(chosen.mixtures) == [f"m0{n}" for n in range(5)]
    losses.write_csv(tmp_path / "losses.csv")
    MIXTURES.write_csv(tmp_path / "mixtures.csv")
    files = ["--losses", str(tmp_path / "losses.csv"), "--mixtures", str(tmp_path / "mixtures.csv"), "--law", "bimix"]
    propose_round.main([*files, "--out", str(tmp_path / "next.csv"), "--report", str(tmp_path / "report.json")])
    worst = (
        LOSSES.filter(pl.col("step") == LAST).group_by("mixture").agg(pl.col("loss").mean()).sort("loss")["mixture"][-1]
    )
    assert json.loads((tmp_path / "report.json").read_text())["best"] != worst
    assert "m03" in capsys.readouterr().err


def test_a_step_that_few_runs_have_is_refused_and_another_is_named() -> None:
    assert refused(f"{2 * LAST}.*{LAST}", choose, longer(LOSSES, "m03"), {}, 2 * LAST)
    once = LOSSES.with_columns(metric=False)
    metric = LOSSES.filter((pl.col("step") == LAST) & (pl.col("domain") == "web"))
    table = pl.concat([once, metric.with_columns(domain=pl.lit("arc"), metric=True)])
    assert choose(table, {"arc": 1.0}, None).step == LAST
    assert refused("arc.*8,000", choose, table, {"arc": 1.0}, 4000)


def test_two_evaluations_are_solved_at_the_one_step_asked(tmp_path) -> None:
    two = LOSSES.filter(pl.col("step") >= 6000)
    facts, _ = answered(tmp_path, two)
    assert facts["measured"] is None or facts["measured"]["step"] == LAST
    assert choose(two, {}, 6000).losses["step"].unique().to_list() == [6000]
    assert answered(tmp_path, two, "--step", "6000")[0]["take"]


def test_a_run_without_one_of_its_losses_is_left_out_and_named(tmp_path) -> None:
    cell = (pl.col("mixture") == "m05") & (pl.col("domain") == "code") & (pl.col("step") == LAST)
    facts, page = answered(tmp_path, LOSSES.filter(~cell))
    assert "m05" not in (facts["measured"] or {"mixtures": {}})["mixtures"] and "left out: m05" in " ".join(
        page.split()
    )
    assert choose(LOSSES.filter(~cell), {"web": 1.0}, None).remarks == (), "it has every loss that counts"
    files = [tmp_path / "losses.csv", tmp_path / "mixtures.csv", tmp_path / "out"]
    argv = [part for pair in zip(["--losses", "--mixtures", "--out"], map(str, files), strict=True) for part in pair]
    assert refused("m05", solve_mixture.main, [*argv, "--reference", "m05"])


def test_a_copy_of_a_run_is_no_second_seed() -> None:
    seeded = LOSSES.with_columns(seed=1)
    copy = seeded.filter(pl.col("mixture") == "m02").with_columns(seed=2)
    chosen = choose(pl.concat([seeded, copy]), {}, None)
    assert chosen.losses.height == seeded.height and "m02" in chosen.remarks[0]
    other = copy.with_columns(pl.col("loss") * 1.001)
    assert choose(pl.concat([seeded, other]), {}, None).losses.height == seeded.height + other.height


def test_the_first_of_the_largest_size_is_the_reference() -> None:
    small = LOSSES.filter(pl.col("mixture") < "m04").with_columns(parameters=1e6)
    large = LOSSES.filter(pl.col("mixture") >= "m03").with_columns(parameters=8e6)
    chosen = choose(pl.concat([small, large]), {}, None)
    assert chosen.mixtures[0] == "m03" and chosen.compared.height == small.height + large.height
    assert choose(pl.concat([small, large]), {}, None, 1e6).mixtures[0] == "m00"


def test_runs_of_one_size_are_read_at_one_step_where_their_tokens_are_not_known() -> None:
    sized = LOSSES.with_columns(parameters=1e6)
    large = LOSSES.filter(pl.col("mixture") < "m04").with_columns(parameters=8e6)
    late = longer(sized, "m03").filter((pl.col("mixture") != "m05") | (pl.col("step") < LAST))
    chosen = choose(pl.concat([late, large]), {}, None)
    assert chosen.step == LAST and chosen.mixtures == ("m00", "m01", "m02", "m03")
    small = chosen.losses.filter(parameters=1e6)
    assert small["step"].max() == LAST and "m05" not in small["mixture"].to_list()
    assert "m03" in chosen.remarks[0] and "m05" in chosen.remarks[0]
    # with the tokens of each run a law knows how long it was
    known = pl.concat([late, large]).with_columns(tokens=pl.col("step") * 1e3)
    assert choose(known, {}, None).losses.height == known.height
    assert choose(known, {}, None).compared["step"].max() == LAST


def test_a_run_that_lacks_the_step_is_not_said_to_go_beyond_it() -> None:
    there = (pl.col("mixture") == "m03") & (pl.col("step") == LAST)
    (said,) = choose(longer(LOSSES, "m03").filter(~there), {}, None).remarks
    assert said.count("m03") == 1 and "left out: m03" in said


@pytest.mark.parametrize("runs", [2, 1])
def test_few_runs_are_compared_where_there_are_no_more(runs) -> None:
    few = LOSSES.filter(pl.col("mixture") < f"m0{runs}")
    assert len(choose(few, {}, LAST).mixtures) == runs
