"""Losses measured elsewhere, from two tables to the page of results."""

import json
import os
import re
import subprocess
from pathlib import Path

import checkout
import numpy as np
import polars as pl
import pytest
import yaml
from checkout import link_checkout
from laws import known

import verify_results
from bimix.observations.observations import Observations

DOMAINS, STEPS = ("code & co", "web"), [1000, 2000, 4000, 8000]


def write_tables(folder: Path, runs: int, steps: list[int] = STEPS) -> None:
    """Losses of runs that the law made, with 0.1 % noise shared along a run."""
    draw = np.random.default_rng(0)
    first = draw.uniform(0.1, 0.9, runs)
    shares = np.stack([first, 1 - first], axis=1)
    losses = shares[:, None, :] ** -np.array([0.2, 0.1]) * (20 / np.array(steps)[:, None] ** 0.4 + np.array([1, 2]))
    losses *= np.exp(0.001 * draw.standard_normal((runs, 1, 2)))
    names = tuple(f"m{n}" for n in range(runs))
    observed = Observations(names, DOMAINS, np.array(steps), DOMAINS, shares, losses)
    known.write_tables(observed, folder / "losses.csv", folder / "mixtures.csv")


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """The checkout's workflow, two tables of five runs, and a config of one dataset."""
    link_checkout(tmp_path)
    write_tables(tmp_path, 5)
    own = {
        "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
        "groups": {"fitted": ["m0", "m1", "m2", "m3"], "held_out": ["m4"], "every": "all"},
        "optimum": {"group": "fitted", "step": 8000},
        "held_out": ["held_out"],
        "compare": {"mixtures": ["m4", "m0"]},
    }
    laws = {"compare": ["bimix"], "optimise": ["bimix"], "intervals": {"resamples": 20}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"run": ["own"], "laws": laws, "datasets": {"own": own}}))
    return tmp_path


def changed(folder: Path, **own: object) -> dict:
    """Write the config with other keys of the dataset; gives the whole of it."""
    config = yaml.safe_load((folder / "own.yaml").read_text())
    config["datasets"]["own"] |= own
    (folder / "own.yaml").write_text(yaml.safe_dump(config))
    return config


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return checkout.call(folder, *arguments, "--configfile", "own.yaml")


def test_a_table_with_an_older_time_is_read_again_and_verify_names_it(workplace: Path, monkeypatch, capsys) -> None:
    target, table = "results/own/mixtures/bimix.json", workplace / "losses.csv"
    assert call(workplace, target).returncode == 0
    before = (workplace / target).read_bytes()
    losses = pl.read_csv(table)
    web = (pl.col("domain") == "web") & (pl.col("mixture") == "m1")
    losses.with_columns(pl.col("loss") * pl.when(web).then(1.5).otherwise(1.0)).write_csv(table)
    os.utime(table, (10**9, 10**9))  # as by `cp -p` and unzip
    monkeypatch.chdir(workplace)
    assert verify_results.main(["results/own"]) == 1
    assert "losses.csv has changed since it was read" in capsys.readouterr().err
    assert {"take_observations", "fit_law", "optimize_mixture"} <= checkout.planned(
        workplace, target, "--configfile", "own.yaml"
    ).keys()
    assert call(workplace, target).returncode == 0
    assert (workplace / target).read_bytes() != before
    assert verify_results.main(["results/own"]) == 0


def test_every_rule_that_reads_a_users_prior_knows_it_by_its_content() -> None:
    """Those of trainings read a prior that the workflow makes."""
    texts = [path.read_text() for path in (checkout.ROOT / "workflow/rules").glob("*.smk")]
    rules = [block for text in texts for block in re.split(r"^(?=rule )", text, flags=re.MULTILINE)]
    reads = {block.split(":")[0].removeprefix("rule "): block for block in rules if "planned(inputs.prior)" in block}
    assert {name for name, block in reads.items() if "brought=" not in block} == {
        "propose_round",
        "judge_search",
        "score_sizes",
    }


def test_a_mixture_that_bears_a_laws_name_is_its_optimum(workplace: Path) -> None:
    changed(workplace, compare={"mixtures": ["m4", "m0", "bimix"]})
    rules = {"m0": "mix_observed", "m4": "mix_observed", "bimix": "optimize_mixture", "transfer": "optimize_mixture"}
    done = call(workplace, *(f"results/own/mixtures/{name}.json" for name in rules), "-n", "-p")
    jobs = r"^rule (\w+):$(?:\n    .*)*?\n    output: results/own/mixtures/(\w+)\.json(?:, .*)?$"
    made = {name: rule for rule, name in re.findall(jobs, done.stdout, re.MULTILINE)}
    assert made == rules, done.stdout + done.stderr
    done = call(workplace, "results/own/mixtures/m1x.json", "-n")  # named nowhere
    assert done.returncode != 0 and "No rule to produce results/own/mixtures/m1x.json" in done.stdout + done.stderr


def test_rules_by_hand_that_nobody_ran_are_written_and_those_that_were_are_taken(workplace: Path) -> None:
    own = changed(workplace, optimum={"group": "fitted", "step": 8000, "weights": {"code & co": 1}})["datasets"]["own"]
    targets = [f"results/own/mixtures/{name}.json" for name in ("wanted_2", "wanted_4_uniform", "wanted_2_kin", "m0")]
    done = call(workplace, *targets, "-n")
    assert "own/observations: a rule by hand counts epochs: name a table of domain and tokens" in done.stdout
    own["observations"] |= {"tokens": "tokens.csv", "cross_entropy": "prior.csv"}
    rows = [("code & co", "code & co", 2), ("code & co", "web", 3), ("web", "code & co", 4), ("web", "web", 2)]
    pl.DataFrame(rows, ["domain", "under", "nats"], orient="row").write_csv(workplace / "prior.csv")
    (workplace / "tokens.csv").write_text("domain,tokens\ncode & co,500\nweb,9000\n")
    losses = pl.read_csv(workplace / "losses.csv").with_columns(tokens=pl.col("step"))
    mixtures = pl.read_csv(workplace / "mixtures.csv")
    as_hand = pl.when(pl.col("mixture") == "m3").then(pl.lit("wanted_8")).otherwise("mixture").alias("mixture")
    losses.with_columns(as_hand).write_csv(workplace / "losses.csv")
    mixtures.with_columns(as_hand).write_csv(workplace / "mixtures.csv")
    own["groups"]["fitted"][3] = "wanted_8"
    changed(workplace, **own)
    done = call(workplace, *targets, "results/own/mixtures/wanted_8.json")
    assert not done.returncode, done.stdout + done.stderr
    made = {path.stem: json.loads(path.read_text()) for path in (workplace / "results/own/mixtures").glob("*.json")}
    assert made["wanted_2"]["code & co"] == pytest.approx(2 * 500 / 8000)
    assert made["wanted_4_uniform"]["code & co"] == pytest.approx(4 * 500 / 8000)
    assert made["wanted_2_kin"] == pytest.approx(made["wanted_2"])
    run = mixtures.filter(pl.col("mixture") == "m3", pl.col("domain") == "web")["proportion"][0]
    assert made["wanted_8"]["web"] == pytest.approx(run, abs=1e-6)


@pytest.mark.slow
def test_all_of_runs_of_two_sizes(workplace: Path) -> None:
    """Scores of laws are of one size: everything else is made."""
    write_tables(workplace, 5, STEPS[-1:])
    small = pl.read_csv(workplace / "losses.csv").with_columns(parameters=pl.lit(10**6), tokens=pl.lit(8e6))
    of_large = pl.col("mixture").is_in(["m0", "m1", "m4"])
    large = small.filter(of_large).with_columns(
        mixture="large_" + pl.col("mixture"), loss=0.8 * pl.col("loss"), parameters=10**7, tokens=pl.lit(8e7)
    )
    pl.concat([small, large], how="vertical_relaxed").write_csv(workplace / "losses.csv")
    mixtures = pl.read_csv(workplace / "mixtures.csv")
    copies = mixtures.filter(of_large).with_columns(mixture="large_" + pl.col("mixture"))
    pl.concat([mixtures, copies]).write_csv(workplace / "mixtures.csv")
    groups = {"fitted": ["m0", "m1", "m2", "m3", "m4", "large_m0", "large_m1"], "held_out": ["large_m4"]}
    config = changed(workplace, groups=groups, compare={"mixtures": ["large_m0", "large_m1", "large_m4"]})
    config["laws"] |= {"compare": ["transfer", "bimix"], "optimise": ["transfer"]}
    (workplace / "own.yaml").write_text(yaml.safe_dump(config))
    done = call(workplace)
    assert not done.returncode, done.stdout + done.stderr
    told = (workplace / "results/own/summary.txt").read_text()
    assert re.search(r"1M \(5 runs\), 10M \(2 runs\)", told)
    tables = {path.name for path in (workplace / "results/own/tables").glob("*.csv")}
    assert {"comparison.csv", "generalization.csv"} <= tables and not {"laws.csv", "complexity.csv"} & tables
