"""Train several runs of one shape in one process, one after another. They share start-up, tokens,
memory, and one model, which is compiled once.

token index of both splits, mixtures, shape, recipe -> losses.parquet, runs.parquet (and one
folder of state for each run)
"""

import argparse
import json
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_table
from bimix.tables import read_table
from bimix.training.artefacts import check
from bimix.training.attempt import STOPPED, describe, fingerprint_run, finish, holding, put_back
from bimix.training.checkpoints import discard
from bimix.training.loop import NotFinite, train
from bimix.training.order import Schedule
from bimix.training.session import Session, open_session, training_parser

COSTS = ["parameters", "tokens", "flops", "seconds", "gpu_hours"]  # of a run, as in run.json


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    session.one_model = True
    table = read_table(options.mixtures)
    mixtures = {}
    for name in options.names:
        own = table.filter(pl.col("mixture") == name)
        if own.is_empty():
            raise InputError(f"{options.mixtures} has no mixture {name!r}.")
        shares = dict(own.select("domain", "proportion").iter_rows())
        mixtures[name] = Mixture.parse(shares, f"{options.mixtures}, mixture {name}", session.domains)
    folders, not_finite = {}, []
    for name, mixture in mixtures.items():
        try:
            stop = session.broadcast(session.wants_to_stop())  # deadlines of processes are moments apart
            folders[name] = None if stop else train_one(session, options.state, name, mixture)
        except NotFinite as error:  # in all processes at the same update; the other runs can end
            not_finite.append(f"{name}: {error}")
            session.say(not_finite[-1])
            continue
        if folders[name] is None:
            return STOPPED
    if not_finite:
        raise InputError(f"The other {len(folders)} runs have come to their end. {' '.join(not_finite)}")
    if not session.accelerator.is_main_process:
        return 0
    losses, costs = [], []
    for name, folder in folders.items():
        labels = pl.lit(name).alias("mixture"), pl.lit(session.recipe.seed, pl.Int64).alias("seed")
        losses.append(pl.read_parquet(check(folder / "losses.parquet"), glob=False).select(*labels, pl.all()))
        report = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        costs.append({"mixture": name, "seed": session.recipe.seed} | {key: report[key] for key in COSTS})
    write_table(pl.DataFrame(costs), options.runs)
    write_table(pl.concat(losses), options.losses)
    return 0


def train_one(session: Session, state: Path, name: str, mixture: Mixture) -> Path | None:
    """Train a run from its last checkpoint to its end; return the folder with its losses and
    report, None if stopped on request.

    Its checkpoints are then deleted: a swarm is trained for its losses, and hundreds of weights
    would fill a disk.
    """
    defined_by = fingerprint_run(session, mixture)
    with holding(session, state / name, defined_by) as own:
        if not put_back(session, own, {file: own / file for file in ("run.json", "losses.parquet")}, quietly=True):
            session.say(f"{name}:")
            try:
                finished = train(session, own, Schedule(mixture.over(session.domains)))
            finally:
                session.accelerator.free_memory()
            if finished is None:
                return None
            if session.accelerator.is_main_process:
                finish(session, own, finished, describe(session, finished, mixture, own), ["losses.parquet"])
        if session.accelerator.is_main_process:
            discard(own)
    return own


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion; csv or parquet")
    parser.add_argument("--names", nargs="+", required=True, help="mixtures to train on, each a folder in --state")
    parser.add_argument("--losses", type=Path, required=True, help="mixture, seed, step, tokens, domain, loss; parquet")
    parser.add_argument("--runs", type=Path, required=True, help="mixture, seed and what each run cost; parquet")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
