"""What the terminal shows of a Snakemake call: a line for each finished job, and of a failed one
its log with the error.

A filter and a formatter on Snakemake's stream handler, which read the events that its interface
of logger plugins defines. The file in .snakemake/log keeps all that is left out. A plugin would
have to be installed everywhere: a profile that names one ends the call where it is missing.
"""

import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

TOGETHER = 10  # seconds within which finished jobs of one rule share a line
TRAININGS = ("pretrain_model", "run_trainer", "train_doremi", "train_doge")
OF_TEXT = "index_tokens"  # the rule whose remarks are on the text that all trainings read
# of a target, or of an input of what makes it: a mixture, or a file of the user's
NO_RULE = re.compile(r"^No rule to produce (.+) \(if you use input|affected files:\n\s+(.+)", re.MULTILINE)
# by Ctrl-C: a training that has saved its state, one that had not begun, any other script
INTERRUPTED = re.compile(r"^Stopped at step|was ended by SIGINT|^KeyboardInterrupt$")
# what Snakemake says of a failed job and call besides the event of the failure
REPEATED = ("RuleException:\nCalledProcessError", "WorkflowError:\nAt least one job did not complete")
NOISE = (
    *("Building DAG", "Using shell", "Provided cores", "Conda environments", "Singularity containers", "Group jobs"),
    *("Select jobs", "host:", "Assuming unrestricted", "DAG of jobs will be", "Updating job", "Removing output files"),
    *("Execute ", "Job stats", "Reading SLURM partition", "SLURM run ID", "Submitted array job", "Reasons:"),
)


class Lines(logging.Filter):
    """Lets through what a user reads, each record with its text in `record.shown`; `near` gives a
    sentence on a file that no rule makes, `remarks` sentences on the machine, `hours` what the
    trainings will take.
    """

    def __init__(
        self,
        dry: bool,
        near: Callable[[str], str],
        remarks: Callable[[], list[str]] = list,
        hours: Callable[[], str] = str,
    ) -> None:
        super().__init__()
        self.dry, self.near, self.remarks, self.hours = dry, near, remarks, hours
        self.jobs: dict[int, tuple[str, str, float, list[str]]] = {}  # rule, name, time of start, logs
        self.total, self.finished = 0, 0
        self.shown_at: dict[str, float] = {}
        self.waiting: Counter[str] = Counter()  # finished jobs of a rule that no line has shown
        self.failed: dict[str, str] = {}  # {job: its log and error}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is shown; its text is then set, or it is Snakemake's own."""
        event, said = getattr(record, "event", None), str(record.msg or "")
        text: str | None = None
        if event == "run_info":
            text = None if self.total else self.begin(record.stats, said)
        elif event == "job_info":
            name = "/".join(word for key, word in dict(record.wildcards or {}).items() if key != "dataset")
            self.jobs[record.jobid] = record.rule_name, name, time.monotonic(), record.log
        elif event == "progress":
            self.total = record.total
        elif event == "job_finished":
            text = "\n".join(filter(None, [self.finish(record.job_id), *self.text_remarks(record.job_id)]))
        elif event == "job_error":
            text = self.fail(record.jobid, record.rule_name, record.log)
        elif event == "group_error":
            text = "\n".join(self.fail(one["jobid"], one["rule_name"], one["log"]) for one in record.job_error_info)
        elif missing := NO_RULE.search(said):
            text = self.near(missing[1] or missing[2])
        elif record.levelno > logging.INFO:
            return not said.startswith(REPEATED[0]) and not (self.failed and said.startswith(REPEATED[1]))
        elif event is None:
            return bool(said.strip()) and not said.startswith(NOISE) and "submitted with SLURM jobid" not in said
        record.shown = text
        return bool(text)

    def begin(self, jobs: dict[str, int], table: str) -> str:
        """The jobs to do; of a dry run the number of each rule too."""
        self.total = jobs["total"]
        trainings = sum(jobs.get(rule, 0) for rule in TRAININGS)
        first = f"{self.total} jobs" + (f", trainings: {trainings}, {self.hours()}".rstrip(", ") if trainings else "")
        text = "\n".join([first, *self.remarks()])
        return f"{text}\n\n{table}\nWith -p each job is listed, with its files and command." if self.dry else text

    def finish(self, number: int) -> str | None:
        """The line of a finished job; None where a later one of its rule will count it."""
        rule, name, begun, _ = self.jobs.get(number, ("job", str(number), time.monotonic(), []))
        self.finished += 1
        self.failed.pop(f"{rule} {name}".strip(), None)
        self.waiting[rule] += 1
        now, last = time.monotonic(), self.finished == self.total
        if rule not in TRAININGS and not last and now - self.shown_at.get(rule, -TOGETHER) < TOGETHER:
            return None
        self.shown_at[rule] = now
        from bimix.results.watch import duration  # here and in `fail`: a dry run ends no job

        alike = self.waiting.pop(rule)
        what = f"{rule} {name}".strip() + f", {duration(now - begun)}" if alike == 1 else f"{rule}, {alike} more"
        return f"{self.finished:4d} of {self.total}  {what}"

    def text_remarks(self, number: int) -> list[str]:
        """The remarks in the log of a finished job."""
        rule, *_, logs = self.jobs.get(number, ("", []))
        if rule != OF_TEXT:
            return []
        from bimix.results.watch import last_lines  # as in `finish`

        lines = [line for log in logs for line in last_lines(Path(log))]
        return [line for line in lines if line.startswith("Remark: ")]

    def fail(self, number: int, rule: str, logs: list[str] | None) -> str:
        """Where the log of a failed job is, and its last error; a stopped training did not fail."""
        from bimix.results.watch import last_word

        job = f"{rule} {self.jobs[number][1]}".strip() if number in self.jobs else rule
        said = last_word(Path(logs[0])) if logs else ""
        how = "STOPPED" if INTERRUPTED.search(said) else "FAILED"
        self.failed[job] = f"{how} {job}" + (f": {', '.join(logs)}" if logs else "") + (f"\n  {said}" if said else "")
        return self.failed[job]


def busy() -> list[str]:
    """A sentence where more processes want a core than there are."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return [f"This machine is busy: load {load:.0f} on {cores} cores. It takes longer."] if load > 1.5 * cores else []


class Shown(logging.Formatter):
    """The text that Lines gave a record, else what another formatter makes of it."""

    def __init__(self, other: logging.Formatter | None) -> None:
        super().__init__()
        self.other = other or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return getattr(record, "shown", None) or self.other.format(record)


def install(logger: logging.Logger, lines: Lines) -> None:
    """Have Snakemake's terminal show `lines`; its log file and logger plugins stay as they are."""
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.addFilter(lines)
            handler.setFormatter(Shown(handler.formatter))
