"""Draw which domain's text resembles which: how much worse a model of another domain predicts each
domain's text than its own model.

cross_entropy.csv (domain, under, nats) -> svg
"""

import sys

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.results import figures
from bimix.tables import read_table

CELL = 0.22  # inches, of a row
NUMBERED = 16  # domains, beyond which a column is too narrow for numbers


def main(argv: list[str] | None = None) -> None:
    options = figures.flags(__doc__, cross_entropy="nats by domain and model, csv", out="svg").parse_args(argv)
    figures.save(draw(read_table(options.cross_entropy)), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """A row a text, a column a model; a cell is H(i|j) - H(i|i) in nats a token."""
    domains = table["domain"].unique(maintain_order=True).to_list()
    models = table["under"].unique(maintain_order=True).to_list()
    nats = np.full((len(domains), len(models)), np.nan)
    for domain, under, value in table.select("domain", "under", "nats").iter_rows():
        nats[domains.index(domain), models.index(under)] = value
    own = np.array([[domain == model for model in models] for domain in domains])
    gaps = nats - np.where(own.any(axis=1), np.where(own, nats, 0).sum(axis=1), np.nanmin(nats, axis=1))[:, None]
    names = 0.07 * max(len(figures.short(name)) for name in models)
    height = min(CELL * len(domains) + names + 1.2, 8.5)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(np.where(own, np.nan, gaps), cmap="viridis_r", aspect="auto", vmin=min(0.0, np.nanmin(gaps)))
    axis.set_facecolor("#dddddd")  # of a domain's own model
    axis.grid(visible=False)
    axis.set_xticks(range(len(models)), map(figures.short, models), rotation=90)
    axis.set_yticks(range(len(domains)), map(figures.short, domains))
    axis.tick_params(length=0)
    axis.set_xlabel("model of")
    axis.set_ylabel("text of")
    if max(gaps.shape) <= NUMBERED:
        dark = np.nanmin(gaps) + 0.6 * np.ptp(gaps[np.isfinite(gaps)])
        for i, j in np.argwhere(np.isfinite(gaps)):
            colour = "white" if gaps[i, j] > dark else "black"
            axis.text(j, i, f"{gaps[i, j]:.1f}", ha="center", va="center", fontsize=figures.SMALL, color=colour)
    figure.colorbar(image, ax=axis, label="nats a token beyond its own model", aspect=30, pad=0.02)
    others = np.where(own | ~own.any(axis=1, keepdims=True), np.nan, gaps)  # of texts with a model of their own
    figures.key(figure, [], finding(others, domains, models))
    return figure


def finding(gaps: np.ndarray, domains: list[str], models: list[str]) -> str:
    """The two domains whose texts are most alike, and the one that is least like any other."""
    if not np.isfinite(gaps).any():
        return ""
    i, j = np.unravel_index(np.nanargmin(gaps), gaps.shape)
    near = f"{domains[i]} is nearest to {models[j]} ({gaps[i, j]:.2f} nats a token beyond its own model)"
    rows = [(np.nanmin(row), k) for k, row in enumerate(gaps) if np.isfinite(row).any()]
    far, k = max(rows)
    return f"{near}; {domains[k]} is far from all others ({far:.2f} or more)." if len(rows) > 2 else f"{near}."


if __name__ == "__main__":
    sys.exit(run(main))
