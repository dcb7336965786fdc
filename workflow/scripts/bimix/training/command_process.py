"""A trainer as a process: what it prints is kept, a request to stop is handed on once, and nothing
that it started outlives it.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bimix.errors import InputError

LOOK = 0.2  # seconds between two looks at the process and at requests
LINGER = 60  # seconds for what it has started, once it has ended itself
PIECE = 2**16


def follow(words: Sequence[str], output: Path, shown: int, held: int, stop: Callable[[], bool]) -> tuple[int, bool]:
    """Run a command to its end: its exit status, negative of a signal, and whether it was asked to
    stop.

    What it prints goes to the end of `output` and to the descriptor `shown`. It holds the
    descriptor `held`, the lock of its run, too: where this process is killed no other begins beside
    it. `stop` says when it is to be sent SIGTERM; then it has as long as it needs to save.
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
    copy = threading.Thread(target=_copy, args=(child.stdout, output, shown), daemon=True)
    copy.start()
    asked = False
    while child.poll() is None:
        if not asked and stop():
            asked = True
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        time.sleep(LOOK)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        copy.join(LINGER)
        if not copy.is_alive():
            break
    return child.returncode, asked


def _copy(pipe: object, output: Path, shown: int) -> None:
    with output.open("ab", buffering=0) as kept:
        while piece := os.read(pipe.fileno(), PIECE):
            kept.write(piece)
            with contextlib.suppress(OSError):  # a log that cannot be written ends no training
                os.write(shown, piece)
