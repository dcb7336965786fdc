"""The workflow called from another folder finds its files and writes in the user's."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import yaml
from checkout import jobs

from bimix.errors import InputError
from bimix.settings import files as settings_files

ROOT = Path(__file__).parents[2]
LOSSES = ROOT / "resources/examples/own_losses"
COEFFICIENTS = "results/measured/laws/observed/bimix/fitted/coefficients.json"
FOLDER = "Mischung für uns"


def measured() -> dict:
    """The example's config, for tables beside it and one law."""
    config = yaml.safe_load((LOSSES / "measured.yaml").read_text())
    config["datasets"]["measured"]["observations"] = {"losses": "losses.csv", "mixtures": "mixtures.csv"}
    laws = {"compare": ["bimix"], "optimise": ["bimix"], "intervals": {"resamples": 20}}
    return config | {"laws": laws}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's folder with two tables and a config, and nothing of the workflow."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    for name in ("losses.csv", "mixtures.csv"):
        shutil.copy(LOSSES / name, folder)
    (folder / "config.yaml").write_text(yaml.safe_dump(measured()))
    return folder


def snakemake(folder: Path, *arguments: str) -> str:
    """All that a call from `folder` prints; a script finds its package without PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    done = forked.run(command, cwd=folder, env=environment | {"COLUMNS": "200"})  # its jobs are not
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def commands(said: str) -> list[list[str]]:
    """The words of the commands that are printed."""
    return [shlex.split(line.strip(" \\")) for line in re.findall(r"^ *(?:Shell command: )?(python .*)$", said, re.M)]


def test_a_law_is_fitted_in_a_folder_of_its_own_which_may_move(mine: Path, tmp_path: Path) -> None:
    """Under names with a space and an umlaut; `laws` come from the user's file."""
    said = snakemake(mine, "-s", str(ROOT / "Snakefile"), "-p", COEFFICIENTS)
    assert (mine / COEFFICIENTS).exists()
    assert ["python", str(ROOT / "workflow/scripts/fit_law.py")] in commands(said)
    assert not (ROOT / "results/measured").exists()
    planned = jobs(snakemake(mine, "-s", str(ROOT / "Snakefile"), "-n", "--quiet", "rules"))
    assert planned["score_law"] == 1  # the workflow's own config has two laws to optimise
    # a folder that was moved with its times and .snakemake plans nothing, unless a loss changes
    call = ("-s", str(ROOT / "Snakefile"), COEFFICIENTS)
    moved = tmp_path / "another disk" / FOLDER
    moved.parent.mkdir()
    subprocess.run(["cp", "-a", str(mine), str(moved)], check=True)
    shutil.rmtree(mine)
    assert "Nothing to be done" in snakemake(moved, "-n", *call)
    losses = moved / "losses.csv"
    losses.write_text(losses.read_text().replace("3.6516", "3.6517"))
    assert jobs(snakemake(moved, "-n", "--quiet", "rules", *call))["fit_law"] == 1


def test_published_tables_are_the_workflows_unless_the_user_names_another(mine: Path) -> None:
    target = "results/slimpajama/mixtures/published_doremi.json"
    (mine / "config.yaml").unlink()
    snakemake(mine, "-s", str(ROOT / "Snakefile"), target)
    made = json.loads((mine / target).read_text())
    assert sum(made.values()) == pytest.approx(1)

    table = (ROOT / "resources/mixtures/slimpajama.csv").read_text()
    (mine / "tables.csv").write_text(table.replace("domain,", "domain,ours,", 1))
    (mine / "config.yaml").write_text("datasets: {slimpajama: {published: tables.csv}}\n")
    said = snakemake(mine, "-s", str(ROOT / "Snakefile"), "-n", "-p", target.replace("doremi", "ours"))
    assert "--mixture tables.csv" in said


def test_a_training_is_launched_from_another_folder(tmp_path: Path) -> None:
    """Of a workflow under a name with a space."""
    scripts = tmp_path / "der Code" / "workflow" / "scripts"
    scripts.parent.mkdir(parents=True)
    scripts.symlink_to(ROOT / "workflow/scripts")
    (tmp_path / "training.py").write_text("print('trained')\n")
    command = ["bash", str(scripts / "launch_training.sh"), "0", "1", "1", "0", "said", "history", "training.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (tmp_path / "said").read_text()
    assert done.stdout.split()[-1] == "trained"


def test_every_rule_finds_its_scripts_from_any_folder_and_keeps_what_they_say() -> None:
    """Commands begin with RUN or LAUNCHER, files go by `code`, errors into the log."""
    found = 0
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        text = path.read_text()
        shells = re.findall(r"^ +shell:\n((?: {8}.*\n|\n(?= ))+)", text + "\n", flags=re.MULTILINE)
        found += len(shells)
        for shell in shells:
            assert re.match(r' +(RUN|LAUNCHER)\s+\+ r"', shell), f"{path.name}: {shell}"
            assert "{log:q}" in shell and "workflow/" not in shell, f"{path.name}: {shell}"
        assert not re.findall(r'(?<!code\()(?<!code\(f)"workflow/', text), path.name
    assert found > 50


def test_files_of_the_config_are_named_from_the_working_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").touch()
    given = [tmp_path / "a/my.yaml", "/other/your.yaml"]
    files = settings_files.config_files("code/", given)
    assert files == [Path("config.yaml"), Path("a/my.yaml"), Path("/other/your.yaml")]
    Path("{code}").mkdir()
    with pytest.raises(InputError, match="braces"):  # which Snakemake would read
        settings_files.prefix(tmp_path / "{code}", tmp_path)
