"""The run of a proxy, which a method trains to find a mixture: its flags and its outputs."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bimix.mixtures.mixture import as_mixture
from bimix.outputs import write_table
from bimix.reweighting.trace import path_table
from bimix.training.attempt import bring_to_end, describe, fingerprint_run
from bimix.training.loop import Plain, Run, train
from bimix.training.order import Schedule
from bimix.training.session import Session, training_parser
from bimix.training.update import Learner


def proxy_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the flags of every proxy: those of a training, the mixture and its path."""
    parser = training_parser(description)
    parser.add_argument("--mixture", type=Path, required=True, help="average weights over the run, JSON")
    parser.add_argument("--path", type=Path, required=True, help="step, domain, weight, average, signal; parquet")
    return parser


def find_mixture(
    session: Session,
    options: argparse.Namespace,
    method: Callable[[], Callable[[Learner], Plain]],
    settings: dict,
    signal: str,
    extra_flops: Callable[[Run], int],
) -> int:
    """Exit status of an attempt at a proxy's run, which reads all domains alike.

    `method` is called where something is left to train. `settings` of the method are part of the
    run's fingerprint; `signal` names the column of what moves its weights; `extra_flops` are those
    of a finished run beyond plain pretraining.
    """
    uniform = as_mixture(session.domains, np.ones(len(session.domains)))
    # the mixture last, since it is what the later stages wait for
    places = {"run.json": options.report, "path.parquet": options.path, "losses.parquet": options.losses}
    places["mixture.json"] = options.mixture

    def training(own: Path) -> Run | None:
        return train(session, own, Schedule(uniform.over(session.domains)), method(), wrapped=False)

    def results(proxy: Run) -> dict:
        trace = proxy.method.trace
        write_table(path_table(trace, session.recipe.steps, session.domains, signal), proxy.folder / "path.parquet")
        as_mixture(session.domains, trace.average.cpu().numpy()).write(proxy.folder / "mixture.json")
        report = describe(proxy, uniform)
        report["flops"] += extra_flops(proxy)
        return report

    fingerprint = fingerprint_run(session, uniform) | settings
    return bring_to_end(session, options.state, fingerprint, places, training, results)
