"""All that is to be measured on a GPU, the most wanted first, as long as the time of the call lasts.

a folder, names of stages or cases (none: all) -> STAGE/CASE.json and .log of each measurement,
table.md, and all of these in one archive where that is wanted

    tests/benchmarks/gpu_day.sh out                              # all that ten minutes allow
    tests/benchmarks/gpu_day.sh out environment base             # these two stages
    tests/benchmarks/gpu_day.sh out --case "base/32 rows at once" --total-seconds 200 --archive day.tgz
    GPU_DAY_SIZE=toy tests/benchmarks/gpu_day.sh out             # at toy size, as on a machine without CUDA

A stage is a list of measurements, each a process of its own: what one of them breaks, another does
not notice. One that is done, with the same command, is not made again; one that failed is. A
measurement is not begun, and is ended, when the time is up: a further call goes on there. Table and
archive are written after each. The status is 0 where all that was asked for is done, has no memory
for it or lacks a part that the table names; else 1.
"""

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SETTLED = ("done", "out of memory", "skipped")
# in the order of worth; what shares a graph with a case before it finds that in the compiler's cache
FIRST = (
    *("environment/device", "base/32 rows at once", "profile/280M", "tests/marked gpu", "large/16 rows at once"),
    *("nanogpt/beside", "base/64 rows at once", "profile/1B", "small/64 rows at once", "attention/flash"),
    *("base/as many as fit", "attention/cudnn"),
)
SHORT_OF_MEMORY = ("out of memory", "cublas_status_alloc_failed", "cudnn_status_alloc_failed")


@dataclass(frozen=True)
class Case:
    """A measurement: a script beside this file with its flags, which writes its numbers where
    `--json` says.

    `needs` are modules, or NANOGPT, the variable that names a checkout.
    """

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seconds: float = 150  # at most: one that hangs leaves the time to the others


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the numbers, logs and the table")
    parser.add_argument("stages", nargs="*", help="stages to run; none: all")
    parser.add_argument("--case", action="append", default=[], help="STAGE/NAME, as in the table; may be repeated")
    parser.add_argument("--total-seconds", type=float, default=570, help="that this call may take; 0: only the table")
    parser.add_argument("--archive", type=Path, help="a .tgz of all records, logs and the table")
    options = parser.parse_args(argv)
    size = os.environ.get("GPU_DAY_SIZE") or ("full" if gpus() else "toy")
    if size not in ("full", "toy"):
        parser.error(f"GPU_DAY_SIZE is {size!r}; it may be full or toy.")
    stages = plan(size, os.environ.get("NANOGPT"))
    cases = {f"{stage}/{case.name}": (stage, case) for stage, own in stages.items() for case in own}
    cases = {name: cases[name] for name in FIRST if name in cases} | cases
    for name in options.stages:
        if name not in stages:
            parser.error(f"there is no stage {name!r}; there are {', '.join(stages)}.")
    for name in options.case:
        if name not in cases:
            parser.error(f"there is no case {name!r}; there are {', '.join(cases)}.")
    wanted = [name for name, (stage, _) in cases.items() if name in options.case or stage in options.stages]
    if not options.case and not options.stages:
        wanted = list(cases)
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended too
    ends = time.monotonic() + options.total_seconds
    for name in wanted:
        stage, case = cases[name]
        place, left = options.out / stage, ends - time.monotonic()
        if left <= 0 or outcome(place, case)["status"] in SETTLED:
            continue
        print(name, file=sys.stderr, flush=True)
        place.mkdir(exist_ok=True)
        record = measure(place, case, min(case.seconds, left))
        write(file_of(place, case, ".json"), record | {"words": list(case.words)})
        bring_out(options.out, stages, options.archive)
    print(bring_out(options.out, stages, options.archive))
    asked = [cases[name] for name in wanted]
    return int(any(outcome(options.out / stage, case)["status"] not in SETTLED for stage, case in asked))


@functools.cache
def gpus() -> int:
    """GPUs that torch sees, asked in another process: this one is to hold none."""
    code = "import sys, torch; sys.exit(torch.cuda.device_count())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def plan(size: str, nanogpt: str | None) -> dict[str, list[Case]]:
    """The stages and their measurements at a size, `full` or `toy`."""
    full = size == "full"
    device = () if full else ("--cpu",)
    words = ("--context", "1024", "--vocabulary", "50277") if full else ("--context", "16", "--vocabulary", "300")
    speed = ("--precision", "bf16", "--compile") if full else ()
    brief = (
        ("--warm-up", "3", "--steps", "5", "--rounds", "3")
        if full
        else ("--warm-up", "1", "--steps", "1", "--rounds", "2")
    )

    def training(
        name: str,
        model: str,
        rows: int,
        at_once: int | None,
        *more: str,
        needs: tuple[str, ...] = (),
        seconds: float = 150,
    ) -> Case:
        part = () if at_once is None else ("--micro-batch", str(at_once if full else min(at_once, 2)))
        flags = ("--model", model if full else "proxy", "--batch-rows", str(rows if full else 4), *part)
        return Case(name, ("bench_training.py", *flags, *words, *speed, *brief, *device, *more), needs, seconds)

    def attention(backend: str) -> Case:
        return training(backend, "280M", 64, 16, "--attention", backend, "--profile")

    side = ("--nanogpt", nanogpt) if nanogpt else ()
    backends = ("flash", "cudnn", "efficient", "math") if full else ("flash", "math")
    return {
        "environment": [Case("device", ("bench_device.py", *device))],
        "tests": [
            Case(
                "marked gpu",
                ("bench_tests.py", "--least", "8" if full else "0"),
                ("pytest", "xdist", "tokenizers", "polars"),
                seconds=240,
            )
        ],
        "base": [
            *(training(f"{rows} rows at once", "280M", 128, rows) for rows in (32, 16, 64, 128)),
            training("as many as fit", "280M", 512, None, seconds=300),
        ],
        "nanogpt": [training("beside", "280M", 64, 32, *side, needs=("NANOGPT",))],
        "attention": [attention(backend) for backend in backends],
        "profile": [training("280M", "280M", 64, 32, "--profile"), training("1B", "1B", 64, 16, "--profile")],
        "large": [training(f"{rows} rows at once", "1B", 64, rows, seconds=200) for rows in (16, 8, 32)],
        "small": [training(f"{rows} rows at once", "1M", 1024, rows) for rows in (64, 32, 128)],
    }


def bring_out(out: Path, stages: dict[str, list[Case]], archive: Path | None) -> str:
    """Write the table and, if wanted, the archive, both whole; return the table."""
    table = tabulate(out, stages)
    (out / "table.md").write_text(table, encoding="utf-8")
    if archive is not None:
        draft = archive.with_name(f".{archive.name}.draft")
        with tarfile.open(draft, "w:gz") as packed:
            for path in [out / "table.md", *sorted(out.glob("*/*.json")), *sorted(out.glob("*/*.log"))]:
                packed.add(path, path.relative_to(out))
        draft.replace(archive)
    return table


def measure(place: Path, case: Case, seconds: float) -> dict:
    """What came of one measurement: status, seconds, why it is not done, numbers."""
    numbers = file_of(place, case, ".numbers")
    numbers.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / case.words[0]), *case.words[1:], "--json", str(numbers)]
    begun = time.monotonic()
    log = file_of(place, case, ".log")
    with log.open("w", encoding="utf-8") as out:
        print(*command, file=out, flush=True)
        started = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, cwd=ROOT)
        try:
            status = started.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_group(started)
    record = {"seconds": round(time.monotonic() - begun, 1)}
    if status is None:
        return record | {"status": "failed", "why": "its time was up"}
    if status == 0 and numbers.exists():
        found = json.loads(numbers.read_text(encoding="utf-8"))
        numbers.unlink()
        return record | {"status": "done", "numbers": found}
    text = log.read_text(encoding="utf-8", errors="replace")
    if any(spelling in text.lower() for spelling in SHORT_OF_MEMORY):
        return record | {"status": "out of memory", "why": "it does not fit into this device"}
    last = ([line.strip() for line in text.splitlines() if line.strip()] or ["nothing was said"])[-1]
    return record | {"status": "failed", "why": f"status {status}: {last[:300]}"}


def end_group(started: subprocess.Popen) -> None:
    """End a process and what it started, of which some may be left after it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def outcome(place: Path, case: Case) -> dict:
    """The record of a measurement made with this command; skipped where the machine lacks it."""
    for need in case.needs:
        if need == "NANOGPT":
            if not os.environ.get(need):
                return {"status": "skipped", "why": "NANOGPT names no checkout of nanoGPT"}
        elif importlib.util.find_spec(need) is None:
            return {"status": "skipped", "why": f"there is no {need}"}
    file = file_of(place, case, ".json")
    if file.exists():
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["words"] == list(case.words):
            return record
    return {"status": "not run"}


def file_of(place: Path, case: Case, suffix: str) -> Path:
    return place / (case.name.replace(",", "").replace(" ", "_") + suffix)


def write(path: Path, record: dict) -> None:
    """Whole or not at all: a record that is there is true."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def tabulate(out: Path, stages: dict[str, list[Case]]) -> str:
    """A table in Markdown of all stages, run in this call or not."""
    lines = ["| stage | measurement | outcome | s | numbers |", "|---|---|---|---|---|"]
    for stage, cases in stages.items():
        for case in cases:
            record = outcome(out / stage, case)
            told = "; ".join(figures(record.get("numbers", {}))) or record.get("why", "")
            cells = (stage, case.name, record["status"], str(record.get("seconds", "")), told.replace("|", "/"))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def figures(numbers: dict) -> Iterable[str]:
    """Each number with its name, to four digits."""
    for name, value in numbers.items():
        if isinstance(value, float):
            value = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        yield f"{name} {value}"


if __name__ == "__main__":
    sys.exit(main())
