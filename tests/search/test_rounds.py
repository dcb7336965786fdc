"""Rounds of a search: kriging against its definition, and a truth that no law has the form of."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, of_schedules
from made_search import DOMAINS, START, runs, tables, truth, written
from refusals import refused

import propose_round
from bimix.errors import InputError
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective
from bimix.search.posterior import Shares, kriged, seen_of, squares, total_variation
from bimix.search.rounds import Search, stuck
from bimix.transfer.unseen import confounded


def search_of(observed: Observations, noise: float | None = 0.001, upper=(1.0, 1.0, 1.0), **objective) -> Search:
    fitted = laws.fit("transfer", observed)
    goal = Goal(fitted, 100, Objective(**objective))
    return Search(goal, fitted, observed, np.zeros(3), np.array(upper), noise)


def test_kriging_goes_through_runs_without_noise_and_is_unknown_far_away() -> None:
    values = np.array([0.01, -0.02, 0.03, 0.0, 0.01])
    found = kriged(START, values, 0.02, 1e-6)
    assert found.mean(START) == pytest.approx(values, abs=1e-6)
    assert found.spread(START).max() < 1e-4
    far = np.array([[0.0, 0.0, 1.0]])
    assert found.spread(far)[0] > 10 * found.spread(START).max()
    noisy = kriged(START, values, 0.02, 0.05)
    assert np.abs(noisy.mean(START)).max() < 0.6 * np.abs(values).max()  # a lucky run is shrunk


def test_runs_over_schedules_are_read_at_their_own_ends() -> None:
    observed = of_schedules(1)
    fitted = laws.fit("transfer", observed)
    search = Search(Goal(fitted, 2000, Objective()), fitted, observed, np.zeros(2), np.ones(2), None)
    assert search.seen.levels == pytest.approx(np.log(observed.last().mean(axis=1)))
    assert search.law.left < 0.02


@pytest.mark.parametrize("pools", [None, {"code": 300.0, "law": 500.0, "web": 1e6}])
def test_the_jackknife_of_a_gain_is_that_of_the_gains_without_each_run(pools) -> None:
    """Law, kriging and both of the runs that are left, read at the same run."""
    observed, one, other = runs(START, 0.01), START[0], np.array([0.2, 0.5, 0.3])
    fitted, objective = laws.fit("transfer", observed), Objective(weights={"law": 1, "web": 2})
    read = {"tokens": 1000.0 if pools else None, "pools": pools}

    def search(law: dict, rows: list[int], errors=None) -> Search:
        goal = Goal(laws.at_run(law, **read), 100, objective)
        return Search(goal, law, observed.take(rows), np.zeros(3), np.ones(3), 0.01, errors)

    whole = search(fitted, list(range(5)))
    left = whole.law.errors
    gains = [search(law, [n for n in range(5) if n != run], left) for run, law in enumerate(left.refitted)]
    gains = np.array([each.gain(one, other)[0] for each in gains])
    expected = np.sqrt(4 / 5 * ((gains - gains.mean()) ** 2).sum())
    gain, known = whole.gain(one, other)
    assert whole.refitted_gain(one, other) == (gain, pytest.approx(np.hypot(known, expected), rel=1e-9))
    assert expected > 1e-4 and whole.refitted_gain(one, one) == whole.gain(one, one)
    few = search(fitted, [0, 1])
    assert few.refitted_gain(one, other) == few.gain(one, other)  # too few to leave one out


def test_slopes_are_those_of_the_means() -> None:
    search = search_of(runs(START), weights={"law": 2, "web": 1})
    at = np.array([0.3, 0.45, 0.25])
    for voice in (search.law, search.second):
        for one in np.eye(3):
            step = 1e-6 * one
            change = (voice.mean((at + step)[None]) - voice.mean((at - step)[None]))[0] / 2e-6
            assert voice.slope(at) @ one == pytest.approx(change, rel=1e-4, abs=1e-6)


def test_the_shares_rank_by_what_is_wanted_and_never_the_reverse() -> None:
    observed = runs(START)
    search = search_of(observed, weights={"law": 1})
    voice = Shares(search.goal, observed, search.seen)
    assert voice.rank(np.array([[0.1, 0.9, 0.0], [0.9, 0.1, 0.0]])) == pytest.approx(np.log([0.903, 0.103]))
    upside = search.seen
    reverse = Shares(search.goal, observed, type(upside)(upside.names, upside.shares, -upside.levels, upside.broken))
    assert reverse.line[1] == 0


def test_where_benchmarks_alone_weigh_the_law_proposes_in_all_turns() -> None:
    observed = replace(runs(START), loss_domains=("arc", "piqa", "web"))
    search = search_of(observed, weights={"arc": 1, "piqa": 1})
    assert [search.next(turn).voice for turn in (0, 1)] == ["law", "law"]
    apart = search.next(1, others=search.next(0).shares[None]).shares
    assert total_variation(apart[None], search.next(0).shares[None]) >= 0.05 - 1e-6
    assert search_of(observed, weights={"arc": 1, "web": 1}).next(1).voice == "shares"


def test_a_proposal_is_within_bounds_and_away_from_all_runs() -> None:
    search = search_of(runs(START), upper=(0.4, 0.7, 0.5), weights={"law": 1, "web": 1})
    for turn, far in ((0, False), (1, False), (0, True)):
        found = search.next(turn, far=far).shares
        assert found.sum() == pytest.approx(1) and (found <= np.array([0.4, 0.7, 0.5]) + 1e-9).all()
        assert total_variation(found[None], START).min() >= 0.05 - 1e-6
    first = search.next(0)
    second = search.next(0, others=first.shares[None])
    assert total_variation(first.shares[None], second.shares[None])[0, 0] >= 0.05 - 1e-6


def test_a_round_far_from_the_best_run_comes_after_two_that_found_none_better(tmp_path) -> None:
    search = search_of(runs(START), weights={"law": 1})
    best = START[[search.best]]
    assert squares(search.next(0, far=True).shares[None], best)[0, 0] >= 0.3**2
    offered = np.random.default_rng(1).dirichlet(np.ones(3), 40)
    found = search.next(1, offered, far=True)
    assert squares(found.shares[None], best)[0, 0] >= 0.3**2 and found.voice == "law, away from the best"
    near = offered[squares(offered, best)[:, 0] < 0.3**2]
    assert search.next(0, near, far=True).candidate == search.next(0, near).candidate, "where none is far the lowest"
    rounds = [["a"], ["b", "c"], ["d"], ["e"], ["f"]]
    assert [stuck("m0", rounds[:n]) for n in range(6)] == [False, False, True, False, False, True]
    assert [stuck("c", rounds[:n]) for n in range(2, 6)] == [False, False, True, False]
    order, report = np.roll(np.arange(5), -search_of(runs(START)).best), tmp_path / "report.json"  # the best first
    for names, voice in (
        (("m0", "m1", "m2", "round1", "round2"), "law, away from the best"),
        (("round2", "m1", "m2", "round1", "m3"), "law"),
        (("m0", "m1", "m2", "m3", "round1"), "law"),
    ):
        flags = tables(tmp_path, replace(runs(START[order]), mixtures=names))
        propose_round.main([*flags, "--out", str(tmp_path / "next.csv"), "--report", str(report)])
        said = json.loads(report.read_text())
        assert said["best"] == names[0] and said["proposals"][0]["voice"] == voice


def test_domains_that_the_runs_do_not_separate_are_separated_once(tmp_path) -> None:
    """Runs without code have 0.3 of law, all: the first round is another share of law, without code."""
    shares = np.array([[0, 0.3, 0.7], [0, 0.3005, 0.6995], [0.3, 0.2, 0.5], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
    assert (0, 1) in confounded(shares)
    flags, out, report = tables(tmp_path, runs(shares)), tmp_path / "next.csv", tmp_path / "report.json"

    def proposed(weights: str, *more: str) -> np.ndarray:
        propose_round.main([*flags, "--weights", weights, *more, "--out", str(out), "--report", str(report)])
        return pl.read_csv(out).sort("mixture", "domain")["proportion"].to_numpy()

    found = proposed('{"code": 1, "web": 1}')
    assert found[0] == 0 and abs(found[1] - 0.3) > 0.05 and confounded(np.vstack([shares, found])) == []
    assert json.loads(report.read_text())["proposals"][0]["voice"] == "law, to separate domains"
    for weights, more in (('{"web": 1}', ()), ('{"code": 1}', ("--lower", '{"code": 0.01}'))):
        proposed(weights, *more)
        assert json.loads(report.read_text())["proposals"][0]["voice"] == "law"


def test_both_voices_hold_the_constraints_by_the_law() -> None:
    """Without them the shares ask for nothing but the wanted domain."""
    reference = dict(zip(DOMAINS, START[0], strict=True))
    bound = search_of(runs(START), kind="no_worse_than", weights={"law": 1}, reference=reference, margin=0.02)
    free = search_of(runs(START), weights={"law": 1})
    assert bound.goal.excess(free.next(1).shares).max() > 0.01
    for turn, far in ((0, False), (1, False), (0, True)):
        assert bound.goal.excess(bound.next(turn, far=far).shares).max() <= 1e-6


def test_rounds_find_what_one_shot_of_the_law_misses() -> None:
    grid = np.array([(i, j, 60 - i - j) for i in range(61) for j in range(61 - i)]) / 60
    best = truth(grid).mean(axis=1).min()
    shares = START
    for _ in range(6):
        shares = np.concatenate([shares, search_of(runs(shares)).next(0).shares[None]])
    found = truth(shares).mean(axis=1).min()
    designed = np.random.default_rng(0).dirichlet(np.ones(3), 11)
    fitted = laws.fit("transfer", runs(designed))
    pick = grid[laws.predict(fitted, grid, [100])[:, 0].mean(axis=1).argmin()]
    one_shot = truth(pick[None]).mean()
    assert found - best < 0.5 * (one_shot - best)


def test_the_best_run_is_the_best_by_its_posterior_and_holds_the_constraints() -> None:
    lucky = runs(np.concatenate([START, START[[2]] + [0.004, -0.002, -0.002]]))
    lucky.losses[5] *= 0.97
    search = search_of(lucky, noise=0.02)
    raw, level = search.seen.levels, search.posterior(search.seen.shares)[0]
    assert level[5] > raw[5] + 0.01
    reference = dict(zip(DOMAINS, START[0], strict=True))
    held = search_of(runs(START), kind="no_worse_than", reference=reference, margin=0.0)
    assert held.seen.broken[held.best] == held.seen.broken.min() == held.seen.broken[0] == 0
    assert (held.seen.broken[1:] > 0).tolist() == (truth(START[1:]) > truth(START[:1])).any(axis=1).tolist()
    assert (held.goal.excess(START[1:]) > 0.01).any(), "the law takes some for worse than the reference"
    assert held.posterior(START)[0] == pytest.approx(held.seen.levels, abs=0.03), "which moves no level"


def test_a_run_above_an_upper_bound_is_not_the_best() -> None:
    free = search_of(runs(START))
    upper = np.where(np.arange(3) == START[free.best].argmax(), START[free.best].max() - 0.01, 1.0)
    bounded = search_of(runs(START), upper=tuple(upper))
    assert bounded.best != free.best and (START[bounded.best] <= upper).all()


def test_candidates_are_chosen_that_were_not_measured() -> None:
    search = search_of(runs(START), weights={"law": 1})
    offered = np.concatenate([START, [[0.1, 0.85, 0.05], [0.9, 0.05, 0.05]]])
    assert search.next(0, offered).candidate == 5
    refused("none of the 5 candidates is left", search.next, 0, START)
    refused("7 lie outside the bounds", search_of(runs(START), upper=(0.34, 0.34, 0.34)).next, 0, offered)


def test_a_search_ends_where_bounds_leave_nothing_new() -> None:
    middle = np.full((1, 3), 1 / 3)
    search = search_of(runs(np.concatenate([START, middle])), upper=(0.35, 0.35, 0.35))
    refused("the search has ended", search.next, 0)


def test_the_script_proposes_names_reports_and_is_the_same_twice(tmp_path, capsys) -> None:
    flags = [*tables(tmp_path, runs(START), seeds=2), "--weights", '{"law": 1}', "--count", "2"]
    out, report = tmp_path / "next.csv", tmp_path / "report.json"
    propose_round.main([*flags, "--out", str(out), "--report", str(report)])
    first, said = out.read_text(), json.loads(report.read_text())
    found = pl.read_csv(out)
    assert found["mixture"].unique(maintain_order=True).to_list() == ["round1", "round1_2"]
    assert found.group_by("mixture").agg(pl.col("proportion").sum())["proportion"].to_list() == pytest.approx([1, 1])
    assert [one["voice"] for one in said["proposals"]] == ["law", "shares"]
    # seeds differ by 0.1 %, up and down by turns: paired by seed, with four degrees of freedom
    assert said["noise"] == pytest.approx(0.001 * (0.5 * 4.8 / 4) ** 0.5, rel=0.01)
    assert "expected gain left" in capsys.readouterr().out
    propose_round.main([*flags, "--out", str(out)])
    assert out.read_text() == first
    propose_round.main([*flags, "--round", "4", "--out", str(out), "--report", str(report)])
    assert pl.read_csv(out)["mixture"][0] == "round4"
    assert json.loads(report.read_text())["proposals"][0]["voice"] == "law"


def test_the_script_chooses_among_candidates(tmp_path) -> None:
    flags = tables(tmp_path, runs(START))
    offered = np.concatenate([START, np.random.default_rng(1).dirichlet(np.ones(3), 20)])
    written(tmp_path / "offered.csv", [f"m{number}" for number in range(25)], offered)
    out = tmp_path / "next.csv"
    propose_round.main([*flags, "--candidates", str(tmp_path / "offered.csv"), "--out", str(out)])
    found = pl.read_csv(out)
    name = found["mixture"][0]
    assert int(name[1:]) >= 5
    report = tmp_path / "report.json"
    for number, voice in ((1, "law"), (2, "shares"), (3, "law")):  # turns over rounds
        more = ["--round", str(number), "--report", str(report), "--out", str(tmp_path / "turn.csv")]
        propose_round.main([*flags, "--candidates", str(tmp_path / "offered.csv"), *more])
        assert json.loads(report.read_text())["proposals"][0]["voice"] == voice
    assert found["proportion"].to_list() == pytest.approx(offered[int(name[1:])].tolist())
    among = [*flags, "--candidates", str(tmp_path / "offered.csv"), "--out", str(out)]
    propose_round.main([*among, "--round", "1", "--report", str(report)])
    kept = pl.read_csv(out)["mixture"].unique().to_list()
    said = json.loads(report.read_text())
    report.write_text(json.dumps(said | {"expected_gain": 0.0}))
    written(tmp_path / "mixtures.csv", [f"m{number}" for number in range(25)], offered)
    propose_round.main([*among, "--noise", "1", "--round", "2", "--reports", str(report)])
    assert pl.read_csv(out)["mixture"].unique().to_list() == kept, "it has ended: the last round's again"
    written(tmp_path / "mixtures.csv", [f"m{number}" for number in range(5)], START)
    with pytest.raises(InputError, match="all of its 5 mixtures were measured"):
        propose_round.main([*flags, "--candidates", str(tmp_path / "mixtures.csv"), "--out", str(out)])


def test_a_law_over_sizes_proposes_for_the_run_that_is_asked(tmp_path) -> None:
    """And not for the largest that was run."""
    flags = [
        *tables(tmp_path, runs(np.random.default_rng(3).dirichlet(np.full(3, 2.0), 10))),
        "--weights",
        '{"law": 1}',
    ]
    losses, size = pl.read_csv(tmp_path / "losses.csv"), tmp_path / "size.json"
    sizes = [(1.0, 1e6, 1e8), (0.9, 4e6, 4e8), (0.85, 8e6, 8e8)]
    columns = [losses.with_columns(pl.col("loss") * by, parameters=of, tokens=tokens) for by, of, tokens in sizes]
    pl.concat(columns).write_csv(tmp_path / "losses.csv")
    size.write_text('{"parameters": 1e9, "tokens": 2e10}')
    out, report = str(tmp_path / "next.csv"), tmp_path / "report.json"

    def promised(*more: str) -> float:
        propose_round.main([*flags, *more, "--out", out, "--report", str(report)])
        return json.loads(report.read_text())["proposals"][0]["promised"]

    asked = promised("--asked", str(size))
    assert asked == promised("--parameters", "1e9", "--run-tokens", "2e10") < 0.95 * promised()
    assert asked == promised("--asked", str(size), "--run-tokens", "2e10"), "as a workflow calls it"
    promised()
    said = json.loads(report.read_text())
    assert said["best_measured"] == pytest.approx(said["best_posterior"], rel=0.02), "both of the largest model"


def test_rules_by_hand_go_first_where_few_runs_read_the_wanted_domains_so_often(tmp_path, capsys) -> None:
    """Until two runs do, the new ones counted; then the law proposes."""
    tokens = {"code": 1e6, "law": 4e8, "web": 6e8}
    started = np.array([[0.01, 0.4, 0.59], [0.02, 0.8, 0.18], [0.01, 0.2, 0.79], [0.5, 0.3, 0.2]])
    flags = ["--weights", '{"code": 1}', "--tokens", json.dumps(tokens), "--run-tokens", "1e8"]
    out, report = str(tmp_path / "next.csv"), tmp_path / "report.json"

    def proposed(count: int, *more: str) -> dict:
        given = [*tables(tmp_path, runs(started)), *flags, "--count", str(count), *more]
        propose_round.main([*given, "--out", out, "--report", str(report)])
        found = pl.read_csv(out)
        return {name: one["proportion"].to_numpy() for (name,), one in found.group_by("mixture", maintain_order=True)}

    found = proposed(3, "--hand", "8")  # one run, of 50 times, reads code as often
    assert list(found) == ["wanted_8", "round1", "round1_2"]
    assert found["wanted_8"] == pytest.approx([0.08, 0.368, 0.552], abs=1e-6)
    said = json.loads(report.read_text())["proposals"]
    assert [one["voice"] for one in said] == ["rule by hand", "law", "shares"]
    assert "next: wanted_8, proposed by the rule by hand" in capsys.readouterr().out
    few = ["--max-epochs", "7"]
    assert list(proposed(1, "--hand", "16", "8", *few)) == ["wanted_7"], "with fewer epochs than any rule the fewest"
    assert list(proposed(1, "--hand", "8", "6.5", *few)) == ["wanted_6.5"]
    assert list(proposed(1)) == ["round1"]
    started = np.concatenate([started[:3], found["wanted_8"][None]])
    assert list(proposed(2, "--hand", "8")) == ["wanted_8_uniform", "round1"]  # the plain one was run
    started = np.concatenate([started, [[0.081, 0.2, 0.719]]])
    assert list(proposed(1, "--hand", "8")) == ["round1"]
    started = started[:3]
    offered = np.array([[0.079, 0.35, 0.571], [0.09, 0.4, 0.51], [0.1, 0.1, 0.8], [0.02, 0.38, 0.6]])
    written(tmp_path / "pool.csv", ["near", "often", "other", "seldom"], offered)
    among = ["--hand", "8", "--candidates", str(tmp_path / "pool.csv"), "--round", "1", "--max-epochs", "16"]
    found = proposed(3, *among)  # `near` reads code 7.9 times, which are too few
    assert list(found)[:2] == ["often", "other"] and found["often"] == pytest.approx(offered[1])
    assert [one["voice"] for one in json.loads(report.read_text())["proposals"]][:2] == ["rule by hand"] * 2
    assert "rule by hand" not in {one["voice"] for one in json.loads(report.read_text())["proposals"][2:]}
    proposed(1, *among, "--upper", '{"code": 0.085}')
    assert json.loads(report.read_text())["proposals"][0]["voice"] == "law", "the bounds leave no rule among them"
    with pytest.raises(InputError, match="without --reports: name rules by hand under `start`"):
        proposed(1, *among, "--reports", str(report), "--round", "2")
    flags = flags[:2]
    refused(r"rules by hand need weights of some domains .* --tokens", proposed, 1, "--hand", "8")


@pytest.mark.parametrize("sizes", [True, False])
def test_runs_of_a_small_model_or_a_short_schedule_break_no_limit_of_a_large_one(sizes: bool) -> None:
    """Every mixture ran at both: at the small one all losses are half as large again."""
    shares = mixtures(0, 12, 3)
    small, n = runs(shares), len(shares)
    observed = replace(
        small,
        mixtures=small.mixtures * 2,
        proportions=np.tile(shares, (2, 1)),
        losses=np.concatenate([1.5 * small.losses, small.losses]),
        parameters=np.repeat([1e7, 1e8], n) if sizes else None,
        pools=None if sizes else np.full((2 * n, 3), 1e12),
        tokens=np.repeat([2e8, 2e9], n),
    )
    fitted = laws.fit("transfer", observed)
    objective = Objective(kind="no_worse_than", reference=dict(zip(DOMAINS, shares[0], strict=True)), margin=0.1)
    goal = Goal(laws.at_run(fitted, 1e8 if sizes else None, 2e9), 100, objective)
    broken = seen_of(goal, observed, fitted).broken
    worse = (truth(shares) / truth(shares[:1]) > 1.1001).any(axis=1)
    better = (truth(shares) / truth(shares[:1]) < 1.0999).all(axis=1)
    assert better.sum() > 1 and (broken[:n][better] == 0).all() and (broken[n:][better] == 0).all()
    assert worse.sum() > 1 and (broken[:n][worse] > 0).all() and (broken[n:][worse] > 0).all()
