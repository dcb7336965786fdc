"""Train several runs of one shape in one process, one after another or several at once: start-up,
tokens and memory are shared, and one model, which is compiled once.

token index of both splits, mixtures, shape, recipe -> losses.parquet, runs.parquet (and one
folder of state for each run)
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_table
from bimix.tables import read_table
from bimix.training.artefacts import check
from bimix.training.attempt import STOPPED, holding, put_back
from bimix.training.checkpoints import discard
from bimix.training.launch import open_session, training_parser
from bimix.training.loop import train
from bimix.training.reports import describe, fingerprint_run, loss_table
from bimix.training.reports import finish as finish_run
from bimix.training.session import Session, resume
from bimix.training.stacked_runs import train_together

COSTS = ["parameters", "tokens", "flops", "seconds", "gpu_hours"]  # of a run, as in run.json
Mixtures = dict[str, Mixture]  # of runs by their names


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    session.one_model = True
    check_stacked(session, options.stacked)
    table = read_table(options.mixtures)
    mixtures = {}
    for name in options.names:
        own = table.filter(pl.col("mixture") == name)
        if own.is_empty():
            raise InputError(f"{options.mixtures} has no mixture {name!r}.")
        shares = dict(own.select("domain", "proportion").iter_rows())
        mixtures[name] = Mixture.parse(shares, f"{options.mixtures}, mixture {name}", session.domains)
    folders = {}
    for group in groups(session, options.state, mixtures, options.stacked):
        finished = None if session.wants_to_stop() else finish(session, options.state, group)
        if finished is None:
            return STOPPED
        folders |= finished
    if not session.accelerator.is_main_process:
        return 0
    losses, costs = [], []
    for name in mixtures:
        folder = folders[name]
        labels = pl.lit(name).alias("mixture"), pl.lit(session.recipe.seed, pl.Int64).alias("seed")
        losses.append(pl.read_parquet(check(folder / "losses.parquet"), glob=False).select(*labels, pl.all()))
        report = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        costs.append({"mixture": name, "seed": session.recipe.seed} | {key: report[key] for key in COSTS})
    write_table(pl.DataFrame(costs), options.runs)
    write_table(pl.concat(losses), options.losses)
    return 0


def check_stacked(session: Session, stacked: int) -> None:
    """Refuse to train several runs at once where their weights cannot be stacked."""
    if stacked > 1 and session.recipe.optimizer != "adamw":
        raise InputError(f"launch, stacked: runs with {session.recipe.optimizer} are not trained at once; set it to 1.")
    if stacked > 1 and session.accelerator.num_processes > 1:
        raise InputError("launch, stacked: several processes do not train runs at once; set it to 1.")


def groups(session: Session, state: Path, mixtures: Mixtures, stacked: int) -> Iterator[Mixtures]:
    """The runs that are trained at once: one, or at most `stacked` that stand at the same step,
    those that have come furthest first.
    """
    if stacked == 1:
        yield from ({name: mixture} for name, mixture in mixtures.items())
        return
    by_step: dict[int, list[str]] = {}
    for name, mixture in mixtures.items():
        with hold(session, state, name, mixture) as own:
            step = session.recipe.steps if is_finished(session, own) else (resume(session, own) or {"step": 0})["step"]
        by_step.setdefault(step, []).append(name)
    for _, names in sorted(by_step.items(), reverse=True):
        for first in range(0, len(names), stacked):
            yield {name: mixtures[name] for name in names[first : first + stacked]}


def hold(session: Session, state: Path, name: str, mixture: Mixture) -> AbstractContextManager[Path]:
    """Hold a run; gives the folder of its configuration."""
    defined_by = fingerprint_run(session.shape, session.recipe, mixture, session.indices)
    return holding(session, state / name, defined_by)


def is_finished(session: Session, own: Path) -> bool:
    """Whether the run in the folder of a configuration, which is held, has come to its end."""
    return put_back(session, own, {file: own / file for file in ("run.json", "losses.parquet")}, quietly=True)


def finish(session: Session, state: Path, group: Mixtures) -> dict[str, Path] | None:
    """Train runs from where they are to their end, at once where they are several.

    Gives the folder of each with its losses and its report, None: stopped on request.

    Their checkpoints are dropped then: a swarm is trained for its losses, and hundreds of
    weights would fill a disk.
    """
    with ExitStack() as held:
        folders = {name: held.enter_context(hold(session, state, name, own)) for name, own in group.items()}
        left = {name: own for name, own in folders.items() if not is_finished(session, own)}
        if left:
            session.say(f"{', '.join(left)}:")
            finished = train_all(session, left, group)
            session.accelerator.free_memory()
            if finished is None:
                return None
            for (name, own), (history, seconds) in zip(left.items(), finished, strict=True):
                if session.accelerator.is_main_process:
                    write_table(loss_table(session, history), own / "losses.parquet")
                    finish_run(own, describe(session, seconds, group[name], own), ["losses.parquet"])
        for own in folders.values() if session.accelerator.is_main_process else ():
            discard(own)
    return folders


def train_all(session: Session, folders: dict[str, Path], mixtures: Mixtures) -> list[tuple[list, float]] | None:
    """The history of losses of each run and the seconds that it took; None: stopped on request."""
    shares = [mixtures[name].over(session.domains)[0] for name in folders]
    if len(folders) > 1:
        return train_together(session, folders, shares)
    finished = train(session, next(iter(folders.values())), shares[0])
    return None if finished is None else [(finished.history, finished.seconds)]


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion; csv or parquet")
    parser.add_argument(
        "--names", nargs="+", required=True, help="mixtures to train on; each has a folder under --state"
    )
    parser.add_argument("--stacked", type=int, default=1, help="train so many runs at once, with stacked weights")
    parser.add_argument("--losses", type=Path, required=True, help="mixture, seed, step, tokens, domain, loss; parquet")
    parser.add_argument("--runs", type=Path, required=True, help="mixture, seed and what each run cost; parquet")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
