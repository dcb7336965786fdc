"""Draw who speaks like whom: how much worse each domain's text is foretold by a model of another
domain than by its own.

cross_entropy.csv (domain, under, nats) -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

CELL = 0.22  # inches, of a row
NUMBERED = 16  # domains, beyond which a column is too narrow for numbers


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cross-entropy", type=Path, required=True, help="nats by domain and model, csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    figure = draw(read_table(options.cross_entropy))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """A row for each domain's held-out text, a column for each model; a cell is H(i|j) - H(i|i) in
    nats a token.
    """
    domains = table["domain"].unique(maintain_order=True).to_list()
    models = table["under"].unique(maintain_order=True).to_list()
    nats = np.full((len(domains), len(models)), np.nan)
    for domain, under, value in table.select("domain", "under", "nats").iter_rows():
        nats[domains.index(domain), models.index(under)] = value
    own = [nats[i, models.index(name)] if name in models else np.nanmin(nats[i]) for i, name in enumerate(domains)]
    gaps = nats - np.array(own)[:, None]
    names = 0.07 * max(len(figures.short(name)) for name in models)
    height = min(CELL * len(domains) + names + 1.0, 8.5)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(gaps, cmap="viridis_r", aspect="auto", vmin=min(0.0, np.nanmin(gaps)))
    axis.grid(visible=False)
    axis.set_title("who speaks like whom")
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
    return figure


if __name__ == "__main__":
    sys.exit(run(main))
