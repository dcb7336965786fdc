"""Measure what checkpoints before the end of a run tell of its end (no test: run it by hand).

python tests/benchmarks/bench_checkpoints.py folder -> tables on standard output; `folder` holds
mixinglaws/. The other tables are those of resources/observations. Error at the last step, %, of
mixtures that were not fitted: from some runs' last step, from all their steps, and with further
runs that stopped at about two thirds; these with the law of today, and with an exponent of their
own, as if they were runs of a smaller model.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))

from public_runs import SLIMPAJAMA, mixing_laws

from bimix.laws import fitted as laws
from bimix.observations.observations import Observations, read_observations

OWN = Path(__file__).parents[2] / "resources" / "observations"
WAYS = ("last", "all steps", "with stopped", "by exponent", "all to the end")


def tables(folder: Path) -> dict[str, tuple[Observations, int]]:
    """{name: runs, index of the step at which some stop}."""
    found = {}
    for name in ("proof", "proof2"):
        runs = read_observations(OWN / name / "tiny.csv", OWN / name / "tiny_mixtures.csv")
        found[name] = replace(runs, pools=None, tokens=None), 1
    steps = (10_000, 13_000, 14_000, 16_000, 24_000, 27_000, 30_000)
    each = [mixing_laws(folder / "mixinglaws" / "RedPajama.parquet", "70M", SLIMPAJAMA, step) for step in steps]
    losses = np.concatenate([runs.losses for runs in each], axis=1)
    return found | {"Ye et al. 70M": (replace(each[0], steps=np.array(steps), losses=losses), 4)}


def error(fitted: dict, new: Observations) -> float:
    found = laws.predict(fitted, new.proportions, [fitted["steps"][-1]])[:, 0]
    return float(100 * np.abs(found / new.losses[:, -1] - 1).mean())


def errors(runs: Observations, stop: int, order: np.ndarray, full: int, stopped: int) -> list[float]:
    """Of the ways of WAYS."""
    both, new = order[: full + stopped], runs.take(order[full + stopped :])
    ends = replace(runs, steps=runs.steps[-1:], losses=runs.losses[:, -1:])
    cut = runs.take(both)
    cut.losses[full:, stop + 1 :] = np.nan
    rows = np.concatenate([order[:full], both])
    last = np.arange(len(rows)) < full
    losses = np.where(last[:, None, None], runs.losses[rows, -1:], runs.losses[rows, stop : stop + 1])
    of_size = np.where(last, 1.0, runs.steps[stop] / runs.steps[-1]) * 1e8
    apart = replace(runs.take(rows), steps=ends.steps, losses=losses, parameters=of_size, tokens=20 * of_size)
    fits = ends.take(order[:full]), runs.take(order[:full]), cut, apart, ends.take(both)
    return [error(laws.fit("transfer", one), new) for one in fits]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the public runs")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--counts", type=int, nargs="+", default=[4, 12, 8, 16], help="whole runs, stopped runs, ...")
    options = parser.parse_args(argv)
    print("runs, whole, stopped:", ", ".join(WAYS))
    for name, (runs, stop) in tables(options.folder).items():
        for full, stopped in zip(options.counts[::2], options.counts[1::2], strict=True):
            cells = [
                errors(runs, stop, np.random.default_rng([draw, full]).permutation(len(runs.mixtures)), full, stopped)
                for draw in range(options.draws)
            ]
            print(f"{name:14s} {full:2d} {stopped:2d} ", *(f"{one:5.2f}" for one in np.mean(cells, axis=0)), flush=True)


if __name__ == "__main__":
    main()
