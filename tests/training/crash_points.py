"""Kills a training at one write after the other: `python crash_points.py FOLDER --
FLAGS of pretrain_model.py`.

A parent that has imported everything, and has started no thread, forks two processes for each
point. One dies there, at once and without cleaning up. One goes on from what it left. Points are
every opening for writing, rename, removal, link, new folder, change of mode or time and flush to
disk, and the middle of every write. Prints a line of JSON for each point: where it died, the last
update that it noted as saved, whether the run had ended. Of the second one: where it began, its
bytes, and the files that were left half written.
"""

import json
import os
import pathlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import torch
import torch._dynamo  # an optimizer imports it: a second that no child should spend
from accelerate import Accelerator

import pretrain_model
from bimix.training import attempt, checkpoints

DIED = 77
EVENTS = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.chmod", "os.utime"}


class Points:
    """Counts the writes below `folder` and ends the process at number `last`, counted from 0."""

    def __init__(self, folder: Path, last: int) -> None:
        self.folder, self.last, self.seen = str(folder), last, 0

    def dies(self) -> bool:
        self.seen += 1
        return self.seen > self.last

    def die(self, what: object) -> None:
        os.write(1, f"{what}\n".encode())
        os._exit(DIED)

    def audit(self, event: str, arguments: tuple) -> None:
        if event not in EVENTS or not str(arguments[0]).startswith(self.folder):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if self.dies():
            self.die([event, Path(str(arguments[0])).name])

    def flushes(self, flush: Callable) -> Callable:
        def fsync(descriptor: int) -> None:
            if self.dies():
                self.die(["fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name])
            flush(descriptor)

        return fsync

    def tears(self, write: Callable, place: int) -> Callable:
        """`write`, whose argument number `place` is a file, killed when half is written."""

        def torn(*arguments: object, **named: object) -> object:
            dying = self.dies()
            done = write(*arguments, **named)
            if dying:
                path = Path(arguments[place])
                os.truncate(path, path.stat().st_size // 2)
                self.die(["torn", path.name])
            return done

        return torn

    def opens(self, original: Callable) -> Callable:
        """Path.open, whose files are killed in the middle of a text."""

        def opened(path: Path, mode: str = "r", *arguments: object, **named: object) -> object:
            file = original(path, mode, *arguments, **named)
            if str(path).startswith(self.folder) and mode[0] in "aw":
                write = file.write

                def torn(text: str | bytes) -> int:
                    if self.dies():
                        write(text[: len(text) // 2])
                        file.flush()
                        self.die(["torn", path.name])
                    return write(text)

                # files of C take no other method: a thin object stands before them
                return Proxy(file, torn)
            return file

        return opened

    def install(self) -> None:
        torch.save = self.tears(torch.save, 1)
        attempt.save_file = self.tears(attempt.save_file, 1)
        pl.DataFrame.write_parquet = self.tears(pl.DataFrame.write_parquet, 1)
        os.fsync = self.flushes(os.fsync)
        pathlib.Path.open = self.opens(pathlib.Path.open)
        sys.addaudithook(self.audit)


class Proxy:
    """An open file with another `write`."""

    def __init__(self, file: object, write: Callable) -> None:
        self.file, self.write = file, write

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


def fork(flags: list[str], points: Points | None, out: Path) -> tuple[int, str]:
    """Exit status of a training in a process of its own, and what it died of."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        with (out.parent / "said").open("a") as said:
            os.dup2(said.fileno(), 2)
        Accelerator.init_trackers = lambda *arguments, **named: None  # its curves are no part of a run's state
        if points is not None:
            points.install()
        status = 1
        try:
            status = pretrain_model.main(flags)
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        what = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), what


def steps(out: Path, event: str) -> list[int]:
    """The updates at which attempts have noted `event`, in turn."""
    lines = [line for path in out.glob("state/*/attempts.jsonl") for line in checkpoints.attempts(path.parent)]
    return [line["step"] for line in lines if line["event"] == event]


def main() -> None:
    folder, flags = Path(sys.argv[1]), sys.argv[3:]
    beginning, out = folder / "beginning", folder / "out"
    number = 0
    while True:
        shutil.rmtree(out, ignore_errors=True)
        if beginning.exists():
            shutil.copytree(beginning, out)
        else:
            out.mkdir()
        status, what = fork(flags, Points(out, number), out)
        if status == 0:
            break
        before = steps(out, "begun")
        found = {"point": number, "status": status, "died": what.strip(), "saved": max(steps(out, "saved"), default=0)}
        found["ended"] = any(out.glob("state/*/run.json"))
        found["resumed"] = fork(flags, None, out)[0]
        found["begun"] = steps(out, "begun")[len(before) :]
        found["left"] = [str(path.relative_to(out)) for path in out.rglob("*.partial")]
        names = ("losses.parquet", "model.safetensors")
        kept = list(out.glob("state/*/weights/*"))
        found["bytes"] = [hash_of(path) for path in (*(out / name for name in names), *kept)]
        found["files"] = json.loads((out / "run.json").read_text())["files"] if (out / "run.json").exists() else None
        print(json.dumps(found), flush=True)
        number += 1


def hash_of(path: Path) -> str | None:
    return checkpoints.hashlib.blake2b(path.read_bytes()).hexdigest() if path.exists() else None


if __name__ == "__main__":
    main()
