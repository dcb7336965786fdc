"""Bounds of a run: flags, epochs of its tokens, unanswered domains; distance from the runs."""

import numpy as np
import pytest
from refusals import refused

from bimix.errors import InputError
from bimix.optimum.bounds import feasible_bounds, run_bounds, with_least
from bimix.optimum.flags import asked_tokens, note_unlimited, run_tokens_of
from bimix.optimum.report import hull_distance, support


def test_what_no_epochs_follow_from_is_said_where_counts_are_used(capsys: pytest.CaptureFixture) -> None:
    fitted = {"law": "bimix", "domains": ["web", "code", "law"]}
    for tokens, run_tokens in ((None, 1e9), ({"web": 1e9}, None), ({"web": 1, "code": 2, "law": 3}, 1e9)):
        note_unlimited(fitted, tokens, run_tokens)
    assert capsys.readouterr() == ("", "")
    note_unlimited(fitted, {"code": 1e9}, 1e9)
    said, warned = capsys.readouterr()
    assert said == "" and warned == "--tokens does not name web, law: taken to be never repeated.\n"
    note_unlimited(fitted, dict.fromkeys(["web", "code", "law", "wbe"], 1e9), 1e9)
    assert "wbe" in capsys.readouterr().err
    # tokens that no epochs follow from are said where the law reads them
    note_unlimited({"law": "transfer", "domains": ["web"]}, {"web": 1e9}, None)
    assert "--run-tokens): no text is taken to be repeated" in capsys.readouterr().err


def test_a_run_trains_on_what_is_given_or_on_its_steps_of_the_fitted_runs() -> None:
    fitted = {"tokens_per_step": 500.0}
    assert run_tokens_of(fitted, None, 40) == 20_000
    assert run_tokens_of(fitted, 7e9, 40) == run_tokens_of({}, 7e9, None) == 7e9
    assert run_tokens_of(fitted, None, None) is None
    assert run_tokens_of({}, None, 40) is None and run_tokens_of({"tokens_per_step": None}, None, 40) is None
    # a law over sizes is asked for the tokens of its own run
    sized = {"rows": "all", "tokens_per_step": 500.0, "coefficients": {"web": {"run": {"tokens": 9e6}}}}
    assert asked_tokens(sized, None, 40, None) == 9e6
    assert asked_tokens(sized, 7e9, 40, None) == asked_tokens(sized, 7e9, 40, 1e8) == 7e9
    assert asked_tokens(sized, None, 40, 1e8) is None  # another size: its tokens were not said
    one_size = {"law": "transfer", "tokens_per_step": 500.0, "coefficients": {"web": {}}}
    assert asked_tokens(one_size, None, 40, None) == 20_000
    one_size["coefficients"]["web"] = {"run": {"parameters": 1e9, "tokens": 7e9}}  # set to a larger model's run
    assert asked_tokens(one_size, None, 40, None) == 7e9


def fitted(tokens_per_step: float | None = 50.0, **alphas: float) -> dict:
    return {
        "law": "bimix",
        "domains": ["a", "b"],
        "loss_domains": ["a", "b", "c"],
        "coefficients": {name: {"alpha": alphas.get(name, 0.2)} for name in "abc"},
        "proportions_seen": {name: {"min": 0.1, "max": 0.6} for name in "ab"},
        "tokens_per_step": tokens_per_step,
    }


def test_epochs_are_of_the_tokens_that_so_many_steps_train_on_or_refused() -> None:
    # 40 steps of 50 tokens: 2000 in all; two epochs of 300 are 600 of them
    low, high = run_bounds(fitted(), 40, max_epochs=2, tokens={"a": 300, "b": 5000})
    assert low.tolist() == [0, 0] and high.tolist() == [0.3, 1.0]
    _, high = run_bounds(fitted(), 40, max_epochs=2, tokens={"a": 300, "b": 5000}, run_tokens=1000)
    assert high.tolist() == [0.6, 1.0]
    _, high = run_bounds(fitted(), 40, upper={"a": 0.2}, max_epochs=2, tokens={"a": 300, "b": 5000})
    assert high.tolist() == [0.2, 1.0]
    _, high = run_bounds(fitted(), 40, max_epochs=2, tokens={"a": 300})  # of b there is no end
    assert high.tolist() == [0.3, 1.0]
    # epochs of what is not known are refused
    refused("--max-epochs needs --tokens", run_bounds, fitted(), 40, max_epochs=2)
    with pytest.raises(InputError, match=r"needs --run-tokens.*a run of 40 steps"):
        run_bounds(fitted(None), 40, max_epochs=2, tokens={"a": 300, "b": 5000})


def test_by_default_epochs_are_limited_by_the_length_of_the_run() -> None:
    for run_tokens, most in ((1e7, 6), (1e10, 6), (10**10.5, 11), (1e11, 16), (1e13, 16)):
        tokens = {"a": run_tokens / 100, "b": run_tokens}
        assert run_bounds(fitted(), 40, tokens=tokens, run_tokens=run_tokens)[1] == pytest.approx([most / 100, 1])
        high = run_bounds(fitted(), 40, lower={"a": 0.5}, tokens=tokens, run_tokens=run_tokens)[1]
        assert high.tolist() == [0.5, 1]
    # a run of 2,000 reads all text 10 times, and each domain 20 times at most
    tokens = {"a": 20, "b": 180}
    assert run_bounds(fitted(), 40, tokens=tokens)[1] == pytest.approx([0.2, 1])
    assert run_bounds(fitted(), 40, upper={"b": 0.3}, tokens=tokens)[1] == pytest.approx([0.8, 0.3])
    assert run_bounds(fitted(), 40, tokens=tokens, max_epochs=float("inf"))[1].tolist() == [1, 1]


def test_domains_that_did_not_answer_keep_their_floor_and_bounds_may_meet() -> None:
    level = fitted(a=0.0, c=0.0)  # c is not trained on: nothing to keep
    assert run_bounds(level, 40)[0].tolist() == [0.1, 0]
    assert run_bounds(level, 40, upper={"a": 0.05})[0].tolist() == [0.05, 0]
    assert run_bounds(level, 40, lower={"a": 0.3, "b": 0.2})[0].tolist() == [0.3, 0.2]
    assert run_bounds(level, 40, weights={"b": 1, "c": 1})[0].tolist() == [0, 0]
    # a floor is nobody's bound: it yields to epochs, and to what the given bounds leave
    low, high = run_bounds(level, 40, max_epochs=2, tokens={"a": 50, "b": 5000})
    assert low.tolist() == [0.05, 0] and high.tolist() == [0.05, 1.0]
    assert run_bounds(level, 40, lower={"b": 0.96})[0] == pytest.approx([0.04, 0.96], abs=1e-15)
    refused("the lower bound of a is 0.1 and its", run_bounds, level, 40, {"a": 0.1}, None, 2, {"a": 50, "b": 5000})
    # bounds may meet and sum to one but for rounding
    ten = [str(number) for number in range(10)]
    tenths = dict.fromkeys(ten, 0.1)
    assert sum(tenths.values()) != 1
    low, high = feasible_bounds(ten, tenths, tenths)
    assert low.tolist() == high.tolist() == [0.1] * 10
    over = tenths | {"0": 0.1 + 1e-13}
    assert feasible_bounds(ten, lower=over)[0].sum() > 1
    under = tenths | {"0": 0.1 - 1e-13}
    assert feasible_bounds(ten, upper=under)[1].sum() < 1
    refused("lower bounds sum to 1", feasible_bounds, ten, lower=tenths | {"0": 0.1 + 1e-11})
    refused("upper bounds sum to 1", feasible_bounds, ten, upper=tenths | {"0": 0.1 - 1e-11})


RUNS = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.2, 0.3, 0.5]])


def test_a_floor_that_leaves_no_mixture_is_not_set() -> None:
    tokens, upper = {"a": 1.0, "b": 5.0, "c": 4.0}, np.ones(3)
    for large, raised in ((0.6, [0.6, 0.0, 0.0]), (0.1, [0.1, 0.45, 0.36])):
        floor = with_least(np.array([large, 0, 0]), upper, "abc", 0.9, tokens)
        assert floor == pytest.approx(raised), large


def test_a_mixture_inside_of_the_runs_and_one_outside():
    # a mean of the runs lies inside and says nothing
    inside = support(np.array([0.3, 0.4, 0.3]), RUNS, ["a", "b", "c"], ["x", "y", "z"])
    assert inside.hull_distance < 1e-9 and inside.outside == {} and inside.sentence() == ""
    assert inside.nearest_distance == pytest.approx(0.2)
    # Of (0.8, 0.1, 0.1) 0.3 must be moved to b and c to be the run x; no mean is nearer.
    found = support(np.array([0.8, 0.1, 0.1]), RUNS, ["a", "b", "c"], ["x", "y", "z"])
    assert found.nearest == "x" and found.nearest_distance == pytest.approx(0.3)
    assert found.hull_distance == pytest.approx(0.3)
    assert found.outside == pytest.approx({"a": 0.3, "b": -0.2, "c": -0.1})
    assert "0.3000 of it would have to be moved" in found.sentence() and "a +0.3000" in found.sentence()


def test_the_hull_is_no_farther_than_any_mean_of_runs():
    for seed in range(5):
        draw = np.random.default_rng(seed)
        runs, mixture = draw.dirichlet(np.ones(5), 4), draw.dirichlet(np.ones(5) * 0.3)
        means = np.vstack([draw.dirichlet(np.ones(4) * s, 20_000) for s in (0.2, 1)]) @ runs
        sampled = 0.5 * np.abs(means - mixture).sum(axis=1).min()
        exact = hull_distance(mixture, runs)
        assert exact <= sampled + 1e-9 and sampled - exact < 0.02
