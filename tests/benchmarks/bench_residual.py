"""Measure what a Gaussian process on the errors of `transfer` gains (no test: run it by hand).

python tests/benchmarks/bench_residual.py folder [--draws 3] -> a table on standard output; `folder`
holds regmix/ and mixinglaws/. Error at the last step, %, of mixtures that were not fitted: by
`transfer`, by it corrected with the kriging of the search, of the residuals of its fit and of those
of runs left out, and by the law `gaussian_process` alone.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))

import public_runs
from bench_few_runs import VALIDATED

from bimix.laws import fitted as laws
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.intervals import left_out
from bimix.search.posterior import kriged

OWN = Path(__file__).parents[2] / "resources" / "observations"
WAYS = ("transfer", "+ process of the fit", "+ process of runs left out", "process alone")


def tables(folder: Path) -> dict[str, tuple[Observations, Observations | None, tuple[int, ...]]]:
    """{name: runs to draw from, runs to look at (None: the others), counts}."""

    def own(name: str) -> Observations:
        runs = read_observations(OWN / name / "tiny.csv", OWN / name / "tiny_mixtures.csv")
        return replace(runs, steps=runs.steps[-1:], losses=runs.losses[:, -1:], pools=None, tokens=None)

    parquet = folder / "mixinglaws" / "RedPajama.parquet"
    regmix = (public_runs.regmix(folder / "regmix", split, "1m") for split in ("train", "test"))
    return {
        "3Mix": (
            public_runs.mixing_laws(folder / "mixinglaws" / "3Mix.parquet", "410M", public_runs.THREE),
            None,
            (8, 16),
        ),
        "Ye et al. 70M": (
            public_runs.mixing_laws(parquet, "70M", public_runs.SLIMPAJAMA, 30_000, VALIDATED),
            None,
            (8, 16, 30),
        ),
        "RegMix": (*regmix, (32,)),
        "proof2": (own("proof2"), None, (24,)),
        "proof": (own("proof"), None, (24,)),
    }


def errors(fitted: Observations, new: Observations) -> list[float]:
    """Of the ways of WAYS."""
    truth, law = new.losses[:, -1], laws.fit("transfer", fitted)
    step = law["steps"][-1]
    left = left_out(law, fitted, step)
    guess = laws.predict(law, new.proportions, [step])[:, 0]
    own = np.log(fitted.losses[:, -1] / laws.predict(law, fitted.proportions, [step])[:, 0])
    found = [guess]
    for residuals in (own, np.log(left.observed / left.predicted)):
        each = zip(residuals.T, left.spread()[0], strict=True)
        means = [kriged(fitted.proportions, one, spread, None).mean(new.proportions) for one, spread in each]
        found.append(guess * np.exp(np.array(means).T))
    process = laws.fit("gaussian_process", fitted)
    found.append(laws.predict(process, new.proportions, [process["steps"][-1]])[:, 0])
    return [float(100 * np.abs(one / truth - 1).mean()) for one in found]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the public runs")
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args(argv)
    print("runs, fitted:", ", ".join(WAYS), "(and the worst ratio of the two to transfer)")
    for name, (runs, test, counts) in tables(options.folder).items():
        for count in counts:
            cells = []
            for draw in range(options.draws):
                order = np.random.default_rng([draw, count]).permutation(len(runs.mixtures))
                cells.append(errors(runs.take(order[:count]), test or runs.take(order[count:])))
            cells = np.array(cells)
            worst = (cells[:, 1:3] / cells[:, :1]).max(axis=0)
            print(
                f"{name:14s} {count:2d} ",
                *(f"{one:5.2f}" for one in cells.mean(axis=0)),
                " ",
                worst.round(2),
                flush=True,
            )


if __name__ == "__main__":
    main()
