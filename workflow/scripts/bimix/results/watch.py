"""All trainings of a dataset in a table, by their progress.json and logs. Nothing is locked or written."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bimix.results import layout

TAIL = 20_000  # bytes of a log's end that are read
SILENT = 600  # seconds without a word after which a training may be lost
HEADER = ["run", "", "step", "tokens/s", "time left", "loss"]
HELD = re.compile(r"\|.*(held|BadConstraints)", re.IGNORECASE)  # reasons of jobs that never begin by themselves
FAULT = re.compile(r"error: |^\w+(Error|Exception)\b")


def table(results: Path) -> list[str]:
    """Lines: a row for each training that has begun, and of those that failed the log and the error."""
    folders = [path for kind in ("runs", "reweighting") for path in sorted(results.glob(f"{kind}/*/*"))]
    rows, faults = [], []
    for folder in filter(Path.is_dir, folders):
        progress = read_progress(folder / "progress.json")
        logs = sorted((folder / "state/logs").glob("*.log"), key=lambda path: path.stat().st_mtime)
        written = [path for path in (folder / "progress.json", *logs) if path.exists()]
        silence = time.time() - max(path.stat().st_mtime for path in written) if written else 0.0
        said = last_word(logs[-1]) if logs else ""
        if (folder / "run.json").exists():
            state = "finished"
        elif FAULT.search(said):
            state = "failed"
            faults += ["", f"{folder}: {logs[-1]}", f"  {said}"]
        elif progress.get("state") == "running" and silence > SILENT:
            state = f"silent for {duration(silence)}"
        else:
            state = progress.get("state", "waiting")
        rows.append([f"{folder.parent.name}/{folder.name}", state, *_numbers(progress, state == "running")])
    return [*layout.table(HEADER, rows, ragged=(0, 1)), *faults] if rows else ["No training has begun here."]


def _numbers(progress: dict, runs: bool) -> Sequence[str]:
    """Step, tokens a second, time left and loss in words; the middle two of a training that runs."""
    speed, left, loss = (progress.get(name) for name in ("tokens_per_second", "seconds_left", "validation_loss"))
    return [
        f"{progress['step']:,}/{progress['steps']:,}" if progress else "",
        f"{speed:,.0f}" if runs and speed is not None else "",
        duration(left) if runs and left is not None else "",
        f"{loss:.4f}" if loss is not None else "",
    ]


def held_jobs() -> list[str]:
    """A sentence for each of the user's jobs that SLURM holds; none where there is no SLURM, or it
    does not answer.
    """
    if shutil.which("squeue") is None:
        return []
    try:
        asked = ["squeue", "--me", "--noheader", "--states=PENDING", "--format=%i|%r"]
        listed = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10).stdout
    except subprocess.TimeoutExpired:
        return []
    jobs = [line.split("|", 1) for line in listed.splitlines() if HELD.search(line)]
    return [
        f"SLURM holds job {job} ({reason}): it begins only after `scontrol release {job}`; after `scancel {job}` it is"
        " sent again."
        for job, reason in jobs
    ]


def read_progress(path: Path) -> dict:
    """The content of a progress.json; empty where there is none or it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def last_lines(log: Path) -> list[str]:
    """The last lines of a log that are not blank; none where there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def last_word(log: Path) -> str:
    """The last line of a log that is an error, else its last line; empty where it has none."""
    lines = last_lines(log)
    return ([line for line in lines if FAULT.search(line)] or lines or [""])[-1]


def duration(seconds: float) -> str:
    """Seconds as 50 s, 12 min, 3 h 20 min or 2 d 4 h."""
    minutes = round(seconds / 60)
    if minutes >= 48 * 60:
        return f"{minutes // 1440} d {minutes % 1440 // 60} h"
    if minutes >= 90:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"
