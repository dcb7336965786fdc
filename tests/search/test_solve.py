"""bimix solve: two tables in, the mixture that the evidence prefers out, with the reason."""

import json
from pathlib import Path
from types import SimpleNamespace

import made_laws
import numpy as np
import polars as pl
import pytest
from refusals import refused

import solve_mixture
from bimix.errors import InputError
from bimix.judge.comparison import compared
from bimix.judge.measured import Criterion, measured
from bimix.judge.verdict import Promise
from bimix.search import solve
from bimix.search.by_hand import Wanted
from bimix.search.weighing import Believed, verdict, weigh


def solved(folder: Path, losses: pl.DataFrame, mixtures: pl.DataFrame, *more: str) -> tuple[dict, str]:
    """mixture.json and the page in one line; verdict.json stands beside them."""
    losses.write_csv(folder / "losses.csv")
    mixtures.write_csv(folder / "mixtures.csv")
    files = ["--losses", str(folder / "losses.csv"), "--mixtures", str(folder / "mixtures.csv")]
    solve_mixture.main([*files, "--out", str(folder / "out"), *more])
    text = (folder / "out/summary.txt").read_text()
    assert max(map(len, text.splitlines())) <= 80
    return json.loads((folder / "out/mixture.json").read_text()), " ".join(text.split())


def regret(true: made_laws.Law, mixture: dict) -> float:
    """By how much a mixture ends above the best, in percent."""
    own = true(np.array([mixture[name] for name in made_laws.DOMAINS]), made_laws.STEPS[-1]).mean()
    return 100 * (own / made_laws.best(true) - 1)


def test_the_recommended_mixture_of_made_laws_is_near_the_best_and_no_worse_than_uniform(tmp_path) -> None:
    uniform, found, pages = dict.fromkeys(made_laws.DOMAINS, 0.2), [], []
    for seed in range(4):
        true = made_laws.law(seed)
        mixture, said = solved(tmp_path, *made_laws.tables(true, seed))
        found.append(regret(true, mixture))
        pages.append(said)
        assert found[-1] <= regret(true, uniform) + 0.05, seed
    assert np.mean(found) < 0.2
    # the page takes the law that errs least and says so
    assert "(transfer)" in pages[0] and ", 0.85 of it" in pages[0], "12 runs are few"
    assert "do not determine" not in pages[1]


def test_a_run_below_all_promises_is_taken_and_seen(tmp_path, monkeypatch) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(0), 0)
    lucky = pl.col("mixture") == "m03"
    losses = losses.with_columns(pl.when(lucky).then(pl.col("loss") * 0.8).otherwise(pl.col("loss")).alias("loss"))
    mixture, _ = solved(tmp_path, losses, mixtures, "--laws", "bimix")
    shares = dict(mixtures.filter(lucky).select("domain", "proportion").iter_rows())
    assert mixture == pytest.approx(shares, abs=1e-6)
    # by a law that errs by 5 % it is not surely the best of all
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert (facts["take"], facts["outcome"], facts["rival"], facts["tested"]) == ("m03", "ties", "uniform", True)
    assert (tmp_path / "out/explore.html").exists()
    monkeypatch.setattr(solve_mixture, "DRAWN", ())  # as of a law that is no formula
    solved(tmp_path, losses, mixtures, "--laws", "bimix")
    assert not (tmp_path / "out/explore.html").exists(), "it would be of the answer before"


def test_bounds_weights_epochs_and_objectives_are_kept(tmp_path) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(1), 1)
    mixture, said = solved(tmp_path, losses, mixtures, "--weights", '{"code": 1}', "--upper", '{"code": 0.4}')
    assert mixture["code"] == pytest.approx(0.4, abs=1e-6) and "in all averages code 1" in said
    tokens = ["--tokens", '{"web": 1e9, "code": 1e6, "books": 1e9, "math": 1e9, "wiki": 1e9}', "--run-tokens", "1e8"]
    mixture, said = solved(tmp_path, losses, mixtures, *tokens, "--max-epochs", "4")
    assert mixture["code"] <= 0.04 + 1e-6 and "epochs" in said and "max_epochs 4 binds for code." in said
    objective = json.dumps({"kind": "no_worse_than", "reference": "m02", "margin": 0.01, "weights": {"math": 1}})
    held, said = solved(tmp_path, losses, mixtures, "--objective", objective, "--reference", "m02")
    _, page = solved(tmp_path, losses, mixtures, "--objective", "minimax", "--reference", "m02", "--laws", "bimix")
    assert "worst loss over the reference's)" in page and "comparison.csv" not in page, "which solve does not write"
    free, _ = solved(tmp_path, losses, mixtures, "--weights", '{"math": 1}', "--reference", "m02")
    assert " over m02: predicted" in said and free["math"] > held["math"]


def test_what_is_remarkable_stands_on_the_page(tmp_path) -> None:
    """A loss with a slip, and text read more often than in any run."""
    losses, mixtures = made_laws.tables(made_laws.law(1), 1)
    first, last = made_laws.DOMAINS[0], made_laws.STEPS[-1]
    names = losses["mixture"].unique(maintain_order=True).to_list()
    slip = (pl.col("mixture") == names[1]) & (pl.col("domain") == first) & (pl.col("step") == last)
    losses = losses.with_columns(pl.when(slip).then(pl.col("loss") * 4).otherwise("loss").alias("loss"))
    pools = json.dumps(dict.fromkeys(made_laws.DOMAINS, 1e6) | {first: 1e3})
    _, page = solved(tmp_path, losses, mixtures, "--tokens", pools, "--run-tokens", "1e6")
    assert f"the loss of mixture '{names[1]}' on '{first}' at step {last}" in page
    assert f"reads text more often than any fitted run is known to have done: {first} " in page


def test_a_reference_that_was_not_run_is_refused(tmp_path) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(1), 1)
    with pytest.raises(InputError, match="--reference 'uniform' is no mixture that has every loss"):
        solved(tmp_path, losses, mixtures, "--reference", "uniform")


def test_a_run_called_like_an_optimum_of_other_proportions_is_not_taken_for_it(tmp_path) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(0), 0)
    before, said = solved(tmp_path, losses, mixtures, "--laws", "transfer")
    assert "No run was trained on it" in said
    risk = json.loads((tmp_path / "out/verdict.json").read_text())["risk"]
    seen = mixtures.group_by("domain").agg(
        pl.col("proportion").min().alias("low"), pl.col("proportion").max().alias("high")
    )
    ranges = {name: (low, high) for name, low, high in seen.iter_rows()}
    outside = [name for name, (low, high) in ranges.items() if not low - 0.01 <= before[name] <= high + 0.01]
    assert sorted(risk["outside"]) == sorted(outside) and 0 < len(outside) < len(ranges)
    name = pl.col("mixture").replace({"m11": "transfer"})
    mixture, said = solved(tmp_path, losses.with_columns(name), mixtures.with_columns(name), "--laws", "transfer")
    assert mixture == before  # and not that of the run
    assert "Renamed The run called transfer" in said
    assert "transfer (measured)" in json.loads((tmp_path / "out/verdict.json").read_text())["measured"]["mixtures"]


def test_a_proxy_that_is_lowest_by_its_luck_is_not_what_an_optimum_has_to_beat(tmp_path, monkeypatch) -> None:
    """At 1 % noise the lowest of twelve is lucky. These laws had no part in the rule."""
    monkeypatch.setattr(made_laws, "NOISE", 0.01)
    for seed in (751, 753, 754):
        true = made_laws.law(seed)
        losses, mixtures = made_laws.tables(true, seed)
        mixture, _ = solved(tmp_path, losses, mixtures)
        ends = losses.filter(pl.col("step") == made_laws.STEPS[-1]).group_by("mixture").agg(pl.col("loss").mean())
        lowest = ends.sort("loss")["mixture"][0]
        shares = dict(mixtures.filter(pl.col("mixture") == lowest).select("domain", "proportion").iter_rows())
        assert regret(true, mixture) < regret(true, shares), seed


def test_a_rule_by_hand_is_taken_where_no_run_and_no_optimum_is_surely_better(tmp_path) -> None:
    """The law that misfits here has an optimum worse than equal shares, which nobody ran."""
    true = made_laws.law(302)
    mixture, _ = solved(tmp_path, *made_laws.tables(true, 302), "--laws", "bimix")
    assert mixture == pytest.approx(dict.fromkeys(made_laws.DOMAINS, 0.2))
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert (facts["take"], facts["outcome"], facts["rival"]) == ("uniform", "rule", "bimix")
    assert facts["gain"]["over"] == "uniform" and facts["gain"]["low"] < 0
    # a run called uniform is none unless its shares are equal, and one called baseline has no token shares
    names = {"m03": "uniform", "m05": "baseline"}
    renamed = [table.with_columns(pl.col("mixture").replace(names)) for table in made_laws.tables(true, 302)]
    again, _ = solved(tmp_path, *renamed, "--laws", "bimix")
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert again == mixture and facts["take"] == "equal shares" and "uniform" not in facts["roles"]
    assert "token shares" not in facts["roles"].values()


def test_rules_by_hand_read_wanted_domains_within_the_bounds() -> None:
    tokens, domains = dict.fromkeys(made_laws.DOMAINS, 1e8) | {"code": 1e6}, sorted(made_laws.DOMAINS)
    law, code = {"domains": domains, "loss_domains": domains}, domains.index("code")
    law["proportions_seen"] = {name: {"max": 1.0} for name in domains}

    def rules(weights: dict, run_tokens: float = 1e8, **flags: object) -> Wanted:
        limits = {"lower": None, "upper": None, "prior": None, "max_epochs": None}
        return Wanted.of(SimpleNamespace(**limits | flags), law, weights, tokens, run_tokens)

    most = json.dumps(dict.fromkeys(domains, 0.5) | {"code": 0.08})
    found = rules({"code": 1}, upper=most).every_rule()
    assert list(found) == [
        "uniform_within_bounds",
        "baseline",
        "wanted_4",
        "wanted_4_uniform",
        "wanted_8",
        "wanted_8_uniform",
    ]
    assert found["uniform_within_bounds"][code] == pytest.approx(0.08) and found["wanted_4"][code] == pytest.approx(
        0.04
    )
    assert found["wanted_8_uniform"] == pytest.approx(np.where(np.arange(5) == code, 0.08, 0.23))
    assert list(rules({}, upper=most).every_rule()) == ["uniform_within_bounds", "baseline"]
    read = [rules({"code": 1}, 1e9, max_epochs=most) for most in (2, None)]
    assert [list(one.every_rule())[:1] for one in read] == [[], ["uniform"]], "no mixture reads all twice at most"
    refused("not valid JSON", rules, {"code": 1}, 1e9, lower="{")


def test_rules_by_hand_that_are_requested_are_not_dropped_in_silence(tmp_path) -> None:
    made, wants = made_laws.tables(made_laws.law(1), 1), ["--laws", "bimix", "--weights", '{"code": 1}']
    refused(r"rules by hand need weights of some domains .* --tokens", solved, tmp_path, *made, *wants, "--hand", "4")
    solved(tmp_path, *made, *wants)  # without the flag there are those that can be


def test_a_second_name_of_one_training_says_nothing_more(tmp_path, monkeypatch) -> None:
    """As in the summary and in searches: the posterior has each training once."""
    made, seen = made_laws.tables(made_laws.law(0), 0), []
    again = [
        pl.concat([one, one.filter(pl.col("mixture") == "m03").with_columns(mixture=pl.lit("same"))]) for one in made
    ]
    monkeypatch.setattr(solve, "verdict", lambda *parts: seen.append(parts[-1]) or verdict(*parts))
    solved(tmp_path, *again, "--laws", "transfer")
    assert "same" in seen[0].ran and seen[0].posterior.seen.names == tuple(f"m{n:02d}" for n in range(12))


def test_what_breaks_the_objective_is_no_candidate() -> None:
    """Neither a run that it forbids nor a rule by hand that is predicted to."""
    own = Promise("transfer", "transfer", "observed", 10, 2.0, 1.9, 2.1, 0.9, 12, 0.01)
    rows = [("m1", 10, name, 3.0) for name in "ab"]
    table = pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row")
    runs = compared(measured(table), Criterion("m1"), outside=["m1"])
    goal = SimpleNamespace(holds=lambda shares: shares[0] <= 0.4)
    posterior = SimpleNamespace(
        posterior=lambda shares: (shares[:, 0], None),
        refitted_gain=lambda one, other: (0.0, 1.0),
        goal=goal,
        seen=SimpleNamespace(names=["m1", "m2"]),
    )
    even, low, optimum = np.array([0.5, 0.5]), np.array([0.3, 0.7]), np.array([0.2, 0.8])
    found = weigh(Believed(posterior, optimum, own, {"m1": even}, {"uniform": even}), runs)
    assert found.best == "transfer" and "no run and no rule by hand holds" in found.why
    rules = {"uniform": even, "wanted_4": low}
    assert weigh(Believed(posterior, optimum, own, {"m1": even}, rules), runs).best == "wanted_4"


@pytest.mark.parametrize("distinct", [1, 2])
def test_few_mixtures_under_many_names_are_refused(tmp_path, distinct: int) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(0), 0, runs=6)
    of = {f"m0{n}": f"m0{n % distinct}" for n in range(6)}
    copies = pl.DataFrame({"name": list(of), "mixture": list(of.values())}).join(mixtures, on="mixture")
    refused(f"have {distinct} mixtures", solved, tmp_path, losses, copies.drop("mixture").rename({"name": "mixture"}))


def test_a_run_without_a_domain_is_left_out_of_bimix_alone(tmp_path) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(0), 0, runs=8)
    without = pl.col("proportion").filter(pl.col("domain") == "code").first().over("mixture")
    zero, code = pl.col("mixture") == "m02", pl.col("domain") == "code"
    share = pl.when(zero & code).then(0.0).when(zero).then(pl.col("proportion") / (1 - without))
    mixtures = mixtures.with_columns(share.otherwise("proportion").alias("proportion"))
    _, said = solved(tmp_path, losses, mixtures, "--laws", "bimix")
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert facts["law"]["runs"] == 7 and "proportion 0 of a domain: m02" in said


def test_slow_laws_are_fitted_to_the_step_alone_or_left_out_and_named(tmp_path, monkeypatch) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(0), 0, runs=8)
    solved(tmp_path, losses, mixtures, "--laws", "olmix")
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert facts["law"]["law"] == "olmix" and facts["left_out"] == {}
    monkeypatch.setattr("bimix.search.solve.MUCH", 10)
    solved(tmp_path, losses, mixtures, "--laws", "olmix", "bimix")
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert facts["law"]["law"] == "bimix" and "olmix" in facts["left_out"]


def test_a_size_far_away_is_named_and_its_level_has_no_interval(tmp_path) -> None:
    small, mixtures = made_laws.tables(made_laws.law(1), 1, runs=8)
    small = small.filter(pl.col("step") == made_laws.STEPS[-1]).with_columns(tokens=1e9)
    sizes = [small.with_columns(pl.col("loss") * times, parameters=size) for size, times in ((1e6, 1.0), (1e7, 0.9))]
    _, said = solved(
        tmp_path, pl.concat(sizes), mixtures, "--parameters", "1e11", "--run-tokens", "1e12", "--laws", "transfer"
    )
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    assert "Sizes" in said and (facts["optimum"]["predicted"]["low"], facts["optimum"]["predicted"]["high"]) == (
        None,
        None,
    )


def test_runs_outside_the_bounds_are_marked_and_the_lowest_is_named(tmp_path) -> None:
    losses, mixtures = made_laws.tables(made_laws.law(0), 0, runs=8)
    _, said = solved(tmp_path, losses, mixtures, "--upper", '{"code": 0.1}', "--laws", "bimix")
    facts = json.loads((tmp_path / "out/verdict.json").read_text())
    ends = {
        name: row["average_loss"] for name, row in facts["measured"]["mixtures"].items() if name in facts["left_out"]
    }
    lowest = min(ends, key=ends.get)
    assert f"outside the bounds {len(ends)}, of which {lowest} ends lowest" in said


def test_rules_are_of_trained_domains_and_called_by_what_they_are() -> None:
    law = {"domains": ["a", "b", "c"], "loss_domains": ["a", "b"]}
    law["proportions_seen"] = {"a": {"max": 0.5}, "b": {"max": 0.5}, "c": {"max": 0.0}}
    options = SimpleNamespace(lower=None, upper=None, max_epochs=None, prior=None)
    rules = Wanted.of(options, law, {}, None, None).every_rule()
    assert rules["uniform"] == pytest.approx([0.5, 0.5, 0])
    options.upper = '{"a": 0.3}'
    rules = Wanted.of(options, law, {}, None, None).every_rule()
    assert "uniform" not in rules and rules["uniform_within_bounds"][0] == pytest.approx(0.3)
    options.upper, tokens = None, {"a": 1e8, "b": 1e9, "c": 1e9}
    read = Wanted.of(options, law, {"a": 1}, tokens, 1e9).mixtures([16])
    assert "wanted_8" in read and "wanted_16" not in read, "80 % of the run at most"
