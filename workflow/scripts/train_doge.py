"""Train DoGE's proxy, from the start or from its last checkpoint.

token index of both splits, shape, recipe -> mixture.json, path.parquet,
losses.parquet, run.json
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np

from bimix.errors import run
from bimix.mixtures.mixture import as_mixture
from bimix.outputs import write_table
from bimix.reweighting.doge import MU, SCORE_LIMIT, Doge, extra_flops, held_mix, reserve
from bimix.reweighting.trace import average, path_table
from bimix.training.attempt import bring_to_end, describe, fingerprint_run
from bimix.training.loop import Finished, train
from bimix.training.order import Schedule
from bimix.training.session import open_session, training_parser


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    uniform = as_mixture(session.domains, np.ones(len(session.domains)))
    mix = held_mix(session)
    defined_by = fingerprint_run(session, uniform)
    defined_by |= {"doge.regularization": MU, "doge.score_limit": SCORE_LIMIT, "doge.target": "mix"}
    # the mixture last, since it is what the later stages wait for
    places = {"run.json": options.report, "path.parquet": options.path, "losses.parquet": options.losses}
    places["mixture.json"] = options.mixture

    def training(own: Path) -> Finished | None:
        method = partial(Doge, gradients=reserve(session), mix=mix)
        return train(session, own, Schedule(uniform.over(session.domains)), method, wrapped=False)

    def results(own: Path, finished: Finished) -> dict:
        report = describe(session, finished, uniform, own)
        report["flops"] += extra_flops(session, mix)
        write_table(path_table(finished.method, session.recipe.steps, session.domains, "score"), own / "path.parquet")
        as_mixture(session.domains, average(finished.method)).write(own / "mixture.json")
        return report

    return bring_to_end(session, options.state, defined_by, places, training, results)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="average weights over the run, JSON")
    parser.add_argument("--path", type=Path, required=True, help="step, domain, weight, average, score; parquet")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss of the proxy; parquet")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
