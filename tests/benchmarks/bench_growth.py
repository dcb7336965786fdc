"""How much larger a mixture's effects are at a larger model, by how often it reads the domain.

resources/observations/{proof,proof2}: tiny.csv, larger.csv and the larger run's shares and pools
-> growth of log effects by readings of the domain, on standard output

    python tests/benchmarks/bench_growth.py

An effect is the log of a domain's last loss over the reference's, of the same model, without the
effects of seeds, which are the same for all mixtures. The growth is the slope through zero of the
larger model's effects (4 x 128) on the proxies' (2 x 64), whose pools are matched, over mixtures
and domains; +- is a jackknife over mixtures. Then what a growth and a c fitted to one proof say of the
other, without the harm c r x^2 / (1 + x) of a larger model (`transfer/repetition`) and with it: the
error in % (root mean square) on domains that are read more than three times, and Spearman's
correlation over mixtures of objective I, the mean loss on the three wanted domains.
"""

from itertools import pairwise

import bench
import numpy as np
import polars as pl
from scipy.stats import spearmanr

from bimix.judge.noise import levels
from bimix.tables import read_table

REFERENCE = "published_baseline"
READINGS = (0, 1, 3, 6, np.inf)
OFTEN = 3  # readings
WANTED = {
    "proof": ("FreeLaw", "NIH ExPorter", "USPTO Backgrounds"),
    "proof2": ("BookCorpus2", "FreeLaw", "USPTO Backgrounds"),
}


def effects(folder) -> pl.DataFrame:
    """mixture, domain, proportion, readings, the reference's loss at the larger model, and the
    effects at both models by all seeds.
    """
    joined = None
    for model in ("tiny", "larger"):
        table = read_table(folder / f"{model}.csv")
        table = table.filter(pl.col("step") == pl.col("step").max().over("mixture"))
        own = pl.concat([without_seeds(rows, model) for rows in table.partition_by("domain")])
        joined = own if joined is None else joined.join(own, on=["mixture", "domain"])
    pools = read_table(folder / "larger_pools.csv").rename({"tokens": "own"})
    length = read_table(folder / "larger.csv")["tokens"].max()
    shares = read_table(folder / "larger_mixtures.csv").join(pools, on="domain")
    readings = shares.select("mixture", "domain", "proportion", readings=pl.col("proportion") * length / pl.col("own"))
    ends = table.filter(mixture=REFERENCE).group_by("domain").agg(reference=pl.col("loss").mean())
    joined = joined.join(readings, on=["mixture", "domain"]).join(ends, on="domain")
    return joined.filter(pl.col("mixture") != REFERENCE)


def without_seeds(rows: pl.DataFrame, model: str) -> pl.DataFrame:
    """mixture, domain, and the effect on one domain's loss as the column `model`."""
    wide = rows.pivot("seed", index="mixture", values="loss")
    level = levels(wide.drop("mixture").to_numpy())[0]
    own = wide.select("mixture", pl.lit(rows["domain"][0]).alias("domain"), pl.Series(model, level))
    return own.with_columns(pl.col(model) - own.filter(mixture=REFERENCE)[model].item())


def growth(table: pl.DataFrame) -> tuple[float, float]:
    """The slope, and its deviation by leaving out each mixture."""

    def slope(own: pl.DataFrame) -> float:
        return (own["tiny"] * own["larger"]).sum() / (own["tiny"] ** 2).sum()

    names = sorted(table["mixture"].unique())
    without = [slope(table.filter(pl.col("mixture") != name)) for name in names]
    return slope(table), float(np.std(without) * (len(names) - 1) ** 0.5)


def carried(fitted: pl.DataFrame, asked: pl.DataFrame, wanted: tuple[str, ...], harmed: bool) -> dict[str, float]:
    """Growth and c by least squares on one table, the error and the rank correlation on another."""

    def terms(own: pl.DataFrame) -> np.ndarray:
        beyond = np.maximum(own["readings"].to_numpy() - 1, 0)
        bend = own["proportion"].to_numpy() * beyond**2 / (1 + beyond)
        return np.stack([own["tiny"].to_numpy(), harmed * bend], axis=1)

    growth, c = np.linalg.lstsq(terms(fitted), fitted["larger"].to_numpy(), rcond=None)[0]
    asked = asked.with_columns(foretold=pl.Series(terms(asked) @ [growth, c]))
    missed = asked.filter(pl.col("readings") > OFTEN).select(pl.col("foretold") - pl.col("larger")).to_series()
    losses = pl.col("foretold", "larger").exp() * pl.col("reference")
    means = asked.filter(pl.col("domain").is_in(wanted)).group_by("mixture").agg(losses.mean())
    rank = spearmanr(means["foretold"], means["larger"]).statistic
    return {"growth": growth, "c": c, "error": 100 * float(np.sqrt((missed**2).mean())), "rank": float(rank)}


def main() -> None:
    bench.parser(__doc__).parse_args()
    print("proof    readings   effects  growth")
    tables = {name: effects(bench.ROOT / "resources/observations" / name) for name in ("proof", "proof2")}
    for name, table in tables.items():
        for least, most in pairwise(READINGS):
            own = table.filter(pl.col("readings") >= least, pl.col("readings") < most)
            slope, error = growth(own)
            print(f"{name:8} {least:>3} to {most:<3} {len(own):>8}  {slope:.2f} +- {error:.2f}")
    for one, other in (("proof", "proof2"), ("proof2", "proof")):
        for harmed in (False, True):
            found = carried(tables[one], tables[other], WANTED[other], harmed)
            said = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
            print(f"{one} -> {other}: {said}")


if __name__ == "__main__":
    main()
