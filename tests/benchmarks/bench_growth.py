"""How much larger a mixture's effects are at a larger model, by how often it reads the domain.

resources/observations/{proof,proof2}: tiny.csv, larger.csv and the larger run's shares and pools
-> growth of log effects by readings of the domain, on standard output

    python tests/benchmarks/bench_growth.py

An effect is the log of a domain's last loss over the reference's, of the same model and seed. The
growth is the slope through zero of the larger model's effects (4 x 128) on the proxies' (2 x 64),
whose pools are matched, over mixtures and domains; +- is a jackknife over mixtures.
"""

from itertools import pairwise

import bench
import numpy as np
import polars as pl

from bimix.tables import read_table

REFERENCE = "published_baseline"
READINGS = (0, 1, 3, 6, np.inf)


def effects(folder) -> pl.DataFrame:
    """mixture, domain, readings, and the effects at both models, means over the seeds of each."""
    joined = None
    for model in ("tiny", "larger"):
        table = read_table(folder / f"{model}.csv")
        table = table.filter(pl.col("step") == pl.col("step").max().over("mixture"))
        base = table.filter(mixture=REFERENCE).select("seed", "domain", base="loss")
        log = (pl.col("loss") / pl.col("base")).log().mean().alias(model)
        own = table.join(base, on=["seed", "domain"]).group_by("mixture", "domain").agg(log)
        joined = own if joined is None else joined.join(own, on=["mixture", "domain"])
    pools = read_table(folder / "larger_pools.csv").rename({"tokens": "own"})
    length = read_table(folder / "larger.csv")["tokens"].max()
    shares = read_table(folder / "larger_mixtures.csv").join(pools, on="domain")
    readings = shares.select("mixture", "domain", readings=pl.col("proportion") * length / pl.col("own"))
    return joined.join(readings, on=["mixture", "domain"]).filter(pl.col("mixture") != REFERENCE)


def growth(table: pl.DataFrame) -> tuple[float, float]:
    """The slope, and its deviation by leaving out each mixture."""

    def slope(own: pl.DataFrame) -> float:
        return (own["tiny"] * own["larger"]).sum() / (own["tiny"] ** 2).sum()

    names = sorted(table["mixture"].unique())
    without = [slope(table.filter(pl.col("mixture") != name)) for name in names]
    return slope(table), float(np.std(without) * (len(names) - 1) ** 0.5)


def main() -> None:
    bench.parser(__doc__).parse_args()
    print("proof    readings   effects  growth")
    for name in ("proof", "proof2"):
        table = effects(bench.ROOT / "resources/observations" / name)
        for least, most in pairwise(READINGS):
            own = table.filter(pl.col("readings") >= least, pl.col("readings") < most)
            slope, error = growth(own)
            print(f"{name:8} {least:>3} to {most:<3} {len(own):>8}  {slope:.2f} +- {error:.2f}")


if __name__ == "__main__":
    main()
