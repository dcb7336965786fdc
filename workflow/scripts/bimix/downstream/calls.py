"""One call: its tasks, which of them are answered already at which step, and the
answering of what is open.

What is done of a task at a step is a file of its own, a part, whose name has the
hash of all that decides it.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
from accelerate import Accelerator

from bimix.corpus.encoders import Encode
from bimix.downstream.answers import Task, answer_table, part_name
from bimix.downstream.tasks import locate, origin, read_task, what_decides
from bimix.model.transformer import Transformer
from bimix.outputs import write_table
from bimix.training.artefacts import check_digest

FILES = ("items", "shots")


def open_tasks(
    given: dict[str, dict], seed: int, rejects: float, encode: Encode, room: int
) -> tuple[list[Task], dict[str, dict]]:
    """The tasks of {name: {kind, items, shots}} in the order of their names, and
    {name: origin of its files}.

    The other arguments, and the errors, are those of `read_task`.
    """
    tasks, origins = [], {}
    for name, task in sorted(given.items()):
        files = {key: locate(task.get(key)) for key in FILES}
        tasks.append(read_task(name, task | files, seed, rejects, encode, room))
        origins[name] = {key: origin(task.get(key), files[key]) for key in FILES}
    return tasks, origins


def check_weights(places: dict[int, Path], last: Path, report: dict, path: Path) -> dict[int, str]:
    """{step: digest} of the weights at `places`, held against those that run.json at `path`,
    the `report`, has noted.

    `last` are the run's last weights, which it notes by name alone. Errors: weights that are
    not as they were written.
    """
    noted = report.get("files", {})
    names = {step: own.name if own == last else f"weights/{own.name}" for step, own in places.items()}
    return {step: check_digest(own, noted.get(names[step]), path) for step, own in places.items()}


def plan_parts(
    tasks: Sequence[Task], digests: dict[int, str], settings: Sequence[object], folder: Path
) -> dict[int, dict[str, Path]]:
    """{step: {task: its part in `folder`}}; `settings` are those of the call on
    which an answer depends.
    """
    decides = {step: what_decides(digest, *settings) for step, digest in digests.items()}
    return {
        step: {task.name: folder / f"{part_name(task, step, own)}.parquet" for task in tasks}
        for step, own in decides.items()
    }


def answer_parts(
    accelerator: Accelerator,
    tasks: Sequence[Task],
    parts: dict[int, dict[str, Path]],
    load: Callable[[int], Transformer],
    ask: Callable[[Transformer, Task], tuple[list[list[int]], list[list[float]]]],
    decode: Callable[[list[int]], str],
) -> None:
    """Have the model of each step, from `load`, answer the tasks whose parts are not there.

    The main process writes them.

    `ask` gives, in all processes, the ids of the answers to a task's prompts, whose text is given
    by `decode`, and the nats of the accepted answers.
    """
    for step, planned in parts.items():
        missing = [task for task in tasks if not planned[task.name].exists()]
        accelerator.wait_for_everyone()  # nobody may see the parts that the main process is about to write
        model = load(step) if missing else None
        for task in missing:
            begun = time.monotonic()
            written, nats = ask(model, task)
            seconds = time.monotonic() - begun
            if accelerator.is_main_process:
                table = answer_table(task, step, written, nats, decode)
                write_table(table, planned[task.name])
                tell(task, step, written, table, seconds)


def gather_parts(parts: dict[int, dict[str, Path]]) -> pl.DataFrame:
    """The rows of all parts, step after step."""
    paths = [path for planned in parts.values() for path in planned.values()]
    return pl.concat(pl.read_parquet(path, glob=False) for path in paths)


def sweep(parts: dict[int, dict[str, Path]], folder: Path) -> None:
    """Remove the parts in `folder` that are of no use to this call: something
    that decides has changed.
    """
    wanted = {path for planned in parts.values() for path in planned.values()}
    for old in set(folder.glob("*.parquet")) - wanted:
        old.unlink()


def tell(task: Task, step: int, written: list[list[int]], table: pl.DataFrame, seconds: float) -> None:
    """Say on standard error how many of a task's items were right, and how fast it went."""
    read = sum(len(prompt.ids) for prompt in task.prompts) + sum(map(len, written))
    bits = (table["gold_bits"] / table["gold_bytes"]).mean()
    say = f"step {step}, {task.name}: {table['normalised'].mean():.1%} of {table.height} right, {bits:.3f} bits/byte,"
    rates = f"{table.height / seconds:,.1f} items/s, {read / seconds:,.0f} tokens/s"
    print(f"{say} {rates}", file=sys.stderr, flush=True)
