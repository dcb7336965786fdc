"""One attempt at a run: lock it, restore it if finished, else train, report and deliver it."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_table
from bimix.training import artefacts, checkpoints, provenance
from bimix.training.command import SCHEMA
from bimix.training.loop import Run
from bimix.training.rows import SPREAD_KEY
from bimix.training.session import Session, other_processes

STOPPED = 75  # exit status, the sysexits code for "try again": the state is saved, the run is not finished


def bring_to_end(
    session: Session,
    folder: Path,
    fingerprint: dict,
    places: dict[str, Path],
    training: Callable[[Path], Run | None],
    results: Callable[[Run], dict],
) -> int:
    """Exit status of an attempt at the run in `folder`: 0, its files are at `places`, or STOPPED on
    request.

    `training` gets the folder of this configuration and resumes from it. `results` is called on the
    main process alone: it writes all files into that folder except the losses and run.json, whose
    content it returns.
    """
    status = 0
    with holding(session, folder, fingerprint, places.values()) as own:
        if not put_back(session, own, places):
            session.accelerator.project_configuration.logging_dir = own
            os.environ |= {"WANDB_DIR": str(own.absolute()), "TRACKIO_DIR": str(own.absolute() / "trackio")}
            os.environ.setdefault("WANDB_MODE", "offline")
            name = {"name": "/".join(folder.parent.parts[-2:])}  # model and mixture
            project = "tensorboard" if "tensorboard" in map(str, session.accelerator.log_with) else "bimix"
            session.accelerator.init_trackers(project, init_kwargs={"wandb": name, "trackio": name})
            try:
                run = training(own)
            except InputError:  # in all processes, as of a loss that is not finite
                session.accelerator.end_training()
                raise
            if run is None:
                status = STOPPED
            elif session.accelerator.is_main_process:
                report = results(run)
                write_table(loss_table(run), own / "losses.parquet")
                kept = {line["file"]: line["digest"] for line in checkpoints.attempts(own) if line["event"] == "kept"}
                artefacts.finish(own, report, [name for name in places if name != artefacts.REPORT], kept)
                artefacts.deliver(own, places)
    session.accelerator.end_training()  # without it NCCL warns, and may hang where all should go
    return status


@contextmanager
def holding(session: Session, folder: Path, fingerprint: dict, places: Iterable[Path] = ()) -> Iterator[Path]:
    """Lock a run's folder for this launch, and yield the folder of this configuration in it. All
    configurations of a run share one lock, since they have the same outputs, at `places`.
    """
    held, own = None, folder / checkpoints.key_of(fingerprint)
    with session.agreeing():
        if session.accelerator.is_main_process:
            held = checkpoints.lock(folder, session.lock_seconds)
            checkpoints.sweep([*places, folder.with_name(checkpoints.PROGRESS)])
            own, remark = checkpoints.claim(folder, fingerprint)
            if remark is not None:
                session.say(remark)
    first = session.broadcast(own.name)
    with session.agreeing():
        if first != own.name:
            sentence = f"its run is {own.name}, that of the first process another: they do not read the same files."
            raise InputError(sentence)
    session.listen()
    try:
        with other_processes(session):
            yield own
            session.wait()
    finally:
        if held is not None:
            held.close()


def put_back(session: Session, folder: Path, places: dict[str, Path]) -> bool:
    """Whether the run in `folder` had finished; if so, missing files are put back at `places`."""
    ended = False
    if session.accelerator.is_main_process:
        ended = artefacts.is_finished(folder, list(places))
        if ended:
            changed = artefacts.deliver(folder, places)
            if changed:
                checkpoints.note(folder, "restored", session.recipe.steps)
            done = f"{', '.join(path.name for path in changed)} put back" if changed else "nothing to do"
            session.say(f"{folder} holds this run, which has come to its end: {done}.")
    return session.broadcast(ended)


def fingerprint_run(session: Session, mixture: Mixture) -> dict:
    """What defines a run's losses, flat, to be compared: its fingerprint."""
    settings = {f"shape.{key}": value for key, value in session.shape.model_dump().items()}
    settings |= {f"training.{key}": value for key, value in session.recipe.settings().items()}
    settings |= {f"mixture.{domain}": share for domain, share in mixture.flat().items()}
    settings["held_out.spread"] = SPREAD_KEY
    return settings | tokens_of(session.indices)


def tokens_of(indices: dict[str, pl.DataFrame]) -> dict[str, str]:
    """{split.domain: rows and a digest of their shards}, equal only for equal ids."""
    found = {}
    for split, index in indices.items():
        for (domain,), own in index.sort("domain").group_by("domain", maintain_order=True):
            rows, tokens = own["rows"].sum(), own["tokens"].sum()
            key = hashlib.blake2b("\n".join(sorted(own["digest"])).encode(), digest_size=8).hexdigest()
            found[f"{split}.{domain}"] = f"{rows} rows of {tokens // max(rows, 1)} tokens, {key}"
    return found


def describe(run: Run, mixture: Mixture) -> dict:
    """The content of run.json."""
    session, recipe, shape = run.session, run.recipe, run.session.shape
    tokens, processes = recipe.steps * session.step_tokens, run.accelerator.num_processes
    flops = tokens * shape.flops_per_token(session.train.row_length)
    return costs(shape.parameters, tokens, flops, run.seconds, processes, run.gpu_seconds) | {
        "device": session.origin["device"],
        "seed": recipe.seed,
        "shape": shape.model_dump(),
        "recipe": recipe.settings(),
        "mixture": mixture.document(),
        "data": tokens_of(session.indices),
        "tokenizer": session.tokenizer_digest,
        **provenance.of_run(session.origin, run.folder.name, checkpoints.attempts(run.folder)),
    }


def costs(parameters: float, tokens: int, flops: float, seconds: float, processes: int, gpu_seconds: float) -> dict:
    """The costs of a run for run.json; `seconds` and `gpu_seconds` are the totals of all attempts."""
    return {
        "parameters": parameters,
        "tokens": tokens,
        "flops": flops,
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds) if seconds else None,
        "processes": processes,
        "gpu_hours": gpu_seconds / 3600,
    }


def loss_table(run: Run) -> pl.DataFrame:
    """One row per evaluation and domain: step, tokens read, domain, loss in nats per token."""
    rows = [
        (step, step * run.session.step_tokens, domain, loss)
        for step, losses in run.state["history"]
        for domain, loss in zip(run.session.evaluated, losses, strict=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
