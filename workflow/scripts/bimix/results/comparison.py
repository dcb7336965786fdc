"""Runs side by side: the average loss over domains, and the steps that one mixture needs to get
where another ends.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.observed.averages import average_loss, check_weights, of_losses
from bimix.observed.metrics import losses_only
from bimix.observed.observations import mean_over_seeds


def average_losses(losses: pl.DataFrame, weights: Mapping[str, float] | None = None) -> pl.DataFrame:
    """mixture, step, loss: the average over domains, mixtures in order, steps increasing.

    `losses`: mixture, step, domain, loss; `weights` of domains, without which all weigh the same.
    Errors: an evaluation that lacks a domain which others have; a weight of none.
    """
    check_weights(weights, losses)
    domains = losses["domain"].n_unique()
    table = losses.group_by("mixture", "step", maintain_order=True).agg(
        average_loss(weights), pl.col("domain").n_unique().alias("domains")
    )
    partial = table.filter(pl.col("domains") < domains)
    if partial.height:
        row = partial.row(0, named=True)
        raise InputError(
            f"losses of mixture {row['mixture']!r} at step {row['step']}: {row['domains']} of {domains} domains are "
            "there; averages over different domains cannot be compared, so evaluate every run on the same ones."
        )
    order = {name: position for position, name in enumerate(table["mixture"].unique(maintain_order=True))}
    position = pl.col("mixture").replace_strict(order, return_dtype=pl.Int64)
    return table.sort(position, "step").select("mixture", "step", "loss")


def steps_to_reach(steps: np.ndarray, losses: np.ndarray, target: float) -> float | None:
    """The first step at which a curve of k losses is at `target`; None if it never is.

    Between evaluations log loss is taken as linear in log step. A curve that is there at its first
    evaluation already gets the step of that evaluation.
    """
    low = np.nonzero(losses <= target)[0]
    if not len(low):
        return None
    k = low[0]
    if k == 0:
        return float(steps[0])
    drop = np.log(losses[k - 1] / target) / np.log(losses[k - 1] / losses[k])
    return float(steps[k - 1] * (steps[k] / steps[k - 1]) ** drop)


def scatter(steps: np.ndarray, losses: np.ndarray) -> float | None:
    """How far the last half of a curve's evaluations, four or more, scatter about a line, in
    percent.

    The line is of log loss in log step; the standard deviation has two degrees of freedom less than
    points.
    """
    half = -(-len(steps) // 2)
    if half < 4:
        return None
    x, y = np.log(steps[-half:]), np.log(losses[-half:])
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    return float(100 * np.sqrt((rest**2).sum() / (half - 2)))


def compare(
    losses: pl.DataFrame,
    reference: str,
    factors: dict[str, float | None] | None = None,
    weights: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """One row per mixture, in order: how it ends, and when it gets to the final average loss of
    `reference`.

    mixture, step (the last), average_loss (nats per token, by `weights` of domains),
    difference_percent (to the reference's), domains_better (in which it ends below the reference),
    domains, worst_domain, worst_loss (nats per token), steps_to_reference (null: never),
    steps_ratio (to the steps of the reference), runs (seeds that were averaged), deviation_percent
    (standard deviation of the average loss between those runs, null where there is one),
    scatter_percent (of its last evaluations, null where they are few); with `factors` {domain: bits
    per byte of a nat per token} also bits_per_byte, the average over domains, null where a factor
    is not known. Errors: the reference has no losses, runs that end at different steps.
    """
    weights, losses = of_losses(weights, losses), losses_only(losses)
    runs = deviations(losses, weights)
    losses = mean_over_seeds(losses)
    averages = average_losses(losses, weights)
    names = averages["mixture"].unique(maintain_order=True).to_list()
    if reference not in names:
        raise InputError(
            f"{reference!r}, which the others are measured against, has no losses: {', '.join(names)} have."
        )
    last = losses.filter(pl.col("step") == pl.col("step").max().over("mixture"))
    ends = dict(last.select("mixture", "step").unique().iter_rows())
    for name in names:
        if ends[name] != ends[reference]:
            raise InputError(
                f"mixture {name!r} ends at step {ends[name]} and {reference!r} at step {ends[reference]}: "
                "only runs of the same length can be compared."
            )
    final = {name: dict(last.filter(pl.col("mixture") == name).select("domain", "loss").iter_rows()) for name in names}
    target = averages.filter(pl.col("mixture") == reference)["loss"][-1]
    rows = []
    for name in names:
        curve = averages.filter(pl.col("mixture") == name)
        average = curve["loss"][-1]
        worst = max(final[name], key=final[name].get)
        needed = steps_to_reach(curve["step"].to_numpy(), curve["loss"].to_numpy(), target)
        rows.append(
            {
                "mixture": name,
                "step": ends[name],
                "average_loss": average,
                "difference_percent": 100 * (average / target - 1),
                "domains_better": sum(loss < final[reference][domain] for domain, loss in final[name].items()),
                "domains": len(final[name]),
                "worst_domain": worst,
                "worst_loss": final[name][worst],
                "steps_to_reference": needed,
                "steps_ratio": needed and needed / ends[reference],
                "runs": runs[name][0],
                "deviation_percent": runs[name][1],
                "scatter_percent": scatter(curve["step"].to_numpy(), curve["loss"].to_numpy()),
            }
        )
    numbers = ("steps_to_reference", "steps_ratio", "deviation_percent", "scatter_percent")
    empty = dict.fromkeys(numbers, pl.Float64)
    table = pl.DataFrame(rows, schema_overrides=empty)
    if factors is None:
        return table
    bits = [bits_per_byte(final[name], factors, weights) for name in names]
    return table.insert_column(3, pl.Series("bits_per_byte", bits, dtype=pl.Float64))


def bits_per_byte(
    losses: dict[str, float], factors: dict[str, float | None], weights: Mapping[str, float] | None = None
) -> float | None:
    """The average over domains of losses in nats per token times their factors; None where one is
    not known.
    """
    weighing = {domain: (weights or {}).get(domain, 0.0 if weights else 1.0) for domain in losses}
    weighing = {domain: weight for domain, weight in weighing.items() if weight > 0}
    if any(factors.get(domain) is None for domain in weighing):
        return None
    bits = [losses[domain] * factors[domain] for domain in weighing]
    return float(np.average(bits, weights=list(weighing.values())))


def deviations(losses: pl.DataFrame, weights: Mapping[str, float] | None = None) -> dict[str, tuple[int, float | None]]:
    """Of each mixture the number of its runs (column `seed`) and how far their last average losses
    spread, in percent.
    """
    if "seed" not in losses.columns:
        return dict.fromkeys(losses["mixture"].unique().to_list(), (1, None))
    last = losses.filter(pl.col("step") == pl.col("step").max().over("mixture"))
    ends = last.group_by("mixture", "seed").agg(average_loss(weights))
    spread = ends.group_by("mixture").agg(pl.len(), 100 * pl.col("loss").std() / pl.col("loss").mean())
    return {name: (count, deviation) for name, count, deviation in spread.iter_rows()}
