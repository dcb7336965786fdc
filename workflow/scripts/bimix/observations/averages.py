"""The average of losses over domains, with the weights of the optimum's objective."""

from collections.abc import Mapping

import polars as pl

from bimix.errors import InputError
from bimix.names import check_weights
from bimix.observations.metrics import losses_only


def average_loss(weights: Mapping[str, float] | None = None) -> pl.Expr:
    """Average of `loss` over the rows of a group: weighted by domain, or a plain mean."""
    if not weights:
        return pl.col("loss").mean()
    weight = pl.col("domain").replace_strict(weights, default=0.0, return_dtype=pl.Float64)
    # an infinite loss of a domain of weight 0 must not enter
    weighed = pl.when(weight > 0).then(pl.col("loss") * weight).otherwise(0.0)
    return (weighed.sum() / weight.sum()).alias("loss")


def of_losses(weights: Mapping[str, float] | None, table: pl.DataFrame) -> dict[str, float]:
    """The weights of the domains of a tidy table that have losses. Those of metrics are dropped,
    since units must not be averaged; if none is left, all losses have equal weights.

    Errors: those of `check_weights`.
    """
    check_weights(weights or {}, table["domain"].unique(maintain_order=True).to_list())
    domains = set(losses_only(table)["domain"].unique())
    kept = {name: weight for name, weight in (weights or {}).items() if name in domains}
    return kept if any(kept.values()) else {}


def average_losses(losses: pl.DataFrame, weights: Mapping[str, float] | None = None) -> pl.DataFrame:
    """mixture, step, loss: the average over domains, mixtures in order, steps increasing.

    `losses`: mixture, step, domain, loss; without `weights` all domains have equal weights. Errors:
    an evaluation without a domain that others have; a weight of no domain.
    """
    check_weights(weights or {}, losses["domain"].unique(maintain_order=True).to_list())
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


def over_seeds(losses: pl.DataFrame, weights: Mapping[str, float] | None = None) -> pl.DataFrame:
    """`average_losses` of each seed, and their geometric mean by mixture and step, as noise is of logs."""
    if "seed" not in losses.columns:
        return average_losses(losses, weights)
    table = pl.concat([average_losses(own, weights) for own in losses.partition_by("seed", maintain_order=True)])
    order = losses["mixture"].cast(pl.String).unique(maintain_order=True).to_list()
    table = table.group_by("mixture", "step", maintain_order=True).agg(pl.col("loss").log().mean().exp())
    return table.sort(pl.col("mixture").cast(pl.Enum(order)), "step", maintain_order=True)
