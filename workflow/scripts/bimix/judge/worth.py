"""The cost of each mixture's search, and the final loss of its large run."""

from collections.abc import Mapping, Sequence

import polars as pl

from bimix.errors import InputError
from bimix.judge.comparison import Comparison, percent, table

COSTS = ("flops", "gpu_hours", "device_hours")
SPENT = ("search_runs", *(f"search_{key}" for key in COSTS))
PREDICTED = "predicted_gain_percent"
NEEDED = ("mixture", "search_runs", "search_flops", "large_flops")
VERDICT = {
    "mixture": pl.String,
    "average_loss": pl.Float64,
    "unit": pl.String,
    "deviation_percent": pl.Float64,
    "runs": pl.Int64,
    "regret_percent": pl.Float64,
    "ties_with_best": pl.Boolean,
    "gain_percent": pl.Float64,
    "gain_low": pl.Float64,
    "gain_high": pl.Float64,
    "significant": pl.Boolean,
    "broken": pl.String,
    "predicted_gain_percent": pl.Float64,
    "optimism_percent": pl.Float64,
    "worst_domain": pl.String,
    "worst_loss": pl.Float64,
    "search_runs": pl.Int64,
    "search_flops": pl.Float64,
    "search_percent": pl.Float64,
    "search_gpu_hours": pl.Float64,
    "search_device_hours": pl.Float64,
    "steps_saved_percent": pl.Float64,
}


def read_cost(report: Mapping, source: str) -> dict[str, float]:
    """FLOPs, GPU hours and device hours of a run, from run.json or a row of runs.parquet."""
    missing = [key for key in ("flops", "gpu_hours", "seconds") if report.get(key) is None]
    if missing:
        raise InputError(f"{source} does not say its {missing[0]}; make the run again.")
    hours = report["gpu_hours"] or report.get("processes", 1) * report["seconds"] / 3600
    return {"flops": report["flops"], "gpu_hours": report["gpu_hours"], "device_hours": hours}


def spent_on(costs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Total cost of the runs of a mixture's search."""
    return {"search_runs": len(costs)} | {f"search_{key}": float(sum(cost[key] for cost in costs)) for key in COSTS}


def read_spent(costs: pl.DataFrame) -> tuple[dict[str, dict], float]:
    """Runs and FLOPs spent on each mixture by a table of costs, and the FLOPs of one large run.

    Columns mixture, search_runs, search_flops, large_flops (the same in all rows), optionally
    search_gpu_hours, search_device_hours and predicted_gain_percent, which is copied. Errors: a
    column is missing or not numeric; two rows of a mixture; several values of `large_flops`.
    """
    missing = [column for column in NEEDED if column not in costs.columns]
    if missing:
        raise InputError(f"the table of costs has no column {missing[0]!r}: it needs {', '.join(NEEDED)}.")
    numbers = [column for column in (*NEEDED[1:], *SPENT[2:], PREDICTED) if column in costs.columns]
    for column in numbers:
        if not costs[column].dtype.is_numeric():
            raise InputError(f"the table of costs: its column {column!r} holds something that is no number.")
    if costs["mixture"].is_duplicated().any():
        twice = costs.filter(pl.col("mixture").is_duplicated())["mixture"][0]
        raise InputError(f"the table of costs has two rows of {twice!r}.")
    large = costs["large_flops"].drop_nulls().unique().to_list()
    if len(large) != 1 or not large[0] > 0:
        raise InputError("the table of costs: `large_flops` must be one number above 0, the same in all rows.")
    return {row["mixture"]: {key: row[key] for key in numbers} for row in costs.iter_rows(named=True)}, large[0]


def verdict(
    comparison: Comparison,
    spent: Mapping[str, Mapping[str, float]] | None,
    large_flops: float | None,
    predicted: Mapping[str, float],
) -> pl.DataFrame:
    """One row for each mixture in the columns of VERDICT, from best to worst, those that satisfy
    the constraints first.

    `spent` {mixture: cost of its search before the large run}, from `spent_on` or `read_spent`: a
    mixture that is missing there needed no search; None: nothing is known. `predicted` {mixture:
    gain in percent over the reference by its own law}, which replaces one in `spent`. Regret is the
    excess loss over the best mixture. Gain is the distance below the reference, with its 95 %
    interval and significance. Optimism is predicted minus measured gain. Ties are by
    `Noise.behind_best`. Without a known noise intervals, significance and ties are null.
    """
    nothing = dict.fromkeys(SPENT) if spent is None else dict.fromkeys(SPENT, 0)
    rows = {row["mixture"]: row for row in table(comparison).iter_rows(named=True)}
    reference, best = comparison.criterion.reference, comparison.ranked()[0]
    same = ("average_loss", "unit", "deviation_percent", "runs", "ties_with_best", "significant", "broken")
    same += ("worst_domain", "worst_loss")
    found = []
    for name in comparison.ranked():
        own, cost = rows[name], (spent or {}).get(name, nothing)
        expected = predicted.get(name, cost.get(PREDICTED))
        priced = None not in (large_flops, cost["search_flops"])
        gain = 0.0 if name == reference else -own["difference_percent"]
        found.append(
            {
                **{key: own[key] for key in same},
                "mixture": name,
                "regret_percent": percent(comparison.lead(best, name)),
                "gain_percent": gain,
                "gain_low": None if own["high_percent"] is None else -own["high_percent"],
                "gain_high": None if own["low_percent"] is None else -own["low_percent"],
                PREDICTED: expected,
                "optimism_percent": None if expected is None else expected - gain,
                **{key: cost.get(key) for key in SPENT},
                "search_percent": 100 * cost["search_flops"] / large_flops if priced else None,
                "steps_saved_percent": None if own["steps_ratio"] is None else 100 * (1 - own["steps_ratio"]),
            }
        )
    return pl.DataFrame(found, schema=VERDICT)
