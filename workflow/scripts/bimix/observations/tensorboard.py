"""Scalars in TensorBoard's event files: a run is a folder of them."""

from collections.abc import Iterator
from pathlib import Path

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss, Pattern, as_loss, as_step

EVENTS = "*tfevents*"


def read_tensorboard(path: Path, pattern: Pattern) -> Iterator[Loss]:
    """The losses of a run's folder, which is called as it is, or of all the runs below a folder,
    called by their paths in it.

    TensorBoard's own reader drops the steps that a resumed run writes again, where both attempts
    were given `purge_step` of torch's SummaryWriter. Others are there twice. Errors: no event
    files, no metric that fits.
    """
    if not path.is_dir():
        raise InputError(
            f"{path} is no folder: name the folder of a run's event files, or one above those of all runs."
        )
    folders = sorted({file.parent for file in path.rglob(EVENTS) if file.is_file()})
    if not folders:
        raise InputError(f"{path} has no event files ({EVENTS}).")
    scalars = {folder: read_scalars(folder) for folder in folders}
    found = pattern.domains(dict.fromkeys(tag for tags in scalars.values() for tag in tags), path)
    for folder, tags in scalars.items():
        name = path.resolve().name if folder == path else folder.relative_to(path).as_posix()
        for tag, values in tags.items():
            if tag in found:
                for step, value in values:
                    here = f"{folder}, step {step}, scalar {tag!r}"
                    yield Loss(name, as_step(step, here), found[tag], as_loss(value, here), here)


def read_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """{tag: (step, value) in the order of the files} of the event files that lie in a folder."""
    # here only: the environment that fits laws need not have it
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})  # 0: all, no sample of them
    events.Reload()
    return {
        tag: [(event.step, float(make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
    }
