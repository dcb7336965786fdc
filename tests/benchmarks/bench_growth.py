"""How much larger a mixture's effects are at a larger model, by how often it reads the domain.

resources/observations/{proof,proof2}: tiny.csv, larger.csv and the larger run's shares and pools
-> growth of log effects by readings of the domain, on standard output

    python tests/benchmarks/bench_growth.py

An effect is the log of a domain's last loss over the reference's, of the same model, without the
effects of seeds, which are the same for all mixtures. The growth is the slope through zero of the
larger model's effects (4 x 128) on the proxies' (2 x 64), whose pools are matched, over mixtures
and domains; +- is a jackknife over mixtures. Then what a growth fitted to one proof, alone and with
a term of harm c x^2 / (1 + x), x readings beyond the first, leaves of the other's effects on
domains that are read more than three times.
"""

from itertools import pairwise

import bench
import numpy as np
import polars as pl

from bimix.judge.noise import levels
from bimix.tables import read_table

REFERENCE = "published_baseline"
READINGS = (0, 1, 3, 6, np.inf)


def effects(folder) -> pl.DataFrame:
    """mixture, domain, readings, and the effects at both models by all seeds."""
    joined = None
    for model in ("tiny", "larger"):
        table = read_table(folder / f"{model}.csv")
        table = table.filter(pl.col("step") == pl.col("step").max().over("mixture"))
        own = pl.concat([without_seeds(rows, model) for rows in table.partition_by("domain")])
        joined = own if joined is None else joined.join(own, on=["mixture", "domain"])
    pools = read_table(folder / "larger_pools.csv").rename({"tokens": "own"})
    length = read_table(folder / "larger.csv")["tokens"].max()
    shares = read_table(folder / "larger_mixtures.csv").join(pools, on="domain")
    readings = shares.select("mixture", "domain", readings=pl.col("proportion") * length / pl.col("own"))
    return joined.join(readings, on=["mixture", "domain"]).filter(pl.col("mixture") != REFERENCE)


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


def carried(fitted: pl.DataFrame, asked: pl.DataFrame, harmed: bool) -> tuple[np.ndarray, float]:
    """Growth (and c) by least squares on one table, and the error in % (root mean square) on another."""

    def terms(own: pl.DataFrame) -> np.ndarray:
        beyond = np.maximum(own["readings"].to_numpy() - 1, 0)
        return np.stack([own["tiny"].to_numpy(), harmed * beyond**2 / (1 + beyond)], axis=1)

    found = np.linalg.lstsq(terms(fitted), fitted["larger"].to_numpy(), rcond=None)[0]
    often = asked.filter(pl.col("readings") > 3)
    return found, 100 * float(np.sqrt(np.mean((terms(often) @ found - often["larger"].to_numpy()) ** 2)))


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
            (slope, height), error = carried(tables[one], tables[other], harmed)
            print(f"{one} -> {other}: growth {slope:.2f}, c {height:.4f}: {error:.2f} %")


if __name__ == "__main__":
    main()
