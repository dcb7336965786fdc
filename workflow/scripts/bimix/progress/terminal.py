"""What Snakemake's terminal says of a call: a line for each job that has finished, what trains now,
what failed.

The handler that Snakemake writes to the terminal with gets a filter and a formatter more. No plugin
needs to be installed. The file in .snakemake/log keeps all that is left out here.
"""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bimix.progress.forecast import seconds_left
from bimix.progress.readings import FAULT, last_lines, read_log
from bimix.progress.work import TRAININGS, Work

STREAM = "DefaultStreamHandler"  # Snakemake's own name of it
SHOWN = 3  # trainings of which a line tells
TOGETHER = 10  # seconds in which the finished jobs of one rule are told in one line
PATIENCE = (30, 600)  # seconds of silence until a line tells how the trainings are: at first, and at most
# What Snakemake says before and between its jobs, of use to nobody who looks at the terminal
NOISE = (
    "Building DAG",
    "Using shell",
    "Provided cores",
    "Conda environments",
    "Singularity containers",
    "Group jobs",
    "Select jobs",
    "host:",
    "Assuming unrestricted",
    "DAG of jobs will be",
    "Updating job",
    "Removing output files",
    "Execute ",
    "Job stats",
    "Reading SLURM partition",
    "SLURM run ID",
    "Submitted array job",
    "Reasons:",
)
MORE = "With -p each job is listed, with its files, its reason and its command."  # of a dry run
SUBMITTED = "has been submitted with SLURM jobid"
# Snakemake's own words of a job that failed, before it tells of the job itself, and of a call in
# which one did
NO_RULE = re.compile(r"^No rule to produce (.+) \(if you use input", flags=re.MULTILINE)
OF_A_JOB = "RuleException:\nCalledProcessError"
OF_THE_CALL = "WorkflowError:\nAt least one job did not complete"
NOISY_EVENTS = {
    "workflow_started",
    "resources_info",
    "job_info",
    "group_info",
    "job_started",
    "shellcmd",
    "progress",
    "rulegraph",
    "debug_dag",
}


class Job:
    """A job of the call: its rule, its name for a reader, its work, its log and when it was
    started.
    """

    def __init__(self, rule: str, wildcards: Mapping[str, str], weight: Work) -> None:
        words = [word for key, word in wildcards.items() if key != "dataset"]
        self.rule, self.weight = rule, weight
        self.name = "/".join(words)
        self.full_name = f"{rule} {self.name}".strip()
        self.log: Path | None = None
        self.started: float | None = None
        self.finished = False

    @property
    def trains(self) -> bool:
        """Whether the job is a training."""
        return self.rule in TRAININGS


class Progress(logging.Filter):
    """Takes in the events of a call, and lets through those that are told, each with its text in
    `record.told`.

    `planned` gives the jobs of the call as (number, rule, wildcards), `weigh` the work of a job of
    a rule. A `dry` call plans only. `near` gives a sentence on a file that no rule makes.
    """

    def __init__(
        self,
        planned: Callable[[], Iterable[tuple[int, str, Mapping[str, str]]]],
        weigh: Callable[[str, Mapping[str, str]], Work],
        clock: Callable[[], float] = time.monotonic,
        dry: bool = False,
        near: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__()
        self.planned, self.weigh, self.clock, self.dry, self.near = planned, weigh, clock, dry, near
        self.lock = threading.RLock()
        self.jobs: dict[int, Job] = {}
        self.total = 0
        self.of_rule: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.told_at: dict[str, float] = {}
        self.failed: dict[int, list[str]] = {}
        self.broken = False
        self.told_since = 0  # lines on finished jobs after the last failure

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is told.

        A fault of these lines ends no call: Snakemake's own words take their place.
        """
        with self.lock:
            if self.broken:
                return True
            try:
                return self.tells(record)
            except Exception as error:  # whatever it is
                self.broken = True
                record.told = f"{Path(__file__).name} failed ({error!r}); from here on, Snakemake's own words."
                return True

    def tells(self, record: logging.LogRecord) -> bool:
        """Whether a record is told; its text is then in `record.told`, unless it is its own."""
        event = str(getattr(record, "event", None) or "")
        if event in NOISY_EVENTS:
            self.take_in(event, record)
            return False
        if event == "run_info":
            record.told = self.begin() if not self.dry else MORE if self.total else f"{self.begin()}\n\n{record.msg}"
        elif event == "job_finished":
            record.told = self.finish(record.job_id)
        elif event == "job_error":
            record.told = self.fail(record.jobid, record.rule_name, record.log)
        elif event == "group_error":
            errors = [self.fail(info["jobid"], info["rule_name"], info["log"]) for info in record.job_error_info]
            record.told = "\n".join(errors)
        elif self.near is not None and (missing := NO_RULE.search(str(record.msg))):
            record.told = self.near(missing[1])
        else:
            return self.is_news(str(record.msg or ""), record.levelno)
        return bool(record.told)

    def is_news(self, text: str, level: int) -> bool:
        """Whether a sentence of Snakemake's is told: all warnings and errors are, but for those
        said better already.
        """
        if level > logging.INFO:
            return not text.startswith(OF_A_JOB) and not (self.failed and text.startswith(OF_THE_CALL))
        return bool(text.strip()) and not text.startswith(NOISE) and SUBMITTED not in text

    def take_in(self, event: str, record: logging.LogRecord) -> None:
        """Learn of a job that starts, and of jobs that a checkpoint has added."""
        if event == "job_info" and record.jobid in self.jobs:
            job = self.jobs[record.jobid]
            job.started = self.clock()
            job.log = Path(record.log[0]) if record.log else None
        elif event == "progress" and record.total != self.total:
            self.plan()
            self.total = record.total

    def plan(self) -> None:
        """Take in the jobs of the call that are new."""
        for number, rule, wildcards in self.planned():
            if number not in self.jobs:
                self.jobs[number] = Job(rule, wildcards, self.weigh(rule, wildcards))
                self.of_rule[rule] += 1

    def begin(self) -> str:
        """What there is to do."""
        self.plan()
        self.total = len(self.jobs)
        trainings = sum(job.weight.trainings for job in self.jobs.values())
        text = f"{len(self.jobs)} jobs"
        if trainings:
            tokens = sum(job.weight.tokens for job in self.jobs.values())
            text += f", {trainings} trainings of {tokens:,} tokens"
        return text

    def finish(self, number: int) -> str:
        """The line of a job that has finished, or of several of its rule; empty where it is told
        with a later one.
        """
        if number not in self.jobs:
            self.plan()
        job = self.jobs.get(number)
        if job is None:
            return ""
        job.finished = True
        self.done[job.rule] += 1
        done, alike, now = self.done[job.rule], self.of_rule[job.rule], self.clock()
        if not job.trains and done < alike and now - self.told_at.setdefault(job.rule, now) < TOGETHER:
            return ""
        self.told_at[job.rule] = now
        self.told_since += 1
        text = job.full_name if job.trains or alike == 1 else f"{job.rule}, {done} of {alike}"
        if job.started is not None and (job.trains or (alike == 1 and now - job.started >= 60)):
            text += f" in {duration(now - job.started)}"
        return f"{self.share()}  {text}{self.trains_now(' | ')}"

    def fail(self, number: int, rule: str, logs: list[str]) -> str:
        """Where the log of a failed job is, and its last word."""
        job = self.jobs.get(number)
        name = job.full_name if job else rule
        text = [f"FAILED {name}" + (f": {', '.join(logs)}" if logs else "")]
        said = last_word(Path(logs[0])) if logs else ""
        text += [f"  {said}"] if said else []
        if job is not None:
            job.started = None
            self.failed[number] = text
            self.told_since = 0
        return "\n".join(text)

    def share(self) -> str:
        """The part of the work that is done, as five characters: of the trainings where there are
        any, else of the jobs.
        """
        done = all_of_it = 0.0
        trained = any(job.trains for job in self.jobs.values())
        for job in self.jobs.values():
            weight = job.weight.flops if trained else 1.0
            all_of_it += weight
            done += weight if job.finished else weight * self.part(job)
        percent = 100 * done / all_of_it if all_of_it else 0.0
        return f"{int(percent + 1e-9):3d} %"

    def part(self, job: Job) -> float:
        """The part of a training's updates that are made."""
        return read_log(job.log).share if job.trains and job.started is not None and job.log else 0.0

    def trains_now(self, lead: str) -> str:
        """What trains now, how fast, and how long it will take; empty where nothing does."""
        running = [job for job in self.jobs.values() if job.trains and job.started is not None and not job.finished]
        texts = []
        for job in running:
            reading = read_log(job.log) if job.log else None
            if reading is not None and reading.steps and len(texts) < SHOWN:
                text = f"{job.name} {reading.step}/{reading.steps}"
                if reading.seconds_left is not None:
                    text += f", {reading.tokens_per_second:,.0f} tokens/s, {duration(reading.seconds_left)} left"
                texts.append(text)
        more = len(running) - len(texts)
        texts += [f"{more} more" if texts else f"{more} starting"] if more else []
        lasts = seconds_left(
            (job.weight, read_log(job.log) if job.started is not None and job.log else None) for job in self.to_train()
        )
        texts += [f"all in {duration(lasts)}"] if lasts is not None else []
        return f"{lead}trains: {'; '.join(texts)}" if texts else ""

    def to_train(self) -> list[Job]:
        """The trainings that run or are still to come."""
        failed = [self.jobs[number] for number in self.failed]
        left = [job for job in self.jobs.values() if job.trains and not job.finished]
        return [job for job in left if job.started is not None or job not in failed]

    def failures(self) -> str:
        """All failed jobs once more, for the end of a call: those that a later attempt has mended
        left out.
        """
        count = sum(not self.jobs[number].finished for number in self.failed)
        if count < 2 and self.told_since == 0:
            return ""  # it has just been told
        lines = [line for number, text in self.failed.items() if not self.jobs[number].finished for line in text]
        return "\n".join(lines)


class Told(logging.Formatter):
    """The text that Progress gave a record, else what another formatter makes of it."""

    def __init__(self, other: logging.Formatter) -> None:
        super().__init__()
        self.other = other

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return getattr(record, "told", None) or self.other.format(record)


def install(logger: logging.Logger, progress: Progress) -> bool:
    """Have Snakemake's terminal tell what `progress` lets through; False where Snakemake writes by
    another handler.
    """
    for handler in logger.handlers:
        if handler.name == STREAM:
            handler.addFilter(progress)
            handler.setFormatter(Told(handler.formatter or logging.Formatter()))
            threading.Thread(target=remind, args=(handler, progress), daemon=True).start()
            return True
    return False


def remind(handler: logging.Handler, progress: Progress) -> None:
    """Tell how the trainings are whenever the terminal has been silent, the later the longer
    nothing has happened.
    """
    patience, known = PATIENCE[0], 0
    while True:
        time.sleep(patience)
        with progress.lock:
            finished = progress.done.total()
            text = progress.trains_now("") if finished == known else ""
            line = f"{progress.share()}  {text}"
        patience = PATIENCE[0] if finished != known else min(2 * patience, PATIENCE[1])
        known = finished
        if text:
            handler.handle(logging.LogRecord("bimix", logging.INFO, __file__, 0, line, None, None))


def last_word(log: Path) -> str:
    """The last line of a log that is an error, else its last line."""
    lines = [line.strip() for line in last_lines(log) if line.strip()]
    errors = [line for line in lines if FAULT.search(line)]
    return (errors or lines or [""])[-1]


def duration(seconds: float) -> str:
    """Seconds as 50 s, 12 min, 3 h 20 min or 2 d 4 h."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"
