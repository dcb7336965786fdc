"""The figure of a Pareto front: both losses, and the proportions along the first law's front."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from bimix.laws.fitted import predict_defined
from bimix.optimum.objective import average, mixture_of, target_weights
from bimix.results import figures

SHARE = "proportion of "


def draw(
    table: pl.DataFrame, laws: list[tuple[dict, dict[str, float], dict[str, float]]], reference: dict[str, float] | None
) -> Figure:
    """Left, the fronts of all laws, and hollow the reference; right, the proportions against the
    first loss. `laws`: fitted laws with the weights of the two objectives.
    """
    domains = [column.removeprefix(SHARE) for column in table.columns if column.startswith(SHARE)]
    height = 2.5 + 0.05 * len(domains)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
    first, second = table["first"][0], table["second"][0]
    names = [fitted["law"] for fitted, _, _ in laws]
    entries = []
    for (law, look), (fitted, one, other) in zip(figures.looks(names).items(), laws, strict=True):
        own = table.filter(pl.col("law") == law)
        left.plot(own["first_loss"], own["second_loss"], **look.line(3))
        entries.append(look.entry(law, line=True))
        if reference is not None:
            shares = mixture_of(reference, fitted["domains"], "the reference mixture")
            losses = predict_defined(fitted, shares[None], np.array([table["step"][0]]))[0, 0]
            losses = [average(losses, target_weights(fitted, weights)) for weights in (one, other)]
            left.plot(*losses, **look.mark(hollow=True))
    if reference is not None:
        entries.append(figures.swatch("the reference, as each law predicts it", figures.GREY, "o", hollow=True))
    left.set_title("predicted losses")
    left.set_xlabel(f"loss of {first} (nats per token)")
    left.set_ylabel(f"loss of {second} (nats per token)")
    law = laws[0][0]["law"]
    own = table.filter(pl.col("law") == law)
    shares = []
    for domain, look in figures.domain_looks(domains).items():
        right.plot(own["first_loss"], own[f"{SHARE}{domain}"], color=look.colour, linestyle=look.dash)
        shares.append(figures.swatch(figures.short(domain), look.colour, line=look.dash))
    right.set_ylim(bottom=0)
    right.set_title(f"proportions along the front of {law}")
    right.set_xlabel(f"loss of {first} (nats per token)")
    right.set_ylabel("proportion")
    figures.key(figure, [entries, shares], f"No mixture has both losses lower: {first} and {second}")
    return figure
