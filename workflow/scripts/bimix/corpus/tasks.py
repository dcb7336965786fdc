"""The files that tasks of lm_eval read: task files with what these include, the Python files next to
them, and local data.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from os.path import normpath, relpath
from pathlib import Path

import yaml

from bimix.errors import InputError

OWN = Path(__file__).parents[4] / "resources/tasks"  # the paper's three tasks


class Loader(yaml.SafeLoader):
    """YAML in which `!function` is a text, so that nothing of a task file runs."""


Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


def task_folders(more: str | None) -> list[str]:
    """The folders of task files: the workflow's own, then the user's, whose names win."""
    return [relpath(OWN), *([more] if more else [])]


def task_files(names: Iterable[str], folders: Iterable[str]) -> dict[str, list[str]]:
    """{name: paths that it reads} of tasks and groups in the folders; others are lm_eval's own."""
    known: dict[str, tuple[dict, list[Path]]] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("**/*.yaml")):
            content, files = read_task(path)
            name = content.get("group") or content.get("task")
            if isinstance(name, str):
                code = [sorted(folder.glob("*.py")) for folder in dict.fromkeys(file.parent for file in files)]
                known[name] = content, [*files, *chain.from_iterable(code)]
    return {name: list(dict.fromkeys(_paths(name, known))) for name in names if name in known}


def read_task(path: Path) -> tuple[dict, list[Path]]:
    """A task file with what it includes, of which the last counts, and the paths of all."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} is no task file of lm_eval: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is no task file of lm_eval: it has no keys, as `task` and `dataset_path`.")
    included = content.pop("include", [])
    merged, files = {}, [path]
    for name in [included] if isinstance(included, str) else included:
        other, read = read_task(Path(normpath(path.parent / name)))
        merged |= other
        files += read
    return merged | content, files


def _paths(name: str, known: Mapping[str, tuple[dict, list[Path]]]) -> Iterator[str]:
    """Paths that a task reads; those of a group's tasks."""
    content, files = known[name]
    yield from map(str, files)
    members = content["task"] if isinstance(content.get("task"), list) else []
    for member in members:
        own = member.get("task") if isinstance(member, dict) else member
        if isinstance(own, str) and own in known and own != name:
            yield from _paths(own, known)
    given = content.get("dataset_kwargs") or {}
    folder = Path(given.get("data_dir") or "")
    yield from (path if "://" in path else str(folder / path) for path in _texts(given.get("data_files")))


def _texts(value: object) -> Iterator[str]:
    """The texts in lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)
