"""Processes that begin with their imports done: forked from one that holds Snakemake, torch and the
like.

To import these takes longer than what most tests do with them. Packages alone are held: each
process finds its script and bimix by itself, from its own folder and environment, and ends as any
other. What they share is all that imports leave, the seed of Python's hashes too: what is asked of
an interpreter's own start needs `subprocess`.

`run` and `Process` take the place of `subprocess.run` and `subprocess.Popen`; `jobs` is an
environment in which the jobs of Snakemake, and what they start, are forked as well.

As a script: the `python` of such jobs. What is no script is left to the interpreter itself.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys

TYPE_CHECKING = False  # typing, subprocess and tempfile would be a half of what such a `python` takes to start
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    import pytest


SERVERS: list[subprocess.Popen] = []
PLACE = "FORKED_PLACE"  # the variable that tells the processes of xdist the folder of the server that they share


class Process:
    """A forked process, with what tests use of `subprocess.Popen`.

    `ends` are its standard input, output and error; where the last is None, `stderr` is read here.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike],
        cwd: str | os.PathLike | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
        ends: tuple[int, int, int | None] = (0, 1, None),
        server: str | None = None,
    ) -> None:
        self.returncode: int | None = None
        self.asking = socket.socket(socket.AF_UNIX)
        self.asking.connect(server or f"{folder()}/socket")
        *given, error = ends
        if error is None:
            readable, error = os.pipe()
            self.stderr = os.fdopen(readable, encoding="utf-8", errors="replace")
        socket.send_fds(self.asking, [b" "], [*given, error])
        if ends[2] is None:
            os.close(error)
        request = {"command": [os.fspath(part) for part in command[1:]], "session": start_new_session}
        request |= {"folder": os.fspath(cwd or os.getcwd()), "environment": dict(os.environ if env is None else env)}
        self.asking.sendall(json.dumps(request).encode() + b"\n")
        self.said = self.asking.makefile(encoding="utf-8")
        self.pid = self.number()

    def wait(self) -> int:
        """Its exit status, once it has ended; negative the number of the signal that ended it."""
        if self.returncode is None:
            self.returncode = self.number()
        return self.returncode

    def number(self) -> int:
        """What the server says next of this process."""
        said = self.said.readline()
        if not said:
            raise RuntimeError("fork_server.py has ended: what is printed above says why.")
        return int(said)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def close(self) -> None:
        """Have done with it: a process that still runs is killed by that."""
        self.said.close()
        self.asking.close()


def run(
    command: Sequence[str | os.PathLike], cwd: str | os.PathLike | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its outputs are text."""
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        process = Process(command, cwd, env, ends=(0, output.fileno(), error.fileno()))
        try:
            status = process.wait()
        finally:
            process.close()
        said = []
        for file in (output, error):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(command, status, *said)


def jobs(**own: str) -> dict[str, str]:
    """The environment with this module's `python` and variables of one's own."""
    return os.environ | {"PATH": f"{folder()}:{os.environ['PATH']}"} | own


@functools.cache
def folder() -> str:
    """The folder of `python` and of the server's socket; the server ends with who asked first."""
    if PLACE in os.environ:
        return os.environ[PLACE]
    import shlex
    import subprocess
    import tempfile

    place = tempfile.mkdtemp(prefix="forked-")
    with open(f"{place}/python", "w", encoding="utf-8") as python:
        given = (sys.executable, "-IS", __file__, f"{place}/socket", sys.executable)
        python.write(f'#!/bin/sh\nexec {shlex.join(given)} "$@"\n')
    os.chmod(f"{place}/python", 0o755)
    program = os.path.join(os.path.dirname(__file__), "fork_server.py")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{place}/socket")
        listening.listen(64)
        # one thread: more would be none in a forked process
        server = subprocess.Popen(  # its input ends with this process, however that ends
            [sys.executable, "-I", program, f"{place}/python", str(listening.fileno())],
            stdin=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
    SERVERS.append(server)
    return place


def pytest_configure(config: pytest.Config) -> None:
    """The hook of pytest: one server for all processes of xdist, as its imports take seconds."""
    if config.getvalue("numprocesses") and not hasattr(config, "workerinput"):
        os.environ[PLACE] = folder()


def main() -> int:
    """Run what a job calls `python`."""
    import signal

    place, interpreter, *command = sys.argv[1:]
    first = next((part for part in command if part != "-u"), "")
    if not (first.endswith(".py") or (first == "-m" and command[1] == "snakemake")):
        os.execv(interpreter, [interpreter, *command])
    process = Process([interpreter, *command], ends=(0, 1, 2), server=place)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
    status = process.wait()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main())
