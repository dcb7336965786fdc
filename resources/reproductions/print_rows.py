"""Fit laws to their authors' public runs, and print a row for each law and number of runs.

python resources/reproductions/print_rows.py FOLDER [--tables ...] [--draws 3] [--out rows.csv] ->
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
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from bimix.errors import InputError
from bimix.judge.errors import rank_correlation
from bimix.laws.fitted import fit, predict
from bimix.mixtures.by_hand import SHARE_FLOOR
from bimix.observations.imports import Source, read_source
from bimix.observations.observations import Observations, observations, read_observations
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
# Olmix' benchmarks of code (math is minerva, qa the rest), and those that its authors leave out as noise (their configs/fits).
CODE = "^(codex|mbpp|mt_mbpp)"
NOISE = "masked_ppl|qasper_yesno|sciriff_yesno|lab_bench|medqa_en"
# Ye et al.: names of the shares in the order of their files, inferred where they do not say them;
# and the validation sets of each, of which the mean is taken.
OWN = {
    "RedPajama": {
        "CommonCrawl": "Pile-CC",
        "C4": None,
        "GitHub": "Github",
        "ArXiv": "ArXiv",
        "Books": "Books3",
        "StackExchange": "StackExchange",
        "Wikipedia": "Wikipedia_en",
    },
    "3Mix": {"GitHub": "Github", "Books3": "Books3", "Pile-CC": "Pile-CC"},
    "5Mix": {
        "academic": "ArXiv|PubMed_Abstracts|PhilPapers|NIH_ExPorter|FreeLaw|USPTO_Backgrounds|PubMed_Central",
        "prose": "PG19|Books3|BookCorpus2",
        "dialogue": "Ubuntu_IRC|OpenSubtitles|EuroParl|Enron_Emails|HackerNews|YoutubeSubtitles",
        "symbolic": "DM_Mathematics|Github",
        "internet": "Pile-CC|OpenWebText2|StackExchange|Wikipedia_en",
    },
}
LINE = re.compile(r"/[^/]*?(\d+)-([\d.]+(?:-[\d.]+)+)/(\d+)/?\s.*\.valid\.([^/]+)\.bin\s+([\d.]+)")
CHECKED = 900  # Ye et al. number mixtures so that were proposed, not drawn


def regmix(folder: Path, split: str, size: str) -> Observations:
    """RegMix's runs: train (1m), or test (1m, 60m, 1B)."""
    source = Source(
        [folder / f"regmix/{split}_pile_loss_{size}.csv"],
        "regmix",
        folder / f"regmix/{split}_mixture_{size}.csv",
        pattern="metric/the_pile_{domain}_val_loss",
        ratios="train_the_pile_{domain}",
        step="1",
    )
    return observations(*read_source(source)[:2])


def olmix_benchmarks(folder: Path, released: str, joined: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Losses and mixtures of Olmix' runs, a loss a benchmark; from the two tables as released, or
    from one that joins them.
    """
    table = folder / f"olmix/{joined}.csv"
    if table.exists():
        source = Source([table], "olmix", table, pattern="bpb_{domain}", ratios="w_{domain}", run="run", step="1")
    else:
        metrics, ratios = (folder / f"olmix/{released}_{what}.csv" for what in ("metrics", "ratios"))
        source = Source([metrics], "olmix", ratios, step="1")
    losses, mixtures, _ = read_source(source)
    return losses.filter(~pl.col("domain").str.contains(NOISE)), mixtures


def olmix(folder: Path, released: str, joined: str) -> Observations:
    """Olmix' runs, a loss a family: the mean of its benchmarks."""
    losses, mixtures = olmix_benchmarks(folder, released, joined)
    family = pl.when(pl.col("domain").str.starts_with("minerva")).then(pl.lit("math"))
    family = family.when(pl.col("domain").str.contains(CODE)).then(pl.lit("code")).otherwise(pl.lit("qa"))
    means = losses.group_by("mixture", "step", family.alias("domain"), maintain_order=True)
    return observations(means.agg(pl.col("loss").mean()), mixtures)


def mixing_laws(folder: Path, name: str, size: str) -> Observations:
    """Ye et al.'s runs of a size at the last step that all have, a loss a domain that has
    validation sets.
    """
    own, released = OWN[name], folder / f"mixinglaws/data/{name}/{size}.txt"
    if released.exists():
        found = [LINE.search(line) for line in released.read_text(encoding="utf-8").splitlines()]
        rows = [
            (*map(float, one[2].split("-")), int(one[3]), one[4], float(one[5]))
            for one in found
            if one and int(one[1]) < CHECKED and one[2].count("-") == len(own) - 1
        ]
        table = pl.DataFrame(rows, [*own, "step", "domain", "loss"], orient="row")
    else:
        table = pl.read_parquet(folder / f"mixinglaws/{name}.parquet")
        table = table.filter((pl.col("model_size").cast(pl.String) == size) & (pl.col("run_id") < CHECKED))
        table = table.rename({f"r{j + 1}": one for j, one in enumerate(own)} | {"val_domain": "domain"})
    table = table.with_columns(mixture=pl.concat_str(pl.col(own).round(6), separator=" ")).sort(
        "mixture", "step", "domain"
    )
    last = int(table.group_by("mixture").agg(pl.col("step").max())["step"].min())
    table = table.filter(pl.col("step") == last).unique(["mixture", "domain"], keep="first", maintain_order=True)
    kept = {one: domain for domain, sets in own.items() if sets for one in sets.split("|")}
    losses = table.filter(pl.col("domain").is_in(list(kept))).with_columns(pl.col("domain").replace(kept))
    losses = losses.group_by("mixture", "step", "domain", maintain_order=True).agg(pl.col("loss").mean())
    mixtures = table.unique("mixture", keep="first", maintain_order=True).select("mixture", *own)
    shares = mixtures.unpivot(index="mixture", variable_name="domain", value_name="proportion")
    total = pl.col("proportion").sum().over("mixture")
    return observations(losses, shares.with_columns(pl.col("proportion") / total))


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

    @property
    def quarter(self) -> int:
        return round(self.runs / 4)


def _regmix(size: str) -> Table:
    measured = f"13 losses at {size.upper()}"
    return Table(
        lambda folder: regmix(folder, "train", "1m"),
        measured,
        "regmix",
        512,
        lambda folder: regmix(folder, "test", size),
        size != "1m",
    )


TABLES = {
    "RegMix, 1M": _regmix("1m"),
    "RegMix, 1M to 60M": _regmix("60m"),
    "RegMix, 1M to 1B": _regmix("1B"),
    "Ye, SlimPajama 70M": Table(lambda at: mixing_laws(at, "RedPajama", "70M"), "6 losses", "exponential", 32),
    "Ye, 3Mix 410M": Table(lambda at: mixing_laws(at, "3Mix", "410M"), "3 losses", "exponential", 24),
    "Ye, coarse Pile 70M": Table(lambda at: mixing_laws(at, "5Mix", "70M"), "5 losses", "exponential", 16),
    "Olmix, 64 domains": Table(
        lambda at: olmix(at, "full_recomputation", "olmix_64"), "3 families of benchmarks", "olmix", 195
    ),
    "Olmix, 24 topics": Table(lambda at: olmix(at, "dclm", "olmix_dclm24"), "3 families of benchmarks", "olmix", 75),
    "Olmix, reuse": Table(
        lambda at: olmix(at, "full_reuse_update_5_seed_0", "olmix_reuse"), "3 families of benchmarks", "olmix", 48
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
    guess, truth = -np.log(asked.proportions[:, columns] + SHARE_FLOOR), asked.losses[:, -1]
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
    """Runs in the order of their shares, so that draws do not depend on names and files."""
    return runs.take(np.lexsort(runs.proportions[:, ::-1].T))


def rows_of(name: str, folder: Path, draws: int) -> list[tuple]:
    """Rows in the columns of ROWS."""
    table = TABLES[name]
    runs, others = table.read(folder), table.asked and table.asked(folder)
    runs = in_order(runs)
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
    parser.add_argument("--draws", type=int, default=3)
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
            found = pl.DataFrame(rows_of(name, options.folder, options.draws), schema=ROWS, orient="row")
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
