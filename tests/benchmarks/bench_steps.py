"""Measure what effects of mixtures by step are worth in `transfer` (no test: run it by hand).

python tests/benchmarks/bench_steps.py folder -> tables on standard output; `folder` holds
mixinglaws/, the proof is that of resources/observations. Error in % of mixtures that were not
fitted, means over the draws: at the last and the first step, of a fit to that step alone, with
effects that are the same at each step, and by step; then the same where further runs stopped.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from public_runs import SLIMPAJAMA, mixing_laws

from bimix.laws import fitted as laws
from bimix.laws import transfer
from bimix.observations.observations import Observations, read_observations

OWN = Path(__file__).parents[2] / "resources" / "observations" / "proof"
STEPS = (10_000, 13_000, 14_000, 16_000, 24_000, 27_000, 30_000)
BY_STEP = transfer.effects_by_step


def tables(folder: Path) -> dict[str, Observations]:
    proof = read_observations(OWN / "tiny.csv", OWN / "tiny_mixtures.csv")
    found = {"first proof": replace(proof, pools=None, tokens=None)}
    for size in ("70M", "160M"):
        each = [mixing_laws(folder / "mixinglaws" / "RedPajama.parquet", size, SLIMPAJAMA, step) for step in STEPS]
        losses = np.concatenate([runs.losses for runs in each], axis=1)
        found[f"SlimPajama {size}"] = replace(each[0], steps=np.array(STEPS), losses=losses)
    return found


def error(runs: Observations, new: Observations, at: int, by_step: bool = True) -> float:
    transfer.effects_by_step = BY_STEP if by_step else lambda observed, _=None: np.ones(len(observed.steps))
    fitted = laws.fit("transfer", runs)
    return float(
        100 * np.abs(laws.predict(fitted, new.proportions, [new.steps[at]])[:, 0] / new.losses[:, at] - 1).mean()
    )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the public runs")
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2, 3])
    options = parser.parse_args(argv)
    print(
        "runs, stopped: at the last step, the first: that alone, the same at each step, by step; ratio of the last two"
    )
    for name, runs in tables(options.folder).items():
        for count, stopped in ((8, 0), (12, 0), (16, 0), (4, 12), (8, 16)):
            if count + stopped > len(runs.mixtures) - 4 or (stopped and name != "first proof"):
                continue
            cells = []
            for draw in options.draws:
                order = np.random.default_rng([draw, count, 9 if stopped else 7]).permutation(len(runs.mixtures))
                fitted, new = runs.take(order[: count + stopped]), runs.take(order[count + stopped :])
                fitted.losses[count:, 2:] = np.nan
                for at in (-1, 0):
                    alone = replace(fitted, steps=runs.steps[[at]], losses=fitted.losses[:, [at]])
                    if at == -1:
                        alone = alone.take(np.arange(count))
                    cells.append([error(alone, new, at), error(fitted, new, at, False), error(fitted, new, at)])
            for at, rows in (("last", np.array(cells[::2])), ("first", np.array(cells[1::2]))):
                ratio = np.exp(np.log(rows[:, 2] / rows[:, 1]).mean())
                print(
                    f"{name:16s} {count:2d} {stopped:2d} {at:5s} ",
                    *rows.mean(axis=0).round(2),
                    f"{ratio:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
