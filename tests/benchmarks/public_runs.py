"""Public tables of runs that laws are judged on: RegMix, Ye et al.'s mixing laws, Olmix, a repeated
pool.

Each is read as its source published it. What is known of each table stands where it is read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bimix.observations.observations import Observations, observations, read_observations
from bimix.tables import read_table

# Training domains of Ye et al.'s SlimPajama runs, whose order was inferred from correlations.
SLIMPAJAMA = ("CommonCrawl", "C4", "GitHub", "ArXiv", "Books", "StackExchange", "Wikipedia")
# The validation set of each of these domains that has one.
VALIDATED = {
    "Pile-CC": "CommonCrawl",
    "Github": "GitHub",
    "ArXiv": "ArXiv",
    "Books3": "Books",
    "StackExchange": "StackExchange",
    "Wikipedia_en": "Wikipedia",
}
THREE = ("Github", "Books3", "Pile-CC")
# Of a 124M model: the tokens of Wikipedia there are, half of the shortest run.
WIKIPEDIA_POOL = 233_766_912 / 2


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
    if (folder / "mixinglaws").is_dir():
        for table, domains in (("RedPajama", SLIMPAJAMA), ("3Mix", THREE)):
            for size in sizes(folder / "mixinglaws" / f"{table}.parquet"):
                runs = mixing_laws(folder / "mixinglaws" / f"{table}.parquet", size, domains)
                counts = tuple(count for count in (8, 16, 32, 64) if count <= len(runs.mixtures) - 4)
                if counts:
                    yield Case(f"mixing laws, {table}, {size}", runs, None, counts)
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


def from_wide(names, proportions, loss_names, losses) -> Observations:
    """Runs at one step from matrices (n, m) and (n, d); rows are scaled to a sum of 1."""
    shares = proportions / proportions.sum(axis=1, keepdims=True)
    return Observations(
        tuple(map(str, range(len(shares)))), tuple(names), np.array([1]), tuple(loss_names), shares, losses[:, None, :]
    )


def regmix(folder: Path, split: str, model: str) -> Observations:
    """RegMix's runs: 17 Pile domains, 13 losses; split train (512 of 1m) or test (256 of 1m and
    60m, 64 of 1B).
    """
    table = read_table(folder / f"{split}_mixture_{model}.csv").join(
        read_table(folder / f"{split}_pile_loss_{model}.csv"), on="index"
    )
    own = [name for name in table.columns if name.startswith("train_the_pile_")]
    measured = [name for name in table.columns if name.startswith("metric/")]
    return from_wide(
        [name.removeprefix("train_the_pile_") for name in own],
        table.select(own).to_numpy().astype(float),
        [name.removeprefix("metric/the_pile_").removesuffix("_val_loss") for name in measured],
        table.select(measured).to_numpy(),
    )


def sizes(path: Path) -> list[str]:
    """The model sizes of a table of Ye et al., the smallest first."""
    table = read_table(path).select(pl.col("model_size").cast(pl.String).unique())
    return sorted(table["model_size"].to_list(), key=lambda name: float(name.rstrip("MBmb")))


def mixing_laws(
    path: Path, size: str, domains: tuple[str, ...], step: int | None = None, names: dict[str, str] | None = None
) -> Observations:
    """Ye et al.'s runs of one size at a step, the last that all of them have where none is given.

    Loss domains that `names` {validation: training domain} has, or all where it is None.
    """
    rows = read_table(path).filter(pl.col("model_size").cast(pl.String) == size)
    if step is None:
        step = int(rows.group_by("run_id").agg(pl.col("step").max())["step"].min())
    rows = rows.filter(pl.col("step") == step)
    if names is not None:
        rows = rows.filter(pl.col("val_domain").is_in(list(names))).with_columns(pl.col("val_domain").replace(names))
    shares = [f"r{j + 1}" for j in range(len(domains))]
    wide = rows.unique(["run_id", "val_domain"], keep="first", maintain_order=True).pivot(
        on="val_domain", index=["run_id", *shares], values="loss"
    )
    numbers = wide.sort("run_id").drop_nulls().drop("run_id").to_numpy()
    return from_wide(domains, numbers[:, : len(domains)], wide.columns[1 + len(domains) :], numbers[:, len(domains) :])


def olmix(folder: Path) -> Observations:
    """Olmix' 512 runs of 30M models on 64 domains (allenai/olmix, full_recomputation): the mean of
    each family's metrics, without those that its authors drop as noise.
    """
    rows = pl.read_csv(folder / "olmix_64.csv")
    said = json.loads((folder / "olmix_64_pools.json").read_text(encoding="utf-8"))
    dropped = set(next(iter(said.values())).get("drop_metrics", []))
    families = {name: [f"bpb_{one}" for one in kept if one not in dropped] for name, kept in said["families"].items()}
    own = [name for name in rows.columns if name.startswith("w_")]
    means = [rows.select(kept).to_numpy().mean(axis=1) for kept in families.values()]
    names = [name.removeprefix("w_") for name in own]
    return from_wide(names, rows.select(own).to_numpy(), list(families), np.stack(means, axis=1))


def repetition(path: Path, least: int, most: int) -> Observations:
    """Runs of `least` to `most` pools on FineWeb and a whole pool of Wikipedia; its loss."""
    rows = read_table(path).filter(pl.col("horizon_over_pool").is_between(least, most) & (pl.col("subsample") == 1))
    rows = rows.with_row_index("mixture").cast({"mixture": pl.String})
    losses = rows.select("mixture", "tokens", step=pl.lit(1), domain=pl.lit("wikipedia"), loss="val_loss_target")
    own = rows.select(
        "mixture",
        domain=pl.lit("wikipedia"),
        proportion=1 - pl.col("share_fineweb"),
        pool=pl.lit(WIKIPEDIA_POOL, pl.Float64),
    )
    # The web is larger than any run: its pool is the most that one run here could read.
    other = rows.select("mixture", domain=pl.lit("web"), proportion="share_fineweb", pool=pl.lit(1e10, pl.Float64))
    return observations(losses, pl.concat([own, other]))
