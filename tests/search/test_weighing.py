"""One answer everywhere: the summary of the workflow, the page to play with and `bimix solve` take
the mixture that the posterior of all runs prefers, not the run that ended lowest.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import made_laws
import numpy as np
import polars as pl
import pytest

import estimate_intervals
import explore_mixtures
import fit_law
import judge_search
import mix_wanted
import optimize_mixture
import solve_mixture
import summarize_results
from bimix.judge.comparison import compared
from bimix.judge.measured import Criterion, measured
from bimix.judge.noise import Known
from bimix.judge.verdict import Promise
from bimix.mixtures.names import SEARCHED
from bimix.search.posterior import kriged
from bimix.search.weighing import Believed, over_hand, verdict, with_rules


def summarised(
    folder: Path, *more: str, proxy: str = "observed", of_law: tuple[str, ...] = (), **others: str
) -> tuple[dict, str]:
    """The facts and the page of the tables in a folder, as the rules of a dataset do."""
    tables = ["--losses", f"{folder}/losses.csv", "--mixtures", f"{folder}/mixtures.csv"]
    law, optimum, spans = (str(folder / name) for name in ("law.json", "transfer.json", "intervals.csv"))
    first = pl.read_csv(folder / "mixtures.csv").filter(pl.col("mixture") == "m00")
    (folder / "m00.json").write_text(json.dumps(dict(first.select("domain", "proportion").iter_rows())))
    fit_law.main(["--law", "transfer", *tables, "--out", law, *of_law])
    optimize_mixture.main(["--coefficients", law, "--step", "8000", "--out", optimum, *more])
    kept = ["--baseline", "m00", "--level", "0.9"]
    estimate_intervals.main(["--coefficients", law, *tables, "--step", "8000", *kept, "--out", spans, *more])
    flags = {
        "dataset": "losses",
        "fitted-model": proxy,
        "compared-model": "observed",
        "step": "8000",
        "coefficients": law,
        "optimised": optimum,
        "intervals": spans,
        "reference": "m00",
        "reference-mixture": str(folder / "m00.json"),
        "compared": str(folder / "losses.csv"),
        "proxies": str(folder / "losses.csv"),
        "fitted": str(folder / "losses.csv"),
        "figures": "results/losses/figures/mixtures.svg",
        "verdict": str(folder / "verdict.json"),
        "out": str(folder / "summary.txt"),
        "details": str(folder / "details.txt"),
        "page": str(folder / "summary.html"),
        "explore": str(folder / "explore.html"),
    } | {name.replace("_", "-"): one for name, one in others.items()}
    listed = [part for flag, value in flags.items() for part in (f"--{flag}", value)]
    summarize_results.main([*listed, "--mixtures", *[f"{folder}/mixtures.csv"] * 2, *more])
    text = " ".join((folder / "summary.txt").read_text().split())
    return json.loads((folder / "verdict.json").read_text()), text


@pytest.mark.parametrize(("luck", "more"), [("m09", []), ("m06", ["--weights", '{"code": 1, "math": 1}'])])
def test_a_lucky_run_is_not_recommended_and_all_pages_agree(tmp_path, luck: str, more: list[str]) -> None:
    """One run of twelve ended 1.5 % below its mixture's worth, and below the law's optimum."""
    losses, mixtures = made_laws.tables(made_laws.law(751), 751)
    lucky = pl.when(pl.col("mixture") == luck).then(0.985).otherwise(1.0)
    losses.with_columns(pl.col("loss") * lucky).write_csv(tmp_path / "losses.csv")
    mixtures.write_csv(tmp_path / "mixtures.csv")
    facts, said = summarised(tmp_path, *more)
    assert next(iter(facts["measured"]["mixtures"])) == luck
    assert facts["take"] != luck and facts["why"] in said
    tables = ["--losses", f"{tmp_path}/losses.csv", "--mixtures", f"{tmp_path}/mixtures.csv"]
    solve_mixture.main([*tables, "--laws", "transfer", "--out", str(tmp_path / "solved"), *more])
    answer = json.loads((tmp_path / "solved/mixture.json").read_text())
    assert {name: one for name, one in answer.items() if one} == pytest.approx(facts["shares"], abs=2e-6)
    own = json.loads((tmp_path / "solved/verdict.json").read_text())
    assert all(own[key] == facts[key] for key in ("take", "outcome", "rival", "ties"))
    assert own["gain"]["percent"] == pytest.approx(facts["gain"]["percent"], rel=1e-4)
    assert f'"start": "{facts["take"]}"' in (tmp_path / "explore.html").read_text()


def test_one_list_of_rules_by_hand_is_behind_summary_solve_explore_and_search(tmp_path, monkeypatch) -> None:
    """The same mixtures under the same names, those of mix_wanted, the rules kin among them."""
    losses, mixtures = made_laws.tables(made_laws.law(751), 751)
    losses.with_columns(tokens=pl.col("step") * 1e5).write_csv(tmp_path / "losses.csv")
    mixtures.write_csv(tmp_path / "mixtures.csv")
    domains, nats = sorted(made_laws.DOMAINS), tmp_path / "nats.csv"
    pairs = [(one, under, 3 + 0.4 * abs(i - j)) for i, one in enumerate(domains) for j, under in enumerate(domains)]
    pl.DataFrame(pairs, schema=["domain", "under", "nats"], orient="row").write_csv(nats)
    pools = json.dumps({name: 2e8 + 1e8 * place for place, name in enumerate(domains)} | {"code": 2e7})
    tables = ["--losses", f"{tmp_path}/losses.csv", "--mixtures", f"{tmp_path}/mixtures.csv"]
    asked = ["--weights", '{"code": 1}', "--tokens", pools, "--max-epochs", "6", "--upper", '{"web": 0.3}']
    summarised(tmp_path, *asked, of_law=("--prior", str(nats)), prior=str(nats))

    def buttons(page: Path) -> dict[str, dict[str, float]]:
        text = page.read_text()
        found = json.JSONDecoder().raw_decode(text, text.index('"mixtures": ') + len('"mixtures": '))[0]
        return {name: one for name, one in found.items() if name.startswith(("wanted", "uniform", "baseline"))}

    rules = buttons(tmp_path / "explore.html")
    assert sorted(rules) == ["baseline", "uniform_within_bounds", "wanted_4", "wanted_4_kin", "wanted_4_uniform"]
    solve_mixture.main([*tables, "--laws", "transfer", "--out", str(tmp_path), *asked, "--prior", str(nats)])
    assert buttons(tmp_path / "explore.html") == {name: pytest.approx(one) for name, one in rules.items()}
    law = ["--coefficients", f"{tmp_path}/law.json", "--runs", f"{tmp_path}/mixtures.csv", "--prior", str(nats)]
    explore_mixtures.main(
        [*law, "--reference-mixture", f"{tmp_path}/m00.json", *asked, "--out", f"{tmp_path}/own.html"]
    )
    assert buttons(tmp_path / "own.html") == {name: pytest.approx(one) for name, one in rules.items()}
    for name in ("wanted_4", "wanted_4_uniform", "wanted_4_kin"):
        made = ["--name", name, "--runs", *tables[1::2], "--cross-entropy", str(nats), "--out", f"{tmp_path}/rule.json"]
        mix_wanted.main([*made, *asked])
        assert json.loads((tmp_path / "rule.json").read_text()) == pytest.approx(rules[name], abs=2e-6)
    seen, report = [], {"stopped": None, "expected_gain": 0.01, "noise": None, "proposals": []}
    (tmp_path / "1.json").write_text(json.dumps(report))
    monkeypatch.setattr(judge_search, "answer", lambda *parts: seen.append(parts[-1]) or ["said"])
    files = [part for flag in ("out", "rounds", "answer") for part in (f"--{flag}", f"{tmp_path}/{flag}")]
    judge_search.main(
        [*tables, *asked, *files, "--reports", f"{tmp_path}/1.json", "--prior", str(nats), "--least", "0.25"]
    )
    assert {name: dict(zip(domains, one, strict=True)) for name, one in seen[0].items()} == {
        name: pytest.approx(one) for name, one in rules.items()
    }


def test_runs_of_the_target_are_read_at_its_size_by_a_law_over_sizes(tmp_path) -> None:
    """Their table does not have it. Taken for runs of another size, which all have greater losses,
    the few mixtures run at the target would seem 10 % better than any other.
    """
    losses, mixtures = made_laws.tables(made_laws.law(751), 751, 16)
    mixtures.write_csv(tmp_path / "mixtures.csv")
    ends = losses.filter(pl.col("step") == 8000)
    sizes = ((1.0, 1e6), (0.9, 4e6))
    fitted = [ends.with_columns(pl.col("loss") * by, parameters=pl.lit(of), tokens=pl.lit(1e8)) for by, of in sizes]
    pl.concat(fitted).write_csv(tmp_path / "losses.csv")
    large = ends.filter(pl.col("mixture").is_in(["m00", "m01", "m02", "m03"])).with_columns(pl.col("loss") * 0.82)
    large.write_csv(tmp_path / "large.csv")
    (tmp_path / "size.json").write_text('{"parameters": 1.6e7, "tokens": 1e8}')
    others = {"compared": str(tmp_path / "large.csv"), "asked_model": "large", "compared_model": "large"}
    found, _ = summarised(tmp_path, proxy="sizes", of_law=("--asked", str(tmp_path / "size.json")), **others)
    assert found["take"] == "transfer"


def test_another_model_is_judged_by_what_was_measured_there() -> None:
    def runs(**ends: float):
        rows = [(name, 10, domain, end) for name, end in ends.items() for domain in "ab"]
        table = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
        return compared(measured(table), Criterion("baseline"), Known(0.001, 11, "elsewhere"))

    proxies, ranks = runs(baseline=2.1, m1=2.05), {"transfer": SEARCHED}
    believed = made_up({"baseline": 2.1, "m1": 2.06, "transfer": 2.0})
    own = believed.promise
    assert verdict(runs(baseline=1.5, uniform=1.4), proxies, [own], ranks, believed).best == "transfer"
    found = verdict(runs(baseline=1.5, transfer=1.45), proxies, [own], ranks, believed)
    assert found.best == "transfer" and found.outcome == "wins" and "by the law" not in found.why
    assert verdict(runs(baseline=1.5, transfer=1.55), proxies, [own], ranks, believed).best == "baseline"
    trained = runs(baseline=2.1, transfer=2.05)
    believed.ran["transfer"] = believed.optimum
    assert verdict(trained, trained, [own], ranks, believed).why.startswith("it is lowest by the law and all runs")
    believed.posterior.observed.parameters = [1e6, 4e6]  # a law over sizes, read at the target
    assert "by the law" not in verdict(trained, trained, [own], ranks, believed).why


def made_up(levels: dict[str, float], deviation: float = 0.001) -> Believed:
    """A posterior with these levels of mixtures of two domains, the last of them the optimum."""
    shares = {name: np.array([0.1 * (n + 1), 1 - 0.1 * (n + 1)]) for n, name in enumerate(levels)}

    def level(one):
        return np.log(next(levels[name] for name in levels if np.allclose(shares[name], one)))

    def gain(before, after):
        return -np.expm1(level(after) - level(before))

    posterior = SimpleNamespace(
        observed=SimpleNamespace(parameters=None),
        posterior=lambda rows: (np.array([level(one) for one in rows]), None),
        gain=lambda before, after: (gain(before, after), 0.6 * deviation),
        refitted_gain=lambda before, after: (gain(before, after), deviation),
        goal=SimpleNamespace(excess=lambda one: np.zeros(1)),
        seen=SimpleNamespace(names=list(levels)),
    )
    *ran, optimum = levels
    value = levels[optimum]
    own = Promise("transfer", "transfer", "proxy", 10, value, 0.99 * value, 1.01 * value, 0.9, 12, 0.01)
    known = {name: shares[name] for name in ran}
    return Believed(posterior, shares[optimum], own, known, with_rules(known, {}, reserved=True))


def test_every_difference_is_decided_by_the_deviation_that_knows_of_refits() -> None:
    levels = {"baseline": 2.1, "wanted_8": 2.0, "m1": 1.99, "transfer": 2.0}

    def outcome(deviation: float, noise: float = 0.1, **more: float) -> str:
        known = Known(noise, 5, "elsewhere")
        table = [(name, 10, "a", one) for name, one in (levels | more).items() if name != "transfer"]
        runs = measured(pl.DataFrame(table, ["mixture", "step", "domain", "loss"], orient="row"))
        trained = compared(runs, Criterion("baseline"), known)
        believed = made_up(levels | more, deviation)
        return verdict(trained, trained, [believed.promise], {}, believed).outcome

    t = 2.353  # one-sided 95 % at three degrees of freedom
    gap = 1 - 1.99 / 2.0
    assert outcome(0.99 * gap / t) == "wins" and outcome(1.01 * gap / t) == "ties"
    # or where the runs themselves differ: 2.571, two-sided at five degrees of freedom; Dunnett has 2.44 for two others
    assert outcome(0.1, noise=0.98 * gap / 2.571 / 2**0.5) == "wins"
    assert outcome(0.1, noise=1.02 * gap / 2.571 / 2**0.5) == "ties"
    gap = 1 - 1.98 / 1.99
    assert outcome(0.99 * gap / t, transfer=1.98) == "promised"
    assert outcome(1.01 * gap / t, noise=0.0001, transfer=1.98) == "wins", "a run, which is below all others"
    assert outcome(0.1, m1=2.01, transfer=1.98) == "rule", "the rule is lowest, the optimum not surely lower"


def test_the_gain_over_the_best_rule_by_hand_is_said_with_its_interval() -> None:
    levels = {"baseline": 2.1, "wanted_8": 2.0, "m1": 1.9, "transfer": 1.95}
    sure, unsure = made_up(levels, 0.001), made_up(levels, 0.1)
    assert list(sure.hand) == ["baseline", "wanted_8"]
    said = over_hand(sure.posterior, "m1", sure.ran["m1"], sure.hand)
    assert said == "it is 5.00 % (4.76 to 5.24, 90 %) below wanted_8, the best rule by hand"
    said = over_hand(unsure.posterior, "m1", unsure.ran["m1"], unsure.hand)
    assert said == "not better than wanted_8, the best rule by hand: 5.00 % (-18.53 to 28.53, 90 %) below it"
    above = made_up(levels | {"m1": 2.05}, 0.01)
    said = over_hand(above.posterior, "m1", above.ran["m1"], above.hand)
    assert said == "not better than wanted_8, the best rule by hand: 2.50 % (0.15 to 4.85, 90 %) above it"
    said = over_hand(unsure.posterior, "wanted_8", unsure.ran["wanted_8"], unsure.hand)
    assert said == "no searched mixture is better than wanted_8, a rule that needs no search"


def test_a_run_with_the_proportions_of_a_rule_is_one_and_that_rule_no_other_candidate() -> None:
    ran = {"m1": np.array([0.5, 0.5]), "m2": np.array([0.8, 0.2]), "wanted_4": np.array([0.9, 0.1])}
    rules = {"uniform": np.array([0.5, 0.5]), "wanted_4": np.array([0.7, 0.3]), "wanted_8": np.array([0.95, 0.05])}
    assert list(with_rules(ran, rules, reserved=True)) == ["m1", "wanted_4", "wanted_8"]
    # in a user's table a name says nothing
    found = with_rules({"baseline": ran["m1"], "uniform": ran["m2"]}, rules | {"uniform": np.array([0.4, 0.6])})
    assert list(found) == ["equal shares", "wanted_4", "wanted_8"] and found["equal shares"][0] == 0.4
    # a mixture that was run more often is shrunk less
    shares, values = np.eye(3), np.array([0.01, 0.0, 0.0])
    once, often = (kriged(shares, values, 0.01, 0.01, np.array([n, 1, 1])).mean(shares[:1])[0] for n in (1, 4))
    assert 0 < 2 * once < often < 0.01
