"""Train DoGE's proxy, from the start or from its last checkpoint.

token index of both splits (and of the targets), shape, recipe -> mixture.json, path.parquet,
losses.parquet, run.json
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture
from bimix.outputs import write_table
from bimix.reweighting.doge import MU, SCORE_LIMIT, TARGETS_MU, Doge, Goal, extra_flops, held_mix, reserve, target_rows
from bimix.reweighting.trace import average, path_table
from bimix.tables import read_table
from bimix.training.attempt import bring_to_end, describe, fingerprint_run
from bimix.training.loop import Finished, train
from bimix.training.order import Schedule
from bimix.training.rows import RowStore, open_rows
from bimix.training.session import Session, open_session, training_parser


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    uniform = as_mixture(session.domains, np.ones(len(session.domains)))
    targets = {}
    if options.targets:
        targets["target"] = read_table(options.targets[0]).filter(pl.col("domain").is_in(options.target_domains))
    goal = open_targets(options, session, targets["target"]) if targets else held_mix(session)
    defined_by = fingerprint_run(session, uniform, **targets)
    defined_by["doge.regularization"] = regularization = TARGETS_MU if targets else MU
    defined_by |= {"doge.score_limit": SCORE_LIMIT, "doge.target": "domains" if targets else "mix"}
    # the mixture last, since it is what the later stages wait for
    places = {"run.json": options.report, "path.parquet": options.path, "losses.parquet": options.losses}
    places["mixture.json"] = options.mixture

    def training(own: Path) -> Finished | None:
        method = partial(Doge, gradients=reserve(session, goal), goal=goal, regularization=regularization)
        for index in targets.values():
            session.check_shards(index)
        return train(session, own, Schedule(uniform.over(session.domains)), method, wrapped=False)

    def results(own: Path, finished: Finished) -> dict:
        report = describe(session, finished.seconds, uniform, own)
        report["flops"] += extra_flops(session, goal)
        write_table(path_table(finished.method, session.recipe.steps, session.domains, "score"), own / "path.parquet")
        as_mixture(session.domains, average(finished.method)).write(own / "mixture.json")
        return report

    return bring_to_end(session, options.state, defined_by, places, training, results)


def open_targets(options: argparse.Namespace, session: Session, index: pl.DataFrame) -> Goal:
    """The target domains' rows; those of another tokenizer or length are refused."""
    (path,), (other,) = options.targets, options.target_tokenizer
    if Tokenizer.from_file(str(options.tokenizer)).to_str() != Tokenizer.from_file(str(other)).to_str():
        raise InputError(
            f"{other} is not the tokenizer of {options.tokenizer}: the targets' ids mean other text; give"
            f" both datasets the same tokenizer file."
        )
    store = RowStore(index, sorted(options.target_domains), open_rows)
    if store.row_length != session.train.row_length:
        raise InputError(
            f"{path} has rows of {store.row_length} tokens, {options.train} of {session.train.row_length}; give"
            f" both datasets the same sequence_length."
        )
    rows = target_rows(session.recipe.batch_rows, len(session.domains), len(store.domains))
    return Goal(store, rows, together=False)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--targets", type=Path, nargs="*", default=[], help="token index that targets are in, parquet")
    parser.add_argument("--target-tokenizer", type=Path, nargs="*", default=[], help="tokenizer.json of that index")
    parser.add_argument("--target-domains", nargs="*", default=[], help="domains to help in place of those trained on")
    parser.add_argument("--mixture", type=Path, required=True, help="average weights over the run, JSON")
    parser.add_argument("--path", type=Path, required=True, help="step, domain, weight, average, score; parquet")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss of the proxy; parquet")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
