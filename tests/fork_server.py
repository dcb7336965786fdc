"""The process that `forked` forks others from, with Snakemake, torch and the like imported.

fork_server.py THE `python` OF ITS PROCESSES, the number of the socket that is listened at
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

PACKAGES = [
    *("snakemake.cli", "snakemake.report.html_reporter", "snakemake_executor_plugin_slurm"),
    *("smart_open", "pydantic", "yaml", "numpy", "polars", "tokenizers", "scipy.optimize", "scipy.stats"),
    # the second of these is a half of a small training's time: the first optimizer imports it
    *("torch", "torch._dynamo", "torch.utils.tensorboard", "safetensors.torch"),
    *("accelerate", "accelerate.commands.accelerate_cli", "torch.distributed.run"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
    *("lm_eval.tasks", "lm_eval.evaluator", "lm_eval.models.huggingface"),
]
# Threads of imports that a forked process does without: of allocators (pyarrow's and polars'),
# which give memory back, and by its name the one that cleans up what polars has put out of memory.
# Those that polars computes with start with its first use, in the forked process.
THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}


def serve(python: str, listening: socket.socket) -> list[str]:
    """Fork a process at each request until standard input ends; return in a forked process, with
    its command.

    Each request has a process of its own, which forks the one that is asked for and attends it: the
    server never waits for anybody.
    """
    gc.freeze()
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        asking = listening.accept()[0]
        if os.fork():
            asking.close()
            with contextlib.suppress(ChildProcessError):  # of those that have ended
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            continue
        listening.close()
        request, ends = hear(asking)
        number = os.fork()
        if number:
            for end in ends:
                os.close(end)
            attend(asking, number)
        asking.close()
        return become(request, ends, python)
    shutil.rmtree(os.path.dirname(python))
    sys.exit()


def hear(asking: socket.socket) -> tuple[dict, list[int]]:
    """A request and the three descriptors that come with it; the end where its caller was killed."""
    try:
        _, ends, _, _ = socket.recv_fds(asking, 1, 3)
        with asking.makefile(encoding="utf-8") as lines:
            return json.loads(lines.readline()), ends
    except (OSError, json.JSONDecodeError):
        os._exit(1)


def attend(asking: socket.socket, number: int) -> NoReturn:
    """Send the number of a forked process, and its status once it has ended. Where its caller ends
    before, or the tests do, it is killed.
    """
    ended = os.pidfd_open(number)
    with contextlib.suppress(OSError):  # the caller has ended
        asking.sendall(f"{number}\n".encode())
        if ended in select.select([ended, asking, sys.stdin], [], [])[0]:
            # its number stays its own until its caller has ended, as that of a child does
            found = os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
            status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            asking.sendall(f"{status}\n".encode())
            select.select([asking, sys.stdin], [], [])
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    os._exit(0)


def become(request: dict, ends: Sequence[int], python: str) -> list[str]:
    """Make this process what a request asks for; return its command without the interpreter."""
    if request["session"]:
        os.setsid()
    for place, end in enumerate(ends):
        os.dup2(end, place)
        os.close(end)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.path.dirname(python) in os.environ.get("PATH", "").split(os.pathsep):
        sys.executable = python
    return request["command"]


def begin(command: list[str]) -> None:
    """Run a command as `python` does: a script or `-m MODULE`, with its arguments."""
    if command[0] == "-u":
        sys.stdout.reconfigure(write_through=True)
        command = command[1:]
    module = command[0] == "-m"
    sys.argv = command[module:]
    own = os.getcwd() if module else os.path.dirname(os.path.abspath(command[0]))
    sys.path[:0] = [own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if module:
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(command[0], run_name="__main__")


def hold_packages() -> None:
    """Import what forked processes need; no thread may have been started by that."""
    for name in PACKAGES:
        importlib.import_module(name)
    # Looks for Snakemake's plugins among all packages, a sixth of what it takes to plan the demo.
    importlib.import_module("snakemake.cli").get_argument_parser()
    names = {
        (path / "comm").read_text().strip()
        for path in Path("/proc/self/task").iterdir()
        if path.name != str(os.getpid())
    }
    if names - THREADS:
        raise RuntimeError(f"Imports have started threads, which no forked process has: {names}")


def main() -> None:
    python, listening = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    # Imports are for who forks: most calls of pytest are for a file that does not.
    if listening in select.select([listening, sys.stdin], [], [])[0]:
        hold_packages()
    command = serve(python, listening)
    try:
        begin(command)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    # As multiprocessing ends what it forked: to take the packages apart takes as long as to import
    # some.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
