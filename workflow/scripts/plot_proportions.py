"""Draw loss against a domain's own proportion at some of the steps, one panel per domain (paper
Fig. 2).

coefficients.json, losses, mixtures, optionally intervals -> svg

Along a line the other domains share the rest in the ratio of their mean over the fitted mixtures.
The law bimix looks at a domain's own proportion only: for it every point of a step belongs on the
line.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations
from bimix.results import figures
from bimix.tables import read_table

POINTS = 60  # of a smooth curve
STEPS = 3  # at most so many lines in a panel
Spans = dict[tuple[str, int, str], list[float]]  # low and high of mixture, step and domain


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, fitted and held out")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures of the same")
    parser.add_argument("--intervals", type=Path, nargs="?", help="written by estimate_intervals.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    law = checked_law(options.coefficients)
    observed = figures.read_observed(options.losses, options.mixtures)
    if not shown_domains(law, observed):  # but of other text, or of benchmarks
        empty = Figure(figsize=(figures.WIDTH, 0.6))
        empty.text(
            0.5,
            0.4,
            "No loss is of a domain that is trained on: there is no proportion to draw one against.",
            ha="center",
        )
        figures.save(empty, options.out)
        return
    spans = figures.loss_intervals(options.intervals and read_table(options.intervals), "average over domains")
    figures.save(draw(law, observed, spans), options.out)


def path_through(domain: str, domains: tuple[str, ...], shares: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mixtures (k, m): `domain` has shares (k,), the rest the ratio of `mean` (m,)."""
    own = domains.index(domain)
    rest = np.delete(mean, own).sum()
    mixtures = np.outer(1 - shares, mean / rest if rest > 0 else mean)
    mixtures[:, own] = shares
    return mixtures


def chosen_steps(steps: np.ndarray) -> np.ndarray:
    """Up to STEPS of the steps, with first and last, spread evenly on a log axis."""
    wanted = np.geomspace(steps[0], steps[-1], STEPS)
    return steps[sorted({int(np.argmin(np.abs(np.log(steps / step)))) for step in wanted})]


def shown_domains(law: dict, observed: Observations) -> list[str]:
    """The domains that the law predicts losses of and that some mixture trains on."""
    trained = {domain for domain, shares in zip(observed.domains, observed.proportions.T, strict=True) if shares.any()}
    return [domain for domain in law["loss_domains"] if domain in observed.loss_domains and domain in trained]


def draw(law: dict, observed: Observations, spans: Spans) -> Figure:
    """A panel a domain: losses against its proportion, the law's line a shade a step."""
    over_steps = LAWS[law["law"]].over_steps and len(law["steps"]) > 1
    steps = chosen_steps(observed.steps if over_steps else np.intersect1d(observed.steps, law["steps"]))
    light_to_dark = colormaps["viridis_r"](np.linspace(0.25, 1, len(steps)))
    shades = {step: to_hex(colour) for step, colour in zip(steps, light_to_dark, strict=True)}
    looks = figures.looks(observed.mixtures)
    shown = shown_domains(law, observed)
    figure, axes = figures.grid(len(shown))
    for axis, domain in zip(axes, shown, strict=True):
        draw_domain(axis, domain, law, observed, spans, shades, looks)
    figure.supxlabel("proportion of the domain (log)", fontsize=figures.LARGE)
    figure.supylabel("validation loss (nats per token, log)", fontsize=figures.LARGE)
    hollow = [mixture not in law["mixtures"] for mixture in observed.mixtures]
    entries = [
        figures.swatch(name, figures.GREY, looks[name].marker, hollow=empty)
        for name, empty in zip(observed.mixtures, hollow, strict=True)
    ]
    lines = [figures.swatch(f"step {step:,}", shade, line="-") for step, shade in shades.items()]
    held_out = "; hollow: not fitted" if any(hollow) else ""
    figures.key(figure, [lines, entries], f"{figures.missed(law, observed, steps)}{held_out}.")
    return figure


def draw_domain(
    axis: Axes,
    domain: str,
    law: dict,
    observed: Observations,
    spans: Spans,
    shades: dict[int, str],
    looks: dict[str, figures.Look],
) -> None:
    """One domain's losses by its proportion at the steps of `shades`; hollow: not fitted."""
    steps = np.array(list(shades))
    fitted = [n for n, mixture in enumerate(observed.mixtures) if mixture in law["mixtures"]]
    mean = observed.proportions[fitted or slice(None)].mean(axis=0)
    shares = observed.proportions[:, observed.domains.index(domain)]
    positive = shares[shares > 0]
    along = np.geomspace(positive.min() * 0.9, min(positive.max() * 1.1, 0.999), POINTS)
    order = [observed.domains.index(name) for name in law["domains"]]
    path = path_through(domain, observed.domains, along, mean)[:, order]
    lines = predict_defined(law, path, steps)[:, :, law["loss_domains"].index(domain)]
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
