"""Draw a fitted law next to the losses measured, one panel per domain: against training steps
(paper Fig. 1), and against the domain's own proportion (Fig. 2).

coefficients.json, losses, mixtures -> two svg

Along a line of proportions the other domains share the rest in the ratio of their mean over the
fitted mixtures. The law bimix looks at a domain's own proportion only: for it every point of a step
belongs on the line.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations, mean_over_seeds, observations
from bimix.results import figures
from bimix.tables import read_table

POINTS = 80  # of a smooth curve
STEPS = 3  # at most so many lines of proportions in a panel
LOSS = "loss (nats per token, log)"
NOTHING = "No loss is of a domain that is trained on: there is no proportion to draw one against."


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, coefficients="written by fit_law.py", steps="svg", proportions="svg")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, fitted and held out")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures of the same")
    options = parser.parse_args(argv)
    law = checked_law(options.coefficients)
    losses = figures.together([mean_over_seeds(read_table(path)) for path in options.losses])
    mixtures = [read_table(path).select("mixture", "domain", "proportion") for path in options.mixtures]
    observed = observations(losses, figures.together(mixtures), checked=True)
    figures.save(draw_steps(law, observed), options.steps)
    figures.save(draw_proportions(law, observed), options.proportions)


def predicted(law: dict, observed: Observations, shares: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Losses (k, n, d) of mixtures (k, m) of the observed domains, d those of the observed losses;
    NaN of one that the law does not predict.
    """
    own = predict_defined(law, shares[:, [observed.domains.index(name) for name in law["domains"]]], steps)
    found = np.full((*own.shape[:2], len(observed.loss_domains)), np.nan)
    for place, name in enumerate(observed.loss_domains):
        if name in law["loss_domains"]:
            found[..., place] = own[..., law["loss_domains"].index(name)]
    return found


def known_steps(law: dict, observed: Observations) -> np.ndarray:
    """The measured steps that the law predicts."""
    every = LAWS[law["law"]].over_steps and len(law["steps"]) > 1
    return observed.steps if every else np.intersect1d(observed.steps, law["steps"])


def missed(law: dict, observed: Observations, steps: np.ndarray) -> str:
    """By how much the law misses the losses measured at some of the steps; what is drawn hollow."""
    own = predicted(law, observed, observed.proportions, steps)
    errors = np.abs(own / observed.losses[:, np.isin(observed.steps, steps)] - 1)
    held_out = "" if set(observed.mixtures) <= set(law["mixtures"]) else "; hollow: not fitted"
    if not np.isfinite(errors).any():
        return f"The law {law['law']} predicts none of these losses{held_out}."
    worst = observed.loss_domains[np.unravel_index(np.nanargmax(errors), errors.shape)[2]]
    said = f"The law {law['law']} misses a loss by {100 * np.nanmean(errors):.2g} % on average"
    return f"{said}, and by {100 * np.nanmax(errors):.2g} % at most, of {worst}{held_out}."


def draw_steps(law: dict, observed: Observations) -> Figure:
    """A panel a domain: losses with the law's lines."""
    known = known_steps(law, observed)
    curves = predicted(law, observed, observed.proportions, known)
    looks = figures.looks(observed.mixtures)
    hollow = [name not in law["mixtures"] for name in observed.mixtures]
    shown = [place for place, name in enumerate(observed.loss_domains) if name in law["loss_domains"]]
    figure, axes = figures.grid(len(shown))
    for axis, domain in zip(axes, shown, strict=True):
        for n, look in enumerate(looks.values()):
            line = {"color": look.colour, "linewidth": 0.8, "linestyle": look.dash}
            axis.plot(known, curves[n, :, domain], marker="_" if len(known) == 1 else "", **line)
            axis.plot(observed.steps, observed.losses[n, :, domain], **look.mark(2.8, hollow[n], markeredgewidth=0.7))
        figures.name_panel(axis, observed.loss_domains[domain])
        figures.log_axis(axis, "x", observed.steps, most=3)
        figures.log_axis(axis, "y", np.append(observed.losses[:, :, domain], curves[:, :, domain]), most=4)
    figure.supxlabel("training steps (log)", fontsize=figures.LARGE)
    figure.supylabel(LOSS, fontsize=figures.LARGE)
    entries = [look.entry(name, line=True, hollow=own) for (name, look), own in zip(looks.items(), hollow, strict=True)]
    figures.key(figure, entries, missed(law, observed, known))
    return figure


def path_through(own: int, shares: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mixtures (k, m): the domain `own` has shares (k,), the rest the ratio of `mean` (m,)."""
    rest = np.delete(mean, own).sum()
    mixtures = np.outer(1 - shares, mean / rest if rest > 0 else mean)
    mixtures[:, own] = shares
    return mixtures


def draw_proportions(law: dict, observed: Observations) -> Figure:
    """A panel a domain that some mixture trains on: losses against its proportion, the law's line a
    shade a step, of a few steps spread evenly on a log axis.
    """
    trained = {domain for domain, own in zip(observed.domains, observed.proportions.T, strict=True) if own.any()}
    shown = [name for name in observed.loss_domains if name in law["loss_domains"] and name in trained]
    if not shown:  # but of other text, or of benchmarks
        empty = Figure(figsize=(figures.WIDTH, 0.6))
        empty.text(0.5, 0.4, NOTHING, ha="center")
        return empty
    known = known_steps(law, observed)
    wanted = np.geomspace(known[0], known[-1], STEPS)
    steps = known[sorted({int(np.argmin(np.abs(np.log(known / step)))) for step in wanted})]
    shades = [to_hex(colour) for colour in colormaps["viridis_r"](np.linspace(0.25, 1, len(steps)))]
    hollow = np.array([name not in law["mixtures"] for name in observed.mixtures])
    mean = observed.proportions[~hollow if not hollow.all() else slice(None)].mean(axis=0)
    marks = {name: look.marker for name, look in figures.looks(observed.mixtures).items()}
    figure, axes = figures.grid(len(shown))
    for axis, domain in zip(axes, shown, strict=True):
        own, place = observed.domains.index(domain), observed.loss_domains.index(domain)
        shares = observed.proportions[:, own]
        read = np.flatnonzero(shares > 0)
        along = np.geomspace(shares[read].min() * 0.9, min(shares.max() * 1.1, 0.999), POINTS)
        lines = predicted(law, observed, path_through(own, along, mean), steps)[:, :, place]
        points = observed.losses[:, np.isin(observed.steps, steps), place]
        for k, shade in enumerate(shades):
            axis.plot(along, lines[:, k], "-", color=shade, linewidth=0.8)
            for n in read:
                look = figures.Look(shade, marks[observed.mixtures[n]])
                axis.plot(shares[n], points[n, k], **look.mark(3.0, hollow[n], markeredgewidth=0.8))
        figures.name_panel(axis, domain)
        figures.log_axis(axis, "x", along, most=3)
        figures.log_axis(axis, "y", np.append(points[read], lines), most=4)
    figure.supxlabel("proportion of the domain (log)", fontsize=figures.LARGE)
    figure.supylabel(LOSS, fontsize=figures.LARGE)
    named = zip(marks.items(), hollow, strict=True)
    entries = [figures.swatch(name, figures.GREY, marker, hollow=own) for (name, marker), own in named]
    lines = [figures.swatch(f"step {step:,}", shade, line="-") for step, shade in zip(steps, shades, strict=True)]
    figures.key(figure, [*lines, *entries], missed(law, observed, steps))
    return figure


if __name__ == "__main__":
    sys.exit(run(main))
