"""One look for all figures: a colour and a marker for each mixture's name, small multiples, plain numbers on log axes.

Figures are svg with their text as text. The same input gives the same bytes: the ids of the elements are salted, the
date is left out, and lengths are measured with the font that Matplotlib brings along.
"""

import math
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

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
PUBLISHED = "published_"  # the colour of the mixture it is a published version of, and a diamond
OTHERS = ["#332288", "#117733", "#AA4499", "#44AA99", "#B8860B", "#7A5195", "#A0522D", "#4682B4"]
OTHER_MARKERS = ["d", "8", "D"]

MOST = 40  # entries of the legend in one group
LETTER = 0.065  # inches that a letter of the legend's title takes
SETTINGS = {
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.w_pad": 0.05,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.frameon": False,
    "lines.markersize": 3.6,
    "lines.linewidth": 1.1,
    "svg.fonttype": "none",
    "svg.hashsalt": "bimix",
}
matplotlib.rcParams.update(SETTINGS)


def styles(names: list[str]) -> dict[str, tuple[str, str]]:
    """{name: (colour, marker)}, the same in every figure.

    A name that has no style of its own takes the one that a hash of it points to, or the next that is free.
    """
    chosen = {name: STYLES[name] for name in names if name in STYLES}
    free = [(colour, marker) for marker in OTHER_MARKERS for colour in OTHERS]
    for name in sorted(set(names) - set(chosen)):
        bare = name.removeprefix(PUBLISHED)
        if bare != name and bare in STYLES:
            chosen[name] = (STYLES[bare][0], "D")
            continue
        first = zlib.crc32(name.encode()) % len(free)
        turns = [free[(first + turn) % len(free)] for turn in range(len(free))]
        chosen[name] = next((style for style in turns if style not in chosen.values()), turns[0])
    return {name: chosen[name] for name in names}


def columns(panels: int, most: int = 5) -> int:
    """How many panels to put side by side: the number that leaves the fewest gaps, rather wide than tall."""
    if panels <= 3:
        return panels
    return min(range(3, most + 1), key=lambda wide: (-panels % wide, -wide))


def grid(panels: int, width: float = 2.4, height: float = 1.9, sharex: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels in rows, the first at the top left; one panel alone is drawn larger. Sizes in inches."""
    wide = columns(panels)
    tall = math.ceil(panels / wide)
    scale = {1: 2.0, 2: 1.6}.get(panels, 1.0)
    figure = Figure(figsize=(wide * width * scale, tall * height * scale + 0.6), layout="constrained")
    axes = figure.subplots(tall, wide, squeeze=False, sharex=sharex).ravel().tolist()
    for gap in axes[panels:]:
        gap.remove()
    for k in range(panels):  # where the last row has a gap, the panel above it carries the numbers
        axes[k].tick_params(labelbottom=not sharex or k + wide >= panels)
    return figure, axes[:panels]


def nice_ticks(low: float, high: float, most: int = 5) -> np.ndarray:
    """Two to `most` round numbers inside [low, high], far enough apart on a logarithmic axis to be labelled.

    They are 1, 2, 5 or 1, 3 or 1 of each decade where that gives three or more, else multiples of one round number.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    closest = 0.8 / most * math.log(high / low)
    for digits in ([1, 2, 5], [1, 3], [1]):
        ticks = np.array([digit * 10.0**decade for decade in decades for digit in digits])
        ticks = ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]
        if 3 <= len(ticks) <= most and np.diff(np.log(ticks)).min() >= closest:
            return ticks
    if len(ticks) == 2 and high > 50 * low:  # with two decades inside, their powers of ten
        return ticks
    if len(ticks) > most:  # more decades than ticks
        return ticks[:: math.ceil(len(ticks) / most)]
    for size in (digit * 10.0**decade for decade in range(decades[0] - 4, decades[-1] + 1) for digit in (1, 2, 2.5, 5)):
        first, last = math.ceil(low / size * (1 - 1e-9)), math.floor(high / size * (1 + 1e-9))
        ticks = size * np.arange(first, last + 1)
        if len(ticks) <= most and (len(ticks) < 2 or math.log(ticks[-1] / ticks[-2]) >= closest):
            break
    return ticks if len(ticks) > 1 else np.array([low, high])


def plain(number: float) -> str:
    """A number as short as it can be read: 0.003, 4.25, 500, 20k, 1.5M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if number >= size * (1 - 1e-9):
            return f"{number / (1e3 if letter == 'k' else size):.4g}{letter}"
    return np.format_float_positional(float(f"{number:.4g}"), trim="-")


def labels(ticks: np.ndarray) -> list[str]:
    """The ticks in plain numbers; those at equal distances with equally many digits after the point."""
    texts = [plain(tick) for tick in ticks]
    digits = max(len(text.partition(".")[2]) for text in texts)
    if ticks[-1] < 1e4 and len(ticks) > 2 and np.allclose(np.diff(ticks), ticks[1] - ticks[0]):
        return [f"{tick:.{digits}f}" for tick in ticks]
    return texts


def log_axis(axis: Axes, which: str, values: np.ndarray, most: int = 5) -> None:
    """Give axis x or y a logarithmic scale over the finite, positive `values`, with a margin and round numbers."""
    values = np.asarray(values, dtype=float).ravel()
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    low, high = values.min(), values.max()
    margin = max((high / low) ** 0.06, 1.004)
    getattr(axis, f"set_{which}scale")("log")
    getattr(axis, f"set_{which}lim")(low / margin, high * margin)
    ticks = nice_ticks(low / margin, high * margin, most)
    getattr(axis, f"set_{which}ticks")(ticks, labels(ticks))
    getattr(axis, f"{which}axis").set_minor_locator(NullLocator())


def name_panel(axis: Axes, name: str) -> None:
    """The panel's title: a long name is set smaller, a very long one is cut."""
    name = name if len(name) <= 38 else name[:37] + "\N{HORIZONTAL ELLIPSIS}"
    axis.set_title(name, fontsize=8.5 * min(1, 24 / len(name)))


def key(figure: Figure, rows: list[list[Line2D]], title: str) -> None:
    """The legend, above all panels, under a line that says what the figure shows; each of `rows` starts a line, a long one is cut."""
    rows = [row if len(row) <= MOST else [*row[:MOST], swatch(f"and {len(row) - MOST} more", "white")] for row in rows]
    for wide in range(max(map(len, rows)), 0, -1):
        blank = Line2D([], [], linestyle="", label="")
        cells = [handle for row in rows for handle in row + [blank] * (-len(row) % wide)]
        columns = [cells[column::wide] for column in range(wide)]
        widths = [0.48 + 0.068 * max(len(handle.get_label()) for handle in column) for column in columns]
        if sum(widths) <= figure.get_figwidth():
            break
    while not cells[-1].get_label():
        cells.pop()
    figure.legend(
        handles=[handle for column in range(wide) for handle in cells[column::wide]],  # Matplotlib fills columns
        title="\n".join(textwrap.fill(line, int(figure.get_figwidth() / LETTER)) for line in title.splitlines()),
        loc="outside upper center",
        ncols=wide,
        title_fontsize=8.5,
        handletextpad=0.4,
        columnspacing=1.4,
    )


def loss_intervals(table: pl.DataFrame | None, average: str) -> dict[tuple[str, int, str], list[float]]:
    """{(mixture, step, domain): [low, high]} of predicted losses in a table of intervals; `average` stands for all domains."""
    if table is None:
        return {}
    losses = table.filter(pl.col("quantity").is_in(["loss", "average_loss"])).with_columns(
        pl.col("domain").fill_null(average)
    )
    columns = losses.select(
        "mixture", "step", "domain", "low", "high"
    ).drop_nulls()  # null where the law defines no loss
    return {tuple(row[:3]): list(row[3:]) for row in columns.iter_rows()}


def swatch(label: str, colour: str, marker: str = "", line: str = "", hollow: bool = False) -> Line2D:
    """An entry of the legend."""
    face = "white" if hollow else colour
    return Line2D([], [], color=colour, marker=marker, linestyle=line, markerfacecolor=face, markersize=5, label=label)


def bars(
    values: dict[str, list], rows: list[str], colours: dict[str, str], label: Callable, title: str, same_scale: bool
) -> Figure:
    """Panels of horizontal bars, all with the same rows from top to bottom; `label` writes the number at a bar's end."""
    wide = columns(len(values), most=8)
    tall = math.ceil(len(values) / wide)
    names = 0.075 * max(map(len, rows)) + 0.2
    figure = Figure(figsize=(names + max(wide * 1.3, 3), tall * (0.17 * len(rows) + 0.45) + 0.35), layout="constrained")
    axes = figure.subplots(tall, wide, squeeze=False, sharey=True, sharex=same_scale).ravel().tolist()
    for gap in axes[len(values) :]:
        gap.remove()
    for axis, (name, numbers) in zip(axes, values.items(), strict=False):
        axis.barh(range(len(rows)), numbers, color=colours[name], height=0.72)
        for row, number in enumerate(numbers):
            axis.text(number, row, f" {label(number)}", va="center", fontsize=6)
        axis.set_title(name)
        axis.set_xlim(0, 1.3 * max(map(max, values.values()) if same_scale else numbers))
        axis.set_yticks(range(len(rows)), rows)
        axis.grid(visible=False)
        axis.tick_params(length=0, labelbottom=False)
        axis.spines["bottom"].set_visible(False)
        axis.set_ylim(len(rows) - 0.4, -0.6)
    figure.suptitle(title, fontsize=8.5)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write svg whose bytes depend on nothing but the figure."""
    figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
