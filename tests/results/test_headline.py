"""The facts of a verdict, and the five lines that are written from them."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bimix.judge.comparison import compared
from bimix.judge.facts import Evidence, Fit, entropy_facts, law_facts, verdict_facts
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import Known
from bimix.judge.verdict import OBSERVED, Gain, Promise, Verdict, decide
from bimix.mixtures.names import EQUAL, SEARCHED, TOKEN_SHARES
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import Sought
from bimix.results.summary import Summary
from bimix.training.costs import Device

STEPS = np.array([100, 200, 400])
RANKS = {"baseline": TOKEN_SHARES, "uniform": EQUAL, "bimix": SEARCHED, "transfer": SEARCHED}
ROLES = {"baseline": "token shares", "uniform": "equal shares"}
SHARES = {name: {"a": 0.5, "b": 0.5} for name in (*RANKS, "m0", "m1", "se", "ce")}
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


def fit_of(promise: Promise | None, law: str = "bimix", name: str = "bimix") -> dict[str, Fit]:
    """A law fitted to three runs, at the run of its optimum."""
    curve = {"A": 1.0, "alpha": 0.1, "B": 9.0, "beta": 0.4, "C": 1.0}
    fitted = {"law": law, "mixtures": ["baseline", "se", "ce"], "domains": ["a", "b"], "loss_domains": ["a", "b"]}
    fitted |= {"steps": STEPS.tolist(), "coefficients": {"a": curve, "b": curve}}
    fitted["proportions_seen"] = {"a": {"min": 0.2, "max": 0.8}, "b": {"min": 0.2, "max": 0.48}}
    return {name: Fit(Sought(fitted, 400, Objective(), np.zeros(2), np.ones(2)), SHARES[name], promise)}


def said_of(target, promises=(), proxies=None, model="target", verdict=None, **more) -> tuple[dict, dict]:
    """The facts, and the texts of the summary's lines by label."""
    verdict = verdict or decide(target, proxies, promises, RANKS)
    fits = fit_of(None) if not promises else {}
    for one in promises:
        fits |= fit_of(one, name=one.mixture)
    searched = [name for name in target.mixtures if RANKS.get(name, 0) >= SEARCHED] if target else ()
    rest = {"model": model, "fitted_model": "proxy", "asked_model": "proxy", "roles": ROLES, "searched": searched}
    rest["proxies"] = proxies
    of = Evidence("mine", "baseline", verdict, target, SHARES, fits, 4, **rest | more)
    facts = verdict_facts(of)
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
    facts, said = said_of(runs(SURE, baseline=[4.0], uniform=[3.9], bimix=[3.6]), [PROMISE])
    assert (facts["take"], facts["outcome"], facts["tested"], facts["ties"]) == ("bimix", "wins", True, [])
    assert list(said)[-5:] == ["Page", "Next", "Risk", "Gain", "Take"]
    rows = facts["measured"]["mixtures"]
    assert list(rows) == ["bimix", "uniform", "baseline"], "the best first"
    assert rows["bimix"]["difference_percent"] == pytest.approx(-10) and rows["bimix"]["steps_ratio"] < 1
    assert rows["uniform"]["lower_percent"] == pytest.approx(100 * (1 - 3.6 / 3.9))
    assert facts["optimum"]["measured"]["percent"] == pytest.approx(10) and facts["measured"]["noise_percent"] == 0.1
    assert re.findall(r"\d+\.\d\d+", said["Gain"])[:2] == ["3.6000", "10.00"] and "+10.00 %*" in said["Optimum"]
    assert [(one["do"], one["model"], one["mixtures"], one["runs"]) for one in facts["next"]] == [
        ("larger", "target", ["bimix"], None)
    ]
    assert facts["names"] == {"bimix": "BiMix' optimum", "baseline": "the token shares", "uniform": "equal shares"} | {
        "se": "the Shannon entropy mixture",
        "ce": "the conditional entropy mixture",
    }


def test_a_tie_takes_the_cheaper_and_names_the_seeds_that_would_separate_them() -> None:
    """A seed moves all by 2 %, the noise is 0.1 %: pairs of runs see what a spread would hide."""
    shift = {"baseline": [1.0, 0.0], "uniform": [0.0, 1.0], "bimix": [-1.0, -1.0]}
    logs = {"baseline": np.log(4.0), "uniform": np.log(3.988), "bimix": np.log(3.9)}
    ends = {name: list(np.exp(logs[name] + [0.0, 0.02] + 0.001 * np.array(shift[name]))) for name in shift}
    assert said_of(runs(**ends))[0]["outcome"] == "wins", "2.5 % at a noise of 0.1 %"
    near = {name: list(np.exp(np.log([4.0, 4.08]) + 0.001 * np.array(own))) for name, own in shift.items()}
    near["bimix"] = [loss * 0.9997 for loss in near["bimix"]]
    facts, said = said_of(runs(**near))
    assert (facts["take"], facts["outcome"], facts["rival"]) == ("baseline", "ties", "bimix")
    assert set(facts["ties"]) == {"bimix", "uniform"}
    first = facts["next"][0]
    assert (first["do"], first["mixtures"], first["seeds"][:2]) == ("seeds", ["baseline", "bimix"], [2, 3])
    assert first["runs"] == 2 * (len(first["seeds"]) - 1) and str(first["seeds"]) in said["Next"]
    facts, _ = said_of(runs(baseline=[4.0, 4.04], uniform=[4.1, 4.12], bimix=[3.999, 4.041]))
    assert "seeds" not in [step["do"] for step in facts["next"]], "more than are worth it would be needed"


def test_without_a_known_noise_nothing_is_significant() -> None:
    facts, said = said_of(runs(baseline=[4.0], uniform=[3.9], bimix=[3.89]))
    assert (facts["take"], facts["outcome"], facts["measured"]["noise_percent"]) == ("bimix", "lower", None)
    assert "Noise" not in said and facts["next"][0]["seeds"] == [2, 3]


def test_an_optimum_that_was_not_trained_is_promised_with_its_shrunk_gain(monkeypatch) -> None:
    proxies = runs(baseline=[4.0], uniform=[3.9])
    verdict = Verdict("promised", "bimix", "why", "uniform", PROMISE, measured=proxies)
    facts, said = said_of(proxies, [PROMISE], proxies, model=OBSERVED, verdict=verdict)
    assert (facts["take"], facts["outcome"], facts["tested"]) == ("bimix", "promised", False)
    predicted = facts["optimum"]["predicted"]
    assert [predicted[key] for key in ("percent", "low", "high")] == pytest.approx([10, -2.5, 22.5])
    assert predicted["shrunk"] == pytest.approx(8.5) and facts["optimum"]["measured"] is None
    assert "+10.00 % (-2.50 to +22.50, 90 %)" in said["Optimum"] and "+8.50 %" in said["Optimum"]
    first = {"do": "train", "model": None, "mixtures": ["bimix"], "runs": 1, "steps": 400, "flops": None}
    assert first.items() <= facts["next"][0].items()
    assert facts["risk"] == {"tested": False, "losses": 0, "above_percent": {}, "epochs": {}, "outside": ["b"]}
    # the rule by hand that ends lowest measures what readings cost a larger model
    proxies = runs(baseline=[4.0], wanted_4=[3.9], wanted_8=[3.8])
    by_harm = {c: {"web": {"proportion": 0.1, "epochs": often}} for c, often in (("0", 7.5), ("0.03", 4.0))}
    monkeypatch.setattr("bimix.judge.facts.by_harm", lambda soughts: by_harm)
    facts, said = said_of(proxies, [PROMISE], proxies, model="proxy", verdict=verdict)
    assert [facts["next"][0][key] for key in ("do", "model", "mixtures")] == ["harm", "proxy", ["wanted_8"]]
    assert facts["by_harm"] == by_harm and "wanted_8" in said["Next"]
    # where a larger model was trained it has been measured
    facts, _ = said_of(proxies, [PROMISE], proxies, model="target", verdict=verdict)
    assert "harm" not in [step["do"] for step in facts["next"]]
    # the law reads it by a key; where the rule was not run, with one more run
    sizes = ["proxy", "target"]
    facts, said = said_of(proxies, [PROMISE], proxies, sizes=sizes)
    assert [facts["next"][0][key] for key in ("do", "mixtures", "runs", "sizes")] == ["key", [], 0, sizes]
    assert "optimum: {models: [proxy, target]}" in said["Next"]
    facts, said = said_of(runs(baseline=[4.0], transfer=[3.9]), [PROMISE], proxies, sizes=sizes)
    assert [facts["next"][0][key] for key in ("do", "mixtures", "runs")] == ["measure", ["uniform"], 1]
    assert "`uniform`" in said["Next"] and "[proxy, target]" in said["Next"]


def test_a_difference_has_one_interval_that_of_the_verdict() -> None:
    """A rule that was not run: nothing says that it ties at a step, and its rival has one number everywhere."""
    proxies = runs(SURE, m0=[3.6], m1=[3.7], criterion=Criterion("m0"))
    gain = Gain("transfer", "uniform", 0.18, -0.59, 0.95, 0.9)
    promise = replace(PROMISE, mixture="transfer")
    verdict = Verdict("rule", "uniform", "why", "transfer", promise, measured=proxies, gain=gain)
    facts, said = said_of(proxies, [promise], model=OBSERVED, verdict=verdict)
    assert [facts["gain"][key] for key in ("mixture", "over", "percent")] == ["transfer", "uniform", 0.18]
    assert not facts["tested"] and "0.18 %" in said["Gain"] and said["Gain"].count("90 %") == 1
    assert [step["do"] for step in facts["next"]] == ["train", "train", "larger"]
    # a run that is lowest, and a rule that nobody ran and that is predicted to be as low
    verdict = Verdict("ties", "m0", "why", "uniform", PROMISE, measured=proxies, gain=gain)
    facts, said = said_of(proxies, [PROMISE], model=OBSERVED, verdict=verdict)
    assert facts["tested"] and facts["rival"] not in facts["measured"]["mixtures"] and "equal shares" in said["Take"]
    # the same difference has the posterior's interval in each line
    same = replace(gain, mixture="bimix", over="baseline")
    verdict = Verdict("promised", "bimix", f"predicted {same}", "m0", PROMISE, measured=proxies, gain=same)
    facts, said = said_of(proxies, [PROMISE], model=OBSERVED, verdict=verdict)
    assert facts["optimum"]["predicted"]["high"] == 0.95 and "+0.18 % (-0.59 to +0.95, 90 %)" in said["Optimum"]
    assert "0.18 %" in said["Gain"] and "0.18 %" in said["Why"]


def test_what_breaks_the_objective_is_left_out_with_its_domain() -> None:
    criterion = Criterion("baseline", "no_worse_than", margin=0.01)
    facts, said = said_of(runs(criterion=criterion, baseline=[4.0], uniform=[3.9], bimix=[4.2]))
    assert list(facts["left_out"]) == ["bimix"] and "a 4 %" in facts["left_out"]["bimix"]
    assert "bimix" in said["Left out"] and "1 %" in said["Objective"]
    facts, said = said_of(runs(criterion=Criterion("baseline", "minimax"), baseline=[4.0], bimix=[3.0]))
    assert facts["measured"]["mixtures"]["bimix"]["value"] == pytest.approx(0.75) and "0.7500" in said["Gain"]


def test_the_risk_is_what_ends_higher_and_what_is_repeated() -> None:
    ends = (("baseline", 4.0, 3.0), ("bimix", 3.0, 3.15))
    rows = [(name, 400, domain, loss) for name, *both in ends for domain, loss in zip("ab", both, strict=True)]
    table = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    target = compared(measured(table), Criterion("baseline"), SURE)
    pools = {"a": 1.0, "b": 0.5 / 8.04}
    facts, said = said_of(target, pools=pools, run_tokens=1.0)
    assert facts["risk"]["above_percent"] == pytest.approx({"b": 5}) and facts["risk"]["losses"] == 2
    assert facts["risk"]["epochs"] == pytest.approx({"b": 8.04}) and facts["risk"]["tested"]
    assert "b by 5 %" in said["Risk"] and "b is read 8 times" in said["Risk"]
    assert "b is read 1,200 times" in said_of(target, pools={"b": 0.5}, run_tokens=1234.0)[1]["Risk"]
    graded = table.with_columns(metric=pl.col("domain") == "b")
    both = Criterion("baseline", weights={"a": 1.0, "b": 1.0})
    assert said_of(compared(measured(graded), both, SURE))[0]["risk"]["losses"] == 1, "a metric is no loss"


def evidence(fits: dict[str, Fit], target=None, **more) -> Evidence:
    """What a verdict on the optimum of the first fit rests on."""
    verdict = more.pop("verdict", Verdict("promised", next(iter(fits)), "why"))
    return Evidence("mine", "baseline", verdict, target, SHARES, fits, 4, "target", "proxy", "proxy", **more)


def test_the_papers_chain_stands_beside_the_papers_numbers() -> None:
    curves = pl.DataFrame(
        {"law": ["bimix"] * 2 + ["transfer"], "mixture": ["se", "ce", "se"], "mean_percent": [0.1, 0.3, 9.0]}
    )
    held = {"law": ["bimix", "transfer"], "mixture": ["uniform"] * 2}
    held = pl.DataFrame(held | {"r2_mean": [0.98, 0.5], "mre_mean_percent": [0.4, 2.0]})
    tables = {"extrapolation": curves, "generalization": held}
    found = law_facts(evidence(fit_of(PROMISE), **tables), "bimix")
    assert (found["runs"], found["last_step_percent"]) == (3, pytest.approx(0.2))
    assert found["held_out"] == {"uniform": {"r2": 0.98, "error_percent": 0.4}}
    # a law whose curves are another's has their rows; one of single steps has none
    repeated = curves.filter(pl.col("law") == "bimix").with_columns(law=pl.lit("curve"))
    held_out = pl.DataFrame({"law": ["curve"], "mixture": ["uniform"], "mean_percent": [5.0]})
    repeated = pl.concat([repeated, held_out])  # which is no run of the fit
    for law, error in (("transfer", pytest.approx(0.2)), ("regmix", None)):
        assert law_facts(evidence(fit_of(None, law), extrapolation=repeated), "bimix")["last_step_percent"] == error
    found = law_facts(evidence(fit_of(PROMISE)), "bimix")
    assert found["held_out"] == {} and found["left_out_percent"] == 2

    proxies = runs(SURE, baseline=[4.0], se=[3.9], ce=[3.8])
    ends = entropy_facts(evidence(fit_of(PROMISE), proxies=proxies, roles=ROLES))
    changes = {name: one["difference_percent"] for name, one in ends["mixtures"].items()}
    assert changes == pytest.approx({"se": -2.5, "ce": -5})
    assert entropy_facts(evidence(fit_of(PROMISE), proxies=runs(baseline=[4.0]), roles=ROLES)) is None

    target = runs(SURE, baseline=[4.0], uniform=[3.9], bimix=[3.6])
    facts, said = said_of(target, [PROMISE], proxies, **tables, verdict=decide(target, None, [PROMISE], RANKS))
    assert (facts["law"]["runs"], facts["entropies"]["step"]) == (3, 400)
    assert all(number in said["Law"] for number in ("0.20", "0.40", "0.980")) and "ce -5.00 %*" in said["Entropies"]


def test_the_optimum_of_the_page_is_the_one_to_take_else_one_that_was_trained() -> None:
    target = runs(SURE, baseline=[4.0], transfer=[3.8])
    fits = fit_of(PROMISE) | fit_of(None, "transfer", "transfer")
    chosen = decide(target, None, [PROMISE], RANKS)
    assert evidence(fits, target, verdict=chosen).optimum == "transfer"
    untrained = replace(chosen, best="baseline", measured=None)
    assert evidence(fits, runs(baseline=[4.0]), verdict=untrained).optimum == "bimix", "of the trusted law"
    # BiMix' own is there where the page is about another
    fits = fit_of(PROMISE) | fit_of(None, name="transfer")
    (paper,) = verdict_facts(evidence(fits, target, verdict=chosen))["paper"]
    assert paper["optimum"]["mixture"] == "bimix" and paper["optimum"]["predicted"]["percent"] == pytest.approx(10)
    assert verdict_facts(evidence(fit_of(PROMISE), target, verdict=chosen))["paper"] == []


def test_documents_and_tokens_of_each_domain_are_counted() -> None:
    index = pl.DataFrame({"domain": ["b", "a", "a"], "records": [3, 1, 1], "tokens": [30, 10, 20]})
    counted = verdict_facts(evidence(fit_of(PROMISE), index=index))["data"]["domains"]
    assert counted == {"a": {"documents": 2, "tokens": 30}, "b": {"documents": 3, "tokens": 30}}


def test_more_runs_cost_steps_and_where_the_size_is_known_flops_and_hours() -> None:
    """6 N FLOPs a token, as the plan of costs has them."""
    bare = runs(baseline=[4.0], m0=[3.9])
    sized = compared(replace(bare.runs, parameters=1e9), Criterion("baseline"))
    verdict = Verdict("promised", "bimix", "why", "m0", PROMISE, measured=sized)
    device = Device("A100", 312e12, 0.4)
    more = {"model": OBSERVED, "run_tokens": 2e10, "device": device}
    known, said = said_of(sized, [PROMISE], sized, verdict=verdict, **more)
    flops = known["next"][0]["runs"] * 6 * 1e9 * 2e10
    cost = {"steps": 400, "flops": flops, "device": "A100", "hours": flops / (312e12 * 0.4) / 3600}
    assert {key: known["next"][0][key] for key in cost} == pytest.approx(cost)
    assert "400 steps" in said["Next"] and "FLOPs" in said["Next"] and "A100" in said["Next"]
    bare, said = said_of(bare, [PROMISE], verdict=replace(verdict, measured=bare), **more)
    assert (bare["next"][0]["steps"], bare["next"][0]["flops"]) == (400, None) and "FLOPs" not in said["Next"]
