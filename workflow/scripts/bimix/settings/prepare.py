"""A call's config made whole: over the workflow's own one, filled, checked and expanded."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bimix.errors import InputError
from bimix.settings.complete import Filled, expanded, with_defaults
from bimix.settings.files import ConfigFile, listed, place, read_config_file, read_layer
from bimix.settings.layers import command_line_layer, idle_nulls, merged, over, without_nulls

FALLBACK = "demo"  # what is built where no file names a dataset


@dataclass(frozen=True)
class Call:
    """Where the config of a call comes from, and what the call is to build."""

    home: Path  # of the workflow
    prefix: str  # what leads to it from the folder of the results
    files: Sequence[Path]  # in the order in which they were merged
    given_files: int  # how many of them, the last, --configfile has given
    command_line: Mapping[str, object]  # --config, over all files
    words: Sequence[str] = ()  # of the command line: targets among them
    plans: bool = True  # False: a job of a call whose config was checked
    plans_only: bool = False  # nothing runs


@dataclass(frozen=True)
class Prepared:
    """The config, what was chosen for datasets that leave it out, and remarks for the user."""

    config: dict
    filled: dict[str, Filled]
    remarks: list[str]


def prepare(call: Call) -> Prepared:
    """The config of a call as all rules read it, of its files and command line. Errors (InputError):
    all of its faults.
    """
    defaults = read_layer(call.home / "workflow/defaults.yaml")
    layers = [*map(read_layer, call.files), command_line_layer(call.command_line)]
    own = functools.reduce(over, layers, {})
    run_of_files(own, call.files, call.given_files, call.command_line)
    config, taken = without_nulls(functools.reduce(over, layers, defaults) | {"run": own["run"]})
    if not call.plans:
        config, filled = with_defaults(as_read(config), planning=False)
        return Prepared(expanded(config), filled, [])
    check_folder()
    wanted, files = wanted_datasets(config, call.words), [read_config_file(path) for path in call.files]
    ready = settled(config, Path(call.prefix), files, wanted, call.command_line, call.plans_only)
    idle = [str(place(files, fault, call.command_line)) for fault in idle_nulls(taken, [defaults, *layers])]
    config = expanded(ready.config)
    chosen = [own.remark(name, config["datasets"][name]) for name, own in ready.filled.items() if name in config["run"]]
    return Prepared(config, ready.filled, [*idle, *ready.remarks, *filter(None, chosen)])


def settled(
    config: dict,
    code: Path,
    files: Sequence[ConfigFile] = (),
    wanted: Iterable[str] = (),
    given: Mapping[str, object] = MappingProxyType({}),
    plans_only: bool = False,
) -> Prepared:
    """A merged config without faults, filled but not expanded; `files` are its own in the order
    in which they were merged, `given` is what --config has put over them, the rest as of `check`.

    Errors (InputError): all faults together, each with its key and, where a file has it, its line.
    """
    from bimix.settings.checks import check  # jobs need no models

    whole, filled, found = check(as_read(config), code, list(wanted), plans_only)
    placed = [place(files, fault, given) for fault in [*(fault for file in files for fault in file.faults), *found]]
    if faults := [fault for fault in placed if not fault.remark]:
        raise InputError(listed(faults))
    return Prepared(whole, filled, list(map(str, placed)))


def as_read(config: dict) -> dict:
    """The config with text for all keys, and with one dataset to `run` as a list."""

    def text(value: object) -> object:
        if isinstance(value, dict):
            return {str(name): text(one) for name, one in value.items()}
        return [text(one) for one in value] if isinstance(value, list) else value

    return text(config | ({"run": [config["run"]]} if isinstance(config.get("run"), str) else {}))


def check_folder() -> None:
    """Refuse a folder that cannot have Snakemake's notes, or results that are none (InputError)."""
    notes, results = Path(".snakemake").resolve(), Path("results")
    if not os.access(notes if notes.exists() else notes.parent, os.W_OK):
        sentence = f"{notes} cannot be written, and Snakemake keeps its notes there: work in a folder of your own, with"
        raise InputError(f"{sentence} `-s` and the path of the Snakefile.")
    if not results.is_dir() and (results.exists() or results.is_symlink()):
        what = f"a link to {results.readlink()}, which is not there" if results.is_symlink() else "a file"
        raise InputError(f"results is {what}: it must be a folder, or be made again.")


def run_of_files(config: dict, files: Sequence[Path], given: int, command_line: Mapping) -> None:
    """Set `run` in a merged config by its files, the last `given` of which are those of
    --configfile.

    Above these stands --config, below the folder's config.yaml, then the workflow's: in each a
    `run`, else all of its datasets.
    """
    if "run" in command_line:
        return
    split = len(files) - given
    layers = [merged([path]) for path in files[:split]] + [merged(files[split:])]
    for layer in reversed(layers):
        if "run" in layer:
            return
        datasets = layer.get("datasets")
        if isinstance(datasets, Mapping) and datasets:
            config["run"] = [str(name) for name in datasets]
            return
    config["run"] = [FALLBACK]


def wanted_datasets(config: Mapping, words: Iterable[str]) -> list[str]:
    """Datasets of which everything is to be built, so that their files must be there; none where
    single targets are named or a folder is unlocked. The config may be unchecked.
    """
    if any(word.startswith("results/") or word == "--unlock" for word in words):
        return []
    run = config.get("run") or []
    return [run] if isinstance(run, str) else run if isinstance(run, list) else []
