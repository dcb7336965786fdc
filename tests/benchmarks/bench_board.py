"""A board of laws on public runs: each is fitted to some runs and predicts the others (no test: run
it by hand).

python tests/benchmarks/bench_board.py folder [--cases RegMix --counts 16 64 512 --draws 2
--covered 0] [--rows rows.csv] -> the boards of the pages on standard output; `folder` holds
regmix/, mixinglaws/, olmix/, repetition/ (resources/reproductions/public_tables.py), or
{name}/losses.csv and mixtures.csv of any other runs. --rows keeps every law, number of runs and
draw.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bench
import numpy as np
import polars as pl
import rivals
from print_rows import UNSEEN
from public_tables import mixing_laws, olmix, regmix, repetition, sizes

from bimix.errors import InputError
from bimix.judge.errors import rank_correlation
from bimix.laws.fitted import fit, predict_runs
from bimix.laws.table import LAWS
from bimix.mixtures.by_hand import SHARE_FLOOR
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.intervals import left_out, picked

LEVEL = 0.9
BOARD = {
    "case": pl.String,
    "law": pl.String,
    "runs": pl.Int64,
    "draw": pl.Int64,
    "error_percent": pl.Float64,
    "spearman": pl.Float64,
    "spearman_average": pl.Float64,
    "regret_percent": pl.Float64,
    "coverage": pl.Float64,
    "coverage_average": pl.Float64,
    "seconds": pl.Float64,
    "note": pl.String,
}


@dataclass(frozen=True)
class Case:
    """What laws are fitted to, and what they must predict: `asked` (None: the runs that a draw
    leaves over). Where `asked` are larger models, levels mean nothing and ranks alone are judged.
    """

    name: str
    fitted: Observations
    asked: Observations | None
    counts: tuple[int, ...]  # runs fitted; 0: all of them
    ranks_only: bool = False


def cases(folder: Path) -> Iterator[Case]:
    """The cases of the tables that lie in a folder: regmix/, mixinglaws/, olmix/, repetition/, and
    folders with losses.csv and mixtures.csv of any other runs.
    """
    if (folder / "regmix").is_dir():
        train = regmix(folder / "regmix", "train", "1m")
        for size in ("1m", "60m", "1B"):
            asked = regmix(folder / "regmix", "test", size)
            counts = (8, 16, 32, 64, 128, 512)
            yield Case(f"RegMix, 1M to {size.upper()}", train, asked, counts, ranks_only=size != "1m")
    for joined in (folder / "mixinglaws" / f"{table}.parquet" for table in ("RedPajama", "3Mix")):
        if joined.exists():
            table = joined.stem
            for size in sizes(joined):
                runs = mixing_laws(folder / "mixinglaws", table, size, each=True, proposed=True)
                counts = tuple(count for count in (8, 16, 32, 64) if count <= len(runs.mixtures) - 4)
                if counts:
                    yield Case(f"mixing laws, {table}, {size}", runs, None, counts)
    if (folder / "mixinglaws" / "data").is_dir():
        for name, unseen in UNSEEN.items():
            yield Case(name, unseen.read(folder), None, (8, 16))
    if (folder / "olmix").is_dir():
        yield Case("Olmix, 64 domains", olmix(folder / "olmix"), None, (64, 195))
    repeated = folder / "repetition" / "wikipedia_fineweb_124M.csv"
    if repeated.exists():
        yield Case("Wikipedia repeated, to 32 pools", repetition(repeated, 2, 16), repetition(repeated, 32, 32), (0,))
    for losses in sorted(folder.glob("*/losses.csv")):
        runs = read_observations(losses, losses.with_name("mixtures.csv"))
        # of runs of several lengths the longest, which end at the same step
        runs = runs.take(np.flatnonzero(np.isfinite(runs.losses[:, -1]).all(axis=1)))
        counts = tuple(count for count in (8, 16, 32, 64) if count <= len(runs.mixtures) - 4)
        yield Case(losses.parent.name, runs, None, counts)


def judged(case: Case, laws: list[str], counts: list[int] | None, draws: int, covered: int, seed: int) -> pl.DataFrame:
    """Scores at the last step in the columns of BOARD: a row for each law, number of runs and draw.

    Error and Spearman are means over loss domains; `spearman_average` and `regret` are of the plain
    average of the losses, regret that of the run predicted best over the best. `coverage` of 90 %
    intervals from left-out runs, of losses and of their plain average, is measured in the first
    `covered` draws. All laws get the same draws. `by_share` is the rule without runs (`by_share`),
    which has ranks alone.
    """
    rows = []
    total = len(case.fitted.mixtures)
    wanted = [count for count in case.counts if counts is None or count in counts]
    for runs in (count or total for count in wanted):
        for draw in range(1 if runs == total else draws):
            order = np.random.default_rng([seed, draw]).permutation(total)
            some = case.fitted.take(order[:runs])
            asked = case.asked or case.fitted.take(order[runs:])
            for law in laws:
                began = time.process_time()
                try:
                    scores = _scores(law, some, asked, case.ranks_only, draw < covered)
                    rows.append((case.name, law, runs, draw, *scores, time.process_time() - began, None))
                except InputError as refusal:
                    rows.append((case.name, law, runs, draw, *[None] * 7, str(refusal)))
            if (scores := by_share(asked)) is not None:
                rows.append((case.name, "by_share", runs, draw, *scores, 0.0, None))
    return pl.DataFrame(rows, BOARD, orient="row")


def _scores(law: str, some: Observations, asked: Observations, ranks_only: bool, covers: bool) -> tuple:
    if LAWS[law].refuses_few and len(some.mixtures) < LAWS[law].least_runs(len(some.domains)):
        raise InputError(f"the law {law} needs more runs than {len(some.mixtures)}.")
    fitted = fit(law, some)
    predicted, truth = predict_runs(fitted, asked, asked.steps[-1:])[:, 0], asked.losses[:, -1]
    average, guessed = truth.mean(axis=1, keepdims=True), predicted.mean(axis=1, keepdims=True)
    regret = 100 * (average[guessed.argmin(), 0] / average.min() - 1)
    ranks = rank_correlation(truth, predicted)
    ranks = float(ranks[np.isfinite(ranks)].mean()) if np.isfinite(ranks).any() else None
    together = float(rank_correlation(average, guessed)[0])
    error = None if ranks_only else float(100 * np.mean(np.abs(predicted / truth - 1)))
    inside = [None, None]
    if covers and not ranks_only and asked.pools is None and len(some.mixtures) >= 3:
        step = int(asked.steps[-1])
        left = left_out(fitted, some, step)
        for number, target in enumerate((None, np.ones(truth.shape[1]))):
            guess = picked(predicted, target)
            low, high = left.ends(guess, asked.proportions, step, target, LEVEL)
            measured = picked(truth, target)
            inside[number] = float(((low <= measured) & (measured <= high)).mean())
    return error, ranks, together if np.isfinite(together) else None, float(regret), *inside


def by_share(asked: Observations) -> tuple | None:
    """The scores of ranking by what is asked itself, with no run and no law: a loss by the share of
    its own domain, the average by the sum of log(share + 0.003). None where no loss has a domain.
    """
    own = [i for i, name in enumerate(asked.loss_domains) if name in asked.domains]
    if not own:
        return None
    shares = asked.proportions[:, [asked.domains.index(asked.loss_domains[i]) for i in own]]
    guessed, truth = -np.log(shares + SHARE_FLOOR), asked.losses[:, -1]
    average, together = truth.mean(axis=1, keepdims=True), guessed.mean(axis=1, keepdims=True)
    ranks = rank_correlation(truth[:, own], guessed)
    of_average = float(rank_correlation(average, together)[0])
    regret = 100 * (average[together.argmin(), 0] / average.min() - 1)
    ranks = float(ranks[np.isfinite(ranks)].mean()) if np.isfinite(ranks).any() else None
    return None, ranks, of_average if np.isfinite(of_average) else None, float(regret), None, None


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over draws, the least regret first; draws that a law refused are counted."""
    numbers = [name for name, kind in BOARD.items() if kind == pl.Float64]
    keys = ["case", "runs", "law"]
    found = rows.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).mean() for name in numbers),
        pl.col("regret_percent").max().alias("worst_regret_percent"),
        pl.col("draw").count().alias("draws"),
        pl.col("note").count().alias("refused"),
    )
    return found.sort(["case", "runs", "regret_percent"], nulls_last=True, maintain_order=True)


@rivals.entered()
def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "folder", "--rows", numbers={"--seed": 0})
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS))
    parser.add_argument("--cases", nargs="+", default=[""], help="those whose name begins so")
    parser.add_argument("--counts", nargs="+", type=int, help="of runs that are fitted; all without it")
    parser.add_argument("--draws", type=int, default=4, help="of runs, the same for all laws")
    parser.add_argument("--covered", type=int, default=1, help="draws in which intervals are measured too")
    options = parser.parse_args(argv)
    chosen = [case for case in cases(options.folder) if case.name.startswith(tuple(options.cases))]
    if not chosen:
        raise SystemExit(f"{options.folder}: there is no such table of runs.")
    found = []
    for case in chosen:
        found.append(judged(case, options.laws, options.counts, options.draws, options.covered, options.seed))
        print(f"\n{case.name}, {len(case.fitted.mixtures)} runs\n", flush=True)
        with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=2, tbl_hide_dataframe_shape=True):
            print(table(found[-1]).drop("case"))
    if options.rows:
        pl.concat(found).write_csv(options.rows)


if __name__ == "__main__":
    main()
