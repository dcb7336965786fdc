"""The three ways in: the examples' data are what their generators write."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "resources" / "examples"
LOSSES = EXAMPLES / "own_losses"


def test_the_committed_losses_are_those_that_the_script_writes(tmp_path: Path) -> None:
    shutil.copy(LOSSES / "write_losses.py", tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "write_losses.py")], check=True)
    for name in ("losses.csv", "mixtures.csv"):
        assert (tmp_path / name).read_bytes() == (LOSSES / name).read_bytes()


def test_the_text_is_there_for_each_domain(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "own_text" / "write_text.py", tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "write_text.py")], check=True)
    block = yaml.safe_load((EXAMPLES / "own_text" / "own_text.yaml").read_text())["datasets"]["own_text"]
    assert list(block) == ["corpus"] and list(block["corpus"]) == ["train"]
    for named in block["corpus"]["train"].values():
        documents = [json.loads(line)["text"] for line in (tmp_path / "text" / Path(named).name).open(encoding="utf-8")]
        assert sum(map(len, documents)) > 75_000
        assert all(text.strip() for text in documents)


@pytest.fixture
def own_text(tmp_path: Path) -> Path:
    """A folder that holds the example of one's own text, and nothing else of the workflow."""
    folder = tmp_path / "resources" / "examples" / "own_text"
    folder.mkdir(parents=True)
    for name in ("write_text.py", "own_text.yaml"):
        shutil.copy(EXAMPLES / "own_text" / name, folder)
    subprocess.run([sys.executable, str(folder / "write_text.py")], check=True)
    return tmp_path


def run_own_text(folder: Path, *arguments: str) -> str:
    """What Snakemake says of the example."""
    config = ["--configfile", "resources/examples/own_text/own_text.yaml"]
    command = [sys.executable, "-m", "snakemake", "-s", str(EXAMPLES.parents[1] / "Snakefile"), "--cores", "2"]
    done = forked.run([*command, *arguments, *config], cwd=folder, env=forked.jobs())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.slow
def test_six_lines_lead_to_a_mixture_and_are_done_once(own_text: Path) -> None:
    with (own_text / "resources/examples/own_text/own_text.yaml").open("a") as config:
        # of the models that it chooses by default, with fewer tokens and refits
        config.write("ladder: {hours: {cpu: 0.001}}\nlaws: {intervals: {resamples: 20}}\n")
    run_own_text(own_text)
    results = own_text / "results" / "own_text"
    mixture = json.loads((results / "mixtures" / "bimix.json").read_text())
    assert set(mixture) == {"docstrings", "reference", "sources"} and sum(mixture.values()) == pytest.approx(1)
    summary = (results / "summary.txt").read_text()
    assert "uniform" in summary and "baseline" in summary
    assert "Answer: " in next(results.glob("search/*/answer.txt")).read_text()
    chosen = json.loads((results / "ladder.json").read_text())
    assert chosen["basis"]["machine"]["kind"] in ("cpu", "gpu")
    assert "Nothing to be done" in run_own_text(own_text, "-n")
