"""Fit laws to their authors' public runs, and print a row for each law and number of runs.

python resources/reproductions/print_rows.py FOLDER [--tables ...] [--draws N] [--out rows.csv] ->
rows on standard output. FOLDER holds regmix/, olmix/ and mixinglaws/, the files that the README of
each folder here names; tables whose files are missing are left out, with a sentence. --out keeps
every draw: docs/everyone.md is made of resources/reproductions/rows.csv, a test compares the two.

Of each table: the authors' law with the authors' number of runs, `transfer` with as many and with a
quarter, and the rule without runs (`by_share`). All laws of a draw see the same runs and are asked
for the same others. Regret is of the run predicted best among those, on the plain average. Rounds
have as many runs as the quarter, 32 at most: half of them drawn, eight at most searched one by one
among the table's runs; the answer is the best that was run.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from public_tables import mixing_laws, olmix, regmix

from bimix.errors import InputError
from bimix.judge.errors import rank_correlation
from bimix.laws.fitted import fit, predict
from bimix.mixtures.by_hand import SHARE_FLOOR
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective
from bimix.search.rounds import Search

ROOT = Path(__file__).parents[2]
ROWS = {
    "table": pl.String,
    "of": pl.Int64,  # runs in the table
    "domains": pl.Int64,
    "measured": pl.String,
    "law": pl.String,
    "runs": pl.Int64,
    "draw": pl.Int64,
    "error_percent": pl.Float64,
    "spearman": pl.Float64,
    "spearman_mean": pl.Float64,
    "regret_percent": pl.Float64,
    "seconds": pl.Float64,
}
MOST_IN_ROUNDS, SEARCHED = 32, 8


def proof(folder: Path) -> Observations:
    """This project's own runs of 2 x 64 models."""
    own = ROOT / "resources/observations/proof"
    runs = read_observations(own / "tiny_first.csv", own / "tiny_mixtures.csv")
    return runs.take(np.flatnonzero(np.isfinite(runs.losses[:, -1]).all(axis=1)))


@dataclass(frozen=True)
class Table:
    """Runs to fit, and `asked` ones: others of the same size, or of larger models at which ranks
    alone are judged.
    """

    read: Callable[[Path], Observations]
    measured: str
    author: str | None  # the law
    runs: int  # that its authors fitted
    asked: Callable[[Path], Observations] | None = None
    larger: bool = False
    most_asked: int = 256
    draws: int = 3

    @property
    def quarter(self) -> int:
        return round(self.runs / 4)


def _regmix(size: str) -> Table:
    measured = f"13 losses at {size.upper()}"
    return Table(
        lambda folder: regmix(folder / "regmix", "train", "1m"),
        measured,
        "regmix",
        512,
        lambda folder: regmix(folder / "regmix", "test", size),
        size != "1m",
    )


# Ye et al.'s other sizes: registered on 2026-11-27, before any of them was read, with all settings as
# above. No choice of any law had a part of them.
UNSEEN = {
    f"Ye, {called} {size}": Table(
        lambda at, name=name, size=size: mixing_laws(at / "mixinglaws", name, size),
        measured,
        "exponential",
        16,
        draws=8,
    )
    for called, name, measured, sizes in (
        ("SlimPajama", "RedPajama", "6 losses", ("305M", "410M")),
        ("coarse Pile", "5Mix", "5 losses", ("160M", "305M", "410M")),
    )
    for size in sizes
}
TABLES = {
    "RegMix, 1M": _regmix("1m"),
    "RegMix, 1M to 60M": _regmix("60m"),
    "RegMix, 1M to 1B": _regmix("1B"),
    "Ye, SlimPajama 70M": Table(
        lambda at: mixing_laws(at / "mixinglaws", "RedPajama", "70M"), "6 losses", "exponential", 32, draws=8
    ),
    "Ye, 3Mix 410M": Table(
        lambda at: mixing_laws(at / "mixinglaws", "3Mix", "410M"), "3 losses", "exponential", 24, draws=8
    ),
    "Ye, coarse Pile 70M": Table(
        lambda at: mixing_laws(at / "mixinglaws", "5Mix", "70M"), "5 losses", "exponential", 16, draws=8
    ),
    **UNSEEN,
    "Olmix, 64 domains": Table(
        lambda at: olmix(at / "olmix", "full_recomputation", "olmix_64"), "3 families of benchmarks", "olmix", 195
    ),
    "Olmix, 24 topics": Table(
        lambda at: olmix(at / "olmix", "dclm", "olmix_dclm24"), "3 families of benchmarks", "olmix", 75, draws=8
    ),
    "Olmix, reuse": Table(
        lambda at: olmix(at / "olmix", "full_reuse_update_5_seed_0", "olmix_reuse"),
        "3 families of benchmarks",
        "olmix",
        48,
    ),
    "this project, first proof": Table(proof, "22 losses", "regmix", 40),
}


def scores(truth: np.ndarray, guess: np.ndarray, larger: bool) -> tuple:
    """Error (%), Spearman by loss and of the mean, regret (%) of predictions (n, d)."""
    average, guessed = truth.mean(axis=1, keepdims=True), guess.mean(axis=1, keepdims=True)
    regret = 100 * (average[guessed.argmin(), 0] / average.min() - 1)
    error = None if larger else float(100 * np.abs(guess / truth - 1).mean())
    return (
        error,
        float(np.nanmean(rank_correlation(truth, guess))),
        float(rank_correlation(average, guessed)[0]),
        float(regret),
    )


def by_share(asked: Observations) -> tuple:
    """Scores without a run: a loss by the share of its own domain, the mean by the sum of log(share
    + 0.003); over all domains, and the mean alone, where no loss is of a domain.
    """
    own = [i for i, name in enumerate(asked.loss_domains) if name in asked.domains]
    columns = [asked.domains.index(asked.loss_domains[i]) for i in own] or list(range(len(asked.domains)))
    # rounded, or equal shares would be ranked by their last bits
    guess, truth = -np.log(asked.proportions[:, columns] + SHARE_FLOOR).round(9), asked.losses[:, -1]
    ranks = float(np.nanmean(rank_correlation(truth[:, own], guess))) if own else None
    rule = guess.mean(axis=1, keepdims=True)
    return None, ranks, *scores(truth, np.tile(rule, (1, truth.shape[1])), True)[2:]


def rounds(runs: Observations, ends: Observations, count: int, draw: np.random.Generator) -> float:
    """Regret (%), at `ends`, of the best mixture of a search by rounds with `count` of the runs."""
    levels = runs.losses[:, -1].mean(axis=1)
    taken = list(draw.permutation(len(levels))[: max(count - SEARCHED, count - count // 2)])
    weights = dict.fromkeys(runs.loss_domains, 1.0)
    m = len(runs.domains)
    while len(taken) < count:
        seen = runs.take(np.array(taken))
        law = fit("transfer", seen)
        search = Search(Goal(law, int(runs.steps[-1]), Objective(weights=weights)), law, seen, np.zeros(m), np.ones(m))
        taken.append(search.next(0, runs.proportions).candidate)
    there = ends.losses[:, -1].mean(axis=1)
    best = taken[int(levels[taken].argmin())]
    return float(100 * (there[best] / there.min() - 1))


def in_order(runs: Observations) -> Observations:
    """Domains and losses by name, and runs in the order of their shares, so that draws do not
    depend on names and files.
    """
    names, rows = np.argsort(runs.domains), np.argsort(runs.loss_domains)
    runs = replace(runs.of_domains(rows), domains=tuple(sorted(runs.domains)), proportions=runs.proportions[:, names])
    return runs.take(np.lexsort(runs.proportions[:, ::-1].round(9).T))


def rows_of(name: str, folder: Path, draws: int) -> list[tuple]:
    """Rows in the columns of ROWS."""
    table = TABLES[name]
    runs, others = in_order(table.read(folder)), table.asked and in_order(table.asked(folder))
    found, known = [], (name, len(runs.mixtures), len(runs.domains), table.measured)
    for number in range(draws):
        order = np.random.default_rng([2026, number]).permutation(len(runs.mixtures))
        asked = others or runs.take(order[table.runs :][-table.most_asked :])
        truth = asked.losses[:, -1]
        for law, count in [(table.author, table.runs), ("transfer", table.runs), ("transfer", table.quarter)]:
            if number and count == len(order):
                continue  # all runs, in every draw the same
            began = time.process_time()
            guess = predict(fit(law, runs.take(order[:count])), asked.proportions, asked.steps[-1:])[:, 0]
            found.append((*known, law, count, number, *scores(truth, guess, table.larger), time.process_time() - began))
        found.append((*known, "by_share", 0, number, *by_share(asked), 0.0))
        if not table.larger:
            began, count = time.process_time(), min(table.quarter, MOST_IN_ROUNDS)
            regret = rounds(runs, runs, count, np.random.default_rng([2027, number]))
            found.append((*known, "rounds", count, number, None, None, None, regret, time.process_time() - began))
    return found


def averaged(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over draws, and the standard deviation of error and regret between them."""
    numbers = [name for name, kind in ROWS.items() if kind == pl.Float64]
    spreads = (pl.col(name).std().alias(f"{name}_spread") for name in ("error_percent", "regret_percent"))
    return rows.group_by("table", "of", "domains", "measured", "law", "runs", maintain_order=True).agg(
        pl.len().alias("draws"), *(pl.col(name).mean() for name in numbers), *spreads
    )


def markdown(rows: pl.DataFrame) -> str:
    """The table of docs/everyone.md, of the rows of every draw."""
    means = averaged(rows)
    lines = [
        "| table | law, runs fitted | error % | Spearman by loss | of the mean | regret % |",
        "|---|---|---|---|---|---|",
    ]
    for name, of, domains, measured in (
        means.select("table", "of", "domains", "measured").unique(maintain_order=True).rows()
    ):
        said = f"**{name}**: {of} runs, {domains} domains, {measured}"
        for one in means.filter(pl.col("table") == name).rows(named=True):
            law = "`by_share`, 0" if one["law"] == "by_share" else f"`{one['law']}`, {one['runs']}"
            if one["law"] == "rounds":
                law = f"`transfer` by rounds, {one['runs']}"
            error = _with_spread(one["error_percent"], one["error_percent_spread"])
            regret = _with_spread(one["regret_percent"], one["regret_percent_spread"])
            ranks = ("-" if one[key] is None else f"{one[key]:.3f}" for key in ("spearman", "spearman_mean"))
            lines.append(f"| {said} | {law} | {error} | {' | '.join(ranks)} | {regret} |")
            said = ""
    return "\n".join(lines)


def _with_spread(mean: float | None, spread: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the public files")
    parser.add_argument("--page", action="store_true", help="print the table of docs/everyone.md, of --out")
    parser.add_argument("--tables", nargs="+", default=[""], help="those whose name begins so")
    parser.add_argument("--draws", type=int, help="of each table, in place of its own number")
    parser.add_argument("--out", type=Path, help="csv of every draw; rows of other tables in it stay")
    options = parser.parse_args(argv)
    if options.page:
        print(markdown(pl.read_csv(options.out, schema=ROWS)))
        return
    chosen = [name for name in TABLES if name.startswith(tuple(options.tables))]
    if not chosen:
        parser.error(f"--tables: there are {', '.join(TABLES)}")
    for name in chosen:
        try:
            found = pl.DataFrame(
                rows_of(name, options.folder, options.draws or TABLES[name].draws), schema=ROWS, orient="row"
            )
        except (InputError, FileNotFoundError) as missing:
            print(f"{name}: left out. {missing}", file=sys.stderr)
            continue
        with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=3, tbl_hide_dataframe_shape=True):
            print(averaged(found), flush=True)
        if options.out:
            kept = pl.read_csv(options.out, schema=ROWS) if options.out.exists() else found.clear()
            every = pl.concat([kept.filter(pl.col("table") != name), found])
            rank = {one: place for place, one in enumerate(TABLES)}
            every.sort(pl.col("table").replace_strict(rank), maintain_order=True).write_csv(
                options.out, float_precision=4
            )


if __name__ == "__main__":
    main()
