"""What `snakemake -n` plans, what a wrong config says, what a change repeats."""

import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import polars as pl
import pytest
import yaml
from checkout import ROOT, call, link_checkout, planned, said
from made_configs import FITTED_ONCE

from bimix.plan.dataset import Dataset
from bimix.settings.layers import merged

SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "1"]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """Code is a link to the checkout; the demo fits its laws once."""
    for name in ("Snakefile", "resources", "envs", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "workflow").mkdir()
    for path in (ROOT / "workflow").iterdir():
        if path.name != "defaults.yaml":
            (tmp_path / "workflow" / path.name).symlink_to(path)
    (tmp_path / "config.yaml").write_text((ROOT / "config.yaml").read_text())
    changed(tmp_path, lambda config: None)
    return tmp_path


def changed(folder: Path, change) -> None:
    """Write changed defaults."""
    config = merged(FITTED_ONCE)
    change(config)
    (folder / "workflow/defaults.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def test_snakemake_makes_each_mixture_as_the_list_of_sources_says(workplace: Path) -> None:
    """The rules and `SOURCES` each know which names are whose; they must agree on every kind."""
    (workplace / "own.json").write_text("{}")

    def own(config):
        demo = config["datasets"]["demo"]
        table = ["domain,doge", *(f"{domain},{1 / len(demo['domains'])}" for domain in demo["domains"])]
        (workplace / "table.csv").write_text("\n".join(table) + "\n")
        demo.update(mixture_files={"mine": "own.json"}, published="table.csv")
        demo["optimum"]["weights"] = {"python": 1}
        demo["stages"] = {"late": [{"share": 0.9, "mixture": "uniform"}, {"share": 0.1, "mixture": "bimix"}]}

    changed(workplace, own)
    config = yaml.safe_load((workplace / "workflow/defaults.yaml").read_text())
    config["datasets"]["demo"]["groups"]["swarm"] = ["swarm_0007"]
    config["datasets"]["demo"]["optimum"]["weights"] = {"python": 1}
    names = ["baseline", "uniform", "wanted_8", "wanted_3_kin", "vne", "mine", "late", "published_doge", "swarm_0007"]
    names += ["doge", "doremi", "bimix", "regmix", "transfer_swarm"]
    targets = {f"results/demo/mixtures/{name}.json": name for name in names}
    done = call(workplace, *targets, "-n", "-p")
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = re.findall(r"^\w*rule (\w+):$(?:\n    .*)*?\n    output: ([^,\s]+)(?:, \S+)*$", done.stdout, re.MULTILINE)
    made = {targets[output]: rule for rule, output in jobs if output in targets}
    assert made == {name: Dataset(config, "demo").source(name).rule for name in targets.values()}
    # runs of the baseline would be repeated for another exponent, or for the larger model's steps
    command = " ".join(done.stdout.replace("\\\n", " ").split())
    assert "--rule baseline --exponent 1 --most-epochs 4 --run-tokens 0 " in command


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a refused call prints: there is no traceback, before it or behind."""
    printed = done.stderr + done.stdout  # of a dry run Snakemake's own words are on the latter
    assert done.returncode == 1, printed
    assert "Traceback" not in printed and 'File "' not in printed
    return printed.strip().splitlines()[-1].strip()


def test_all_faults_of_a_config_are_the_last_lines_with_those_of_its_file(workplace: Path) -> None:
    (workplace / "mine.yaml").write_text(
        "run: demo\nlaws: {seed: 1e3}\nmodels:\n  proxy: {shape: {width: 65}}\n  proxy: {shape: {width: 40}}\n"
    )
    done = call(workplace, "-n", "--configfile", "mine.yaml")
    assert last_line(done).startswith("config: mine.yaml:5: models/proxy: the key is there twice, first in line 4;")
    (workplace / "mine.yaml").write_text("run: demo\nlaws: {seed: 1e3}\nmodels:\n  proxy: {shape: {width: 65}}\n")
    done = call(workplace, "-n", "--configfile", "mine.yaml")
    *_, head, first, second = done.stdout.strip().splitlines()
    assert head == "config: 2 faults:"
    assert first.strip().startswith('mine.yaml:2: laws/seed: "1e3" is given;')
    assert second.strip().startswith("mine.yaml:4: models/proxy/shape/width: ")
    done = call(workplace, "-n", "--config", "run=demmo")
    assert 'config: --config: run: no dataset "demmo"; did you mean demo?' in last_line(done)


def test_the_papers_run_is_planned_and_priced_without_its_files_and_not_begun(tmp_path: Path) -> None:
    link_checkout(tmp_path)
    lacking = ["data/pile/train/*.jsonl.zst", "data/pile/val.jsonl.zst", "data/cc.en.300.bin", "docs/data.md"]
    lacking += [f"data/qa/{name}.json" for name in ("webquestions_test", "lambada_test", "triviaqa_dev")]
    profile = ["--workflow-profile", str(ROOT / "workflow/profiles/slurm"), "results/pile/summary.txt"]
    done = call(tmp_path, "-n", *profile)
    assert done.returncode == 0 and re.search("^pretrain_model +12$", done.stdout, re.MULTILINE), done.stderr
    (remark,) = re.findall("Remark: pile: .*", done.stderr + done.stdout)
    assert all(path in remark for path in lacking)
    (line,) = re.findall("^.*trainings: 12, .*", done.stdout, re.M)
    hours, days, gpus, disk = re.search(r"([\d,]+) GPU hours \(([\d.]+) days on (\d+) GPUs\), (\d+) GB", line).groups()
    assert float(hours.replace(",", "")) / 24 / 8 == pytest.approx(float(days), abs=0.5)
    assert (hours, gpus, disk) == ("9,404", "8", "370")  # as docs/costs.md has it
    (tmp_path / "data/pile/train").mkdir(parents=True)
    (tmp_path / "data/pile/train/00.jsonl.zst").touch()
    assert all(path in last_line(call(tmp_path, "--config", "run=[pile]")) for path in lacking[1:])
    assert planned(tmp_path, "results/pile/plan.csv") == {"plan_runs": 1}  # and nothing from the hub


def test_a_config_that_runs_code_is_refused_before_it_does(workplace: Path) -> None:
    config = (workplace / "config.yaml").read_text()
    merge = f'<<: &y {{__use_yte__: true}}\nx-y: *y\nx: ?__import__("os").system("touch pwn")\n{config}'
    (workplace / "config.yaml").write_text(merge)
    assert "config.yaml:1: __use_yte__: a config that runs code is refused" in last_line(call(workplace, "-n"))
    assert not (workplace / "pwn").exists()


def test_code_in_a_configfile_has_run_and_the_sentence_says_so_and_the_check_runs_none(workplace: Path) -> None:
    (workplace / "theirs.yaml").write_text('__use_yte__: true\nx: ?open("ran", "w").name\n')
    checked = forked.run([sys.executable, str(ROOT / "workflow/scripts/check_config.py"), "theirs.yaml"], cwd=workplace)
    assert "theirs.yaml:1: __use_yte__: a config that runs code is refused" in checked.stderr
    assert checked.returncode == 1 and not (workplace / "ran").exists()
    script = [sys.executable, str(ROOT / "workflow/scripts/run_workflow.py")]
    for words in (["theirs.yaml", "-n"], ["config.yaml", "-n", "--configfile", "theirs.yaml"]):
        assert forked.run([*script, *words], cwd=workplace).returncode == 1 and not (workplace / "ran").exists()
    (workplace / "mine.yaml").write_text("{}\n")
    planned = forked.run([*script, "mine.yaml", "-n", "results/demo/entropy.csv"], cwd=workplace)
    assert planned.returncode == 0 and "measure_entropy" in planned.stdout + planned.stderr
    done = call(workplace, "-n", "--configfile", "theirs.yaml")
    assert done.returncode == 1 and "so THE CODE HAS RUN" in last_line(done) and "check_config.py" in last_line(done)
    assert (workplace / "ran").exists()  # if Snakemake no longer runs it, the sentence is to go


def test_a_profile_plans_what_comes_after_an_optimised_mixture_that_is_held_out(workplace: Path) -> None:
    """On a cluster jobs go in groups: none may hold jobs both before and after a training."""
    changed(workplace, lambda config: config["datasets"]["demo"]["groups"]["held_out"].extend(["bimix", "doremi"]))
    assert planned(workplace, "--workflow-profile", "workflow/profiles/slurm")["pretrain_model"] == 18


def test_the_plan_has_the_runs_that_snakemake_plans(workplace: Path) -> None:
    printed = said(workplace, "results/demo/plan.csv")
    plan = pl.read_csv(workplace / "results/demo/plan.csv")
    assert plan.filter(pl.col("what") == "total")["runs"].to_list() == [planned(workplace)["pretrain_model"]]
    assert re.search("^ *pretraining +proxy", printed, re.MULTILINE)


FAKE_APPTAINER = """#!/bin/bash
[ "$1" = --version ] && { echo "apptainer version 1.3.4"; exit; }
printf '%s\\n' "$@" >> "$APPTAINER_CALLS"
exec bash -c "${@: -1}"
"""


def test_jobs_run_in_the_container_that_the_config_names(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Apptainer notes how it is called and runs the command outside."""
    (workplace / "image.sif").touch()
    for name in ("apptainer", "singularity"):
        (workplace / name).write_text(FAKE_APPTAINER)
        (workplace / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{workplace}:{os.environ['PATH']}")
    monkeypatch.setenv("APPTAINER_CALLS", str(workplace / "calls"))
    container = ("--config", "container=image.sif")
    said(workplace, "results/demo/mixtures/uniform.json", "--sdm", "apptainer", *container)
    assert (workplace / "results/demo/mixtures/uniform.json").exists()
    calls = (workplace / "calls").read_text()
    assert "image.sif" in calls
    assert "mix_uniform.py" in calls


def test_a_locale_without_utf8_is_refused_with_the_cure(workplace: Path) -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*SNAKEMAKE, "-n"]
    done = subprocess.run(command, cwd=workplace, capture_output=True, text=True, check=False, env=environment)
    assert last_line(done) == "Python reads names of files as ascii here, and they are UTF-8: set PYTHONUTF8=1."
