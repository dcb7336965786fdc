"""All trainings of a dataset in a table, by their progress.json. Nothing is locked or written."""

import json
import re
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bimix.results import layout

TAIL = 20_000  # bytes of a log's end that are read
FRESH = 60  # seconds for which a file just written says that its process lives
SILENT = 600  # seconds without a word after which a run on another machine is taken for lost
PROCESSES = Path("/proc")
BAR = 20  # characters of a whole bar
STATES = ("failed", "running", "stopped", "killed", "waiting", "finished")  # most urgent first
HEADER = ["run", "", "step", "", "tokens/s", "time left", "loss"]
FAULT = re.compile(r"error: |^\w+(Error|Exception)\b")


@dataclass(frozen=True)
class Run:
    """A training: its name, its state (one of STATES), what its progress.json holds, its log."""

    name: str
    state: str
    progress: dict = field(default_factory=dict)
    log: Path | None = None

    @property
    def share(self) -> float:
        """Part of the updates that are made, 0 where their number is not known."""
        return 1.0 if self.state == "finished" else self.progress.get("step", 0) / self.progress.get("steps", 1)


def read_progress(path: Path) -> dict:
    """The content of a progress.json; empty where there is none or it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def written(path: Path | None) -> float:
    """When a file was last written, in seconds since the epoch; 0 where it is not there."""
    try:
        return path.stat().st_mtime if path is not None else 0.0
    except OSError:
        return 0.0


def lives(lock: Path, silence: float) -> bool:
    """Whether a training goes on that has been silent for so many seconds: the process that holds
    its run is there.

    On another machine nobody sees the process, so SILENT seconds are taken for its end. The lock
    itself is not tried: a run that finds it taken asks its holder to stop.
    """
    if silence < FRESH:
        return True
    try:
        where = json.loads(lock.read_text(encoding="utf-8"))
        host, process = where["host"], int(where["process"])
    except (OSError, ValueError, KeyError, TypeError):
        return silence < SILENT
    here = host == socket.gethostname() and PROCESSES.exists()
    return (PROCESSES / str(process)).exists() if here else silence < SILENT


def read_run(name: str, folder: Path, state: Path) -> Run:
    """The training with its outputs and progress.json in `folder`, its lock and logs in `state`."""
    progress = read_progress(folder / "progress.json")
    logs = sorted((state / "logs").glob("*.log"), key=written)
    log = Path(progress["log"]) if progress.get("log") else logs[-1] if logs else None
    silence = time.time() - max(written(log), written(folder / "progress.json"))
    if (folder / "run.json").exists() or progress.get("state") == "finished":
        found = "finished"
    elif log is None and not progress:
        found = "waiting"
    elif log is not None and FAULT.search(last_word(log)):
        found = "failed"
    elif progress.get("state") == "stopped":
        found = "stopped"
    else:
        found = "running" if lives(state / "lock", silence) else "killed"
    return Run(name, found, progress, log)


def runs_in(results: Path) -> list[Run]:
    """All trainings of a dataset that have begun, `results` being its folder."""
    kinds = (sorted(results.glob(f"{kind}/*/*")) for kind in ("runs", "reweighting"))
    folders = {f"{folder.parent.name}/{folder.name}": folder for own in kinds for folder in own}
    return [read_run(name, folder, folder / "state") for name, folder in folders.items() if folder.is_dir()]


def table(runs: Sequence[Run], rows: int) -> list[str]:
    """Lines: how many trainings are in which state, a row for each, and of those that failed the
    log and the error. Of more than `rows` trainings, those that have finished are only counted.
    """
    if not runs:
        return ["No training has begun here."]
    counts = Counter(run.state for run in runs)
    lines = [", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]), ""]
    shown = sorted(runs, key=lambda run: STATES.index(run.state))
    if len(shown) > rows:
        shown = [run for run in shown if run.state != "finished"]
    lines += [line[2:] for line in layout.table(HEADER, list(map(_cells, shown)), ragged=(0, 1, 3))] if shown else []
    for run in shown:
        if run.state == "failed" and run.log is not None:
            lines += ["", f"{run.name}: {run.log}", f"  {last_word(run.log)}"]
    if any(run.state in ("stopped", "killed") for run in shown):
        lines += ["", "A stopped or killed training resumes from its last checkpoint when it is requested again."]
    return lines


def _cells(run: Run) -> list[str]:
    own, runs_now = run.progress, run.state == "running"
    speed, left, loss = own.get("tokens_per_second"), own.get("seconds_left"), own.get("validation_loss")
    return [
        run.name,
        run.state,
        f"{own['step']:,}/{own['steps']:,}" if own else "",
        ("#" * int(BAR * run.share + 1e-9)).ljust(BAR, "."),
        f"{speed:,.0f}" if runs_now and speed is not None else "",
        duration(left) if runs_now and left is not None else "",
        f"{loss:.4f}" if loss is not None else "",
    ]


def last_word(log: Path) -> str:
    """The last line of a log that is an error, else its last line; empty where it has none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ([line for line in lines if FAULT.search(line)] or lines or [""])[-1]


def duration(seconds: float) -> str:
    """Seconds as 50 s, 12 min, 3 h 20 min or 2 d 4 h."""
    minutes = round(seconds / 60)
    if minutes >= 48 * 60:
        return f"{minutes // 1440} d {minutes % 1440 // 60} h"
    if minutes >= 90:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"
