"""Draw mixtures side by side: the percent of each domain in numbers, its ratio to the first
mixture's in colour.

mixtures (mixture, domain, proportion) -> svg

The domains are in the order of the first mixture's proportions.
"""

import math
import sys
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.observations.tables import by_mixture
from bimix.results import figures
from bimix.tables import read_table

DOUBLINGS = 2, 6  # the colours end at 4 to 64 times the first mixture's proportion, and at that part of it
BLOCK = 11  # mixtures side by side
ROW = 0.165  # inches
NAME = 26  # letters of a mixture's name
COLOURS = colormaps["PuOr_r"]


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, out="svg")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures, parquet or csv")
    options = parser.parse_args(argv)

    tables = [read_table(path).select("mixture", "domain", "proportion") for path in options.mixtures]
    figures.save(draw(by_mixture(figures.together(tables))), options.out)


def draw(mixtures: dict[str, dict[str, float]]) -> Figure:
    """Percents of domains by mixture, coloured by the ratio to the first mixture; the same mixture under
    two names is one column.
    """
    alike = figures.twins({name: sorted(own.items()) for name, own in mixtures.items()})
    mixtures = {" = ".join(names): mixtures[name] for name, names in alike.items()}
    reference, *_ = mixtures
    first = mixtures[reference]
    named = {domain for mixture in mixtures.values() for domain in mixture}
    domains = sorted(named, key=lambda domain: (-first.get(domain, 0), domain))
    wide = math.ceil(len(mixtures) / math.ceil(len(mixtures) / BLOCK))  # blocks of about as many mixtures
    blocks = [list(mixtures)[start : start + wide] for start in range(0, len(mixtures), wide)]
    above = 0.1 + 0.75 * figures.LETTER * max(len(figures.short(name, NAME)) for name in mixtures)
    figure = Figure(figsize=(figures.WIDTH, len(blocks) * (ROW * len(domains) + above) + 0.6), layout="constrained")
    axes = figure.subplots(len(blocks), 1, squeeze=False)[:, 0]
    before = np.array([first.get(domain, 0.0) for domain in domains])
    every = np.array([[own.get(domain, 0.0) for own in mixtures.values()] for domain in domains])
    reach = int(np.clip(np.ceil(np.abs(doublings(every, before)).max()), *DOUBLINGS))
    for axis, names in zip(axes, blocks, strict=True):
        shares = np.array([[mixtures[name].get(domain, 0.0) for name in names] for domain in domains])
        draw_block(axis, shares, doublings(shares, before), reach)
        axis.set_xticks(range(len(names)), [figures.short(name, NAME) for name in names], rotation=40, ha="left")
        axis.set_xlim(-0.5, wide - 0.5)  # a short last block has cells as wide as the others'
        axis.set_yticks(range(len(domains)), [figures.short(domain) for domain in domains])
    scale = ScalarMappable(Normalize(-reach, reach), COLOURS)
    place = {"orientation": "horizontal", "fraction": 0.05, "aspect": 45, "pad": 0.02}
    bar = figure.colorbar(scale, ax=axes.tolist(), ticks=range(-reach, reach + 1), **place)
    more = [str(2**one) for one in range(1, reach + 1)]
    bar.ax.set_xticklabels([*(f"1/{one}" for one in reversed(more)), "as much", *more])
    bar.set_label(f"in numbers: percent of the mixture; in colour (log): times the proportion in {reference}")
    bar.outline.set_visible(False)
    figures.key(figure, [], finding(mixtures, reference, domains))
    return figure


def finding(mixtures: dict[str, dict[str, float]], reference: str, domains: list[str]) -> str:
    """The domain that some mixture moves most from the first one."""
    moves = [
        (own.get(one, 0.0) - mixtures[reference].get(one, 0.0), one, name)
        for name, own in mixtures.items()
        for one in domains
    ]
    by, domain, name = max(moves, key=lambda move: abs(move[0]))
    if not by:
        return ""
    before, after = (percent(mixtures[one].get(domain, 0.0)) for one in (reference, name))
    return f"{domain} moves most: from {before} % in {reference} to {after} % in {name}."


def doublings(shares: np.ndarray, before: np.ndarray) -> np.ndarray:
    """log2 of shares (d, k) over the first's (d,); 0 if both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log2(shares / before[:, None])
    return np.nan_to_num(ratio, nan=0.0, posinf=DOUBLINGS[1], neginf=-DOUBLINGS[1])


def draw_block(axis: Axes, shares: np.ndarray, ratios: np.ndarray, reach: int) -> None:
    """Cells with the percents of `shares` (d, k), coloured by `ratios` (d, k) to +- reach."""
    axis.imshow(ratios, cmap=COLOURS, norm=Normalize(-reach, reach), aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        dark = abs(ratios[row, column]) > 0.72 * reach
        look = {"ha": "center", "va": "center", "fontsize": figures.SMALL, "color": "white" if dark else "black"}
        axis.text(column, row, percent(share), **look)
    axis.xaxis.set_ticks_position("top")
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)


def percent(share: float) -> str:
    """A proportion in percent, with two digits or three: 23.1, 4.2, 0.03, 0."""
    if share == 0:
        return "0"
    digits = 1 if share >= 0.01 else min(4, 1 - math.floor(math.log10(100 * share)))
    return f"{100 * share:.{digits}f}"


if __name__ == "__main__":
    sys.exit(run(main))
