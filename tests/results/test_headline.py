"""The facts of a verdict, and the five lines that are written from them."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bimix.judge.comparison import compared
from bimix.judge.facts import (
    Evidence,
    data_facts,
    entropy_facts,
    law_facts,
    optimum_facts,
    shown_optimum,
    verdict_facts,
)
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import Known
from bimix.judge.verdict import OBSERVED, Gain, Promise, Verdict, decide
from bimix.mixtures.names import EQUAL, SEARCHED, TOKEN_SHARES
from bimix.results import sections
from bimix.results.summary import Summary

STEPS = np.array([100, 200, 400])
RANKS = {"baseline": TOKEN_SHARES, "uniform": EQUAL, "bimix": SEARCHED, "transfer": SEARCHED}
ROLES = {"baseline": "token shares", "uniform": "equal shares"}
SHARES = {name: {"a": 0.5, "b": 0.5} for name in (*RANKS, "m0", "m1", "se", "ce")}
PROMISE = Promise("bimix", "bimix", "proxy", 400, 3.6, 3.5, 3.7, 0.9, 4, 0.02, "baseline", 0.4, -0.1, 0.9)
LAW = law_facts({"law": "bimix", "mixtures": ["baseline", "se", "ce"]}, "proxy", PROMISE)
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


def told(target, promises=(), proxies=None, model="target", verdict=None, **more) -> tuple[dict, dict]:
    """The facts, and the texts of the summary's lines by label."""
    verdict = verdict or decide(target, proxies, promises, RANKS)
    optima = {one.mixture: optimum_facts(one.mixture, one, target, model, verdict) for one in promises}
    if optima:
        more = {"law": LAW, "optimum": optima[shown_optimum(list(optima), verdict, target)]} | more
    searched = [name for name in target.mixtures if RANKS.get(name, 0) >= SEARCHED] if target else ()
    of = Evidence("mine", verdict, target, model, SHARES, data_facts(("a", "b"), 4), searched=searched)
    facts = verdict_facts(replace(of, **{"roles": ROLES, "laws": {one.mixture: one.law for one in promises}} | more))
    summary = Summary(facts, ["explore.html"], [])
    lines = summary.text().splitlines()
    assert max(map(len, lines)) <= 78 and len(summary.first_screen()) <= 24
    texts = dict(re.findall(r"^(\S.*?)  +(.*(?:\n  .*)*)", "\n".join(reversed_blocks(lines)), re.MULTILINE))
    return facts, {label: " ".join(text.split()) for label, text in texts.items()}


def reversed_blocks(lines: list[str]) -> list[str]:
    """The lines of all labels; of a label that stands there twice the first counts."""
    entries: list[list[str]] = []
    for line in lines[lines.index("=" * 78) + 1 :]:
        if line.startswith(" ") and entries:
            entries[-1].append(line)
        elif line:
            entries.append([line])
    return [line for entry in reversed(entries) for line in entry]


def test_a_win_has_the_same_digits_in_facts_and_lines() -> None:
    facts, said = told(runs(SURE, baseline=[4.0], uniform=[3.9], bimix=[3.6]), [PROMISE])
    assert (facts["take"], facts["outcome"], facts["tested"], facts["ties"]) == ("bimix", "wins", True, [])
    assert list(said)[-5:] == ["Page", "Next", "Risk", "Gain", "Take"]
    rows = facts["measured"]["mixtures"]
    assert list(rows) == ["bimix", "uniform", "baseline"], "the best first"
    assert rows["bimix"]["difference_percent"] == pytest.approx(-10) and rows["bimix"]["steps_ratio"] < 1
    assert rows["uniform"]["behind_percent"] == pytest.approx(100 * (3.9 / 3.6 - 1))
    assert facts["optimum"]["measured"]["percent"] == pytest.approx(10) and facts["measured"]["noise_percent"] == 0.1
    assert re.findall(r"\d+\.\d\d+", said["Gain"])[:2] == ["3.6000", "10.00"] and "+10.00 %*" in said["Optimum"]
    assert facts["next"] == [{"do": "larger", "model": "target", "mixtures": ["bimix"], "runs": None}]
    assert facts["names"] == {"bimix": "BiMix' optimum", "baseline": "the token shares", "uniform": "equal shares"} | {
        "se": "the Shannon entropy mixture",
        "ce": "the conditional entropy mixture",
    }


def test_a_tie_takes_the_cheaper_and_names_the_seeds_that_would_separate_them() -> None:
    """A seed moves all by 2 %, the noise is 0.1 %: pairs of runs see what a spread would hide."""
    shift = {"baseline": [1.0, 0.0], "uniform": [0.0, 1.0], "bimix": [-1.0, -1.0]}
    logs = {"baseline": np.log(4.0), "uniform": np.log(3.988), "bimix": np.log(3.9)}
    ends = {name: list(np.exp(logs[name] + [0.0, 0.02] + 0.001 * np.array(shift[name]))) for name in shift}
    assert told(runs(**ends))[0]["outcome"] == "wins", "2.5 % at a noise of 0.1 %"
    near = {name: list(np.exp(np.log([4.0, 4.08]) + 0.001 * np.array(own))) for name, own in shift.items()}
    near["bimix"] = [loss * 0.9997 for loss in near["bimix"]]
    facts, said = told(runs(**near))
    assert (facts["take"], facts["outcome"], facts["rival"]) == ("baseline", "ties", "bimix")
    assert set(facts["ties"]) == {"bimix", "uniform"}
    first = facts["next"][0]
    assert (first["do"], first["mixtures"], first["seeds"][:2]) == ("seeds", ["baseline", "bimix"], [2, 3])
    assert first["runs"] == 2 * (len(first["seeds"]) - 1) and str(first["seeds"]) in said["Next"]
    facts, _ = told(runs(baseline=[4.0, 4.04], uniform=[4.1, 4.12], bimix=[3.999, 4.041]))
    assert "seeds" not in [step["do"] for step in facts["next"]], "more than are worth it would be needed"


def test_without_a_known_noise_nothing_is_significant() -> None:
    facts, said = told(runs(baseline=[4.0], uniform=[3.9], bimix=[3.89]))
    assert (facts["take"], facts["outcome"], facts["measured"]["noise_percent"]) == ("bimix", "lower", None)
    assert "Noise" not in said and facts["next"][0]["seeds"] == [2, 3]


def test_an_optimum_that_was_not_trained_is_promised_with_its_shrunk_gain() -> None:
    proxies = runs(baseline=[4.0], uniform=[3.9])
    facts, said = told(proxies, [PROMISE], proxies, model=OBSERVED)
    assert (facts["take"], facts["outcome"], facts["tested"]) == ("bimix", "promised", False)
    predicted = facts["optimum"]["predicted"]
    assert [predicted[key] for key in ("percent", "low", "high")] == pytest.approx([10, -2.5, 22.5])
    assert predicted["shrunk"] == pytest.approx(8.5) and facts["optimum"]["measured"] is None
    assert "+10.00 % (-2.50 to +22.50, 90 %)" in said["Optimum"] and "+8.50 %" in said["Optimum"]
    assert facts["next"][0] == {"do": "train", "model": None, "mixtures": ["bimix"], "runs": 1}
    assert facts["risk"] == {"tested": False, "losses": 0, "above_percent": {}, "epochs": {}}
    # the rule by hand that ends lowest measures what readings cost a larger model
    proxies = runs(baseline=[4.0], wanted_4=[3.9], wanted_8=[3.8])
    by_harm = {c: {"web": {"proportion": 0.1, "epochs": often}} for c, often in (("0", 7.5), ("0.03", 4.0))}
    facts, said = told(proxies, [PROMISE], proxies, model="proxy", by_harm=by_harm)
    assert facts["next"][0] == {"do": "harm", "model": "proxy", "mixtures": ["wanted_8"], "runs": 1}
    assert "web: 0.1000, 7.5 epochs at c 0; 0.1000, 4 epochs at c 0.03" in "\n".join(sections.by_harm(facts))
    # where a larger model was trained it has been measured
    facts, _ = told(proxies, [PROMISE], proxies, model="target", by_harm=by_harm)
    assert "harm" not in [step["do"] for step in facts["next"]]


def test_a_difference_has_one_interval_that_of_the_verdict() -> None:
    """A rule that was not run: nothing says that it ties at a step, and its rival has one number everywhere."""
    proxies = runs(SURE, m0=[3.6], m1=[3.7], criterion=Criterion("m0"))
    gain = Gain("transfer", "uniform", 0.18, -0.59, 0.95, 0.9)
    verdict = Verdict("rule", "uniform", "why", "transfer", PROMISE, measured=proxies, gain=gain)
    facts, said = told(proxies, [replace(PROMISE, mixture="transfer")], model=OBSERVED, verdict=verdict)
    assert [facts["gain"][key] for key in ("mixture", "over", "percent")] == ["transfer", "uniform", 0.18]
    assert not facts["tested"] and "0.18 %" in said["Gain"] and said["Gain"].count("90 %") == 1
    assert [step["do"] for step in facts["next"]] == ["train", "train", "larger"]
    # a run that is lowest, and a rule that nobody ran and that is predicted to be as low
    verdict = Verdict("ties", "m0", "why", "uniform", PROMISE, measured=proxies, gain=gain)
    facts, said = told(proxies, [PROMISE], model=OBSERVED, verdict=verdict)
    assert facts["tested"] and facts["rival"] not in facts["measured"]["mixtures"] and "equal shares" in said["Take"]
    # the same difference has the posterior's interval in each line
    same = replace(gain, mixture="bimix", over="baseline")
    verdict = Verdict("promised", "bimix", f"predicted {same}", "m0", PROMISE, measured=proxies, gain=same)
    facts, said = told(proxies, [PROMISE], model=OBSERVED, verdict=verdict)
    assert facts["optimum"]["predicted"]["high"] == 0.95 and "+0.18 % (-0.59 to +0.95, 90 %)" in said["Optimum"]
    assert "0.18 %" in said["Gain"] and "0.18 %" in said["Why"]


def test_what_breaks_the_objective_is_left_out_with_its_domain() -> None:
    criterion = Criterion("baseline", "no_worse_than", margin=0.01)
    facts, said = told(runs(criterion=criterion, baseline=[4.0], uniform=[3.9], bimix=[4.2]))
    assert list(facts["left_out"]) == ["bimix"] and "a 4 %" in facts["left_out"]["bimix"]
    assert "bimix" in said["Left out"] and "1 %" in said["Objective"]
    facts, said = told(runs(criterion=Criterion("baseline", "minimax"), baseline=[4.0], bimix=[3.0]))
    assert facts["measured"]["mixtures"]["bimix"]["value"] == pytest.approx(0.75) and "0.7500" in said["Gain"]


def test_the_risk_is_what_ends_higher_and_what_is_repeated() -> None:
    ends = (("baseline", 4.0, 3.0), ("bimix", 3.0, 3.15))
    rows = [(name, 400, domain, loss) for name, *both in ends for domain, loss in zip("ab", both, strict=True)]
    table = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    target = compared(measured(table), Criterion("baseline"), SURE)
    facts, said = told(target, epochs={"a": 0.5, "b": 8.04})
    assert facts["risk"]["above_percent"] == pytest.approx({"b": 5}) and facts["risk"]["losses"] == 2
    assert facts["risk"]["epochs"] == {"b": 8.04} and facts["risk"]["tested"]
    assert "b by 5 %" in said["Risk"] and "b is read 8 times" in said["Risk"]
    assert "b is read 1,200 times" in told(target, epochs={"b": 1234.0})[1]["Risk"]
    graded = table.with_columns(metric=pl.col("domain") == "b")
    both = Criterion("baseline", weights={"a": 1.0, "b": 1.0})
    assert told(compared(measured(graded), both, SURE))[0]["risk"]["losses"] == 1, "a metric is no loss"


def test_the_papers_chain_stands_beside_the_papers_numbers() -> None:
    law = {"law": "bimix", "mixtures": ["baseline", "se", "ce"]}
    curves = pl.DataFrame(
        {"law": ["bimix"] * 2 + ["transfer"], "mixture": ["se", "ce", "se"], "mean_percent": [0.1, 0.3, 9.0]}
    )
    held = {"law": ["bimix", "transfer"], "mixture": ["uniform"] * 2}
    held |= {"r2_mean": [0.98, 0.5], "mre_mean_percent": [0.4, 2.0]}
    found = law_facts(law, "proxy", PROMISE, curves, pl.DataFrame(held))
    assert (found["runs"], found["last_step_percent"]) == (3, pytest.approx(0.2))
    assert found["held_out"] == {"uniform": {"r2": 0.98, "error_percent": 0.4}}
    # a law whose curves are another's has their rows; one of single steps has none
    repeated = curves.filter(pl.col("law") == "bimix").with_columns(law=pl.lit("curve"))
    held_out = pl.DataFrame({"law": ["curve"], "mixture": ["uniform"], "mean_percent": [5.0]})
    repeated = pl.concat([repeated, held_out])  # which is no run of the fit
    assert law_facts(law | {"law": "transfer"}, "proxy", None, repeated)["last_step_percent"] == pytest.approx(0.2)
    assert law_facts(law | {"law": "regmix"}, "proxy", None, repeated)["last_step_percent"] is None
    assert LAW["held_out"] == {} and LAW["left_out_percent"] == 2

    ends = entropy_facts(runs(SURE, baseline=[4.0], se=[3.9], ce=[3.8]), "proxy", "baseline")
    changes = {name: one["difference_percent"] for name, one in ends["mixtures"].items()}
    assert changes == pytest.approx({"se": -2.5, "ce": -5})
    assert entropy_facts(runs(baseline=[4.0]), "proxy", "baseline") is None

    target = runs(SURE, baseline=[4.0], uniform=[3.9], bimix=[3.6])
    facts, said = told(target, [PROMISE], law=found, entropies=ends)
    assert (facts["law"]["runs"], facts["entropies"]["step"]) == (3, 400)
    assert all(number in said["Law"] for number in ("0.20", "0.40", "0.980")) and "ce -5.00 %*" in said["Entropies"]


def test_the_optimum_of_the_page_is_the_one_to_take_else_one_that_was_trained() -> None:
    target = runs(SURE, baseline=[4.0], transfer=[3.8])
    chosen = decide(target, None, [PROMISE], RANKS)
    assert shown_optimum(["bimix", "transfer"], chosen, target) == "transfer"
    untrained = replace(chosen, best="baseline", measured=None)
    assert shown_optimum(["transfer", "bimix"], untrained, runs(baseline=[4.0])) == "bimix", "of the trusted law"


def test_documents_and_tokens_of_each_domain_are_counted() -> None:
    index = pl.DataFrame({"domain": ["b", "a", "a"], "records": [3, 1, 1], "tokens": [30, 10, 20]})
    counted = data_facts(("a", "b"), 4, index)["domains"]
    assert counted == {"a": {"documents": 2, "tokens": 30}, "b": {"documents": 3, "tokens": 30}}
