"""The end of a search: a round that is not needed, the answer beside the best rule by hand."""

import json

import numpy as np
import polars as pl
import pytest
from made_search import DOMAINS, START, runs, tables
from refusals import refused

import gather_losses
import judge_search
import plot_rounds
import propose_round
from bimix.errors import InputError
from bimix.search import rounds
from bimix.search.answer import once

REPORT = {"stopped": None, "expected_gain": 0.01, "noise": None, "proposals": []}
AFTER = REPORT | {"proposals": [{"mixture": "round1"}]}


def test_a_search_ends_where_two_rounds_expect_less_than_the_noise_of_a_run() -> None:
    for gains, ends in (([0.001], False), ([0.01, 0.001], False), ([0.001, 0.001], True), ([0.001, 0.01], False)):
        reports = [REPORT | {"expected_gain": one} for one in gains]
        assert bool(rounds.stopped(reports, None)) == ends
        assert rounds.stopped([REPORT | {"stopped": "since"}, REPORT], None) == "since"
        assert not rounds.stopped([one | {"noise": 1e-4} for one in reports], None)


def test_a_round_after_the_end_is_the_one_before_again(tmp_path) -> None:
    observed = runs(START)
    flags = tables(tmp_path, observed)
    mixtures = pl.read_csv(tmp_path / "mixtures.csv")
    first = mixtures.filter(pl.col("mixture") == "m4").with_columns(mixture=pl.lit("round1"))
    pl.concat([mixtures, first]).write_csv(tmp_path / "mixtures.csv")
    before, report, out = (tmp_path / name for name in ("1.json", "2.json", "next.csv"))
    before.write_text(json.dumps(AFTER | {"stopped": "nothing was left."}))
    flags += ["--out", str(out), "--report", str(report), "--reports", str(before)]
    propose_round.main([*flags, "--round", "2"])
    assert pl.read_csv(out)["mixture"].unique().to_list() == ["round2"]
    assert pl.read_csv(out)["proportion"].to_list() == pytest.approx(START[4].tolist(), abs=1e-6)
    said = json.loads(report.read_text())
    assert said["stopped"] == "nothing was left." and said["proposals"] == []
    refused("--round must be the next one", propose_round.main, [*flags, "--round", "3"])


def test_a_search_ends_where_its_budget_is_spent(tmp_path) -> None:
    """Five first runs and one a round, 6e10 FLOPs each; 1 % is 4.2e11: seven."""
    plan = tmp_path / "plan.csv"
    plan.write_text("name,parameters,tokens\nsmall,1e4,1e6\nlarge,7e5,1e7\n")
    flags = [*tables(tmp_path, runs(START)), "--models", str(plan), "--large", "large", "--offered", "small"]
    out, report = tmp_path / "next.csv", tmp_path / "report.json"
    flags += ["--out", str(out), "--report", str(report)]
    propose_round.main([*flags, "--round", "1", "--budget", "1%", "--count", "2"])
    assert pl.read_csv(out)["mixture"].n_unique() == 2 and not json.loads(report.read_text())["stopped"]
    with pytest.raises(
        InputError, match=r"5 runs took 3e\+11 FLOPs, and with a round of 6e\+10 the budget of 3e\+11 is spent"
    ):
        propose_round.main([*flags, "--round", "1", "--budget", "3e11"])
    before = tmp_path / "1.json"
    before.write_text(json.dumps(AFTER))
    mixtures = pl.read_csv(tmp_path / "mixtures.csv")
    again = mixtures.filter(pl.col("mixture") == "m4").with_columns(mixture=pl.lit("round1"))
    pl.concat([mixtures, again]).write_csv(tmp_path / "mixtures.csv")
    propose_round.main([*flags, "--round", "2", "--budget", "3e11", "--reports", str(before)])
    assert "the budget of 3e+11 is spent" in json.loads(report.read_text())["stopped"]
    refused("--budget needs --models", propose_round.main, [*flags[:4], "--out", str(out), "--budget", "1%"])


def test_the_losses_of_such_a_round_are_not_gathered_again(tmp_path) -> None:
    for name, loss in (("se", 2.0), ("round1", 1.5), ("round2", 1.5)):
        pl.DataFrame({"step": [1], "tokens": [8], "domain": ["a"], "loss": [loss]}).write_parquet(tmp_path / name)
    names, out = ["se", "round1", "round2"], tmp_path / "out.parquet"
    flags = ["--losses", *(str(tmp_path / name) for name in names), "--seeds", "1", "1", "1", "--out", str(out)]
    gather_losses.main([*flags, "--names", *names])
    assert pl.read_parquet(out)["mixture"].to_list() == ["se", "round1"]


def judged(folder, shares, hand: int | None, **changes) -> tuple[pl.DataFrame, str, dict]:
    observed = runs(shares)
    names = (*("baseline" if number == hand else f"m{number}" for number in range(len(shares) - 1)), "round1")
    observed = type(observed)(names, DOMAINS, observed.steps, DOMAINS, shares, observed.losses)
    flags = tables(folder, observed, seeds=2)
    first, second = folder / "1.json", folder / "2.json"
    proposal = {"mixture": "round1", "voice": "law", "promised": 3.0, "deviation": 0.01, "expected_gain": 0.01}
    first.write_text(json.dumps(REPORT | {"proposals": [proposal], "noise": 0.002}))
    second.write_text(json.dumps(REPORT | {"expected_gain": 0.0005, "noise": 0.002} | changes))
    places = {name: folder / name for name in ("found.json", "rounds.csv", "answer.txt")}
    flags += ["--reports", str(first), str(second), "--out", str(places["found.json"])]
    judge_search.main([*flags, "--rounds", str(places["rounds.csv"]), "--answer", str(places["answer.txt"])])
    found = json.loads(places["found.json"].read_text())
    return pl.read_csv(places["rounds.csv"]), places["answer.txt"].read_text(), found


def test_the_answer_is_the_best_run_with_its_gain_over_the_best_rule_by_hand(tmp_path) -> None:
    shares = np.concatenate([START, [[0.2, 0.5, 0.3]]])  # in the dip of the truth
    table, answer, found = judged(tmp_path, shares, 0, stopped="two rounds expected little.")
    assert found == pytest.approx({"code": 0.2, "law": 0.5, "web": 0.3})
    # which rules may be that were not run
    assert "Answer: round1" in answer and "Not better than uniform, the best rule by hand" in answer
    assert "It ended since two rounds expected little." in answer
    assert table["round"].to_list() == [0, 0, 0, 0, 0, 1, 2]
    assert table["voice"].to_list()[:2] == ["by hand", "start"]
    assert table["stopped"].to_list()[-1] == "two rounds expected little."
    figure = plot_rounds.draw(table)
    assert len(figure.axes) >= 2


def test_a_search_that_finds_nothing_says_so(tmp_path) -> None:
    shares = np.concatenate([START[1:], [[0.2, 0.5, 0.3]], START[:1]])
    _, answer, found = judged(tmp_path, shares, 4)
    assert found == pytest.approx({"code": 0.2, "law": 0.5, "web": 0.3})
    assert "No searched mixture is better than baseline, a rule that needs no search." in answer
    assert "All rounds were run" in answer
    # two names of one training count once
    observed = runs(np.concatenate([START, START[:1]]))
    assert once(observed).mixtures == observed.mixtures[:5]


@pytest.mark.parametrize(("first", "reference", "margin"), [(0, [0.4, 0.2, 0.4], 0.03), (1, [0.6, 0.0, 0.4], 0.0)])
def test_a_rule_by_hand_that_breaks_the_constraints_is_no_rival_and_a_miss_is_said(tmp_path, first, reference, margin):
    """wanted_8 loses 24 % on code; in the second case no run keeps the constraints."""
    rows = [
        [0.4, 0.2, 0.4],
        [0.33, 0.34, 0.33],
        [0.05, 0.9, 0.05],
        [0.3, 0.3, 0.4],
        [0.35, 0.25, 0.4],
        [0.36, 0.28, 0.36],
    ]
    shares, names = np.array(rows[first:]), ("baseline", "uniform", "wanted_8", "m3", "m4", "round1")[first:]
    observed = runs(shares)
    flags = tables(tmp_path, type(observed)(names, DOMAINS, observed.steps, DOMAINS, shares, observed.losses), seeds=2)
    objective = {"kind": "no_worse_than", "margin": margin}
    flags += ["--weights", '{"law": 1}', "--objective", json.dumps(objective), "--hand", "4", "8"]
    report = REPORT | {"noise": 0.002, "expected_gain": 0.01, "best_missed": 0.1 * first}
    (tmp_path / "1.json").write_text(json.dumps(report))
    flags += [
        "--reference",
        json.dumps(dict(zip(DOMAINS, reference, strict=True))),
        "--reports",
        str(tmp_path / "1.json"),
    ]
    flags += ["--rounds", str(tmp_path / "rounds.csv"), "--answer", str(tmp_path / "answer.txt")]
    judge_search.main([*flags, "--out", str(tmp_path / "found.json")])
    answer = (tmp_path / "answer.txt").read_text()
    assert "wanted_8" not in answer
    assert ("No run keeps all constraints; this one misses them least." in answer) == bool(first)
    assert ("the last expected 1 % more" in answer) == (not first), "a gain over no run that keeps them is no number"


def test_an_answer_where_no_rule_by_hand_holds_the_objective_names_none(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(judge_search, "by_hand", lambda *_: {})
    answer = judged(tmp_path, np.concatenate([START, [[0.2, 0.5, 0.3]]]), None)[1]
    assert answer.startswith("Answer: round1") and "by hand" not in answer
