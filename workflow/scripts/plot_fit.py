"""Draw a fitted law next to the losses measured, one panel per domain: against training steps, with
its misses in percent below (paper Fig. 1), and against the domain's own proportion (Fig. 2).

coefficients.json, losses, mixtures, optionally intervals -> two svg

Along a line of proportions the other domains share the rest in the ratio of their mean over the
fitted mixtures. The law bimix looks at a domain's own proportion only: for it every point of a step
belongs on the line.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations, mean_over_seeds, observations
from bimix.results import figures
from bimix.tables import read_table

POINTS, ALONG = 80, 60  # of a smooth curve over steps, over proportions
HEIGHTS = (1.0, 0.5)  # inches of a panel and of the misses below it
STEPS = 3  # at most so many lines of proportions in a panel
NOTHING = "No loss is of a domain that is trained on: there is no proportion to draw one against."


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, coefficients="written by fit_law.py", steps="svg", proportions="svg")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, fitted and held out")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures of the same")
    parser.add_argument("--intervals", type=Path, nargs="?", help="written by estimate_intervals.py")
    options = parser.parse_args(argv)

    law = checked_law(options.coefficients)
    observed = read_observed(options.losses, options.mixtures)
    spans = figures.loss_intervals(options.intervals and read_table(options.intervals), "average over domains")
    figures.save(draw_steps(law, observed), options.steps)
    figures.save(draw_proportions(law, observed, spans), options.proportions)


def read_observed(losses: Sequence[Path], mixtures: Sequence[Path]) -> Observations:
    """The runs of several groups, means over their seeds; a mixture may be in several groups."""
    rows = pl.concat(mean_over_seeds(read_table(path)) for path in losses).unique(maintain_order=True)
    tables = [read_table(path).select("mixture", "domain", "proportion") for path in mixtures]
    shares = pl.concat(tables, how="vertical_relaxed")  # proportions of 0 and 1 alone are read as whole numbers
    return observations(rows, shares.unique(maintain_order=True), allowed=None)


def predicted(law: dict, observed: Observations, shares: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Losses (k, n, d) by the law of mixtures (k, m) of the observed domains, in its own order."""
    return predict_defined(law, shares[:, [observed.domains.index(name) for name in law["domains"]]], steps)


def known_steps(law: dict, observed: Observations) -> tuple[np.ndarray, bool]:
    """The measured steps that the law predicts, and whether it does all between them."""
    between = LAWS[law["law"]].over_steps and len(law["steps"]) > 1
    return observed.steps if between else np.intersect1d(observed.steps, law["steps"]), between


def missed(law: dict, observed: Observations, steps: np.ndarray) -> str:
    """By how much the law misses the losses measured at some of the steps; what is drawn hollow."""
    shown = [domain for domain in law["loss_domains"] if domain in observed.loss_domains]
    own = predicted(law, observed, observed.proportions, steps)[:, :, [law["loss_domains"].index(d) for d in shown]]
    places = [observed.loss_domains.index(name) for name in shown]
    errors = np.abs(own / observed.losses[:, np.isin(observed.steps, steps)][:, :, places] - 1)
    held_out = "" if set(observed.mixtures) <= set(law["mixtures"]) else "; hollow: not fitted"
    if not np.isfinite(errors).any():
        return f"The law {law['law']} predicts none of these losses{held_out}."
    worst = shown[int(np.nanargmax(np.nanmax(errors, axis=(0, 1))))]
    said = f"The law {law['law']} misses a loss by {100 * np.nanmean(errors):.2g} % on average"
    return f"{said}, and by {100 * np.nanmax(errors):.2g} % at most, of {worst}{held_out}."


def draw_steps(law: dict, observed: Observations) -> Figure:
    """Two panels a domain: losses with the law's lines, and the law's misses in percent."""
    known, between = known_steps(law, observed)
    smooth = np.geomspace(observed.steps[0], observed.steps[-1], POINTS) if between else known
    shown = [domain for domain in law["loss_domains"] if domain in observed.loss_domains]
    seen = [name in law["mixtures"] for name in observed.mixtures]
    looks = list(zip(figures.looks(observed.mixtures).values(), seen, strict=True))
    curves, ends = (predicted(law, observed, observed.proportions, steps) for steps in (smooth, known))
    figure, pairs = figures.paired_grid(len(shown), HEIGHTS)
    for (above, below), domain in zip(pairs, shown, strict=True):
        own = law["loss_domains"].index(domain)
        points = observed.losses[:, :, observed.loss_domains.index(domain)]
        draw_losses(above, looks, observed.steps, points, smooth, curves[:, :, own])
        misses = ends[:, :, own] / points[:, np.isin(observed.steps, known)] - 1
        draw_misses(below, looks, known, 100 * misses)
        figures.name_panel(above, domain)
        figures.log_axis(below, "x", observed.steps, most=3)
    figure.supxlabel("training steps (log)", fontsize=figures.LARGE)
    for above, below in pairs[:: figures.columns(len(shown))]:
        above.set_ylabel("loss (nats, log)")
        below.set_ylabel("miss (%)")
    figure.align_ylabels()
    named = zip(observed.mixtures, looks, strict=True)
    entries = [look.entry(name, line=True, hollow=not fitted) for name, (look, fitted) in named]
    figures.key(figure, [entries], missed(law, observed, known))
    return figure


def draw_losses(
    axis: Axes,
    looks: list[tuple[figures.Look, bool]],
    steps: np.ndarray,
    points: np.ndarray,
    smooth: np.ndarray,
    lines: np.ndarray,
) -> None:
    """Measured losses (k, n) of k mixtures at n steps, and the law's lines (k, p) through p steps;
    `looks`: how each mixture looks, and whether the law was fitted to it.
    """
    for (look, fitted), line, own in zip(looks, lines, points, strict=True):
        alone = {"linestyle": "none", "marker": "_"} if len(smooth) == 1 else {"linestyle": look.dash}
        axis.plot(smooth, line, color=look.colour, linewidth=0.8, **alone)
        axis.plot(steps, own, **look.mark(2.8, not fitted, markeredgewidth=0.7))
    figures.log_axis(axis, "y", np.concatenate([points.ravel(), lines.ravel()]), most=4)


def draw_misses(axis: Axes, looks: list[tuple[figures.Look, bool]], steps: np.ndarray, percents: np.ndarray) -> None:
    """The law above the measured losses, in percent (k, n), the mixtures of a step dodged."""
    closest = np.log(steps[1:] / steps[:-1]).min() if len(steps) > 1 else 0.5
    axis.axhline(0, color="#888888", linewidth=0.6)
    for rank, ((look, fitted), own) in enumerate(zip(looks, percents, strict=True)):
        places = steps * np.exp(figures.dodged(rank, len(looks), 0.35 * closest))
        axis.plot(places, own, **look.mark(2.4, not fitted, markeredgewidth=0.6))
    axis.locator_params(axis="y", nbins=3)


def path_through(domain: str, domains: tuple[str, ...], shares: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mixtures (k, m): `domain` has shares (k,), the rest the ratio of `mean` (m,)."""
    own = domains.index(domain)
    rest = np.delete(mean, own).sum()
    mixtures = np.outer(1 - shares, mean / rest if rest > 0 else mean)
    mixtures[:, own] = shares
    return mixtures


def draw_proportions(law: dict, observed: Observations, spans: figures.Spans) -> Figure:
    """A panel a domain that some mixture trains on: losses against its proportion, the law's line a
    shade a step, of a few steps spread evenly on a log axis.
    """
    trained = {domain for domain, shares in zip(observed.domains, observed.proportions.T, strict=True) if shares.any()}
    shown = [domain for domain in law["loss_domains"] if domain in observed.loss_domains and domain in trained]
    if not shown:  # but of other text, or of benchmarks
        empty = Figure(figsize=(figures.WIDTH, 0.6))
        empty.text(0.5, 0.4, NOTHING, ha="center")
        return empty
    known, _ = known_steps(law, observed)
    wanted = np.geomspace(known[0], known[-1], STEPS)
    steps = known[sorted({int(np.argmin(np.abs(np.log(known / step)))) for step in wanted})]
    light_to_dark = colormaps["viridis_r"](np.linspace(0.25, 1, len(steps)))
    shades = {step: to_hex(colour) for step, colour in zip(steps, light_to_dark, strict=True)}
    looks = figures.looks(observed.mixtures)
    figure, axes = figures.grid(len(shown))
    for axis, domain in zip(axes, shown, strict=True):
        draw_domain(axis, domain, law, observed, spans, shades, looks)
    figure.supxlabel("proportion of the domain (log)", fontsize=figures.LARGE)
    figure.supylabel("validation loss (nats per token, log)", fontsize=figures.LARGE)
    entries = [
        figures.swatch(name, figures.GREY, looks[name].marker, hollow=name not in law["mixtures"])
        for name in observed.mixtures
    ]
    lines = [figures.swatch(f"step {step:,}", shade, line="-") for step, shade in shades.items()]
    figures.key(figure, [lines, entries], missed(law, observed, steps))
    return figure


def draw_domain(
    axis: Axes,
    domain: str,
    law: dict,
    observed: Observations,
    spans: figures.Spans,
    shades: dict[int, str],
    looks: dict[str, figures.Look],
) -> None:
    """One domain's losses by its proportion at the steps of `shades`; hollow: not fitted."""
    steps = np.array(list(shades))
    fitted = [n for n, mixture in enumerate(observed.mixtures) if mixture in law["mixtures"]]
    mean = observed.proportions[fitted or slice(None)].mean(axis=0)
    shares = observed.proportions[:, observed.domains.index(domain)]
    positive = shares[shares > 0]
    along = np.geomspace(positive.min() * 0.9, min(positive.max() * 1.1, 0.999), ALONG)
    path = path_through(domain, observed.domains, along, mean)
    lines = predicted(law, observed, path, steps)[:, :, law["loss_domains"].index(domain)]
    points = observed.losses[:, np.isin(observed.steps, steps), observed.loss_domains.index(domain)]
    for k, (step, shade) in enumerate(shades.items()):
        axis.plot(along, lines[:, k], "-", color=shade, linewidth=0.8)
        for n in np.flatnonzero(shares > 0):
            mixture = observed.mixtures[n]
            if (mixture, step, domain) in spans:
                axis.plot([shares[n]] * 2, spans[mixture, step, domain], color=shade, linewidth=0.9, alpha=0.5)
            look = figures.Look(shade, looks[mixture].marker)
            axis.plot(shares[n], points[n, k], **look.mark(3.0, n not in fitted, markeredgewidth=0.8))
    figures.name_panel(axis, domain)
    figures.log_axis(axis, "x", along, most=3)
    figures.log_axis(axis, "y", np.concatenate([points[shares > 0].ravel(), lines.ravel()]), most=4)


if __name__ == "__main__":
    sys.exit(run(main))
