"""What the terminal shows of a call, by Snakemake's own events in real calls, and by made ones."""

import io
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bimix.results.terminal import Lines, busy, install

CALL = """
import functools, sys
from snakemake.logging import logger
sys.path.insert(0, {scripts!r})
from bimix.results import terminal

shown = terminal.Lines(workflow.output_settings.dryrun, lambda path: f"near {{path}}")
if workflow.is_main_process:
    terminal.install(logger, shown)

rule all:
    input: expand("out/{{number}}.txt", number=range(6)), "out/bad.txt"

rule write:
    output: "out/{{number}}.txt"
    shell: "touch {{output:q}}"

rule pretrain_model:
    output: "out/bad.txt"
    log: "bad.log"
    shell: "(echo step 1; echo 'train.py: error: the disk is full.'; echo) > {{log:q}}; exit 1"

rule of_mixture:
    input: "results/{{name}}.json"
    output: "results/{{name}}.losses"
    shell: "touch {{output:q}}"

onerror:
    logger.error("AGAIN " + "".join(shown.failed.values()))
"""


def call(folder: Path, *words: str) -> list[str]:
    """The lines of a Snakemake call on the terminal."""
    scripts = Path(__file__).parents[2] / "workflow/scripts"
    (folder / "Snakefile").write_text(CALL.format(scripts=str(scripts)))
    words = [sys.executable, "-m", "snakemake", "--cores", "1", "--keep-going", *words]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return call(tmp_path_factory.mktemp("call"))


@pytest.mark.slow
def test_a_line_counts_finished_jobs_of_a_rule_together(lines: list[str]) -> None:
    assert lines[0] == "8 jobs, trainings: 1"
    counted = [line for line in lines if re.match(r" +\d+ of 8  ", line)]
    assert len(counted) == 1 and counted[0].startswith("   1 of 8  write ")


def test_a_busy_machine_is_said_before_the_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    for load, said in ((cores, False), (3 * cores, True)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        text = Lines(dry=False, near=str, remarks=busy).begin({"total": 3}, "")
        assert (f"This machine is busy: load {load} on {cores} cores." in text) == said


def test_a_failed_job_is_shown_with_its_log_and_error_once_and_at_the_end(lines: list[str]) -> None:
    failed = [number for number, line in enumerate(lines) if line == "FAILED pretrain_model: bad.log"]
    assert len(failed) == 1
    assert lines[failed[0] + 1] == "  train.py: error: the disk is full."
    assert "AGAIN FAILED pretrain_model: bad.log" in lines
    assert not [line for line in lines if "CalledProcessError" in line or "At least one job" in line]


@pytest.mark.slow
def test_a_dry_run_is_a_table_of_rules_and_a_missing_file_a_sentence(tmp_path: Path) -> None:
    lines = call(tmp_path, "-n")
    assert lines[0] == "8 jobs, trainings: 1" and re.fullmatch(r"write +6", next(x for x in lines if "write" in x))
    assert lines[-1].startswith("This was a dry-run") and not [line for line in lines if line.startswith("rule ")]
    assert call(tmp_path, "-n", "out/x/y.md")[-1] == "near out/x/y.md"
    assert call(tmp_path, "-n", "results/wrong.losses")[-1] == "near results/wrong.json"


class Terminal:
    """A handler such as Snakemake's, with the lines it writes."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.logger = logging.Logger("snakemake")
        self.logger.addHandler(logging.StreamHandler(self.stream))
        self.lines = Lines(dry=False, near=str)
        install(self.logger, self.lines)
        self.say("run_info", stats={"write": 2, "pretrain_model": 1, "total": 3})

    def say(self, event: str | None, message: str | None = None, level: int = logging.INFO, **more: object) -> str:
        """What an event adds."""
        begin = self.stream.tell()
        self.logger.log(level, message, extra={"event": event, **more} if event else {})
        return self.stream.getvalue()[begin:].rstrip("\n")


def test_warnings_are_shown_and_what_snakemake_says_between_jobs_is_not() -> None:
    terminal = Terminal()
    for event in ("workflow_started", "resources_info", "job_started", "shellcmd"):
        assert terminal.say(event, "words") == ""
    assert terminal.say(None, "Select jobs to execute...") == ""
    assert terminal.say(None, "Job 3 has been submitted with SLURM jobid 12 (log: x).") == ""
    assert terminal.say(None, "Nothing to be done") == "Nothing to be done"
    assert terminal.say(None, "Select with care", logging.WARNING) == "Select with care"
    wrapped = "WorkflowError:\nAt least one job did not complete successfully."
    assert terminal.say("error", wrapped, logging.ERROR) == wrapped  # no job has said why


def test_remarks_on_the_text_are_shown(tmp_path: Path) -> None:
    terminal, log = Terminal(), tmp_path / "index.log"
    log.write_text("train web: 9 documents\nRemark: 3 files have no text.\nRemark: a and b have the same text.\n")
    terminal.say("job_info", jobid=3, rule_name="index_tokens", wildcards={"dataset": "mine"}, log=[str(log)])
    assert terminal.say("job_finished", job_id=3).splitlines()[1:] == log.read_text().splitlines()[1:]


def test_a_stopped_training_is_no_failure_and_one_that_a_retry_mends_is_forgotten(tmp_path: Path) -> None:
    terminal, log = Terminal(), tmp_path / "ce.log"
    log.write_text("step 5/9\nStopped at step 5 with the state saved; start again to go on.\n")
    terminal.say("job_info", jobid=3, rule_name="pretrain_model", wildcards={"dataset": "mine", "run": "ce"}, log=[])
    said = terminal.say("job_error", None, logging.ERROR, jobid=3, rule_name="pretrain_model", log=[str(log)])
    assert said.startswith(f"STOPPED pretrain_model ce: {log}\n  Stopped at step 5")
    assert list(terminal.lines.failed)
    assert terminal.say("job_finished", job_id=3) == "   1 of 3  pretrain_model ce, 0 s"
    assert not terminal.lines.failed


def test_a_job_that_the_user_interrupts_before_it_saves_is_stopped(tmp_path: Path) -> None:
    for words in ("launch_processes.py: error: a process of the training was ended by SIGINT.", "KeyboardInterrupt"):
        log = tmp_path / "je.log"
        log.write_text(f'Traceback (most recent call last):\n  File "x.py", line 2, in <module>\n{words}\n')
        said = Terminal().say("job_error", None, logging.ERROR, jobid=3, rule_name="mix_entropy", log=[str(log)])
        assert said == f"STOPPED mix_entropy: {log}\n  {words}"
    # a job of a failed group is shown like any other
    log = tmp_path / "0.log"
    log.write_text("tokenize_shard.py: error: no text.\n")
    info = [{"jobid": 1, "rule_name": "tokenize_shard", "log": [str(log)]}]
    said = Terminal().say("group_error", None, logging.ERROR, job_error_info=info, aux_logs=[])
    assert said == f"FAILED tokenize_shard: {log}\n  tokenize_shard.py: error: no text."
