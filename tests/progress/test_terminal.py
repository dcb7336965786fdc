"""What the terminal says of a call: fed with Snakemake's events, and with the logs that its jobs
write.
"""

import logging
from pathlib import Path

import pytest

from bimix.progress.terminal import STREAM, Progress, Told, duration, install
from bimix.progress.work import Work, work

CALL = [
    (1, "tokenize_shard", {"dataset": "mine", "shard": "0"}),
    (2, "tokenize_shard", {"dataset": "mine", "shard": "1"}),
]
CALL += [(3, "pretrain_model", {"dataset": "mine", "model": "tiny", "run": "ce"})]
CALL += [(4, "pretrain_model", {"dataset": "mine", "model": "large", "run": "bimix@2"})]
WEIGHTS = {"tiny": Work(1, 1_000, 10.0), "large": Work(1, 1_000, 30.0)}


class Terminal:
    """A handler such as Snakemake's, at the end of which all lines are kept; `seconds` is the time
    of its clock.
    """

    def __init__(self, call=CALL, dry: bool = False) -> None:
        self.lines: list[str] = []
        self.seconds = 0.0
        self.call = list(call)
        handler = logging.Handler()
        handler.name = STREAM
        handler.setFormatter(logging.Formatter("%(message)s"))
        handler.emit = lambda record: self.lines.append(handler.format(record))
        self.logger = logging.Logger("snakemake")
        self.logger.addHandler(handler)
        self.progress = Progress(
            lambda: self.call,
            lambda rule, wildcards: WEIGHTS.get(wildcards.get("model"), Work(0, 0, 0.0)),
            lambda: self.seconds,
            dry,
        )
        assert install(self.logger, self.progress)

    def say(
        self, event: str | None, level: int = logging.INFO, message: str | None = None, **fields: object
    ) -> list[str]:
        """The lines that an event adds."""
        before = len(self.lines)
        self.logger.log(level, message, extra={"event": event, **fields} if event else {})
        return self.lines[before:]

    def start(self, number: int, log: Path | None = None) -> list[str]:
        return self.say("job_info", jobid=number, log=[str(log)] if log else [])


@pytest.fixture
def terminal() -> Terminal:
    made = Terminal()
    made.say("run_info", message="a table of forty lines")
    return made


def test_the_first_line_says_how_much_there_is_to_do(terminal: Terminal) -> None:
    (line,) = terminal.lines
    assert line == "4 jobs, 2 trainings of 2,000 tokens"


def test_a_dry_run_is_a_table_of_rules_and_no_paragraph_a_job() -> None:
    terminal = Terminal(dry=True)
    table = "Job stats:\njob               count\ntokenize_shard        2"
    assert terminal.say("run_info", message=table) == [f"4 jobs, 2 trainings of 2,000 tokens\n\n{table}"]
    assert terminal.start(1) == [] and terminal.say("shellcmd", message="rm -r x") == []
    (line,) = terminal.say("run_info", message=table)
    assert "-p" in line and "Job stats" not in line
    assert terminal.say(None, message="Reasons:\n    (check individual jobs above for details)") == []
    said = "This was a dry-run (flag -n). The order of jobs does not reflect the order of execution."
    assert terminal.say(None, message=said) == [said]


def test_snakemakes_paragraphs_are_left_out_and_warnings_are_not(terminal: Terminal) -> None:
    for event in ("workflow_started", "resources_info", "job_started", "shellcmd"):
        assert terminal.say(event, message="words") == []
    assert terminal.start(1) == []
    assert terminal.say("progress", done=1, total=4) == []
    assert terminal.say(None, message="Select jobs to execute...") == []
    assert terminal.say(None, message="Job 3 has been submitted with SLURM jobid 12 (log: x).") == []
    assert terminal.say(None, message="Nothing to be done") == ["Nothing to be done"]
    assert terminal.say(None, logging.WARNING, "Select jobs with care") == ["Select jobs with care"]


def test_the_share_is_that_of_the_trainings_and_the_jobs_of_a_rule_are_told_together(
    terminal: Terminal, tmp_path: Path
) -> None:
    for number in (1, 2):
        terminal.start(number)
    assert terminal.say("job_finished", job_id=1) == []
    assert terminal.say("job_finished", job_id=2) == ["  0 %  tokenize_shard, 2 of 2"]
    log = tmp_path / "bimix.log"
    log.write_text("step 80/400, loss 5.5, 5,300 tokens/s, 7,300 s left\nstep 80: average validation loss 5.4\n")
    terminal.start(3)
    terminal.start(4, log)
    terminal.seconds += 75
    # a quarter is done, and a fifth of the rest
    (line,) = terminal.say("job_finished", job_id=3)
    assert (
        line == " 40 %  pretrain_model tiny/ce in 75 s | trains: large/bimix@2 80/400, 5,300 tokens/s, 2 h 2 min left"
    )
    (line,) = terminal.say("job_finished", job_id=4)
    assert line.startswith("100 %  pretrain_model large/bimix@2")


def test_the_time_that_all_trainings_will_take_follows_the_pace_of_those_that_run(tmp_path: Path) -> None:
    call = [(n, "pretrain_model", {"dataset": "mine", "model": "tiny", "run": str(n)}) for n in range(4)]
    terminal = Terminal(call)
    terminal.say("run_info")
    logs = [tmp_path / "0.log", tmp_path / "1.log"]
    for number, log in enumerate(logs):
        log.write_text("step 200/400, loss 5.5, 5 tokens/s, 100 s left\n")
        terminal.start(number, log)
    # half of two runs and all of two more, of 1,000 tokens each, at 10 tokens/s
    assert terminal.progress.trains_now("").endswith("; all in 5 min")
    terminal.say("job_error", logging.ERROR, jobid=1, rule_name="pretrain_model", log=[str(logs[1])])
    assert terminal.progress.trains_now("").endswith("; all in 8 min")  # one fails: 2,500 tokens at 5
    terminal.start(2)
    logs[1].write_text("step 0/400, loss 5.5, 5 tokens/s, 200 s left\n")
    terminal.start(3, logs[1])
    assert "all in" in terminal.progress.trains_now("")  # the log of 2 is still to come
    terminal.say("job_finished", job_id=2)
    assert "all in" not in terminal.progress.trains_now("")  # what runs says when it ends


def test_many_short_jobs_are_told_at_most_every_ten_seconds() -> None:
    terminal = Terminal([(number, "merge_counts", {"domain": str(number)}) for number in range(1000)])
    terminal.say("run_info")
    for number in range(1000):
        terminal.seconds += 0.1
        terminal.say("job_finished", job_id=number)
    assert len(terminal.lines) <= 1 + 100 / 10 + 1
    assert terminal.lines[-1] == "100 %  merge_counts, 1000 of 1000"
    assert all("merge_counts" in line for line in terminal.lines[1:])


def test_of_a_failed_job_the_log_and_its_error_are_told(terminal: Terminal, tmp_path: Path) -> None:
    log = tmp_path / "ce.log"
    log.write_text("step 1/9, loss 3.0, 5 tokens/s, 8 s left\npretrain_model.py: error: the disk is full.\n\n")
    terminal.start(3, log)
    wrapped = "RuleException:\nCalledProcessError in file x"
    assert terminal.say("error", logging.ERROR, wrapped, exception="RuleException") == []
    said = terminal.say("job_error", logging.ERROR, jobid=3, rule_name="pretrain_model", log=[str(log)])
    assert said == [f"FAILED pretrain_model tiny/ce: {log}\n  pretrain_model.py: error: the disk is full."]
    ended = "WorkflowError:\nAt least one job did not complete successfully."
    assert terminal.say("error", logging.ERROR, ended, exception="WorkflowError") == []
    assert terminal.progress.failures() == ""  # nothing was said since
    terminal.say("job_finished", job_id=1)
    terminal.say("job_finished", job_id=2)
    assert terminal.progress.failures().startswith("FAILED pretrain_model tiny/ce")
    terminal.start(3, log)  # the next attempt at it
    terminal.say("job_finished", job_id=3)
    assert terminal.progress.failures() == ""


def test_an_error_that_no_job_has_told_is_not_left_out(terminal: Terminal) -> None:
    ended = "WorkflowError:\nAt least one job did not complete successfully."
    assert terminal.say("error", logging.ERROR, ended, exception="WorkflowError") == [ended]
    missing = "MissingInputException in rule x"
    assert terminal.say("error", logging.ERROR, missing, exception="MissingInputException") == [missing]


def test_a_job_of_a_failed_group_is_told_like_any_other(terminal: Terminal, tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text("tokenize_shard.py: error: no text.\n")
    info = [{"jobid": 1, "rule_name": "tokenize_shard", "log": [str(log)]}]
    (said,) = terminal.say("group_error", logging.ERROR, job_error_info=info, aux_logs=[])
    assert said == f"FAILED tokenize_shard 0: {log}\n  tokenize_shard.py: error: no text."


def test_jobs_that_a_checkpoint_adds_are_counted(terminal: Terminal) -> None:
    terminal.call.append((5, "train_doremi", {"dataset": "mine", "model": "large", "round": "2"}))
    terminal.say("progress", done=1, total=5)
    assert terminal.say("job_finished", job_id=5)[0].startswith(" 42 %  train_doremi large/2")


def test_a_fault_of_the_lines_brings_back_snakemakes_own() -> None:
    terminal = Terminal([(1, "pretrain_model", {"model": "tiny"})])
    terminal.progress.weigh = lambda rule, wildcards: wildcards["dataset"]
    (line,) = terminal.say("run_info", message="a table")
    assert line == "terminal.py failed (KeyError('dataset')); from here on, Snakemake's own words."
    assert terminal.say("job_started", message="Execute 1 jobs...") == ["Execute 1 jobs..."]


def test_another_handler_is_left_alone() -> None:
    logger = logging.Logger("snakemake")
    logger.addHandler(logging.Handler())
    assert not install(logger, Progress(list, lambda rule, wildcards: Work(0, 0, 0.0)))
    assert not isinstance(logger.handlers[0].formatter, Told)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (7260, "2 h 1 min"), (200_000, "2 d 7 h")]
)
def test_durations_are_of_two_numbers_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_training_weighs_by_its_tokens_and_its_weights() -> None:
    training = {"steps": 10, "batch_rows": 4, "seed": 1}
    block = {
        "training": {"tiny": training, "large": training},
        "groups": {"swarm": ["swarm_1", "swarm_2", "swarm_3"]},
        "swarm": {"model": "tiny", "together": 2, "training": {"steps": 5}},
        "reweighting": {"model": "tiny", "doge": {"training": training | {"steps": 20}}},
        "tokenizer": {"train": {"vocabulary": 100}},
        "sequence_length": 8,
    }
    shapes = {"tiny": {"layers": 1, "width": 10}, "large": {"layers": 2, "width": 10}}
    config = {"datasets": {"mine": block}, "models": {name: {"shape": shape} for name, shape in shapes.items()}}
    at = {"dataset": "mine", "model": "tiny"}
    assert work(config, "pretrain_model", at | {"run": "ce"}) == (1, 320, 6 * 320 * (1200 + 1000))
    assert work(config, "pretrain_model", at | {"model": "large", "run": "ce@2"}).flops == 6 * 320 * (2400 + 1000)
    assert work(config, "train_swarm", at | {"part": "1"})[:2] == (2, 320)
    assert work(config, "train_swarm", at | {"part": "2"})[:2] == (1, 160)
    assert work(config, "train_doge", at)[:2] == (1, 640)
    assert work(config, "fit_law", at) == (0, 0, 0.0)


def test_a_training_without_a_line_in_its_log_has_not_begun(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(3, tmp_path / "none.log")
    terminal.start(4)
    terminal.seconds += 20
    terminal.say("job_finished", job_id=1)
    assert terminal.say("job_finished", job_id=2) == ["  0 %  tokenize_shard, 2 of 2 | trains: 2 starting"]
