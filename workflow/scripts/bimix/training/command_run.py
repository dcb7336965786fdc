"""A run of a user's command: its process, stopped and gone on with, its notes and report."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bimix.digests import digest_bytes, digest_file
from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_table
from bimix.plan.dataset import evaluations
from bimix.tables import read_json
from bimix.training import artefacts, checkpoints, provenance
from bimix.training.attempt import STOPPED
from bimix.training.command import OUTPUT, content, fill, read, source, tidy
from bimix.training.devices import query

WORK = "work"  # the folder that the command has for itself, next to the notes on its run
LOOK = 0.2  # seconds between two looks at the process and at requests
LINGER = 60  # seconds for processes that it started, once it has ended itself
PIECE = 2**16


@dataclass
class CommandRun:
    """One model to be trained on one mixture by a command, in the folder `state`."""

    trainer: dict  # command, format, losses, parameters
    recipe: dict  # steps, batch_rows, evaluate_every, seed, sequence_length
    domains: list[str]  # whose losses it must leave
    mixture: Mixture
    write_mixture: Callable[[Path], Path]  # into a folder, as the command reads it
    text: dict[str, str]  # digests of the text that it reads, if any
    state: Path
    places: dict[str, Path]  # of the outputs
    gpus: int
    nodes: int
    threads: int
    lock_seconds: float  # how long to wait for another attempt
    max_seconds: float | None  # then it is requested to stop
    launched: float = field(default_factory=time.time)
    signals: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"the run {self.places['losses.parquet'].parent}"

    @property
    def step_tokens(self) -> int:
        return self.recipe["batch_rows"] * self.recipe["sequence_length"]

    @property
    def deadline(self) -> int | None:
        return None if self.max_seconds is None else int(self.launched + self.max_seconds)

    @property
    def device(self) -> str:
        return query("--query-gpu=name")[0][0] if self.gpus else f"cpu, {self.threads} threads"

    def fingerprint(self) -> dict:
        """The settings that define the run."""
        with tempfile.TemporaryDirectory() as folder:
            written = digest_file(self.write_mixture(Path(folder)))
        return {
            "command": self.trainer["command"],
            "format": self.trainer.get("format"),
            "mixture_file": written,  # its paths and weights
            **{f"training.{key}": value for key, value in self.recipe.items()},
            **{f"mixture.{domain}": share for domain, share in self.mixture.flat().items()},
            **self.text,
        }

    def bring_to_end(self) -> int:
        """Exit status of one attempt: 0, the outputs lie at their places, or STOPPED on request.
        Errors: the command failed, or its losses are not what the run was to measure.
        """
        fingerprint = self.fingerprint()
        with contextlib.closing(checkpoints.lock(self.state, self.lock_seconds)) as held:
            checkpoints.sweep(self.places.values())
            own, remark = checkpoints.claim(self.state, fingerprint)
            say(remark)
            if self.is_finished(own):
                return 0
            lines = checkpoints.attempts(own)
            if not lines or lines[-1]["event"] != "ended":
                status = self.attempt(own, held.fileno())
                if status:
                    return status
            try:
                rows = read(self.trainer["losses"], own / WORK, self.offsets(own))
                table, remarks = tidy(rows, self.domains, evaluations(self.recipe), self.step_tokens, self.name)
            except InputError as error:
                said = str(error) if self.name in str(error) else f"{self.name}: {error}"
                raise InputError(
                    f"{said} The command has ended: mend `losses` in the config, or delete {own} to train again."
                ) from error
            for sentence in remarks:
                say(f"Remark: {sentence}")
            write_table(table, own / "losses.parquet")
            artefacts.finish(own, self.describe(own), ["losses.parquet"], {})
            artefacts.deliver(own, self.places)
        return 0

    def is_finished(self, own: Path) -> bool:
        """Whether this configuration has come to its end before; files that are missing are put
        back. Losses by another `losses` of the config, or of other domains, are read again.
        """
        report = own / artefacts.REPORT
        wanted = {"losses": self.trainer["losses"], "domains": sorted(self.domains)}
        known = read_json(report) if report.exists() else wanted
        changed = [name for name in wanted if known.get(name) != wanted[name]]
        if changed:
            say(f"{own} holds this run; its losses are read again, for its {' and '.join(changed)} have changed.")
            report.unlink()
        found = artefacts.restore(own, self.places)
        if found is None:
            return False
        filled, complaint = found
        say(complaint or artefacts.was_finished(own, filled))
        return complaint is None

    def attempt(self, own: Path, held: int) -> int:
        """Let the command train once: 0, it has ended and left losses, or STOPPED on request.
        Errors: it failed, or it ended without having written losses since the run began.
        """
        (own / WORK).mkdir(exist_ok=True)
        values = self.recipe | {
            "mixture": self.write_mixture(own).resolve(),
            "tokens": self.recipe["steps"] * self.step_tokens,
            "folder": (own / WORK).resolve(),
            "gpus": self.gpus // self.nodes,
            "nodes": self.nodes,
            "threads": self.threads,
            "deadline": "none" if self.deadline is None else self.deadline,
        }
        words = fill(self.trainer["command"], values)
        path = source(self.trainer["losses"], own / WORK)
        before, seen = stamp(path), content(path)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: self.signals.append(received))

        def stop() -> bool:
            late = self.deadline is not None and time.time() > self.deadline
            return bool(self.signals) or late or checkpoints.must_stop(own.parent)

        origin = provenance.code(provenance.PACKAGES) | {"device": self.device, "processes": max(self.gpus, 1)}
        first = next((line for line in checkpoints.attempts(own) if line["event"] == "begun"), {"stamp": before})
        state = {"bytes": len(seen), "seen": digest_bytes(seen), "stamp": before}
        checkpoints.note(own, "begun", self.last_step(own), **origin, **state)
        begun = time.monotonic()
        status, stopped = follow(words, own / OUTPUT, sys.stderr.fileno(), held, stop)
        spent = {"seconds": round(time.monotonic() - begun, 3), "status": status}
        step = self.last_step(own)
        written = stamp(path) not in (None, first["stamp"])
        if status == 0 and written and (not stopped or step == self.recipe["steps"]):
            checkpoints.note(own, "ended", step, **spent)
            return 0
        if stopped:
            checkpoints.note(own, "stopped", step, **spent)
            say(f"Stopped at step {step} of {self.recipe['steps']}: another attempt goes on in {own}.")
            return STOPPED
        checkpoints.note(own, "failed", step, **spent)
        if status:
            how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise InputError(f"{self.name}: its command {how}; {own / OUTPUT} has its last words.")
        raise InputError(
            f"{self.name}: its command ended with status 0 and has written nothing to {path}: a run that skips itself is"
            f" no success. {own / OUTPUT} has its last words."
        )

    def offsets(self, own: Path) -> list[int]:
        """Bytes of the losses when each attempt began that appended to them; a file that is written
        as new has the losses of one attempt.
        """
        there = content(source(self.trainer["losses"], own / WORK))
        begun = [line for line in checkpoints.attempts(own) if line["event"] == "begun"]
        return [line["bytes"] for line in begun if line["seen"] == digest_bytes(there[: line["bytes"]])]

    def last_step(self, own: Path) -> int:
        """The last step with a loss so far, 0 where none can be read."""
        try:
            return max(row.step for row in read(self.trainer["losses"], own / WORK, self.offsets(own)))
        except InputError:
            return 0

    def describe(self, own: Path) -> dict:
        """The content of run.json; 6 FLOPs a parameter and token (Kaplan et al. 2020, 2.1)."""
        lines, parameters = checkpoints.attempts(own), self.trainer["parameters"]
        tokens = self.recipe["steps"] * self.step_tokens
        seconds = sum(line.get("seconds", 0) for line in lines)
        origin = provenance.code(provenance.PACKAGES)
        return {
            "parameters": parameters,
            "tokens": tokens,
            "flops": 6 * parameters * tokens,
            "seconds": round(seconds, 1),
            "tokens_per_second": round(tokens / seconds) if seconds else None,
            "processes": max(self.gpus, 1),
            "device": self.device,
            "gpu_hours": self.gpus * seconds / 3600,
            "seed": self.recipe["seed"],
            "command": self.trainer["command"],
            "losses": self.trainer["losses"],
            "domains": sorted(self.domains),
            "shape": {},
            "recipe": self.recipe,
            "mixture": self.mixture.document(),
            "tokenizer": None,
            "versions": origin["versions"],
            "commit": origin["commit"],
            "state": own.name,
            "attempts": provenance.begun(lines),
            "warnings": provenance.warnings(lines),
            "data": self.text,
        }


def say(sentence: str | None) -> None:
    if sentence is not None:
        print(sentence, file=sys.stderr, flush=True)


def stamp(path: Path) -> list[int] | None:
    """A stamp that changes when a file is written; None where it is missing or empty."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns] if found.st_size else None


def follow(words: Sequence[str], output: Path, shown: int, held: int, stop: Callable[[], bool]) -> tuple[int, bool]:
    """Run a command to its end: its exit status, negative of a signal, and whether it was requested
    to stop. Nothing that it started outlives it.

    What it prints goes to the end of `output` and to the descriptor `shown`. It holds the
    descriptor `held`, the lock of its run, too: where this process is killed no other begins next
    to it. `stop` says when it is to be sent SIGTERM, once; then it has as long as it needs to save.
    Errors: there is no such program.
    """
    # torchrun is to hand SIGTERM on to its processes, which our own launcher keeps it from
    environment = {name: text for name, text in os.environ.items() if name != "PET_SIGNALS_TO_HANDLE"}
    try:
        child = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            pass_fds=(held,),
            start_new_session=True,  # a signal to the whole group reaches it once, from here
        )
    except OSError as error:
        raise InputError(f"command: {words[0]!r} cannot be started ({error.strerror}).") from error

    def copy_output() -> None:
        with output.open("ab", buffering=0) as kept:
            while piece := os.read(child.stdout.fileno(), PIECE):
                kept.write(piece)
                with contextlib.suppress(OSError):  # a log that cannot be written ends no training
                    os.write(shown, piece)

    copy = threading.Thread(target=copy_output, daemon=True)
    copy.start()
    requested = False
    while child.poll() is None:
        if not requested and stop():
            requested = True
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        time.sleep(LOOK)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        copy.join(LINGER)
        if not copy.is_alive():
            break
    return child.returncode, requested
