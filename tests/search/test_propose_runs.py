"""Runs that are proposed, from tables to tables: mixtures, sizes, seeds, pools, budgets, faults."""

import json

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, observe, of_three, write_prior, write_tables
from refusals import refused

import propose_runs
from bimix.observations.observations import read_observations
from bimix.search import proposals
from bimix.search.proposals import Rung, knee

DOMAINS = ("code", "law", "web")
MODELS = "name,parameters,tokens\nsmall,1e7,2e8\nmiddle,1e8,1e9\n"
PAIR = '{"code": 0.05, "web": 0.1}'


def tables(folder, n=4, name="run", seed=0, noise=0.002) -> list[str]:
    observed = observe(of_three(True), mixtures(seed, n, 3), (1000, 2000, 4000), noise, seed, DOMAINS, name)
    return write_tables(observed, folder / f"{name}_losses.csv", folder / f"{name}_mixtures.csv")


def proposed(folder, *flags: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables of mixtures and of runs."""
    out = folder / "next.csv", folder / "runs.csv"
    propose_runs.main(["--seed", "0", "--out", str(out[0]), "--runs", str(out[1]), *map(str, flags)])
    return pl.read_csv(out[0]), pl.read_csv(out[1])


def models(folder, text: str = MODELS) -> str:
    path = folder / "models.csv"
    path.write_text(text)
    return str(path)


def test_mixtures_are_proposed_as_before(tmp_path) -> None:
    """The table of those who ask for a count: one row a domain of so many mixtures."""
    flags = ["--mixtures", tables(tmp_path)[3], "--count", "2", "--lower", PAIR]
    table, _ = proposed(tmp_path, *flags)
    assert table.columns == ["mixture", "domain", "proportion", "information"]
    assert table["mixture"].unique(maintain_order=True).to_list() == ["proposed_001", "proposed_002"]
    assert table.height == 6 and table["domain"].to_list() == [*DOMAINS, *DOMAINS]
    least = dict(table.group_by("domain").agg(pl.col("proportion").min()).iter_rows())
    assert least["web"] >= 0.1 and least["code"] >= 0.05
    assert table.group_by("mixture").agg(pl.col("proportion").sum())["proportion"].to_list() == pytest.approx([1, 1])
    again, _ = proposed(tmp_path, *flags)
    assert again.equals(table)


def test_a_seed_is_repeated_until_the_noise_is_known(tmp_path, capsys) -> None:
    pair = tables(tmp_path)
    _, runs = proposed(tmp_path, *pair, "--count", "3")
    assert runs["seed"].to_list() == [1, 1, 1, 2]
    assert runs["mixture"][3] in runs["mixture"][:3] and runs["mixture"].n_unique() == 3
    assert "with a further seed" in capsys.readouterr().out
    losses = pl.read_csv(pair[1])
    repeats = losses.filter(pl.col("mixture") == "run0").with_columns(pl.col("loss") * 1.001, seed=pl.lit(2))
    pl.concat([losses.with_columns(seed=pl.lit(1)), repeats]).write_csv(pair[1])
    _, runs = proposed(tmp_path, *pair, "--count", "3")
    assert runs["seed"].to_list() == [1, 1, 1]


def test_names_go_on_after_those_proposed_before(tmp_path) -> None:
    pair = tables(tmp_path)
    path = pair[3]
    table = pl.read_csv(path).with_columns(pl.col("mixture").replace("run3", "proposed_007"))
    table.write_csv(path)
    after, _ = proposed(tmp_path, "--mixtures", path, "--count", "2")
    assert after["mixture"].unique(maintain_order=True).to_list() == ["proposed_008", "proposed_009"]


def test_what_is_proposed_can_be_fitted(tmp_path) -> None:
    """The tables of a first round, with losses beside them, are read as one with the second."""
    tokens = '{"code": 1e8, "law": 2e7, "web": 1e9}'
    flags = ["--tokens", tokens, "--large", "1e9,1e9", "--budget", "5%", "--models", models(tmp_path)]
    table, runs = proposed(tmp_path, *flags)
    rows = runs.join(table, on="mixture", how="inner", maintain_order="left").select(
        "mixture", "seed", "parameters", "tokens", "domain", step=pl.lit(100), loss=pl.lit(3.0) + pl.col("proportion")
    )
    rows.write_csv(tmp_path / "losses.csv")
    observed = read_observations(tmp_path / "losses.csv", tmp_path / "next.csv")
    assert len(observed.mixtures) == runs.select("mixture", "parameters").unique().height
    assert observed.noise is not None and (observed.pools == [1e8, 2e7, 1e9]).all()


def test_a_budget_is_kept_and_a_count_used_over_sizes(tmp_path, capsys) -> None:
    near = "name,parameters,tokens\nsmall,1e7,2e8\nmiddle,1.2e7,2e8\n"  # the larger tells more of the large run
    flags = ["--mixtures", tables(tmp_path)[3], "--models", models(tmp_path, near), "--large", "1e9,2e10"]
    table, runs = proposed(tmp_path, *flags, "--budget", "3%", "--count", 40)
    budget, cheapest = 0.03 * 6 * 1e9 * 2e10, 6 * 1e7 * 2e8
    assert runs["flops"].sum() <= budget and set(runs["model"]) == {"small", "middle"}
    assert runs["flops"].to_list() == (6 * runs["parameters"] * runs["tokens"]).to_list()
    # each size is compared on mixtures that another has, new or done
    small = {*runs.filter(pl.col("model") == "small")["mixture"], *(f"run{i}" for i in range(4))}
    assert set(runs.filter(pl.col("model") == "middle")["mixture"]) <= small
    assert set(table["mixture"]) == {name for name in runs["mixture"] if name.startswith("proposed")}
    said = capsys.readouterr().out
    assert "FLOPs of 3.6e+18" in said and "expected regret" not in said
    _, two = proposed(tmp_path, *flags, "--budget", 2.5 * cheapest)
    assert two["model"].to_list() == ["small"] * 2 and two["seed"].to_list() == [1, 2]
    _, most = proposed(tmp_path, *flags, "--budget", "3%", "--count", 5)
    assert most["mixture"].len() == 6 and most["seed"].to_list()[-1] == 2


def test_a_budget_is_not_filled_but_shown_as_a_ladder_with_its_knee(tmp_path, capsys) -> None:
    flags = ["--tokens", '{"code": 1e9, "law": 1e8, "web": 1e10}', "--models", models(tmp_path), "--large", "1e9,2e10"]
    _, runs = proposed(tmp_path, *flags, "--budget", "20%", "--flops-per-second", "1e14")
    budget, spent = 0.2 * 6 * 1e9 * 2e10, runs["flops"].sum()
    assert 12 <= runs.height < 60 and spent < budget / 4
    lines = capsys.readouterr().out.splitlines()
    head = next(n for n, line in enumerate(lines) if "GPU hours" in line)
    rows = [line.split() for line in lines[head + 1 : -2]]
    counts, regrets = ([float(row[place]) for row in rows] for place in (0, 5))
    hours, share = float(rows[0][3]), float(rows[0][1])
    assert counts[:4] == [1, 2, 4, 8] and counts == sorted(counts)
    assert regrets[0] > regrets[-1]
    first = 6 * 1e7 * 2e8
    assert hours == pytest.approx(first / 1e14 / 3600, rel=0.01) and share == pytest.approx(
        100 * first / 1.2e20, rel=0.1
    )
    assert f"{runs.height - 1} runs are proposed" in lines[-2]


def test_the_knee_is_where_more_runs_gain_least_for_their_cost() -> None:
    ladder = [Rung(n, n * 1.0, 0.0, 1 / n) for n in (1, 2, 4, 8, 12, 16, 32, 64, 128)]
    assert knee(ladder).runs == 12  # by cost alone 8, of which a law that fits says nothing
    assert knee(ladder[:6]).runs == 12 and knee(ladder[:6], done=8).runs == 4
    assert knee(ladder[:2]).runs == 2
    assert knee([Rung(n, n * 1.0, 0.0, 0.0) for n in (1, 12, 24)]).runs == 12


def test_the_sentence_at_the_knee_says_what_more_runs_gain() -> None:
    def said(first: float, last: float, runs: int = 24) -> str:
        ladder = [Rung(count, count * 1.0, 0.0, regret) for count, regret in ((12, first), (runs, last))]
        return proposals.ladder_lines(ladder, None, 0, 1e14)[-2]

    more = ", for 2 times the FLOPs. --count takes another number."
    assert said(0.01, 0.002) == "12 runs are proposed: 24 would lower the expected regret from 1 % to 0.2 %" + more
    hardly = "12 runs are proposed: 24 would hardly lower the expected regret, which is "
    assert said(0.02, 0.01999) == hardly + "2 %" + more
    assert said(1e-7, 1e-9) == said(0.0, 0.0) == hardly + "below 0.01 %" + more
    alone = proposals.ladder_lines([Rung(4, 4.0, 0.0, 0.01)], None, 0, 1e14)[-2]
    assert alone == "4 runs are proposed, all that the budget holds. --count takes another number."


def test_no_domain_is_left_out_and_proposals_are_ten_thousandths(tmp_path) -> None:
    tokens = {"code": 1e9, "law": 2e8, "web": 1e10}
    flags = ["--tokens", json.dumps(tokens), "--count", "6"]
    table, _ = proposed(tmp_path, *flags)
    assert table["proportion"].to_list() == pytest.approx(table["proportion"].round(4).to_list(), abs=1e-12)
    sums = table.group_by("mixture").agg(pl.col("proportion").sum())["proportion"]
    assert sums.to_list() == pytest.approx([1] * len(sums), abs=1e-9)
    for domain, amount in tokens.items():
        least = table.filter(pl.col("domain") == domain)["proportion"].min()
        assert least >= 0.25 * amount / sum(tokens.values()) - 1e-4
    bounded, _ = proposed(tmp_path, *flags, "--lower", '{"web": 0.01}')
    assert bounded.filter(pl.col("domain") == "web")["proportion"].min() < 0.2
    free, _ = proposed(tmp_path, *flags, "--least", "0")
    assert free["proportion"].min() < 1e-3


def test_models_are_those_of_a_plan_of_costs(tmp_path) -> None:
    plan = "what,model,parameters,tokens_per_run,flops_per_run\n"
    plan += "pretraining,proxy,1000,5000,4e7\nswarm,proxy,1000,700,5e6\ntotal,,,,\n"
    plan += "pretraining,large,100000,50000,4e11\n"
    flags = ["--tokens", '{"a": 1, "b": 2}', "--models", models(tmp_path, plan), "--large", "large"]
    _, runs = proposed(tmp_path, *flags, "--offered", "proxy", "--budget", "0.05%")
    assert runs["model"].to_list() == ["proxy"] * 5 and set(runs["flops"]) == {4e7} and set(runs["tokens"]) == {5000}


def test_pools_bound_the_mixtures_and_stand_in_the_table(tmp_path) -> None:
    tokens = '{"code": 1e9, "law": 1e7, "web": 1e10}'
    flags = ["--tokens", tokens, "--large", "1e9,1e9", "--max-epochs", "4", "--models", models(tmp_path)]
    table, _ = proposed(tmp_path, *flags, "--budget", "1%")
    assert table.filter(pl.col("domain") == "law")["proportion"].max() <= 4 * 1e7 / 1e9 + 1e-9
    assert dict(table.select("domain", "pool").unique().iter_rows()) == {"code": 1e9, "law": 1e7, "web": 1e10}
    near = models(tmp_path, "name,parameters,tokens\nsmall,1e7,2e8\nmiddle,1.2e7,2.2e8\n")
    table, runs = proposed(tmp_path, *flags, "--models", near, "--budget", "40%", "--count", "40", "--match-epochs")
    by_model = table.join(runs.select("mixture", "tokens").unique(), on="mixture")
    law = by_model.filter(pl.col("domain") == "law")
    assert law["pool"].to_list() == pytest.approx((1e7 * law["tokens"] / 1e9).to_list())
    assert law["tokens"].n_unique() == 2
    # a mixture has a name for each size, since its pools differ
    assert runs.select("mixture", "model").unique()["mixture"].is_unique().all()


def test_a_prior_and_losses_change_what_is_proposed(tmp_path) -> None:
    pair = tables(tmp_path)
    gaps = np.array([[2.0, 2.1, 6.0], [2.1, 2.0, 6.0], [6.0, 6.0, 2.0]])
    prior = write_prior(gaps, DOMAINS, tmp_path / "prior.csv")
    flags = ["--mixtures", pair[3], "--count", "3"]
    plain, heard, fitted = (
        proposed(tmp_path, *flags, *more)[0]["proportion"].to_list()
        for more in ([], ["--prior", prior], ["--losses", pair[1]])
    )
    assert plain != heard and plain != fitted


def test_epochs_are_counted_by_the_tokens_of_the_losses(tmp_path) -> None:
    """4,000 steps of 1e5 tokens: four epochs of 2e7 tokens are a share of 0.2."""
    observed = observe(of_three(True), mixtures(0, 5, 3), (1000, 2000, 4000), 0.002, 0, DOMAINS)
    pair = write_tables(observed, tmp_path / "l.csv", tmp_path / "m.csv", tokens_per_step=100_000)
    flags = ["--tokens", '{"code": 1e9, "law": 2e7, "web": 1e9}', "--max-epochs", "4", "--count", "4"]
    table, _ = proposed(tmp_path, *pair, *flags)
    assert 0.05 < table.filter(pl.col("domain") == "law")["proportion"].max() <= 0.2 + 1e-4


def test_flags_and_tables_that_cannot_be_are_refused(tmp_path) -> None:
    # flags that do not belong together
    for flags, sentence in (
        (["--count", "2"], "neither --mixtures nor --tokens is given"),
        (["--tokens", "{}", "--losses", "l.csv"], "--losses needs --mixtures"),
        (["--tokens", '{"a": 1, "b": 1}'], "neither --count nor --budget"),
        (["--tokens", '{"a": 1, "b": 1}', "--count", "0"], "--count is 0: it must be 1 or more"),
        (["--tokens", '{"a": 1, "b": 1}', "--budget", "1e9"], "--budget needs --models"),
        (["--tokens", '{"a": 1, "b": 1}', "--offered", "small"], "--offered needs --models"),
        (["--tokens", '{"a": 1, "b": 1}', "--count", "2", "--max-epochs", "2"], "--max-epochs needs --tokens, and"),
    ):
        refused(sentence, proposed, tmp_path, *flags)
    # budgets and sizes
    for flags, sentence in (
        (["--budget", "1e12"], "holds no run: the cheapest model, small, takes 1.2e\\+16"),
        (["--budget", "5%"], "--budget 5% is a share of the large run: name it by --large"),
        (["--budget", "much"], "--budget is 'much': it must be FLOPs"),
        (["--budget", "5%", "--large", "1e9"], "has no model '1e9'"),
        (["--budget", "5%", "--large", "1e9,none"], "--large is '1e9,none': it must be parameters,tokens"),
        (["--budget", "1e18", "--offered", "huge"], "has no model 'huge': it has small, middle"),
        (["--count", "3"], "several sizes, and without --budget"),
        (["--budget", "1e18", "--match-epochs"], "--match-epochs needs --models and the tokens of the large run"),
    ):
        refused(sentence, proposed, tmp_path, "--tokens", '{"a": 1e9, "b": 1e9}', "--models", models(tmp_path), *flags)
    # tables of models
    for text, sentence in (
        ("name,parameters\nsmall,1e7\n", "has no column 'tokens'"),
        ("name,parameters,tokens\nsmall,0,1e8\n", "model 'small' has 0"),
        ("name,parameters,tokens\nsmall,1,1\nsmall,2,2\n", "model 'small' is there twice"),
        ("name,parameters,tokens\n", "has no model"),
    ):
        flags = ["--tokens", '{"a": 1, "b": 1}', "--models", models(tmp_path, text), "--budget", "1e20"]
        refused(sentence, proposed, tmp_path, *flags)
