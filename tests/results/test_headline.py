"""The first lines of the summary: the mixture, why, what was measured and predicted, what to do."""

from dataclasses import replace

import numpy as np
import polars as pl

from bimix.judge.comparison import compared
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import Known
from bimix.judge.verdict import Promise, decide
from bimix.plan.sources import EQUAL, SEARCHED, TOKEN_SHARES
from bimix.results.headline import OBSERVED, Headline, headline, next_steps, title

STEPS = np.array([100, 200, 400])
RANKS = {"baseline": TOKEN_SHARES, "uniform": EQUAL, "bimix": SEARCHED, "transfer": SEARCHED}
PROMISE = Promise("bimix", "bimix", "proxy", 400, 3.6, 3.5, 3.7, 0.9, 4, 0.02, "baseline", 0.4, -0.1, 0.9)


def runs(known: Known | None = None, criterion: Criterion | None = None, **finals: list[float]):
    rows = [
        (name, seed, int(step), domain, loss * (400 / step) ** 0.2)
        for name, losses in finals.items()
        for seed, loss in enumerate(losses, start=1)
        for domain in ("a", "b")
        for step in STEPS
    ]
    table = pl.DataFrame(rows, schema=["mixture", "seed", "step", "domain", "loss"], orient="row")
    return compared(measured(table), criterion or Criterion("baseline"), known)


def first_lines(target, promises=(), proxies=None, model="target", **more) -> str:
    verdict = decide(target, proxies, promises, RANKS)
    searched = tuple(name for name in target.mixtures if RANKS.get(name, 0) >= SEARCHED) if target else ()
    page = Headline("mine", verdict, target, model, "baseline", searched, {"bimix": "m/bimix.json"}, **more)
    lines = [title(page), *headline(page), *next_steps(page)]
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


def test_a_win_says_by_how_much_and_where_its_noise_comes_from():
    said = first_lines(runs(Known(0.001, 11, "elsewhere"), baseline=[4.0], uniform=[3.9], bimix=[3.6]))
    assert said.startswith("mine: bimix wins (target, step 400) Mixture bimix: m/bimix.json Why significantly below")
    assert "one run: average loss 3.6000 nats per token, 10.00 %* below baseline (token shares), 7.69 %*" in said
    assert "Noise of a run of target, not of one evaluation: 0.10 % (elsewhere). * significant, with 95 %." in said
    assert "To add" not in said and "Seeds" not in said
    assert "Export snakemake --cores all results/mine/runs/target/bimix/export" in said


def test_a_tie_takes_the_cheaper_and_says_which_seeds_would_separate_them():
    """A seed moves all by 2 %, the noise is 0.1 %: pairs of runs see what a spread would hide."""
    shift = {"baseline": [1.0, 0.0], "uniform": [0.0, 1.0], "bimix": [-1.0, -1.0]}
    logs = {"baseline": np.log(4.0), "uniform": np.log(3.988), "bimix": np.log(3.9)}
    ends = {name: list(np.exp(logs[name] + [0.0, 0.02] + 0.001 * np.array(shift[name]))) for name in shift}
    said = first_lines(runs(**ends))
    assert said.startswith("mine: bimix wins (target, step 400)"), "2.5 % at a noise of 0.1 %"
    near = {name: list(np.exp(np.log([4.0, 4.08]) + 0.001 * np.array(own))) for name, own in shift.items()}
    near["bimix"] = [loss * 0.9997 for loss in near["bimix"]]
    said = first_lines(runs(**near))
    assert said.startswith("mine: take baseline, which ties with bimix (target, step 400)")
    assert "Seeds `seeds: {target: [2, 3" in said and "]}` in the config:" in said and "seeds of each" in said
    said = first_lines(runs(baseline=[4.0, 4.04], uniform=[4.1, 4.12], bimix=[3.999, 4.041]))
    assert "Seeds not worth it: more than 10 seeds of each" in said


def test_without_a_known_noise_nothing_is_significant():
    said = first_lines(runs(baseline=[4.0], uniform=[3.9], bimix=[3.89]))
    assert said.startswith("mine: bimix is lower than uniform, by an unknown margin (target, step 400)")
    assert "is not known here: no difference is significant." in said and "*" not in said
    assert "Seeds `seeds: {target: [2, 3]}`" in said


def test_what_was_predicted_stands_beside_what_was_measured_of_the_same():
    for loss, word in ((3.6, "inside"), (3.9, "OUTSIDE")):
        said = first_lines(runs(baseline=[4.0], bimix=[loss]), [PROMISE], model="proxy")
        assert f"bimix at 3.6000 (90 % interval 3.5000 to 3.7000), measured {loss:.4f}, {word};" in said
        assert (
            f"gain over baseline +10.00 % (90 % interval -2.50 to +22.50), measured {100 - 25 * loss:+.2f} %." in said
        )
        other = first_lines(runs(baseline=[4.0], bimix=[loss]), [PROMISE])
        assert f"measured {loss:.4f}" not in other and "% on target." in other
        assert "That is of" not in said + other
        untrained = first_lines(runs(baseline=[4.0], transfer=[3.5]), [PROMISE])
        assert "That is of proxy; `Measured` is of target" in untrained


def test_an_optimum_that_was_not_trained_is_promised_with_its_shrunk_gain():
    proxies = runs(baseline=[4.0], uniform=[3.9])
    said = first_lines(proxies, [PROMISE], proxies, model=OBSERVED)
    assert said.startswith("mine: bimix is predicted to be best, untested (proxy, step 400)")
    assert "gain over baseline +10.00 % (90 % interval -2.50 to +22.50); below 16 runs rather +8.50 %, 0.85" in said
    assert "To test train on bimix, and add its losses to your tables as the mixture bimix" in said


def test_a_mix_of_laws_that_predicts_better_is_said_with_both_errors():
    proxies = runs(baseline=[4.0], uniform=[3.9])
    said = first_lines(proxies, [replace(PROMISE, blend=0.0125)], proxies, model=OBSERVED)
    assert "A mix of laws predicts runs left out better: error 1.25 %, of this law 2.00 %." in said
    for promise in (PROMISE, replace(PROMISE, blend=0.03)):  # by the weights of the criterion it may be worse
        assert "mix of laws" not in first_lines(proxies, [promise], proxies, model=OBSERVED)


def test_a_run_below_the_promise_is_seen_and_taken():
    proxies = runs(baseline=[4.0], uniform=[3.5])
    said = first_lines(proxies, [PROMISE], proxies, model=OBSERVED)
    assert said.startswith("mine: uniform is lower than baseline, by an unknown margin (your runs, step 400)")
    assert "Seen uniform, run on proxy, ended below the 3.6000 that the law bimix promises for bimix: take" in said


def test_an_objective_that_is_broken_is_said_with_the_domain():
    criterion = Criterion("baseline", "no_worse_than", margin=0.01)
    said = first_lines(runs(criterion=criterion, baseline=[4.0], uniform=[3.9], bimix=[4.2]))
    assert "Objective no loss more than 1 % above baseline's: uniform held; bimix broken: " in said
    assert "a 4 %" in said and "b 4 %" in said
    worst = first_lines(runs(criterion=Criterion("baseline", "minimax"), baseline=[4.0], bimix=[3.0]))
    assert "worst ratio to baseline 0.7500" in worst
    # the answer of a search stands on the page
    said = "Answer: round2, measured 2.0412, 2.0450 by the law and all runs together."
    page = first_lines(runs(baseline=[3.0, 3.01], uniform=[2.9, 2.91]), search=said)
    assert f"Search The mixture found is {said.removeprefix('Answer: ')}" in " ".join(page.split())
    assert "Search" not in first_lines(runs(baseline=[3.0, 3.01], uniform=[2.9, 2.91]))


def test_the_risk_is_what_ends_higher_what_is_repeated_and_what_was_never_trained():
    rows = [
        (name, 400, domain, loss)
        for name, a, b in (("baseline", 4.0, 3.0), ("bimix", 3.0, 3.15))
        for domain, loss in (("a", a), ("b", b))
    ]
    table = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    target = compared(measured(table), Criterion("baseline"), Known(0.001, 11, "elsewhere"))
    said = first_lines(target, epochs={"a": 0.5, "b": 8.04})
    assert (
        "Risk 1 of 2 losses end above baseline's, b the most, by 5 %; the text of b is read 8 times; tested on one"
        in said
    )
    said = first_lines(runs(Known(0.001, 11, "elsewhere"), baseline=[4.0], bimix=[3.6]), epochs={"a": 1.0})
    assert "Risk none of 2 losses end above baseline's; tested on one model, target, step 400." in said
    said = first_lines(target, epochs={"b": 1234.0})
    assert "the text of b is read 1,200 times" in said
    graded = compared(
        measured(table.with_columns(metric=pl.col("domain") == "b")),
        Criterion("baseline", weights={"a": 1.0, "b": 1.0}),
        Known(0.001, 11, "elsewhere"),
    )
    assert "Risk none of 1 losses end above baseline's; tested" in first_lines(graded), "a metric is no loss"
    proxies = runs(baseline=[4.0], criterion=Criterion("baseline"))
    assert "Risk no run was trained on it." in first_lines(runs(baseline=[4.0]), [PROMISE], proxies)
