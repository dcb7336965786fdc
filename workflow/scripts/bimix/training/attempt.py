"""One attempt at a run: its folder is held, what it had ended with is put back, else it
is trained and delivered.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bimix.errors import InputError
from bimix.outputs import write_table
from bimix.training import artefacts, checkpoints
from bimix.training.loop import Finished
from bimix.training.reports import finish, loss_table
from bimix.training.session import Session, other_processes

STOPPED = 75  # exit status, the sysexits code for "try again": the state is saved, the run is not finished


def bring_to_end(
    session: Session,
    folder: Path,
    fingerprint: dict,
    places: dict[str, Path],
    training: Callable[[Path], Finished | None],
    results: Callable[[Path, Finished], dict],
) -> int:
    """Exit status of an attempt at the run in `folder`: 0, its files lie at
    `places`, or STOPPED on request.

    `training` gets the folder of this configuration and goes on from what is in it. `results` is
    called on the main process alone: it writes all files into that folder but the losses and
    run.json, of which it returns the content.
    """
    with holding(session, folder, fingerprint, places.values()) as own:
        if session.accelerator.is_main_process:
            checkpoints.show_curves(folder, own)
        if not put_back(session, own, places):
            session.accelerator.init_trackers(checkpoints.CURVES)
            finished = training(own)
            if finished is None:
                return STOPPED
            if session.accelerator.is_main_process:
                report = results(own, finished)
                write_table(loss_table(session, finished.history), own / "losses.parquet")
                finish(own, report, [name for name in places if name != artefacts.REPORT])
                artefacts.deliver(own, places)
    session.accelerator.end_training()
    return 0


@contextmanager
def holding(session: Session, folder: Path, fingerprint: dict, places: Iterable[Path] = ()) -> Iterator[Path]:
    """Hold a run's folder for this launch, and give the folder of this configuration in it.

    One lock for all configurations of a run: they have the same outputs, at `places`.
    """
    held, own = None, folder / checkpoints.key_of(fingerprint)
    complaint = None
    if session.accelerator.is_main_process:
        try:
            held = checkpoints.lock(folder, session.lock_seconds)
            checkpoints.sweep(places)
            own, remark = checkpoints.claim(folder, fingerprint)
            if remark is not None:
                session.say(remark)
        except InputError as error:
            complaint = str(error)
    session.settle(complaint)
    session.settle(
        f"its run is {own.name}, that of the first process another: they do not read the same files."
        if session.told(own.name) != own.name
        else None
    )
    session.listen()
    try:
        with other_processes(session):
            yield own
            session.wait()
    finally:
        if held is not None:
            held.close()


def put_back(session: Session, folder: Path, places: dict[str, Path], quietly: bool = False) -> bool:
    """Whether the run in `folder` had come to its end before.

    Files of it that are missing are then put to `places`.
    """
    ended = False
    if session.accelerator.is_main_process:
        found = artefacts.restore(folder, places)
        if found is not None:
            changed, complaint = found
            ended = complaint is None
            if changed:
                checkpoints.note(folder, "restored", session.recipe.steps)
            done = f"{', '.join(path.name for path in changed)} put back" if changed else "nothing to do"
            if not ended or not quietly:
                session.say(complaint or f"{folder} holds this run, which has come to its end: {done}.")
    return session.told(ended)
