"""The answers of an exported model by lm_eval, task by task.

lm_eval's results of a task are a file of their own, a part, whose name has the hash of all that
decides them: a killed call goes on with the next task.
"""

import difflib
import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bimix.corpus.tasks import task_files
from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.model import export
from bimix.training.checkpoints import kept_weights

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager


def find_weights(report: Mapping, weights: Path, state: Path, step: int) -> tuple[Path, str | None]:
    """The file of a run's weights at a step, and its digest in the `report`, run.json: the last in
    `weights`, earlier ones in the folder `state`.

    Errors: a step whose weights were not kept.
    """
    last, folder = report["recipe"]["steps"], state / report.get("state", "")
    path = weights if step == last else kept_weights(folder, step)
    if not path.exists():
        kept = sorted(int(other.stem.split("-")[1]) for other in path.parent.glob("step-*"))
        raise InputError(
            f"{folder} has no weights of step {step}, only of {', '.join(map(str, [*kept, last]))}: the run ended before"
            f" they were requested. Take the step out of downstream/steps, or move that folder away to train again."
        )
    name = path.name if path == weights else f"weights/{path.name}"
    return path, report.get("files", {}).get(name)


def open_tasks(names: Sequence[str], folders: Sequence[str]) -> "TaskManager":
    """What loads tasks of the folders and of lm_eval. Errors: lm_eval is not installed; a task that
    neither has.
    """
    try:
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise InputError(f"lm_eval is not installed ({error}): pip install 'bimix[downstream]'.") from error
    manager = TaskManager(include_path=list(folders), include_defaults=False)
    if set(names) <= set(manager.all_subtasks):
        return manager
    manager = TaskManager(include_path=list(folders))  # its own 14,000 tasks take seconds to read
    unknown = [name for name in names if name not in manager.task_index]
    if unknown:
        near = {name: difflib.get_close_matches(name, manager.all_tasks, 3, 0) for name in unknown}
        said = "; ".join(f"{name!r} (nearest: {', '.join(others)})" for name, others in near.items())
        raise InputError(f"datasets/*/downstream/tasks: neither lm_eval nor {' or '.join(folders)} has {said}.")
    return manager


def plan_parts(
    names: Sequence[str], manager: "TaskManager", folders: Sequence[str], settings: Sequence[object], folder: Path
) -> dict[str, Path]:
    """{task: its part in `folder`}; `settings` are the arguments on which an answer depends."""
    files = task_files(names, folders)
    parts = {}
    for name in names:
        read = [digest_file(path) for path in map(Path, files.get(name, ())) if path.is_file()]
        content = [
            name,
            version("lm_eval"),
            inspect.getsource(export),
            *settings,
            str(manager.task_index[name].cfg),
            read,
        ]
        digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
        parts[name] = folder / f"{digest}.json"
    return parts


def load_model(backend: str, folder: Path, batch_size: str, device: str | None) -> "LM":
    """The exported model in a folder, as lm_eval reads it."""
    from lm_eval.api.registry import get_model

    chosen = {"batch_size": batch_size, "max_batch_size": None, "device": device}
    return get_model(backend).create_from_arg_obj({"pretrained": str(folder)}, chosen)


def answer(model: "LM", name: str, manager: "TaskManager", shots: int | None, limit: int | None) -> dict:
    """lm_eval's results of a task or group, as JSON. Errors: its data cannot be read."""
    from datasets.exceptions import DatasetsError
    from lm_eval import simple_evaluate
    from lm_eval.utils import handle_non_serializable

    try:
        found = simple_evaluate(
            model, tasks=[name], num_fewshot=shots, limit=limit, task_manager=manager, log_samples=False
        )
    except (OSError, DatasetsError) as error:
        raise InputError(
            f"lm_eval cannot read the data of {name!r} ({error}); offline, name local files in a task file"
            " (docs/downstream.md)."
        ) from error
    except AssertionError as error:
        why = str(error) or "a text is empty, or an answer has more tokens than the model sees (sequence_length)"
        raise InputError(f"lm_eval stopped at {name!r}: {why}.") from error
    # its own format has NaN, which is not JSON
    return json.loads(json.dumps(found, default=handle_non_serializable), parse_constant=str)


def merge(results: Iterable[Mapping]) -> dict:
    """The results of several tasks as one call of lm_eval writes them."""
    merged: dict = {}
    for one in results:
        for key, value in one.items():
            merged[key] = merged.get(key, {}) | value if isinstance(value, dict) else merged.get(key, value)
    return merged


def print_values(name: str, found: Mapping) -> None:
    """Report a task's values on standard error."""
    values = {metric: value for metric, value in found["results"][name].items() if isinstance(value, float)}
    said = ", ".join(f"{metric} {value:.4g}" for metric, value in values.items())
    print(f"{name}: {said}", file=sys.stderr, flush=True)
