"""One look for all figures, as in a paper: 5.5 inches wide, no text below 7 points, colours that
the colour-blind can distinguish.

A mixture's name has one colour, one marker and one kind of line in every figure, so that a figure
is read in grey as well. Figures are svg with their text as text. The same input gives the same
bytes: the ids of the elements are salted, the date is left out, and lengths are measured with the
font that Matplotlib brings along.
"""

import argparse
import math
import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from bimix.outputs import replacing
from bimix.results.layout import paragraph

WIDTH = 5.5  # inches: a column of text in a paper
SMALL, LARGE = 7.0, 7.5  # points of ticks, legends and notes; of titles and the names of axes

GREY = "#555555"
# Okabe and Ito's palette for colour-blind readers, less its yellow, and dark hues of Paul Tol's.
STYLES = {
    "baseline": ("#000000", "o"),
    "uniform": ("#888888", "s"),
    "se": ("#56B4E9", "v"),
    "je": ("#009E73", "^"),
    "ce": ("#0072B2", "<"),
    "vne": ("#E69F00", ">"),
    "doremi": ("#CC79A7", "p"),
    "doge": ("#882255", "h"),
    "regmix": ("#999933", "P"),
    "exponential": ("#661100", "X"),
    "transfer": ("#6A3D9A", "H"),
    "bimix": ("#D55E00", "*"),
}
# Kinds of lines: whole, dashed, dotted and mixed.
DASHES = ["-", (0, (5, 1.3)), (0, (1, 1)), (0, (5, 1.2, 1, 1.2)), (0, (3, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2))]
DOMAINS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255"]
DOMAIN_MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h"]
OTHERS = ["#332288", "#117733", "#AA4499", "#44AA99", "#B8860B", "#7A5195", "#A0522D", "#4682B4"]
MARKERS = ["D", "d", "8", "s", "^", "P", "v", "o", "X", "p", "h", "H", "<", ">", "*", "$+$", "$x$", "$=$", "$o$"]
SIZES = {"*": 1.7, "X": 1.2, "P": 1.2, "H": 1.15, "p": 1.15, "D": 0.85}  # that look as large as a circle

MOST = 40  # entries of the legend in one group
LETTER = 0.06  # inches that a letter takes at most, on average; a bold one a fifth more
SETTINGS = {
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "text.parse_math": False,  # names may hold two dollars
    "font.size": LARGE,
    "axes.titlesize": LARGE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 3.0,
    "axes.labelsize": LARGE,
    "axes.labelpad": 2.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.size": 2.0,
    "ytick.major.size": 2.0,
    "xtick.major.pad": 1.8,
    "ytick.major.pad": 1.8,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "legend.labelspacing": 0.25,
    "legend.borderpad": 0.1,
    "legend.borderaxespad": 0.2,
    "lines.markersize": 3.4,
    "lines.linewidth": 1.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "bimix",
}
matplotlib.rcParams.update(SETTINGS)


def flags(about: str, **paths: str) -> argparse.ArgumentParser:
    """A parser that needs these paths, {name of the flag: its help}."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, said in paths.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, required=True, help=said)
    return parser


@dataclass(frozen=True)
class Look:
    """Colour, marker and kind of line of a name, as keywords of Matplotlib."""

    colour: str
    marker: str = ""
    dash: str | tuple = "none"

    def mark(self, points: float = 3.4, hollow: bool = False, **more: object) -> dict[str, object]:
        """Keywords of a mark alone, which looks as large as a circle of so many points."""
        face = "white" if hollow else self.colour
        own = {"color": self.colour, "marker": self.marker, "markersize": points * SIZES.get(self.marker, 1.0)}
        return own | {"markerfacecolor": face, "linestyle": "none"} | more

    def line(self, points: float = 3.4) -> dict[str, object]:
        """Keywords of a line with marks."""
        return self.mark(points, linestyle=self.dash)

    def entry(self, label: str, line: bool = False, hollow: bool = False) -> Line2D:
        """An entry of the legend, as a mark or as a line with marks."""
        return swatch(label, self.colour, self.marker, self.dash if line else "", hollow)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """{name: its look}, the same in every figure as far as no two of its marks are alike.

    A name that has no style of its own takes the one that a hash of it points to, or the next that
    differs most from those of the other `names`, first by its marker: give all names of a figure at
    once. In grey the kind of line separates mixtures.
    """
    chosen = {name: STYLES[name] for name in names if name in STYLES}
    free = [(colour, marker) for marker in MARKERS for colour in OTHERS]
    for name in sorted(set(names) - set(chosen)):
        first = zlib.crc32(name.encode()) % len(free)
        turns = [*free[first:], *free[:first]]
        colours = [colour for colour, _ in chosen.values()]
        markers = [marker for _, marker in chosen.values()]
        chosen[name] = min(turns, key=lambda style: (markers.count(style[1]), colours.count(style[0])))
    known = list(STYLES)
    kinds = {name: known.index(name) if name in known else zlib.crc32(name.encode()) for name in names}
    return {name: Look(*chosen[name], DASHES[kinds[name] % len(DASHES)]) for name in names}


def domain_looks(domains: Sequence[str]) -> dict[str, Look]:
    """{domain: its look}; of eight domains or more, any two differ in colour, marker or line."""
    count = len(DOMAINS)
    kinds = enumerate(sorted(domains))
    return {
        domain: Look(
            DOMAINS[k % count], DOMAIN_MARKERS[k % len(DOMAIN_MARKERS)], DASHES[(k + k // count) % len(DASHES)]
        )
        for k, domain in kinds
    }


def grid(panels: int, wide: int = 0) -> tuple[Figure, list[Axes]]:
    """Equal panels in rows of `wide`, by default of three or four: fewest gaps, rather wide than
    tall; one or two are taller.
    """
    if not wide:
        wide = panels if panels <= 3 else min((4, 3), key=lambda wide: -panels % wide)
    tall = math.ceil(panels / wide)
    height = {1: 2.4, 2: 2.04, 3: 1.56}.get(panels, 1.2)  # inches
    figure = Figure(figsize=(WIDTH, tall * height + 0.6), layout="constrained")
    axes = figure.subplots(tall, wide, squeeze=False).ravel().tolist()
    for gap in axes[panels:]:
        gap.remove()
    return figure, axes[:panels]


def plain(number: float) -> str:
    """A number as short as it can be read: 0.003, 4.25, 500, 20k, 1.5M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if number >= size * (1 - 1e-9):
            return f"{number / (1e3 if letter == 'k' else size):.4g}{letter}"
    return np.format_float_positional(float(f"{number:.4g}"), trim="-")


def log_axis(axis: Axes, which: str, values: np.ndarray, most: int = 5) -> None:
    """Make axis x or y logarithmic over the finite, positive `values`, with at most so many round numbers."""
    values = np.asarray(values, dtype=float).ravel()
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    low, high = values.min(), values.max()
    margin = max((high / low) ** 0.06, 1.004)
    getattr(axis, f"set_{which}scale")("log")
    getattr(axis, f"set_{which}lim")(low / margin, high * margin)
    own, decades = getattr(axis, f"{which}axis"), np.log10(high / low)
    if decades > 0.8:
        digits = (1, 2, 5) if decades <= most / 3 else (1, 3) if decades <= most / 2 else (1,)
        own.set_major_locator(LogLocator(subs=digits))
    else:  # the round numbers of a linear axis
        own.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    own.set_major_formatter(FuncFormatter(lambda number, _: plain(number)) if high >= 1e4 else ScalarFormatter())
    own.set_minor_locator(NullLocator())


def name_panel(axis: Axes, name: str) -> None:
    """The panel's title: a name wider than the panel takes two lines, a very long one is cut."""
    wide = WIDTH / axis.get_subplotspec().get_gridspec().ncols
    letters = max(8, int((wide - 0.25) / (1.2 * LETTER)))
    lines = textwrap.wrap(name, letters, max_lines=2, placeholder="\N{HORIZONTAL ELLIPSIS}")
    axis.set_title("\n".join(lines))


def short(name: str, most: int = 18) -> str:
    """A name of at most so many letters; of a longer one the middle is cut."""
    end = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - end]}\N{HORIZONTAL ELLIPSIS}{name[-end:]}"


def name_rows(axis: Axes, names: list[str]) -> None:
    """Rows 0, 1, ... of an axis from the top down, each with its name and no line across."""
    axis.set_yticks(range(len(names)), [short(name) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")


def key(figure: Figure, entries: list[Line2D], note: str = "") -> None:
    """The legend, above all panels, under a line that says what is drawn; a long one is cut."""
    said = "\n".join(paragraph(note)) or None
    if not entries:
        figure.suptitle(said, fontsize=LARGE, ha="left", x=0.01)
        return
    if len(entries) > MOST:
        entries = [*entries[:MOST], swatch(f"and {len(entries) - MOST} more", "white")]
    widest = 0.42 + LETTER * max(len(entry.get_label()) for entry in entries)
    columns = max(1, int(WIDTH / widest))
    columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # rows of about as many
    style = {"title_fontsize": LARGE, "handletextpad": 0.4, "columnspacing": 1.2, "handlelength": 2.2}
    figure.legend(handles=entries, title=said, loc="outside upper center", ncols=columns, **style)


def row_panels(names: list[str], widths: Sequence[float], row: float, more: float) -> tuple[Figure, list[Axes]]:
    """Panels side by side that share rows with names; heights in inches, of a row and the rest."""
    figure = Figure(figsize=(WIDTH, row * len(names) + more), layout="constrained")
    axes = figure.subplots(1, len(widths), squeeze=False, sharey=True, width_ratios=widths)[0].tolist()
    name_rows(axes[0], names)
    for axis in axes[1:]:
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)
    return figure, axes


def draw_curve(axis: Axes, x: pl.Series, y: pl.Series, look: Look, low: pl.Series, high: pl.Series) -> None:
    """A line with marks, and from low to high its range or interval as a shade."""
    axis.fill_between(x, low, high, color=look.colour, alpha=0.13, linewidth=0)
    axis.plot(x, y, **look.line())


def draw_span(axis: Axes, row: float, value: float, span: Sequence[float], look: Look, hollow: bool = False) -> None:
    """A value as a mark in a row of an axis, and its interval, low and high, as a line; or none."""
    axis.plot(span, [row] * len(span), color=look.colour, linewidth=1.2)
    axis.plot(value, row, **look.mark(4.2, hollow, markeredgewidth=0.8))


def ends(column: str) -> list[pl.Expr]:
    """The range of a column as `low` and `high`, for an aggregation."""
    return [pl.col(column).min().alias("low"), pl.col(column).max().alias("high")]


def together(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Tables of groups that may share rows; numbers that are all whole may be of another type."""
    return pl.concat(tables, how="diagonal_relaxed").unique(maintain_order=True)


def dodged(rank: int, ranks: int, spread: float) -> float:
    """Where the one of rank 0, 1, ... stands within +- spread, so that none is hidden."""
    return spread * (2 * (rank + 0.5) / ranks - 1)


def twins(curves: dict[str, list]) -> dict[str, list[str]]:
    """{name: names of its very curve}, of curves by name: such are drawn and named once."""
    groups: dict[tuple, list[str]] = {}
    for name, curve in curves.items():
        groups.setdefault(tuple(curve), []).append(name)
    return {names[0]: names for names in groups.values()}


def swatch(label: str, colour: str, marker: str = "", line: str | tuple = "", hollow: bool = False) -> Line2D:
    """An entry of the legend."""
    face = "white" if hollow else colour
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=line or "none", markerfacecolor=face, markersize=4.5, label=label
    )


def save(figure: Figure, path: Path) -> None:
    """Write svg whose bytes depend on nothing but the figure."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None}, facecolor="white")
