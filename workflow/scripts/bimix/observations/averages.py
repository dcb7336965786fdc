"""The average of losses over domains, as the objective of the optimum weighs them."""

import argparse
import json
from collections.abc import Mapping

import polars as pl

from bimix.errors import InputError
from bimix.observations.metrics import losses_only


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add the weights of the average, for `average_loss`."""
    parser.add_argument(
        "--weights",
        type=json.loads,
        default={},
        help="{loss domain: weight}, JSON: the average of losses; one left out weighs 0; without it all weigh the same",
    )


def average_loss(weights: Mapping[str, float] | None = None) -> pl.Expr:
    """Average of `loss` over the rows of a group, by the weights of its domains or a plain mean."""
    if not weights:
        return pl.col("loss").mean()
    weight = pl.col("domain").replace_strict(weights, default=0.0, return_dtype=pl.Float64)
    # an infinite loss of a domain that weighs nothing stays out
    weighed = pl.when(weight > 0).then(pl.col("loss") * weight).otherwise(0.0)
    return (weighed.sum() / weight.sum()).alias("loss")


def of_losses(weights: Mapping[str, float] | None, table: pl.DataFrame) -> dict[str, float]:
    """The weights of the domains of a tidy table that have losses; those of metrics are left out,
    since averages over units say nothing, and where nothing is left all losses weigh the same.

    Errors: those of `check_weights`.
    """
    check_weights(weights, table)
    domains = set(losses_only(table)["domain"].unique())
    kept = {name: weight for name, weight in (weights or {}).items() if name in domains}
    return kept if any(kept.values()) else {}


def check_weights(weights: Mapping[str, float] | None, losses: pl.DataFrame) -> None:
    """Errors: a weight of a domain that has no losses, nothing above 0."""
    if not weights:
        return
    known = losses["domain"].unique(maintain_order=True).to_list()
    strange = [name for name in weights if name not in known]
    if strange:
        raise InputError(f"the weights name {strange[0]!r}, which has no losses: {', '.join(known)} have.")
    if not any(weights.values()):
        raise InputError("all weights are 0: give at least one domain a weight above 0.")


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
