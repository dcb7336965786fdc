"""A law of the user's own, without a fork: a file with its functions, named by a config or by BIMIX_LAWS."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from laws.known import observe, write_tables

from bimix.digests import digest_file
from bimix.plan.sources import entry_at

SCRIPTS = Path(__file__).parents[2] / "workflow/scripts"
MODULE = '''"""L_i = c + t log r_i at a step: the domain's own share decides."""

import numpy as np


def fit_step(shares, losses, weights, domains, begin=None, loss=""):
    own = np.log(shares[:, list(domains).index(loss)])
    t, c = np.polyfit(own, losses, 1)
    return {"loss": loss, "c": c, "t": t}


def predict_step(numbers, domains, shares):
    return numbers["c"] + numbers["t"] * np.log(np.maximum(shares[:, list(domains).index(numbers["loss"])], 1e-9))


def count_step(numbers):
    return 2
'''
CONFIG = """
laws:
  own: {mine: law.py}
  compare: [mine]
  optimise: [mine]
datasets:
  t:
    observations: {losses: l.csv, mixtures: m.csv}
    optimum: {step: 200}
    compare: {mixtures: [run0, run1]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shares = np.random.default_rng(0).dirichlet(np.full(3, 3.0), 12)
    t = np.array([-0.1, -0.2, -0.3])
    losses = lambda shares, steps: np.repeat((3 + t * np.log(shares))[:, None], len(steps), axis=1)  # noqa: E731
    write_tables(
        observe(losses, shares, np.array([100, 200]), domains=("code", "law", "web")),
        tmp_path / "l.csv",
        tmp_path / "m.csv",
    )
    (tmp_path / "law.py").write_text(MODULE)
    (tmp_path / "mine.yaml").write_text(CONFIG)
    return tmp_path


def call(folder: Path, script: str, *flags: str, laws: str = '{"mine": "law.py"}') -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"BIMIX_LAWS": laws}
    command = [sys.executable, str(SCRIPTS / script), *flags]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_file_with_its_functions_is_a_law(folder: Path) -> None:
    fit = call(folder, "fit_law.py", "--law", "mine", "--losses", "l.csv", "--mixtures", "m.csv", "--out", "c.json")
    assert fit.returncode == 0, fit.stderr
    fitted = json.loads((folder / "c.json").read_text())
    assert fitted["law_file"] == {"path": "law.py", "digest": digest_file(folder / "law.py")}
    found = [fitted["coefficients"][name]["steps"]["200"]["t"] for name in ("code", "law", "web")]
    assert found == pytest.approx([-0.1, -0.2, -0.3], abs=1e-4)
    best = call(folder, "optimize_mixture.py", "--coefficients", "c.json", "--step", "200", "--out", "best.json")
    assert best.returncode == 0, best.stderr
    mixture = json.loads((folder / "best.json").read_text())
    assert mixture == pytest.approx({"code": 1 / 6, "law": 1 / 3, "web": 1 / 2}, abs=0.1)


def test_a_config_names_it_and_its_file_is_an_input_of_its_fit(folder: Path) -> None:
    assert call(folder, "check_config.py", "mine.yaml", laws="{}").returncode == 0
    (folder / "law.py").unlink()
    gone = call(folder, "check_config.py", "mine.yaml", laws="{}")
    assert gone.returncode == 1 and "mine.yaml:3: laws/own/mine: " in gone.stderr
    config = {"laws": {"own": {"mine": "law.py"}}}
    assert entry_at(config, "laws/own/{law}", {"law": "mine"}, ()) == "law.py"
    assert (
        entry_at(config, "laws/own/{law}", {"law": "bimix"}, ())
        == entry_at({}, "laws/own/{law}", {"law": "x"}, ())
        == ()
    )
