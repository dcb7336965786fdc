"""A call's config made whole: over the workflow's own one, filled in, checked and completed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bimix.plan.targets import named_datasets, wanted_datasets
from bimix.settings import checks
from bimix.settings.complete import complete
from bimix.settings.defaults import Filled, fill
from bimix.settings.home import over, place_tables
from bimix.settings.text import check_text

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


@dataclass(frozen=True)
class Prepared:
    """The config, what was chosen for datasets that leave it out, and remarks for the user."""

    config: dict
    filled: dict[str, Filled]
    remarks: list[str]


def prepare(config: dict, call: Call) -> Prepared:
    """The merged config of a call as all rules read it. Errors (InputError): all of its faults."""
    defaults = checks.shipped(call.home / "workflow/defaults.yaml")
    run_of_files(config, call.files, call.given_files, call.command_line)
    config = over(defaults, config)
    place_tables(config, defaults, call.prefix)
    if call.plans:
        checks.check_results(Path("results"))
        wanted = wanted_datasets(config, call.words)
        named = named_datasets(call.words)
        ready = checks.settle(config, defaults, Path(), call.files, wanted, call.command_line, named)
        config, filled, remarks = ready.config, ready.filled, ready.remarks
        chosen = (filled[name].remark(name, config["datasets"][name]) for name in config["run"] if name in filled)
        remarks += filter(None, chosen)
    else:
        checks.as_text(config, call.files)
        filled, remarks = fill(config, planning=False), []
    complete(config)
    if call.plans:
        remarks += _text_checked(config, call)
    return Prepared(config, filled, remarks)


def _text_checked(config: dict, call: Call) -> list[str]:
    """Remarks on the text of a completed config. Errors (InputError): what it cannot give."""
    found = [check_text(config, name, config["ladder"]["packed"]) for name in wanted_datasets(config, call.words)]
    faults, remarks = ([one for pair in found for one in pair[place]] for place in (0, 1))
    return checks.placed(faults, remarks, call.files, call.command_line)


def run_of_files(config: dict, files: Sequence[Path], given: int, command_line: Mapping) -> None:
    """Set `run` in a merged config by its files, the last `given` of which are those of
    --configfile.

    The command line's --config holds first. Then those files, then the folder's config.yaml, then
    the workflow's: in each a `run`, else all of its datasets. Without files, as in a module that is
    given a block, the config itself counts as one.
    """
    if "run" in command_line:
        return
    split = len(files) - given
    layers = [checks.merged([path]) for path in files[:split]] + [checks.merged(files[split:])]
    names = names_of([config] if not files else layers[::-1])
    if names is not None:
        config["run"] = names


def names_of(layers: Sequence[Mapping]) -> list[str] | None:
    """The datasets to build, by the layers of a config from the last to the first; None where its
    `run` holds.
    """
    for layer in layers:
        if "run" in layer:
            return None
        datasets = layer.get("datasets")
        if isinstance(datasets, Mapping) and datasets:
            return [str(name) for name in datasets]
    return [FALLBACK]
