"""What methods are worth by runs on what they proposed, over seeds: regret, optimism, ties."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from scipy.stats import t

from bimix.errors import InputError

LEVEL = 0.95
VERDICT = {
    "mixture": pl.String,
    "average_loss": pl.Float64,
    "runs": pl.Int64,
    "regret_percent": pl.Float64,
    "ties_with_best": pl.Boolean,
    "gain_percent": pl.Float64,
    "gain_low": pl.Float64,
    "gain_high": pl.Float64,
    "predicted_gain_percent": pl.Float64,
    "optimism_percent": pl.Float64,
    "search_runs": pl.Int64,
    "search_flops": pl.Float64,
    "search_percent": pl.Float64,
    "steps_saved_percent": pl.Float64,
}


def verdict(losses: pl.DataFrame, prices: pl.DataFrame, reference: str, predicted: Mapping[str, float]) -> pl.DataFrame:
    """One row for each mixture, the best first, in the columns of VERDICT.

    `losses` (mixture, seed, step, domain, loss) of the compared runs, without seeds where each was
    made once; `prices` as of
    `costs.prices.price`; `predicted` {mixture: gain in percent over the reference that its own law
    predicts}. Regret is the loss over that of the best of all. Gain is what a mixture is below the
    reference, with its 95 % interval. Runs are paired by seed, which decides weights and order of
    rows; the spread of a difference is pooled over all mixtures. A mixture ties where its regret is
    within the spread. One seed tells no spread: intervals and ties are then null.

    Errors: mixtures of which seeds differ; no losses of the reference.
    """
    if "seed" not in losses.columns:  # of runs made elsewhere, once each
        losses = losses.with_columns(pl.lit(1).alias("seed"))
    last = losses.filter(pl.col("step") == pl.col("step").max().over("mixture"))
    ends = last.group_by("mixture", "seed", maintain_order=True).agg(pl.col("loss").mean())
    wide = ends.pivot(on="seed", index="mixture", values="loss", maintain_order=True)
    if wide.null_count().pipe(lambda row: sum(row.row(0))):
        name = wide.filter(pl.any_horizontal(pl.exclude("mixture").is_null()))["mixture"][0]
        raise InputError(f"{name!r} lacks a seed that others have: methods are compared by pairs of runs.")
    names, values = wide["mixture"].to_list(), wide.drop("mixture").to_numpy()
    if reference not in names:
        raise InputError(
            f"{reference!r}, which the others are measured against, has no losses: {', '.join(names)} have."
        )
    logs, means = np.log(values), np.exp(np.log(values).mean(axis=1))
    best = int(means.argmin())
    regret, width = _differences(logs - logs[best])
    gain, width_of_gain = _differences(logs[names.index(reference)] - logs)
    costs = {row["mixture"]: row for row in prices.iter_rows(named=True)}
    rows = []
    for n in np.argsort(means, kind="stable"):
        name, cost = names[n], costs[names[n]]
        alone = name == reference
        told = predicted.get(name)
        rows.append(
            {
                "mixture": name,
                "average_loss": float(means[n]),
                "runs": values.shape[1],
                "regret_percent": _percent(regret[n]),
                "ties_with_best": None if width is None else bool(n == best or regret[n] <= width),
                "gain_percent": -_percent(-gain[n]),
                "gain_low": None if width_of_gain is None or alone else -_percent(-(gain[n] - width_of_gain)),
                "gain_high": None if width_of_gain is None or alone else -_percent(-(gain[n] + width_of_gain)),
                "predicted_gain_percent": told,
                "optimism_percent": None if told is None else told + _percent(-gain[n]),
                "search_runs": cost["search_runs"],
                "search_flops": cost["search_flops"],
                "search_percent": cost["search_percent"],
                "steps_saved_percent": None if cost["steps_ratio"] is None else 100 * (1 - cost["steps_ratio"]),
            }
        )
    return pl.DataFrame(rows, schema=VERDICT)


def _percent(log: float) -> float:
    """A difference of logs as percent."""
    return float(100 * np.expm1(log))


def _differences(each: np.ndarray) -> tuple[np.ndarray, float | None]:
    """Means (n,) of differences (n, seeds), and half the width of the interval of one; None with
    one seed. The row of differences of 0 tells nothing of the spread.
    """
    count = each.shape[1]
    told = each[np.abs(each).max(axis=1) > 0]
    if count < 2 or not len(told):
        return each.mean(axis=1), None
    freedom = len(told) * (count - 1)
    deviation = np.sqrt(told.var(axis=1, ddof=1).mean())
    return each.mean(axis=1), float(t.ppf((1 + LEVEL) / 2, freedom) * deviation / np.sqrt(count))


def sentence(table: pl.DataFrame, reference: str, simple: set[str]) -> str:
    """What the table says, for a person; `simple` are mixtures that took no search."""
    rows = {row["mixture"]: row for row in table.iter_rows(named=True)}
    best = table["mixture"][0]
    if table["ties_with_best"].null_count():
        return f"{best} ends lowest, with one run of each mixture: that is no verdict. Set further seeds."
    ties = [name for name, row in rows.items() if row["ties_with_best"] and name != best]
    parts = [f"{best} ends lowest of {table.height} mixtures, each trained with {rows[best]['runs']} seeds."]
    if ties:
        parts.append(f"{_listed(ties)} cannot be told from it.")
    without = [name for name in (best, *ties) if name in simple]
    if without and best not in simple:
        parts.append(f"So a search paid for nothing here that {_listed(without)} does not give without one.")
    elif best in simple:
        parts.append("It took no search: no method earned its cost here.")
    else:
        rival = max(
            (row for name, row in rows.items() if name in simple), key=lambda row: row["gain_percent"], default=None
        )
        if rival is not None:
            parts.append(
                f"The best rule without a search, {rival['mixture']}, is {rival['regret_percent']:.2f} % behind."
            )
    told = [(row["optimism_percent"], name) for name, row in rows.items() if row["optimism_percent"] is not None]
    if told:
        worst = max(told, key=lambda pair: abs(pair[0]))
        kind = "too much" if worst[0] > 0 else "too little"
        parts.append(
            f"Of the predicted gains over {reference} that of {worst[1]} is furthest off: {abs(worst[0]):.2f} points {kind}."
        )
    return " ".join(parts)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
