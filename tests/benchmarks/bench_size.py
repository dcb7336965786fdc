"""Measure what runs of small models tell of a large one, by how many runs of the large one there
are (no test: run it by hand).

python tests/benchmarks/bench_size.py folder {set} ... [--out table.csv] -> a table on standard
output; `folder` holds regmix/ and mixinglaws/ (public runs of RegMix and of Ye et al.). Each draw
picks the small runs and the large ones, and looks at the other large ones. --out writes what
plot_learning.py draws.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import bench
import numpy as np
import polars as pl
from public_tables import mixing_laws, regmix

from bimix.judge.errors import rank_correlation
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations


class Group(NamedTuple):
    """Runs of one size, and how many of them are fitted (None: all)."""

    runs: Observations
    parameters: float
    tokens: float
    fitted: int | None = None


class Score(NamedTuple):
    """Mean error, %; Spearman over mixtures, mean of the losses, and of their average."""

    error: float
    rank: float
    rank_of_average: float


def named(runs: Observations) -> Observations:
    """The same mixture has the same name at every size."""
    return replace(runs, mixtures=tuple(" ".join(f"{share:.4f}" for share in row) for row in runs.proportions))


def _regmix(folder: Path, *sizes: tuple[str, int | None]) -> list[Group]:
    """RegMix' test mixtures at some sizes, each with how many of its runs are fitted."""
    known = {"1m": (1e6, 1e9), "60m": (6e7, 1e9), "1B": (1e9, 25e9)}
    return [Group(named(regmix(folder / "regmix", "test", size)), *known[size], count) for size, count in sizes]


def _ye(folder: Path, name: str, *sizes: str, tokens: float = 3e10, **more) -> list[Group]:
    """Ye et al.'s runs of some sizes, the last of which is the large one."""
    return [
        Group(named(mixing_laws(folder / "mixinglaws", name, size, **more)), 1e6 * float(size[:-1]), tokens)
        for size in sizes
    ]


# Small groups, and last the large one; tokens are those that the authors state. Of Ye et al.'s runs at
# 305M and 410M, registered on 2026-11-27 before they were read, no choice of the law had a part.
LAST = {"step": 30_000, "proposed": True}
TABLES = {
    "SlimPajama 70M -> 160M": lambda at: _ye(at, "RedPajama", "70M", "160M", **LAST),
    "3Mix 70M, 160M -> 410M": lambda at: _ye(at, "3Mix", "70M", "160M", "410M", tokens=6e10),
    "RegMix 1M -> 60M": lambda at: _regmix(at, ("1m", 64), ("60m", None)),
    "RegMix 1M -> 1B": lambda at: _regmix(at, ("1m", 64), ("1B", None)),
    "RegMix 60M -> 1B": lambda at: _regmix(at, ("60m", 64), ("1B", None)),
    "RegMix 1M, 60M -> 1B": lambda at: _regmix(at, ("1m", 64), ("60m", 16), ("1B", None)),
    "SlimPajama 70M, 160M -> 305M": lambda at: _ye(at, "RedPajama", "70M", "160M", "305M", **LAST),
    "SlimPajama 70M, 160M -> 410M": lambda at: _ye(at, "RedPajama", "70M", "160M", "410M", **LAST),
    "coarse Pile 70M, 160M -> 305M": lambda at: _ye(at, "5Mix", "70M", "160M", "305M", **LAST),
    "coarse Pile 70M, 160M -> 410M": lambda at: _ye(at, "5Mix", "70M", "160M", "410M", **LAST),
}


def joined(groups: list[tuple[Observations, float, float]]) -> Observations:
    """Runs of several sizes as one."""
    first = groups[0][0]
    many = [len(runs.mixtures) for runs, _, _ in groups]
    return replace(
        first,
        mixtures=tuple(name for runs, _, _ in groups for name in runs.mixtures),
        proportions=np.concatenate([runs.proportions for runs, _, _ in groups]),
        losses=np.concatenate([runs.losses for runs, _, _ in groups]),
        parameters=np.repeat([parameters for _, parameters, _ in groups], many),
        tokens=np.repeat([tokens for _, _, tokens in groups], many),
    )


def score(groups: list[Group], large_runs: int, draw: int) -> Score:
    """Of the large runs that are not fitted, from the small ones and `large_runs` of them."""
    order = np.random.default_rng([draw, 0]).permutation(len(groups[0].runs.mixtures))
    parts = [
        (one.runs if one.fitted is None else one.runs.take(order[: one.fitted]), one.parameters, one.tokens)
        for one in groups[:-1]
    ]
    large = groups[-1]
    order = np.random.default_rng([draw, large_runs]).permutation(len(large.runs.mixtures))
    if large_runs:
        parts.append((large.runs.take(order[:large_runs]), large.parameters, large.tokens))
    fitted = laws.fit("transfer", joined(parts)) if len(parts) > 1 else laws.fit("transfer", parts[0][0])
    if len(parts) > 1:
        fitted = laws.at_run(fitted, large.parameters, large.tokens)
    new = large.runs.take(order[large_runs:])
    predicted = laws.predict(fitted, new.proportions, [fitted["steps"][-1]])[:, 0]
    truth = new.losses[:, 0]
    average = rank_correlation(truth.mean(1)[:, None], predicted.mean(1)[:, None]).mean()
    # From one small size alone no level is known, only the order.
    error = 100 * np.abs(predicted / truth - 1).mean() if len(parts) > 1 else np.nan
    return Score(float(error), float(rank_correlation(truth, predicted).mean()), float(average))


def main(argv=None):
    parser = bench.parser(__doc__, "folder", numbers={"--counts": [0, 1, 2, 4, 8], "--draws": 4})
    parser.add_argument("sets", nargs="+", help="names of tables, such as 'RegMix 1M -> 1B', or all")
    parser.add_argument("--out", type=Path, help="csv: runs, large_runs, draw, error, spearman")
    options = parser.parse_args(argv)
    rows = []
    print("runs, large runs fitted: error % (worst draw), Spearman of losses, of their average")
    for name in TABLES if options.sets == ["all"] else options.sets:
        groups = TABLES[name](options.folder)
        for count in options.counts:
            scores = [score(groups, count, draw) for draw in range(options.draws)]
            error, rank, average = np.mean(scores, axis=0)
            worst = max(one.error for one in scores)
            print(f"{name:30s} {count:2d}  {error:6.2f} ({worst:6.2f})  {rank:.3f}  {average:.3f}", flush=True)
            rows += [(name, count, draw, one.error, one.rank) for draw, one in enumerate(scores)]
    if options.out:
        columns = ["runs", "large_runs", "draw", "error", "spearman"]
        pl.DataFrame(rows, columns, orient="row").fill_nan(None).write_csv(options.out)


if __name__ == "__main__":
    main()
