"""The table of all trainings of a dataset, from folders as trainings leave them in each state."""

import json
import os
import time
from pathlib import Path

import pytest

import watch_runs
from bimix.results.watch import SILENT, held_jobs, table

LOG = "Attempt 1, 2026-11-22 00:03:40 +0000, vm, job none, process 1\nwords\n"
FIGURES = {"loss": 5.3, "tokens_per_second": 5356.0, "seconds_left": 54.0, "validation_loss": 5.2444}


def write_run(folder: Path, progress: dict | None, silent: float = 0.0) -> None:
    """A run's folder in which a process wrote its last word `silent` seconds ago."""
    (folder / "state/logs").mkdir(parents=True)
    if progress is None:
        return
    log = folder / "state/logs/1.log"
    log.write_text(progress.pop("said", LOG))
    (folder / "progress.json").write_text(json.dumps(FIGURES | {"log": str(log)} | progress))
    for path in (log, folder / "progress.json"):
        os.utime(path, (time.time() - silent,) * 2)


def at(step: int, state: str = "running", **more: object) -> dict:
    return {"state": state, "step": step, "steps": 600} | more


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results/mine"
    runs = folder / "runs/target"
    write_run(runs / "running", at(350))
    write_run(runs / "evaluating", at(350), silent=SILENT / 2)
    write_run(runs / "lost", at(350), silent=2 * SILENT)
    write_run(runs / "stopped", at(350, "stopped"), silent=2 * SILENT)
    write_run(runs / "failed", at(350, said=LOG + "pretrain_model.py: error: the disk is full.\n"))
    write_run(runs / "waiting", None)
    write_run(runs / "finished", at(600, "finished"), silent=1e5)
    (runs / "finished/run.json").write_text("{}")
    write_run(folder / "reweighting/proxy/doremi", at(80))
    return folder


def test_the_table_shows_each_state_and_changes_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    watch_runs.main([str(results), "--once"])
    text = capsys.readouterr().out
    rows = {
        line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith(("  target/", "  proxy/"))
    }
    assert rows["target/running"] == ["running", "350/600", "5,356", "54", "s", "5.2444"]
    assert rows["target/evaluating"][0] == "running" and rows["proxy/doremi"][:2] == ["running", "80/600"]
    assert rows["target/lost"] == ["silent", "for", "20", "min", "350/600", "5.2444"]
    assert {name for name in ("stopped", "failed", "waiting", "finished") if rows[f"target/{name}"][0] != name} == set()
    assert f"{results}/runs/target/failed/state/logs/1.log\n  pretrain_model.py: error: the disk is full." in text
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before


def test_jobs_that_slurm_holds_are_named(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "bin/squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\nprintf '7|Priority\\n8|launch failed requeued held\\n9|JobHeldAdmin\\n'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{squeue.parent}:{os.environ['PATH']}")
    watch_runs.main([str(tmp_path), "--once"])
    _, *held = capsys.readouterr().out.splitlines()
    assert [line.split("`")[1] for line in held] == ["scontrol release 8", "scontrol release 9"]
    assert "(launch failed requeued held)" in held[0]
    squeue.unlink()
    monkeypatch.setenv("PATH", str(squeue.parent))
    assert held_jobs() == []


def test_an_empty_folder_and_none_are_each_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch_runs.main([str(tmp_path), "--once"])
    assert capsys.readouterr().out == "No training has begun here.\n"
    with pytest.raises(watch_runs.InputError, match="is no folder: name that of a dataset"):
        watch_runs.main([str(tmp_path / "none")])


def test_a_progress_file_that_cannot_be_read_is_no_progress(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/proxy/a", at(3))
    for content in ("", "[1]", "{"):
        (tmp_path / "runs/proxy/a/progress.json").write_text(content)
        assert table(tmp_path)[-1].split() == ["proxy/a", "waiting"], content
