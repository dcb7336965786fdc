"""A call's config made whole: over the workflow's own one, checked, filled and expanded."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bimix.errors import InputError
from bimix.settings.checks import check
from bimix.settings.complete import Filled, expand, with_defaults
from bimix.settings.files import ConfigFile, check_files, listed, place, read_layer
from bimix.settings.layers import command_line_layer, idle_nulls, over, without_nulls

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
    """The config as rules read it, what was chosen for datasets that leave it out, and remarks."""

    config: dict
    filled: dict[str, Filled]
    remarks: list[str]


def prepare(call: Call) -> Prepared:
    """The config of a call as all rules read it, of its files and command line. Errors (InputError):
    all of its faults.
    """
    files = check_files(call.files) if call.plans else []
    defaults = read_layer(call.home / "workflow/defaults.yaml")
    layers = [*map(read_layer, call.files), command_line_layer(call.command_line)]
    run = run_of_layers(layers, call.given_files)
    config, taken = without_nulls(functools.reduce(over, layers, defaults))
    config["run"] = [run] if isinstance(run, str) else run  # one dataset needs no list
    if not call.plans:
        config, filled = with_defaults(config, planning=False)
        return Prepared(expand(config), filled, [])
    check_folder()
    wanted = wanted_datasets(config, call.words)
    ready = settled(config, Path(call.prefix), files, wanted, call.command_line, call.plans_only)
    idle = [str(place(files, fault, call.command_line)) for fault in idle_nulls(taken, [defaults, *layers])]
    blocks = ready.config["datasets"]
    chosen = [made.remark(name, blocks[name]) for name, made in ready.filled.items() if name in config["run"]]
    return Prepared(ready.config, ready.filled, [*idle, *ready.remarks, *filter(None, chosen)])


def settled(
    config: dict,
    code: Path,
    files: Sequence[ConfigFile] = (),
    wanted: Iterable[str] = (),
    given: Mapping[str, object] = MappingProxyType({}),
    plans_only: bool = False,
) -> Prepared:
    """A merged config without faults, complete; `files` are its own in the order in which they were
    merged, `given` is what --config has put over them, the rest as of `check`.

    Errors (InputError): all faults of a stage together, each with its key and, where a file has it,
    its line.
    """
    whole, filled, found = check(config, code, list(wanted), plans_only)
    placed = [place(files, fault, given) for fault in found]
    if faults := [fault for fault in placed if not fault.remark]:
        raise InputError(listed(faults))
    return Prepared(whole, filled, list(map(str, placed)))


def check_folder() -> None:
    """Refuse a folder that cannot have Snakemake's notes, or results that are none (InputError)."""
    notes, results = Path(".snakemake").resolve(), Path("results")
    if not os.access(notes if notes.exists() else notes.parent, os.W_OK):
        sentence = f"{notes} cannot be written, and Snakemake keeps its notes there: work in a folder of your own, with"
        raise InputError(f"{sentence} `-s` and the path of the Snakefile.")
    if not results.is_dir() and (results.exists() or results.is_symlink()):
        what = f"a link to {results.readlink()}, which is not there" if results.is_symlink() else "a file"
        raise InputError(f"results is {what}: it must be a folder, or be made again.")


def run_of_layers(layers: Sequence[Mapping], given: int) -> object:
    """What is to be built: `run` of --config, the last layer; else of the files of --configfile, the
    `given` ones before it, together; else of the folder's config.yaml, then of the workflow's: in each
    its `run`, else all of its datasets.
    """
    *files, command_line = layers
    if "run" in command_line:
        return command_line["run"]
    split = len(files) - given
    together = functools.reduce(over, files[split:], {})
    for layer in (without_nulls(layer)[0] for layer in reversed([*files[:split], together])):
        if "run" in layer:
            return layer["run"]
        if isinstance(layer.get("datasets"), Mapping) and layer["datasets"]:
            return list(layer["datasets"])
    return [FALLBACK]


def wanted_datasets(config: Mapping, words: Iterable[str]) -> list[str]:
    """Datasets of which everything is to be built, so that their files must be there; none where
    single targets are named or a folder is unlocked. The config may be unchecked.
    """
    if any(word.startswith("results/") or word == "--unlock" for word in words):
        return []
    return config["run"] if isinstance(config["run"], list) else []
