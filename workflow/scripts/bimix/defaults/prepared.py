"""A call's config made whole: over the workflow's own one, filled in, checked and completed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bimix.config.complete import complete
from bimix.defaults.blocks import Filled, fill
from bimix.defaults.runs import run_of_files
from bimix.defaults.text import check_text
from bimix.plan.targets import named_datasets, wanted_datasets
from bimix.start import checks
from bimix.start.home import over, place_tables


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
    filled = fill(config, defaults, call.plans)
    remarks = []
    if call.plans:
        remarks = _checked(config, call)
        chosen = (filled[name].remark(name, config["datasets"][name]) for name in config["run"] if name in filled)
        remarks += filter(None, chosen)
    else:
        checks.as_text(config, call.files)
    complete(config)
    if call.plans:
        remarks += _text_checked(config, call)
    return Prepared(config, filled, remarks)


def _checked(config: dict, call: Call) -> list[str]:
    """Remarks on a config without faults."""
    schema = checks.shipped(call.home / "workflow/schemas/config.schema.yaml")
    checks.check_results(Path("results"))
    wanted = wanted_datasets(config, call.words)
    named = named_datasets(call.words)
    return checks.check(config, schema, Path(), call.files, wanted, call.command_line, named)


def _text_checked(config: dict, call: Call) -> list[str]:
    """Remarks on the text of a completed config. Errors (InputError): what it cannot give."""
    found = [check_text(config, name, config["ladder"]["packed"]) for name in wanted_datasets(config, call.words)]
    faults, remarks = ([one for pair in found for one in pair[place]] for place in (0, 1))
    return checks.placed(faults, remarks, call.files, call.command_line)
