"""The first lines of the summary and the facts behind them: what to take, the paper's chain, what to run next."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bimix.judge.comparison import compared
from bimix.judge.facts import entropy_facts, law_facts, optimum_facts, shown_optimum
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import Known
from bimix.judge.verdict import OBSERVED, Gain, Promise, Verdict, decide
from bimix.mixtures.names import EQUAL, SEARCHED, TOKEN_SHARES
from bimix.results.headline import Headline, headline, reasons, title
from bimix.results.pages import entries

STEPS = np.array([100, 200, 400])
RANKS = {"baseline": TOKEN_SHARES, "uniform": EQUAL, "bimix": SEARCHED, "transfer": SEARCHED}
ROLES = {"baseline": "token shares", "uniform": "equal shares"}
PROMISE = Promise("bimix", "bimix", "proxy", 400, 3.6, 3.5, 3.7, 0.9, 4, 0.02, "baseline", 0.4, -0.1, 0.9)
SURE = Known(0.001, 11, "elsewhere")


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


def paged(target, promises=(), proxies=None, model="target", verdict=None, **more) -> tuple[dict, dict, str]:
    """The facts, the texts of the lines by label, and the title."""
    verdict = verdict or decide(target, proxies, promises, RANKS)
    optimum = {one.mixture: optimum_facts(one.mixture, one, target, model) for one in promises}
    more.setdefault("optimum", optimum[shown_optimum(list(optimum), verdict, target)] if optimum else None)
    searched = tuple(name for name in target.mixtures if RANKS.get(name, 0) >= SEARCHED) if target else ()
    page = Headline("mine", verdict, target, model, "baseline", searched=searched, **{"roles": ROLES} | more)
    lines = [*headline(page), *reasons(page)]
    assert max(map(len, lines)) <= 80
    found = entries(lines)
    texts = dict(reversed(found)) | {"Then": " ".join(text for label, text in found if label == "Then")}
    return page.facts(), {label: text.replace("\N{NO-BREAK SPACE}", " ") for label, text in texts.items()}, title(page)


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+\.\d\d", text)


def test_title_line_and_facts_of_a_win_have_the_same_digits() -> None:
    facts, said, head = paged(runs(SURE, baseline=[4.0], uniform=[3.9], bimix=[3.6]), [PROMISE])
    assert (facts["take"], facts["outcome"], facts["tested"], facts["ties"]) == ("bimix", "wins", True, [])
    assert facts["measured"]["mixtures"]["bimix"]["difference_percent"] == pytest.approx(-10)
    assert facts["optimum"]["measured"]["percent"] == pytest.approx(10) and facts["measured"]["noise_percent"] == 0.1
    assert numbers(head) == ["10.00"] and numbers(said["Measured"])[:2] == ["3.60", "10.00"]
    assert head.endswith("below the token shares") and "+10.00 %*" in said["Optimum"]
    assert "proxy" in said["Optimum"].partition("measured")[0] and "target" in said["Optimum"].partition("measured")[2]
    assert "compare` a larger model" in said["Next"] and not said["Then"]


def test_a_tie_takes_the_cheaper_and_says_which_seeds_would_separate_them() -> None:
    """A seed moves all by 2 %, the noise is 0.1 %: pairs of runs see what a spread would hide."""
    shift = {"baseline": [1.0, 0.0], "uniform": [0.0, 1.0], "bimix": [-1.0, -1.0]}
    logs = {"baseline": np.log(4.0), "uniform": np.log(3.988), "bimix": np.log(3.9)}
    ends = {name: list(np.exp(logs[name] + [0.0, 0.02] + 0.001 * np.array(shift[name]))) for name in shift}
    assert paged(runs(**ends))[0]["outcome"] == "wins", "2.5 % at a noise of 0.1 %"
    near = {name: list(np.exp(np.log([4.0, 4.08]) + 0.001 * np.array(own))) for name, own in shift.items()}
    near["bimix"] = [loss * 0.9997 for loss in near["bimix"]]
    facts, said, head = paged(runs(**near))
    assert (facts["take"], facts["outcome"], facts["rival"]) == ("baseline", "ties", "bimix")
    assert set(facts["ties"]) == {"bimix", "uniform"} and "baseline (token shares), which ties with bimix" in head
    assert "`seeds: {target: [2, 3" in said["Next"]
    percent = abs(facts["measured"]["mixtures"]["bimix"]["difference_percent"])
    assert f"{percent:.2f}" in head and f"{percent:.2f}" not in said["Risk"]
    _, said, _ = paged(runs(baseline=[4.0, 4.04], uniform=[4.1, 4.12], bimix=[3.999, 4.041]))
    assert "seeds" not in said["Next"] and "no further seeds" in said["Then"]


def test_without_a_known_noise_nothing_is_significant() -> None:
    facts, said, head = paged(runs(baseline=[4.0], uniform=[3.9], bimix=[3.89]))
    assert (facts["take"], facts["outcome"], facts["measured"]["noise_percent"]) == ("bimix", "lower", None)
    assert "*" not in head + said["Measured"] and "`seeds: {target: [2, 3]}`" in said["Next"]


def test_an_optimum_that_was_not_trained_is_promised_with_its_shrunk_gain() -> None:
    proxies = runs(baseline=[4.0], uniform=[3.9])
    facts, said, head = paged(proxies, [PROMISE], proxies, model=OBSERVED)
    assert (facts["take"], facts["outcome"], facts["tested"]) == ("bimix", "promised", False)
    predicted = facts["optimum"]["predicted"]
    assert [predicted[key] for key in ("percent", "low", "high")] == pytest.approx([10, -2.5, 22.5])
    assert predicted["shrunk"] == pytest.approx(8.5) and facts["optimum"]["measured"] is None
    assert "+10.00 % (-2.50 to +22.50, 90 %)" in said["Optimum"] and "+8.50 %" in said["Optimum"]
    assert "untested" in head and "bimix" in said["Next"] and "your tables" in said["Next"]


def test_a_rule_is_taken_by_one_interval_and_the_title_says_what_may_be_lower() -> None:
    """The rule was not run: nothing says that it ties at a step, and its rival has one number everywhere."""
    proxies = runs(SURE, m0=[3.6], m1=[3.7], criterion=Criterion("m0"))
    gain = Gain("transfer", "uniform", 0.18, -0.59, 0.95, 0.9)
    verdict = Verdict("rule", "uniform", "why", "transfer", PROMISE, measured=proxies, gain=gain)
    facts, said, head = paged(proxies, [replace(PROMISE, mixture="transfer")], model=OBSERVED, verdict=verdict)
    assert facts["gain"] == {
        "mixture": "transfer",
        "over": "uniform",
        "percent": 0.18,
        "low": -0.59,
        "high": 0.95,
        "level": 0.9,
    }
    assert not facts["tested"] and "take uniform" in head and "transfer may be 0.18 % lower, untested" in head
    assert "ties" not in head and said["Next"].startswith("train on uniform")
    # a run that is lowest, and a rule that nobody ran and that is predicted to be as low
    verdict = Verdict("ties", "m0", "why", "uniform", PROMISE, measured=proxies, gain=gain)
    facts, said, head = paged(proxies, [PROMISE], model=OBSERVED, verdict=verdict)
    assert facts["tested"] and "ties" not in head and "uniform, which was not trained" in head
    assert "no other" not in said["Measured"] and "below m1" in said["Measured"]
    # the same difference has the posterior's interval in each line
    same = replace(gain, mixture="bimix", over="baseline")
    verdict = Verdict("promised", "bimix", f"predicted {same}", "m0", PROMISE, measured=proxies, gain=same)
    _, said, head = paged(proxies, [PROMISE], model=OBSERVED, verdict=verdict)
    assert "+0.18 % (-0.59 to +0.95, 90 %)" in said["Optimum"] and "0.18 %" in head and "0.18 %" in said["Why"]


def test_an_objective_that_is_broken_is_said_with_the_domain() -> None:
    criterion = Criterion("baseline", "no_worse_than", margin=0.01)
    facts, said, _ = paged(runs(criterion=criterion, baseline=[4.0], uniform=[3.9], bimix=[4.2]))
    assert list(facts["left_out"]) == ["bimix"] and "a 4 %" in facts["left_out"]["bimix"]
    assert "uniform held; bimix broken: " in said["Objective"]
    _, said, _ = paged(runs(criterion=Criterion("baseline", "minimax"), baseline=[4.0], bimix=[3.0]))
    assert "worst ratio to the token shares 0.7500" in said["Measured"]
    # the answer of a search stands on the page
    _, said, _ = paged(runs(baseline=[3.0], uniform=[2.9]), search="Answer: round2, measured 2.0412.")
    assert said["Search"] == "round2, measured 2.0412."


def test_the_risk_is_what_ends_higher_what_is_repeated_and_what_was_never_trained() -> None:
    ends = (("baseline", 4.0, 3.0), ("bimix", 3.0, 3.15))
    rows = [(name, 400, domain, loss) for name, *both in ends for domain, loss in zip("ab", both, strict=True)]
    table = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    target = compared(measured(table), Criterion("baseline"), SURE)
    facts, said, _ = paged(target, epochs={"a": 0.5, "b": 8.04})
    assert facts["risk"]["above_percent"] == pytest.approx({"b": 5}) and facts["risk"]["losses"] == 2
    assert facts["risk"]["epochs"] == {"b": 8.04} and facts["risk"]["tested"]
    assert "1 of 2 losses" in said["Risk"] and "b is read 8 times" in said["Risk"]
    assert "b is read 1,200 times" in paged(target, epochs={"b": 1234.0})[1]["Risk"]
    facts, _, _ = paged(runs(SURE, baseline=[4.0], bimix=[3.6]), epochs={"a": 1.0})
    assert not facts["risk"]["above_percent"] and not facts["risk"]["epochs"]
    graded = table.with_columns(metric=pl.col("domain") == "b")
    both = Criterion("baseline", weights={"a": 1.0, "b": 1.0})
    assert paged(compared(measured(graded), both, SURE))[0]["risk"]["losses"] == 1, "a metric is no loss"
    proxies = runs(baseline=[4.0])
    facts, said, _ = paged(proxies, [PROMISE], proxies)
    assert not facts["risk"]["tested"] and said["Risk"] == "no run was trained on it."


def test_the_papers_chain_stands_beside_the_papers_numbers() -> None:
    law = {"law": "bimix", "mixtures": ["baseline", "se", "ce"]}
    curves = pl.DataFrame(
        {"law": ["bimix"] * 2 + ["transfer"], "mixture": ["se", "ce", "se"], "mean_percent": [0.1, 0.3, 9.0]}
    )
    held = {
        "law": ["bimix", "transfer"],
        "mixture": ["uniform"] * 2,
        "r2_mean": [0.98, 0.5],
        "mre_mean_percent": [0.4, 2.0],
    }
    found = law_facts(law, "proxy", PROMISE, curves, pl.DataFrame(held))
    assert (found["runs"], found["last_step_percent"]) == (3, pytest.approx(0.2))
    assert found["held_out"] == {"uniform": {"r2": 0.98, "error_percent": 0.4}}
    # a law whose curves are another's has their rows; one of single steps has none
    repeated = curves.filter(pl.col("law") == "bimix").with_columns(law=pl.lit("curve"))
    held_out = pl.DataFrame({"law": ["curve"], "mixture": ["uniform"], "mean_percent": [5.0]})
    repeated = pl.concat([repeated, held_out])  # which is no run of the fit
    assert law_facts(law | {"law": "transfer"}, "proxy", None, repeated)["last_step_percent"] == pytest.approx(0.2)
    assert law_facts(law | {"law": "regmix"}, "proxy", None, repeated)["last_step_percent"] is None
    bare = law_facts(law, "proxy", PROMISE)
    assert bare["held_out"] == {} and bare["left_out_percent"] == 2

    proxies = runs(SURE, baseline=[4.0], se=[3.9], ce=[3.8])
    ends = entropy_facts(proxies, "proxy", "baseline")
    assert {name: round(one["difference_percent"], 2) for name, one in ends["mixtures"].items()} == {
        "se": -2.5,
        "ce": -5,
    }
    assert (
        entropy_facts(proxies, "proxy", None) is None
        and entropy_facts(runs(baseline=[4.0]), "proxy", "baseline") is None
    )

    target = runs(SURE, baseline=[4.0], uniform=[3.9], bimix=[3.6])
    facts, said, _ = paged(target, [PROMISE], law=found, entropies=ends)
    assert (facts["law"]["runs"], facts["entropies"]["step"]) == (3, 400)
    assert {"0.20", "0.40"} <= set(numbers(said["Law"])) and "0.980" in said["Law"] and "3 runs (proxy)" in said["Law"]
    assert "ce -5.00 %*" in said["Entropies"] and "on proxy, step 400" in said["Entropies"]
    assert "left out" in paged(target, [PROMISE], law=bare)[1]["Law"]


def test_the_optimum_of_the_page_is_the_one_to_take_else_one_that_was_trained() -> None:
    target = runs(SURE, baseline=[4.0], transfer=[3.8])
    chosen = decide(target, None, [PROMISE], RANKS)
    assert shown_optimum(["bimix", "transfer"], chosen, target) == "transfer"
    untrained = replace(chosen, best="baseline", measured=None)
    assert shown_optimum(["transfer", "bimix"], untrained, runs(baseline=[4.0])) == "bimix", "of the trusted law"
