"""Measure what the law says of a small pool at a horizon that was not fitted (no test: run it by
hand).

python tests/benchmarks/bench_repetition.py folder -> tables on standard output; `folder` holds
wikipedia_fineweb_124M.csv (54 runs of a 124M model on FineWeb and a pool of Wikipedia). Horizons
are in pools.
"""

import bench
import numpy as np
import polars as pl
from scipy.interpolate import CubicSpline

from bimix.laws import fitted as laws
from bimix.observations.observations import Observations, observations
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best_shares
from bimix.transfer import repetition

POOL = 233_766_912 / 2
PRIOR, SPREAD = repetition.PRIOR.copy(), repetition.SPREAD.copy()


def wikipedia(rows: pl.DataFrame, limited: bool) -> Observations:
    """The runs; where the pool is not `limited`, as if it had no end."""
    rows = rows.with_row_index("mixture").cast({"mixture": pl.String})
    losses = rows.select("mixture", "tokens", step="iterations", domain=pl.lit("wiki"), loss="val_loss_target")
    pool = POOL / pl.col("subsample") if limited else pl.lit(None, pl.Float64)
    own = rows.select("mixture", domain=pl.lit("wiki"), proportion=1 - pl.col("share_fineweb"), pool=pool)
    other = rows.select("mixture", domain=pl.lit("web"), proportion="share_fineweb", pool=pl.lit(None, pl.Float64))
    return observations(losses, pl.concat([own, other]))


def ask(rows: pl.DataFrame, horizon: int, parts: bool, form: str) -> tuple[float, float, float, float]:
    """Best share predicted from shorter horizons, the measured best, regret and misfit, %."""
    repetition.PRIOR[:], repetition.SPREAD[:] = PRIOR, SPREAD
    if form == "saturation":
        repetition.PRIOR[1], repetition.SPREAD[1] = -30.0, 1e-3
    whole = pl.col("subsample") == 1
    observed = wikipedia(rows.filter((pl.col("horizon_over_pool") < horizon) & (whole | pl.lit(parts))), form != "none")
    fitted = laws.fit("transfer", observed)
    misfit = np.log(laws.predict_runs(fitted, observed)[:, 0] / observed.last())
    new = rows.filter((pl.col("horizon_over_pool") == horizon) & whole).sort("share_fineweb", descending=True)
    pools = {"wiki": POOL, "web": 1e15} if form != "none" else None
    at = laws.at_run(fitted, tokens=float(new["tokens"][0]), pools=pools)
    best = best_shares(at, at["steps"][0], Objective(), np.zeros(2), np.ones(2))[at["domains"].index("wiki")]
    shares, losses = 1 - new["share_fineweb"].to_numpy(), new["val_loss_target"].to_numpy()
    measured = CubicSpline(shares, losses)(np.clip(best, shares[0], shares[-1]))
    return best, shares[losses.argmin()], 100 * (measured / losses.min() - 1), 100 * np.sqrt((misfit**2).mean())


def main(argv=None):
    parser = bench.parser(__doc__, "folder")
    options = parser.parse_args(argv)
    rows = pl.read_csv(options.folder / "wikipedia_fineweb_124M.csv")
    print("form, fitted with runs on parts of the pool, horizon: best share (measured), regret %, misfit of the fit %")
    for form in ("none", "saturation", "saturation and harm"):
        for parts in (False, True):
            for horizon in (8, 16, 32):
                best, truth, regret, misfit = ask(rows, horizon, parts, form)
                print(f"{form:20s} {parts!s:5s} {horizon:2d}  {best:.2f} ({truth:.2f})  {regret:.2f}  {misfit:.2f}")


if __name__ == "__main__":
    main()
