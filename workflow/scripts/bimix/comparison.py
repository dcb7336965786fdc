"""Runs side by side: the average loss over domains, and the steps that one mixture needs to get where another ends."""

import numpy as np
import polars as pl

from bimix.errors import InputError


def average_losses(losses: pl.DataFrame) -> pl.DataFrame:
    """mixture, step, loss: the plain mean over domains, mixtures in order, steps increasing.

    `losses`: mixture, step, domain, loss. Errors: an evaluation that lacks a domain which others have.
    """
    domains = losses["domain"].n_unique()
    table = losses.group_by("mixture", "step", maintain_order=True).agg(
        pl.col("loss").mean(), pl.col("domain").n_unique().alias("domains")
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

    Between evaluations log loss is taken as linear in log step. A curve that is there at its first evaluation already
    gets the step of that evaluation.
    """
    low = np.nonzero(losses <= target)[0]
    if not len(low):
        return None
    k = low[0]
    if k == 0:
        return float(steps[0])
    drop = np.log(losses[k - 1] / target) / np.log(losses[k - 1] / losses[k])
    return float(steps[k - 1] * (steps[k] / steps[k - 1]) ** drop)


def compare(losses: pl.DataFrame, reference: str) -> pl.DataFrame:
    """One row per mixture, in order: how it ends, and when it gets to the final average loss of `reference`.

    mixture, step (the last), average_loss (nats per token), difference_percent (to the reference's), domains_better
    (in which it ends below the reference), domains, worst_domain, worst_loss (nats per token), steps_to_reference
    (null: never), steps_ratio (to the steps of the reference).
    Errors: the reference has no losses, runs that end at different steps.
    """
    averages = average_losses(losses)
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
            }
        )
    return pl.DataFrame(rows, schema_overrides={"steps_to_reference": pl.Float64, "steps_ratio": pl.Float64})
