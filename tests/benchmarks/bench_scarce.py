"""Measure which law finds the best share of a scarce domain at a horizon that was not fitted (no
test: run it by hand).

python tests/benchmarks/bench_scarce.py [folder] -> a table on standard output. The folder holds
losses.csv and mixtures.csv; resources/observations/scarce is ours, and its README says how the runs
were made: names are {scarce or matched}_{steps}_{share in thousandths}.
"""

from pathlib import Path

import bench
import numpy as np
import polars as pl
from scipy.interpolate import PchipInterpolator

from bimix.errors import InputError
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations, observations

SCARCE = "Github"
OURS = bench.ROOT / "resources" / "observations" / "scarce"
GRID = np.unique(np.concatenate([np.geomspace(0.003, 0.6, 300), [0.005, 0.5]]))


def line(domains: tuple[str, ...]) -> np.ndarray:
    """Mixtures (k, m) with GRID of the scarce domain and the same of all others."""
    own = np.array([domain == SCARCE for domain in domains])
    return np.where(own, GRID[:, None], (1 - GRID[:, None]) / (len(domains) - 1))


def proposal(law: str, observed: Observations, asked: dict | None, targets: list[int]) -> float:
    """The share with the least predicted loss, averaged over the targets."""
    fitted = laws.fit(law, observed)
    if asked is not None:
        fitted = laws.at_run(fitted, **asked, step=fitted["steps"][-1])
    step = np.array([fitted["steps"][-1]])
    predicted = laws.predict_defined(fitted, line(tuple(fitted["domains"])), step)[:, 0]
    return float(GRID[predicted[:, targets].mean(axis=1).argmin()])


def main(argv=None):
    parser = bench.parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=OURS)
    options = parser.parse_args(argv)
    losses, mixtures = pl.read_csv(options.folder / "losses.csv"), pl.read_csv(options.folder / "mixtures.csv")
    place = pl.col("mixture").str.split("_")
    losses = losses.with_columns(kind=place.list[0], horizon=place.list[1].cast(pl.Int64))
    longest, shorter = losses["horizon"].max(), losses["horizon"].unique().sort()[-2]
    pools = dict(
        mixtures.filter(pl.col("mixture").str.starts_with("scarce")).select("domain", "pool").unique().iter_rows()
    )
    domains = sorted(losses["domain"].unique())
    tokens = losses.filter(pl.col("horizon") == longest)["tokens"].max()

    truth = losses.filter(pl.col("horizon") == longest).pivot(on="domain", index="mixture", values="loss")
    own = mixtures.filter(pl.col("domain") == SCARCE).select("mixture", "proportion")
    truth = truth.join(own, on="mixture").sort("proportion")

    def table(rows: pl.DataFrame, limited: bool, schedules: bool) -> Observations:
        """Runs of one horizon at one step, or of several, each at the last step of its own."""
        rows = rows.select("mixture", "step", "tokens", "domain", "loss")
        if not schedules:
            rows = (
                rows.with_columns(step=pl.lit(1)).drop("tokens") if not limited else rows.with_columns(step=pl.lit(1))
            )
        mixed = mixtures.filter(pl.col("mixture").is_in(rows["mixture"].unique().to_list()))
        return observations(rows, mixed if limited else mixed.drop("pool"))

    scarce = losses.filter((pl.col("kind") == "scarce") & (pl.col("horizon") < longest))
    matched = losses.filter(pl.col("kind") == "matched")
    last = pl.col("horizon") == shorter
    asked = {"tokens": float(tokens), "pools": {name: float(pool) for name, pool in pools.items()}}
    share_laws = ("bimix", "exponential", "scheffe", "gaussian_process", "mariner", "transfer")
    one_horizon = (("as it is", scarce), ("matched", matched))
    # Laws of shares alone do not see pools. `transfer` and MARINER read the matched runs at theirs,
    # as the workflow has them (`simulate_epochs`).
    tries = []
    for how, rows in one_horizon:
        for law in share_laws:
            reads_pools = how == "matched" and law in ("mariner", "transfer")
            told = table(rows.filter(last), reads_pools, False)
            name = f"{law} with pools" if reads_pools else law
            tries.append((f"{name}, longest proxy {how}", law, told, asked if reads_pools else None))
    both = pl.concat([scarce, matched])
    for name, law, rows, schedules in (
        ("mariner with pools, longest proxies of both kinds", "mariner", both.filter(last), False),
        ("transfer with pools, longest proxies of both kinds", "transfer", both.filter(last), False),
        ("transfer with pools, all proxies as they are", "transfer", scarce, True),
        ("transfer with pools, all proxies of both kinds", "transfer", both, True),
    ):
        tries.append((name, law, table(rows, True, schedules), asked))
    print("fitted | target | share | measured best | regret %")
    for target, wanted in (("average", domains), (SCARCE, [SCARCE])):
        measured = truth.select(pl.mean_horizontal(wanted)).to_series().to_numpy()
        curve = PchipInterpolator(np.log(truth["proportion"].to_numpy()), measured)
        inside = GRID[(truth["proportion"].min() <= GRID) & (truth["proportion"].max() >= GRID)]
        least = curve(np.log(inside)).min()
        best = inside[curve(np.log(inside)).argmin()]
        for name, law, observed, at in tries:
            try:
                share = proposal(law, observed, at, [observed.loss_domains.index(one) for one in wanted])
            except InputError as refusal:
                print(f"{name} | {target} | refused: {refusal}")
                continue
            regret = 100 * (curve(np.log(np.clip(share, inside[0], inside[-1]))) / least - 1)
            print(f"{name} | {target} | {share:.3f} | {best:.3f} | {regret:.2f}")


if __name__ == "__main__":
    main()
