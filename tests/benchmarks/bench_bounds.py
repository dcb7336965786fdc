"""Measure how often a bound that a law promises is broken at a larger model (no test: run it by
hand).

python tests/benchmarks/bench_bounds.py FOLDER [--runs 64] [--draws 30] -> a table on standard
output; FOLDER is that of RegMix's public runs.

A law is fitted to drawn runs of 1M models. Of the mixtures tested at 60M, one drawn is the
reference, three drawn losses may rise by 5 % at most, and the lowest predicted average of the
others is taken among the mixtures that keep this by the law. A bound is broken where one of the
three rose by more at the large model; the gain is the fall of the others there, below 0 a rise.
"""

import sys

import bench
import numpy as np
import public_tables

from bimix.laws import fitted as laws
from bimix.optimum.objective import Objective

MARGIN, BOUND, REFERENCES, VOCABULARY = 0.05, 3, 3, 50_432


def main(argv=None):
    parser = bench.parser(__doc__, "folder", numbers={"--runs": 64, "--draws": 30})
    options = parser.parse_args(argv)
    train, small = (public_tables.regmix(options.folder, split, "1m") for split in ("train", "test"))
    ends = {"1M": small.losses[:, 0], "60M": public_tables.regmix(options.folder, "test", "60m").losses[:, 0]}
    found = {}
    for draw in range(options.draws):
        random = np.random.default_rng(draw)
        fitted = laws.fit("transfer", train.take(random.choice(512, options.runs, replace=False)))
        guess = laws.predict(fitted, small.proportions, [1])[:, 0]
        for _ in range(REFERENCES):
            reference = int(random.integers(len(guess)))
            bound = np.isin(np.arange(guess.shape[1]), random.choice(guess.shape[1], BOUND, replace=False))
            names = [name for name, one in zip(fitted["loss_domains"], bound, strict=True) if one]
            for size, measured in ends.items():
                levels = [float(one[reference].mean()) for one in (ends["1M"], measured)]
                nu = float(np.divide(*np.log(np.log(VOCABULARY) / np.array(levels)[::-1])))
                plain, grown = (Objective(kind="no_worse_than", margin=MARGIN, effect_growth=one) for one in (1.0, nu))
                ways = {"the law": (plain.allowed, 1.0), "its width": (plain.limits(fitted, names), 1.0)}
                ways |= {"width and growth": (grown.limits(fitted, names), nu)} if size != "1M" else {}
                for way, (limits, grew) in ways.items():
                    kept = (guess[:, bound] <= guess[reference, bound] * limits).all(axis=1)
                    best = np.flatnonzero(kept)[guess[kept][:, ~bound].mean(axis=1).argmin()]
                    rise = (measured[best, bound] / measured[reference, bound] - 1).max() - MARGIN
                    gain = 1 - measured[best, ~bound].mean() / measured[reference, ~bound].mean()
                    found.setdefault((size, way), []).append((rise, gain, grew))
    print(f"{options.runs} runs of 1M, {options.draws * REFERENCES} cases: broken %, worst excess points, gain %, nu")
    for (size, way), rows in found.items():
        rises, gains, grown = np.array(rows).T
        broken = f"{100 * (rises > 0).mean():5.1f} {100 * max(rises.max(), 0):6.2f}"
        print(f"{size:4s} {way:24s} {broken} {100 * gains.mean():7.2f} {grown.mean():6.2f}")


if __name__ == "__main__":
    sys.exit(main())
