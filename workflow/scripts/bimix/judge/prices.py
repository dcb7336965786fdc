"""What a mixture has cost to find, beside what it is worth: the price list of the methods."""

import polars as pl

from bimix.errors import InputError

WORTH = ["average_loss", "unit", "runs", "deviation_percent", "difference_percent", "worst_domain", "worst_loss"]
WORTH += ["steps_to_reference", "steps_ratio"]
COSTS = ("flops", "gpu_hours", "device_hours")
SPENT = ("search_runs", *(f"search_{key}" for key in COSTS))
PREDICTED = "predicted_gain_percent"
NEEDED = ("mixture", "search_runs", "search_flops", "large_flops")
OPTIONAL = (*SPENT[2:], PREDICTED)
# Of columns that may be empty: as csv they are read back as text
SCHEMA = {"search_runs": pl.Int64} | dict.fromkeys(
    (*SPENT[1:], "search_percent", "steps_to_reference", "steps_ratio", "deviation_percent", PREDICTED), pl.Float64
)


def read_cost(report: dict, source: str) -> dict[str, float]:
    """FLOPs, GPU hours and hours of devices of any kind of one run, from its report (run.json,
    or a row of runs.parquet).
    """
    missing = [key for key in ("flops", "gpu_hours", "seconds") if report.get(key) is None]
    if missing:
        raise InputError(f"{source} does not say its {missing[0]}; make the run again.")
    hours = report.get("processes", 1) * report["seconds"] / 3600
    return {"flops": report["flops"], "gpu_hours": report["gpu_hours"], "device_hours": hours}


def price(comparison: pl.DataFrame, searches: dict[str, list[dict[str, float]]], large_flops: float) -> pl.DataFrame:
    """One row per mixture of `comparison` (of `comparison.table`), in its order: what was spent
    before the large run on finding it, and how the large run ended.

    mixture, search_runs, search_flops, search_gpu_hours, search_device_hours, search_percent (of
    the FLOPs of one large run, `large_flops`), then columns of `comparison`: average_loss (nats per
    token), runs (seeds), deviation_percent (between them), difference_percent (to the reference),
    worst_domain, worst_loss, steps_to_reference, steps_ratio. `searches`: of each mixture the costs
    of the runs that it was found with; a mixture that is not there took none.
    """
    spent = {
        name: {"search_runs": len(costs)} | {f"search_{key}": float(sum(cost[key] for cost in costs)) for key in COSTS}
        for name, costs in searches.items()
    }
    return _beside(comparison, spent, large_flops)


def priced(comparison: pl.DataFrame, costs: pl.DataFrame | None) -> pl.DataFrame:
    """The same where a table says what was spent, for runs that were trained elsewhere.

    `costs`: mixture, search_runs, search_flops, large_flops (of one large run, the same in all
    rows), optionally search_gpu_hours, search_device_hours and predicted_gain_percent, which is
    passed on. A mixture without a row took no search. What is not known is null, and without a
    table that is all.

    Errors: a column is missing or no numbers; two rows of a mixture; several `large_flops`.
    """
    if costs is None:
        return _beside(comparison, dict.fromkeys(comparison["mixture"], dict.fromkeys(SPENT)), None)
    missing = [column for column in NEEDED if column not in costs.columns]
    if missing:
        raise InputError(f"the table of costs has no column {missing[0]!r}: it needs {', '.join(NEEDED)}.")
    numbers = [column for column in (*NEEDED[1:], *OPTIONAL) if column in costs.columns]
    for column in numbers:
        if not costs[column].dtype.is_numeric():
            raise InputError(f"the table of costs: its column {column!r} holds something that is no number.")
    if costs["mixture"].is_duplicated().any():
        twice = costs.filter(pl.col("mixture").is_duplicated())["mixture"][0]
        raise InputError(f"the table of costs has two rows of {twice!r}.")
    large = costs["large_flops"].drop_nulls().unique().to_list()
    if len(large) != 1 or not large[0] > 0:
        raise InputError("the table of costs: `large_flops` must be one number above 0, the same in all rows.")
    spent = {row["mixture"]: {key: row[key] for key in numbers} for row in costs.iter_rows(named=True)}
    return _beside(comparison, spent, large[0])


def _beside(comparison: pl.DataFrame, spent: dict[str, dict], large_flops: float | None) -> pl.DataFrame:
    """What was spent on each mixture of `comparison` and how its large run ended."""
    rows = []
    for row in comparison.iter_rows(named=True):
        own = spent.get(row["mixture"], dict.fromkeys(SPENT, 0.0) | {"search_runs": 0})
        flops = own["search_flops"]
        rows.append(
            {
                "mixture": row["mixture"],
                **{key: own.get(key) for key in SPENT},
                "search_percent": None if large_flops is None or flops is None else 100 * flops / large_flops,
                **{key: row[key] for key in WORTH},
                **({PREDICTED: own[PREDICTED]} if own.get(PREDICTED) is not None else {}),
            }
        )
    said = [PREDICTED] if any(PREDICTED in row for row in rows) else []
    return pl.DataFrame(
        [row | {name: row.get(name) for name in said} for row in rows],
        schema_overrides={name: kind for name, kind in SCHEMA.items() if name != PREDICTED or said},
        infer_schema_length=None,
    )
