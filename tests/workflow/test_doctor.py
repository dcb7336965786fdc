"""`bimix doctor` proves a machine by a real training that it stops once, and says what is wrong."""

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from checkout import copy_checkout
from refusals import refused

import check_cluster


def doctor(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """A call of the doctor, whose training is a third as long."""
    script = folder / "workflow/scripts/check_cluster.py"
    script.write_text(script.read_text().replace("STEPS = 2000", "STEPS = 700"))
    return forked.run([sys.executable, str(script), *flags], cwd=folder, env=forked.jobs())


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the doctor has found nothing wrong."""
    folder = tmp_path_factory.mktemp("doctor")
    copy_checkout(folder)
    done = doctor(folder)
    assert done.returncode == 0, done.stdout + done.stderr + (folder / "doctor/snakemake.log").read_text()
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and all(line.startswith("ok") for line in lines)
    assert any("after SIGTERM another attempt went on at step" in line for line in lines)
    return folder


def test_a_training_is_stopped_and_goes_on(checked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checked)
    begun = [line for line in check_cluster.noted() if line["event"] == "begun"]
    assert [line["step"] > 0 for line in begun] == [False, True]
    assert len({line["process"] for line in begun}) == 2


def test_a_tokenizer_that_no_cache_has_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # the check sets it
    (tmp_path / "tokenizer.json").touch()
    assert check_cluster.tokenizer(str(tmp_path / "tokenizer.json")).endswith("tokenizer.json is there.")
    refused(r"for .nobody/nothing", check_cluster.tokenizer, "nobody/nothing")


def test_the_lock_that_trainings_take_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_cluster.RESULTS.mkdir(parents=True)
    assert check_cluster.links() == "results/ has both."

    def without(*_: object) -> None:
        raise OSError("Function not implemented")

    monkeypatch.setattr(fcntl, "flock", without)
    refused("cannot be locked or linked", check_cluster.links)


def test_a_lock_of_the_node_that_can_be_taken_here_is_said(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        check_cluster.check_held(tmp_path / "lock")
    refused("held by the training and can be taken here", check_cluster.check_held, tmp_path / "lock")


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "/sys/kernel/.cache")
    refused("set XDG_CACHE_HOME", check_cluster.disk)


def test_what_is_wrong_is_said(checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(checked / "results", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    place = check_cluster.RUN / "run.json"
    report = json.loads(place.read_text())
    place.write_text(json.dumps(report | {"versions": report["versions"] | {"torch": "1.0"}}))
    refused(r"torch 1.0 \(here ", check_cluster.node, 0)
    place.write_text(json.dumps(report))
    refused("--gpus is 8, and the run used 1 x cpu", check_cluster.node, 8)
    (notes,) = check_cluster.RUN.glob("state/*/attempts.jsonl")
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    again = [line | {"step": 0} if line["event"] == "begun" else line for line in lines]
    notes.write_text("".join(json.dumps(line) + "\n" for line in again))
    refused("began again at step 0", check_cluster.resumed)
    monkeypatch.setattr(check_cluster, "LEAST_GB", 10**9)
    refused("are little for checkpoints", check_cluster.disk)


def test_a_broken_workflow_fails_with_its_log(checked: Path, tmp_path: Path) -> None:
    shutil.copytree(checked, tmp_path / "copy")
    (tmp_path / "copy/Snakefile").write_text("rule broken:\n    nonsense\n")
    done = doctor(tmp_path / "copy")
    assert done.returncode == 1 and "FAILED  queue and training: the workflow ended with status 1" in done.stdout
    assert "resumed" not in done.stdout


def test_results_of_another_are_left_alone(checked: Path, tmp_path: Path) -> None:
    shutil.copy(checked / "Snakefile", tmp_path)
    shutil.copytree(checked / "workflow", tmp_path / "workflow")
    (tmp_path / "results/doctor").mkdir(parents=True)
    done = doctor(tmp_path)
    assert done.returncode == 1 and "no check made it: move it away" in done.stderr
    assert doctor(tmp_path, "--profile", "nowhere").stderr.count("there is no config.yaml in it") == 1
