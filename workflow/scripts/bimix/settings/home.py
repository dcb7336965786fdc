"""The folder that holds the workflow, and the folder that it works in: the same one, or two.

The workflow's own files (scripts, tables of published mixtures, defaults) lie in the first;
results, inputs and the user's config in the second, to which all paths are relative.
"""

import copy
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bimix.errors import InputError


def prefix(home: Path, working: Path) -> str:
    """What leads from the folder `working` to files of `home`: "", a relative folder below it, or
    an absolute one.

    Errors (InputError): a folder with braces in its name, which Snakemake takes for wildcards.
    """
    if home.samefile(working):
        return ""
    found = home.relative_to(working) if home.is_relative_to(working) else home
    if {"{", "}"} & set(str(found)):
        raise InputError(f"The workflow is in {found}; Snakemake takes braces for wildcards: rename the folder.")
    return f"{found}/"


def over(defaults: dict, config: Mapping) -> dict:
    """A new config: `config` over `defaults`, blocks within blocks, as Snakemake merges files."""
    both = copy.deepcopy(dict(defaults))
    for key, value in config.items():
        mine = defaults.get(key)
        both[key] = over(mine, value) if isinstance(mine, dict) and isinstance(value, Mapping) else copy.deepcopy(value)
    return both


def place_tables(config: dict, defaults: dict, prefix: str) -> None:
    """Lead to the published tables that stand in the config as in the workflow's own: they are its
    files.
    """
    tables, own = (
        found.get("published") if isinstance(found := block.get("mixtures"), dict) else None
        for block in (config, defaults)
    )
    if isinstance(tables, dict) and isinstance(own, dict):
        for name, path in tables.items():
            if path == own.get(name):
                tables[name] = f"{prefix}{path}"


def config_files(own: Iterable[str | Path], given: Iterable[str | Path]) -> list[Path]:
    """The config's files in the order in which they are merged: those of its `own` that exist, then
    those `given`.

    A file below the working folder is named from there.
    """
    working = Path.cwd()
    placed = [Path(os.path.relpath(path)) if Path(path).is_relative_to(working) else Path(path) for path in given]
    return [path for path in map(Path, own) if path.exists()] + placed
