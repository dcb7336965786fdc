"""Which datasets are built where no `run` says it: those of the user's own files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bimix.start.checks import merged

FALLBACK = "demo"


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
    layers = [merged([path]) for path in files[:split]] + [merged(files[split:])]
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
