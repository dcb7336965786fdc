"""A run of a user's command: its process, stopping and resuming it, its notes and report."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_table
from bimix.tables import read_table
from bimix.training import artefacts, checkpoints, provenance
from bimix.training.attempt import STOPPED, costs, tokens_of
from bimix.training.command import FOLDER, cut_last_line, fill, read_losses, read_rows
from bimix.training.devices import query
from bimix.training.recipe import evaluations

SETTINGS = ("steps", "batch_rows", "evaluate_every", "seed")  # of the recipe, that a command can use
WORK = "work"  # the folder that the command has for itself, next to the notes on its run
OUTPUT = "output.log"  # what it prints, where it cannot delete it
LOOK = 0.2  # seconds between two looks at the process and at requests
LINGER = 60  # seconds for processes that it started, once it has ended itself


class CommandRun:
    """The training of one model on one mixture by a command; `options` are the flags of
    run_trainer.py. `write_mixture` writes the mixture into a folder in the command's format.
    """

    def __init__(self, options: argparse.Namespace, write_mixture: Callable[[Path], Path]) -> None:
        self.options, self.write_mixture = options, write_mixture
        self.command = options.trainer["command"]
        self.recipe = {name: options.recipe[name] for name in SETTINGS} | {"sequence_length": options.sequence_length}
        self.step_tokens = self.recipe["batch_rows"] * options.sequence_length
        self.tokens = self.recipe["steps"] * self.step_tokens
        self.mixture = Mixture.read(options.mixture)
        self.text = tokens_of(dict(zip(("train", "validation"), map(read_table, options.text), strict=False)))
        self.name = f"the run {options.losses.parent}"
        self.deadline = None if options.max_seconds is None else int(time.time() + options.max_seconds)
        self.processes = max(options.gpus, 1)

    def fingerprint(self) -> dict:
        """The settings that define the run."""
        with tempfile.TemporaryDirectory() as folder:
            written = digest_file(self.write_mixture(Path(folder)))
        return {
            "command": self.command,
            "format": self.options.trainer.get("format"),
            "mixture_file": written,  # its paths and weights
            **{f"training.{key}": value for key, value in self.recipe.items()},
            **{f"mixture.{domain}": share for domain, share in self.mixture.flat().items()},
            **self.text,
        }

    def bring_to_end(self) -> int:
        """Exit status of one attempt: 0, the outputs are in place, or STOPPED on request. Errors:
        the command failed, or its losses are not those of the run.
        """
        fingerprint, state = self.fingerprint(), self.options.state
        places = {artefacts.REPORT: self.options.report, "losses.parquet": self.options.losses}
        with contextlib.closing(checkpoints.lock(state, self.options.lock_seconds)) as held:
            checkpoints.sweep(places.values())
            own, remark = checkpoints.claim(state, fingerprint)
            if remark:
                say(remark)
            losses = own / WORK / self.options.trainer["losses"].removeprefix(FOLDER)
            lines = checkpoints.attempts(own)
            # a command that has ended is not run again, and its losses are read for the domains of today
            ended = bool(lines) and lines[-1]["event"] == "ended"
            if not ended and self.attempt(own, losses, held.fileno()) == STOPPED:
                return STOPPED
            try:
                table = read_losses(losses, self.options.domains, evaluations(self.recipe), self.step_tokens)
            except InputError as error:
                mend = f"The command has ended: mend {losses}, or delete {own} to train again."
                raise InputError(f"{self.name}: {error} {mend}") from error
            write_table(table, own / "losses.parquet")
            artefacts.finish(own, self.describe(own), ["losses.parquet"], {})
            artefacts.deliver(own, places)
        return 0

    def attempt(self, own: Path, losses: Path, held: int) -> int:
        """Run the command once: 0, it ended and wrote losses, or STOPPED on request. Errors: it
        failed, or it ended without losses.
        """
        options, signals = self.options, []
        (own / WORK).mkdir(exist_ok=True)
        cut_last_line(losses)
        values = self.recipe | {
            "mixture": self.write_mixture(own).resolve(),
            "tokens": self.tokens,
            "folder": (own / WORK).resolve(),
            "gpus": options.gpus // options.nodes,
            "nodes": options.nodes,
            "threads": options.threads,
            "deadline": "none" if self.deadline is None else self.deadline,
        }
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: signals.append(received))

        def stop() -> bool:
            late = self.deadline is not None and time.time() > self.deadline
            return bool(signals) or late or checkpoints.must_stop(own.parent)

        device = query("--query-gpu=name")[0][0] if options.gpus else f"cpu, {options.threads} threads"
        origin = provenance.code(provenance.PACKAGES) | {"device": device, "processes": self.processes}
        checkpoints.note(own, "begun", last_step(losses), **origin)
        begun = time.monotonic()
        status, stopped = follow(fill(self.command, values), own / OUTPUT, sys.stderr.fileno(), held, stop)
        spent, step = round(time.monotonic() - begun, 3), last_step(losses)
        ended = status == 0 and losses.is_file() and (not stopped or step == self.recipe["steps"])
        event = "ended" if ended else "stopped" if stopped else "failed"
        gpu_seconds = spent * self.processes if options.gpus else 0.0
        checkpoints.note(own, event, step, seconds=spent, gpu_seconds=gpu_seconds, status=status)
        if event == "stopped":
            say(f"Stopped at step {step} of {self.recipe['steps']}: another attempt goes on in {own}.")
            return STOPPED
        if event == "failed":
            how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            if not status:
                how = f"{how} and has written nothing to {losses}: a run that skips itself is no success"
            raise InputError(f"{self.name}: its command {how}; {own / OUTPUT} has its last words.")
        return 0

    def describe(self, own: Path) -> dict:
        """The content of run.json; 6 FLOPs a parameter and token (Kaplan et al. 2020, 2.1)."""
        lines, parameters = checkpoints.attempts(own), self.options.trainer["parameters"]
        trained = provenance.begun(lines)[-1]
        seconds, gpu_seconds = (sum(line.get(name, 0) for line in lines) for name in ("seconds", "gpu_seconds"))
        flops = 6 * parameters * self.tokens
        return costs(parameters, self.tokens, flops, seconds, self.processes, gpu_seconds) | {
            "device": trained["device"],
            "seed": self.recipe["seed"],
            "command": self.command,
            "shape": {},
            "recipe": self.recipe,
            "mixture": self.mixture.document(),
            "data": self.text,
            "tokenizer": None,
            **provenance.of_run(trained, own.name, lines),
        }


def last_step(losses: Path) -> int:
    """The last step with a loss so far; 0 without any."""
    try:
        return max((step for step, _ in read_rows(losses)), default=0)
    except InputError:
        return 0


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def follow(words: Sequence[str], output: Path, shown: int, held: int, stop: Callable[[], bool]) -> tuple[int, bool]:
    """Run a command to its end; return its exit status, negative for a signal, and whether a stop
    was requested. None of its processes outlives it.

    Its output is appended to `output` and written to the descriptor `shown`. It inherits the
    descriptor `held`, the lock of its run, so that no other attempt begins if this process is
    killed. When `stop` returns true it gets SIGTERM, once, and as much time as it needs to save.
    Errors: there is no such program.
    """
    # torchrun must pass SIGTERM on to its processes, which our own launcher prevents
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
    # neither a closed log nor a SIGTERM to the whole job ends tee: it ends with the last writer
    deaf = ["sh", "-c", 'trap "" INT TERM PIPE; exec tee -a "$0"', output]
    copy = subprocess.Popen(deaf, stdin=child.stdout, stdout=shown, start_new_session=True)
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
        with contextlib.suppress(subprocess.TimeoutExpired):
            copy.wait(LINGER)
            break
    return child.returncode, requested
