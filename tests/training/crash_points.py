"""Kills a training at one write after the other: `python crash_points.py FOLDER --
FLAGS of pretrain_model.py`.

A parent that has imported everything, and has started no thread, forks a training. At each point
its folder is copied as a kill would leave it, and from each copy a forked process goes on. Points
are every opening for writing, rename, removal, link, new folder, change of mode or time and flush
to disk, and the middle of every write. Prints a line of JSON for each point: what was to be
written, the last update that was noted as saved, whether the run had ended. Of the process that
goes on: where it began, its bytes, and the files that were left half written.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import polars as pl
import safetensors.torch
import torch
import torch._dynamo  # an optimizer imports it: a second that no child should spend
from accelerate import Accelerator

import pretrain_model
from bimix.training import checkpoints

EVENTS = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.chmod", "os.utime"}


class Points:
    """Copies `folder` at each write below it to `copies`/0, 1, ... and prints what is written."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self.folder, self.copies = folder, copies
        self.seen, self.copying = 0, False

    def strike(self, kind: str, path: Path, torn: bool = False) -> None:
        """A kill right here; a file that is `torn` has only half of what was written to it."""
        self.copying, copied = True, self.copies / str(self.seen)
        subprocess.run(["cp", "-a", self.folder, copied], check=True)  # links within it stay links
        if torn:
            half = copied / path.relative_to(self.folder)
            os.truncate(half, half.stat().st_size // 2)
        os.write(1, f"{[kind, path.name]}\n".encode())
        self.seen, self.copying = self.seen + 1, False

    def audit(self, event: str, arguments: tuple) -> None:
        if self.copying or event not in EVENTS or not str(arguments[0]).startswith(str(self.folder)):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        self.strike(event, Path(str(arguments[0])))

    def flushes(self, flush: Callable) -> Callable:
        def fsync(descriptor: int) -> None:
            self.strike("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")))
            flush(descriptor)

        return fsync

    def tears(self, write: Callable, place: int) -> Callable:
        """`write`, whose argument number `place` is a file, killed when half is written."""

        def torn(*arguments: object, **named: object) -> object:
            done = write(*arguments, **named)
            self.strike("torn", Path(arguments[place]), torn=True)
            return done

        return torn

    def opens(self, original: Callable, mode: str | None = None) -> Callable:
        """`original`, Path.open or one that always opens in `mode`; its files are killed in the
        middle of a text.
        """

        def opened(path: Path, *arguments: object, **named: object) -> object:
            file = original(path, *arguments, **named)
            written = mode or (arguments[0] if arguments else named.get("mode", "r"))
            if str(path).startswith(str(self.folder)) and written[0] in "aw":
                # files of C take no other method: a thin object stands before them
                return Torn(file, lambda: self.strike("torn", path))
            return file

        return opened

    def install(self) -> None:
        torch.save = self.tears(torch.save, 1)
        safetensors.torch.save_file = self.tears(safetensors.torch.save_file, 1)
        pl.DataFrame.write_parquet = self.tears(pl.DataFrame.write_parquet, 1)
        os.fsync = self.flushes(os.fsync)
        pathlib.Path.open = self.opens(pathlib.Path.open)
        checkpoints.open_own = self.opens(checkpoints.open_own, "a")  # the lock and attempts.jsonl
        sys.addaudithook(self.audit)


class Torn:
    """An open file, in all but `write` the `file` that it is, with `strike` in the middle of a text."""

    def __init__(self, file: object, strike: Callable) -> None:
        self.file, self.strike = file, strike

    def write(self, text: str | bytes) -> int:
        half = self.file.write(text[: len(text) // 2])
        self.file.flush()
        self.strike()
        return half + self.file.write(text[len(text) // 2 :])

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)

    def __enter__(self) -> "Torn":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


def fork(flags: list[str], out: Path, points: Points | None = None) -> tuple[int, str]:
    """Exit status of a training in a process of its own, and what its points print."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        with (out.parent / "said").open("a") as said:
            os.dup2(said.fileno(), 2)
        # its curves are no part of a run's state
        Accelerator.init_trackers = Accelerator.end_training = lambda *arguments, **named: None
        if points is not None:
            points.install()
        status = 1
        try:
            status = pretrain_model.main(flags)
        except BaseException:
            traceback.print_exc()  # which os._exit would leave out
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        printed = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), printed


def steps(out: Path, event: str) -> list[int]:
    """The updates at which attempts have noted `event`, in turn."""
    lines = [line for path in out.glob("state/*/attempts.jsonl") for line in checkpoints.attempts(path.parent)]
    return [line["step"] for line in lines if line["event"] == event]


def main() -> None:
    folder, flags = Path(sys.argv[1]), sys.argv[3:]
    beginning, out, copies = folder / "beginning", folder / "out", folder / "copies"
    copies.mkdir()
    if beginning.exists():
        shutil.copytree(beginning, out)
    else:
        out.mkdir()
    status, printed = fork(flags, out, Points(out, copies))
    if status:
        said = (folder / "said").read_text()
        sys.exit(f"the training that is copied ended with status {status}: {said}")
    for number, what in enumerate(printed.splitlines()):
        copied = copies / str(number)
        before = steps(copied, "begun")
        found = {"point": number, "died": what, "saved": max(steps(copied, "saved"), default=0)}
        found["ended"] = any(copied.glob("state/*/run.json"))
        found["resumed"] = fork([word.replace(str(out), str(copied)) for word in flags], copied)[0]
        found["begun"] = steps(copied, "begun")[len(before) :]
        found["left"] = [str(path.relative_to(copied)) for path in copied.rglob("*.partial")]
        names = ("losses.parquet", "model.safetensors")
        kept = list(copied.glob("state/*/weights/*"))
        found["bytes"] = [hash_of(path) for path in (*(copied / name for name in names), *kept)]
        report = copied / "run.json"
        found["files"] = json.loads(report.read_text())["files"] if report.exists() else None
        print(json.dumps(found), flush=True)
        shutil.rmtree(copied)


def hash_of(path: Path) -> str | None:
    return checkpoints.hashlib.blake2b(path.read_bytes()).hexdigest() if path.exists() else None


if __name__ == "__main__":
    main()
