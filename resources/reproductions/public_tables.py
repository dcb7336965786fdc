"""Public tables of runs that laws are judged on: RegMix, Ye et al.'s mixing laws, Olmix, a repeated
pool.

Each is read from the files that its source published (the README of each folder here names them),
or from one that joins these. What is known of each table stands where it is read.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from bimix.errors import InputError
from bimix.observations.observations import Observations, observations
from bimix.tables import read_table

# Olmix' benchmarks of code (math is minerva, qa the rest), and those that its authors leave out as noise (their configs/fits).
CODE = "^(codex|mbpp|mt_mbpp)"
NOISE = "masked_ppl|qasper_yesno|sciriff_yesno|lab_bench|medqa_en"
# Ye et al.: names of the shares in the order of their files, inferred from correlations where they
# do not say them; and the validation sets of each, of which the mean is taken.
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
LOSS = " loss"  # a share may be called as a loss
PROPOSED = 900  # Ye et al. number mixtures so that were proposed, not drawn
# Of a 124M model: the tokens of Wikipedia there are, half of the shortest run.
WIKIPEDIA_POOL = 233_766_912 / 2


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


def olmix(
    folder: Path, released: str = "full_recomputation", joined: str = "olmix_64", each: bool = False
) -> Observations:
    """Olmix' runs of 30M models (allenai/olmix): the mean of each family of benchmarks, or `each`
    benchmark, without those that its authors drop as noise.
    """
    path = folder / f"{joined}.csv"
    if path.exists():
        rows = read_table(path)
    else:
        # the first column is pandas' index, which has no name
        of_run = ["", "run", "index"]
        parts = [
            read_table(folder / f"{released}_{what}.csv")
            .drop(of_run, strict=False)
            .rename(lambda name, mark=mark: name if name == "name" else f"{mark}{name}")
            for what, mark in (("ratios", "w_"), ("metrics", "bpb_"))
        ]
        rows = parts[0].join(parts[1], on="name", validate="1:1")
        if not rows.height == parts[0].height == parts[1].height:
            raise InputError(f"{folder}: {released}_ratios.csv and {released}_metrics.csv are not of the same runs.")
    own = [name for name in rows.columns if name.startswith("w_")]
    kept = [name for name in rows.columns if name.startswith("bpb_") and not re.search(NOISE, name)]
    families = {name.removeprefix("bpb_"): [name] for name in kept}
    if not each:
        families = {"math": [], "code": [], "qa": []}
        for name in kept:
            plain = name.removeprefix("bpb_")
            families["math" if plain.startswith("minerva") else "code" if re.search(CODE, plain) else "qa"].append(name)
    means = np.stack([rows.select(one).to_numpy().mean(axis=1) for one in families.values()], axis=1)
    return from_wide([name.removeprefix("w_") for name in own], rows.select(own).to_numpy(), families, means)


def mixing_laws(
    folder: Path, name: str, size: str, step: int | None = None, each: bool = False, proposed: bool = False
) -> Observations:
    """Ye et al.'s runs of one size at a step, the last that all of them have where none is given: a
    loss for each domain that has validation sets, or for `each` set; with `proposed` those too that
    the authors' law proposed.
    """
    own, rows = OWN[name], _released(folder, name, size, proposed)
    rows = rows.filter(pl.col("step") == (_last_shared(rows) if step is None else step))
    wide, measured = _by_run(rows, own, each)
    return from_wide(own, wide.select(*own).to_numpy(), measured, wide.select(_losses(measured)).to_numpy())


def mixing_curves(folder: Path, name: str, size: str) -> Observations:
    """Ye et al.'s drawn runs of one size at all steps up to the last that all of them have; NaN
    where a run has no loss.
    """
    own, rows = OWN[name], _released(folder, name, size, False)
    wide, measured = _by_run(rows.filter(pl.col("step") <= _last_shared(rows)), own, False)
    runs = wide.unique("run_id", maintain_order=True)
    steps = np.sort(wide["step"].unique().to_numpy())
    losses = np.full((len(runs), len(steps), len(measured)), np.nan)
    places = np.searchsorted(runs["run_id"], wide["run_id"]), np.searchsorted(steps, wide["step"])
    losses[places] = wide.select(_losses(measured)).to_numpy()
    return replace(from_wide(own, runs.select(*own).to_numpy(), measured, losses[:, -1]), steps=steps, losses=losses)


def _released(folder: Path, name: str, size: str, proposed: bool) -> pl.DataFrame:
    """run_id, shares, step, domain, loss of Ye et al.'s runs of one size."""
    own, released = OWN[name], folder / f"data/{name}/{size}.txt"
    if released.exists():
        found = [LINE.search(line) for line in released.read_text(encoding="utf-8").splitlines()]
        lines = [
            (int(one[1]), *map(float, one[2].split("-")), int(one[3]), one[4], float(one[5]))
            for one in found
            if one and one[2].count("-") == len(own) - 1
        ]
        rows = pl.DataFrame(lines, ["run_id", *own, "step", "domain", "loss"], orient="row")
    else:
        rows = read_table(folder / f"{name}.parquet").filter(pl.col("model_size").cast(pl.String) == size)
        shares = {f"r{j + 1}": one for j, one in enumerate(own)}
        rows = rows.select("run_id", "step", *shares, "val_domain", "loss").rename(shares | {"val_domain": "domain"})
    rows = rows.filter(pl.lit(proposed) | (pl.col("run_id") < PROPOSED)).with_columns(pl.col(own).round(6))
    return rows.with_columns(pl.col("run_id").first().over(list(own)))  # the same mixture is one run


def _last_shared(rows: pl.DataFrame) -> int:
    return int(rows.group_by("run_id").agg(pl.col("step").max())["step"].min())


def _by_run(rows: pl.DataFrame, own: dict, each: bool) -> tuple[pl.DataFrame, list[str]]:
    """A row for each run and step with all losses, and the names of the losses."""
    rows = rows.unique(["run_id", "step", "domain"], keep="first", maintain_order=True)
    if not each:
        kept = {one: domain for domain, sets in own.items() if sets for one in sets.split("|")}
        rows = rows.filter(pl.col("domain").is_in(list(kept))).with_columns(pl.col("domain").replace(kept))
    rows = rows.with_columns(pl.col("domain") + LOSS)
    index = ["run_id", *own, "step"]
    wide = rows.pivot(on="domain", index=index, values="loss", aggregate_function="mean").sort("run_id", "step")
    return wide.drop_nulls(), [one.removesuffix(LOSS) for one in wide.columns[len(index) :]]


def _losses(measured: list[str]) -> list[str]:
    return [name + LOSS for name in measured]


def sizes(path: Path) -> list[str]:
    """The model sizes of a joined table of Ye et al., the smallest first."""
    table = read_table(path).select(pl.col("model_size").cast(pl.String).unique())
    return sorted(table["model_size"].to_list(), key=lambda name: float(name.rstrip("MBmb")))


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
