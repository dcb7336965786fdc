"""Every figure, from small tables, fits a column of a paper; nothing empty or hidden."""

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import plot_answers
import plot_cross_entropy
import plot_entropy
import plot_fit
import plot_learning
import plot_mixtures
import plot_optimum
import plot_perplexity
import plot_predictions
import plot_recommended
import plot_rounds
from bimix.laws import fitted as laws
from bimix.observations.observations import observations
from bimix.results import figures

ROOT = Path(__file__).parents[2]
DOMAINS = ["code", "web", "books", "a domain with a long name"]
NAMES = ["se", "je", "ce", "vne", "baseline", "uniform"]
STEPS = [100, 200, 400, 800]
FITTED = 4


def table(columns: str, rows) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=columns.split(), orient="row")


@pytest.fixture(scope="module")
def known() -> dict:
    """Losses of six mixtures under a known law, and the law fitted to four of them."""
    random = np.random.default_rng(3)
    shares = dict(zip(NAMES, random.dirichlet(np.full(len(DOMAINS), 4.0), len(NAMES)), strict=True))
    mixtures = table(
        "mixture domain proportion",
        ((name, domain, float(own[d])) for name, own in shares.items() for d, domain in enumerate(DOMAINS)),
    )
    losses = table(
        "mixture step domain loss",
        (
            (name, step, domain, float(own[d] ** -0.1 * (9 / step**0.5 + 2 + d)) * float(random.normal(1, 0.004)))
            for name, own in shares.items()
            for d, domain in enumerate(DOMAINS)
            for step in STEPS
        ),
    )
    fitted = pl.col("mixture").is_in(NAMES[:FITTED])
    law = laws.fit("bimix", observations(losses.filter(fitted), mixtures.filter(fitted)))
    shares = {name: dict(zip(DOMAINS, map(float, own), strict=True)) for name, own in shares.items()}
    return {"law": law, "losses": losses, "mixtures": mixtures, "shares": shares}


def steps(known):
    seen = observations(known["losses"], known["mixtures"])
    return plot_fit.draw_steps(known["law"], seen), NAMES


def proportions(known):
    return plot_fit.draw_proportions(known["law"], observations(known["losses"], known["mixtures"])), NAMES


def predictions(known):
    told = known["losses"].with_columns(pl.col("loss") * 1.02)
    spans = table("mixture step domain low high quantity", [("baseline", 800, d, 3.0, 5.0, "loss") for d in DOMAINS])
    pairs = plot_predictions.pair(known["law"], known["losses"], told, spans)
    return plot_predictions.draw(known["law"], pairs), ["baseline: 2.00 %", "uniform: 2.00 %"]


def optimum(known):
    rows = [(domain, share, share - 0.05, share + 0.05, 0.9) for domain, share in known["shares"]["vne"].items()]
    best, law = table("domain estimate low high level", rows), known["law"]
    changes = plot_optimum.measured_changes(law, known["losses"], ("baseline", "vne"), np.ones(len(DOMAINS)))
    found = {"predicted, step 800": changes, "measured, larger, step 800": changes}
    figure = plot_optimum.draw(law, best, "baseline", known["shares"]["baseline"], found, [-3.0, 1.0])
    return figure, ["baseline", *found, *map(figures.short, DOMAINS)]


def recommended(known):
    changes = dict(zip(["", *DOMAINS], (-2.0, -3.0, 1.0, -4.0, 2.0), strict=True))
    found = {"over": "baseline", "shares": known["shares"]["baseline"], "model": "target", "step": 800}
    found |= {"measured": changes, "law": "bimix", "predicted": {name: one / 2 for name, one in changes.items()}}
    names = {"baseline": "the token shares"}
    facts = {"take": "vne", "shares": known["shares"]["vne"], "names": names, "changes": found}
    assert len(plot_recommended.draw(facts | {"changes": None}).texts) == 1, "as of a mixture in stages"
    return plot_recommended.draw(facts), ["the token shares", "losses predicted by the law bimix"]


def perplexity(known):
    twin = known["losses"].filter(pl.col("mixture") == "vne").with_columns(mixture=pl.lit("bimix"))
    return plot_perplexity.draw([known["losses"], twin], "baseline"), ["vne = bimix", *NAMES[:3], *NAMES[4:]]


def seeds(known):
    again = known["losses"].with_columns(pl.col("loss") * 1.01, seed=pl.lit(1))
    both = pl.concat([known["losses"].with_columns(seed=pl.lit(0)), again])
    return plot_perplexity.draw([both], "baseline"), NAMES


def mixtures(known):
    return plot_mixtures.draw(known["shares"]), [*NAMES, *map(figures.short, DOMAINS)]


def entropy(_):
    rows = [
        (domain, measure, 3.0 + k, 3.1 + k, None if measure == "VNE" else 3.2 + k)
        for k, (domain, measure) in enumerate(itertools.product(DOMAINS, ["SE", "JE", "CE", "VNE"]))
    ]
    return plot_entropy.draw(table("domain measure nats miller_madow chao_shen", rows)), ["se", "je", "ce", "vne"]


def learning(_):
    rows = [
        (law, runs, draw, level / runs * (1 + draw / 9), level, 1 - level / runs, None)
        for law, level in (("bimix", 0.3), ("regmix", 0.5))
        for runs in (4, 8, 16)
        for draw in range(3)
    ]
    return plot_learning.draw_learning(table("law runs draw mre mre_worst spearman note", rows)), ["bimix", "regmix"]


def cross_entropy(_):
    domains = [*DOMAINS, *(f"domain {k}" for k in range(12))]
    rows = [(one, other, 3.0 + abs(i - j)) for i, one in enumerate(domains) for j, other in enumerate(domains)]
    return plot_cross_entropy.draw(table("domain under nats", rows)), ["15.0", *map(figures.short, DOMAINS)]


def sizes(_):
    """Two sets of runs with equal errors, and one without an error before a large run."""
    names = ["RegMix 1M -> 1B", "RegMix 1M, 60M -> 1B", "SlimPajama 70M -> 160M"]
    rows = [
        (name, runs, draw, None if name == names[2] and not runs else 3 / (1 + runs) + draw / 9, 0.9 + draw / 99)
        for name in names
        for runs in (0, 1, 2, 4)
        for draw in range(3)
    ]
    return plot_learning.draw_sizes(table("runs large_runs draw error spearman", rows)), names


def answers(scale):
    """Right answers that grow with the steps by `scale`, and bits per byte that fall."""
    rows = [
        (name, task, metric, step, value, value / 4, 40)
        for k, name in enumerate(("baseline", "bimix"), 1)
        for step in (100, 200)
        for task in ("copying", "recall", "average")
        for metric, value in (
            ("accuracy" if task == "average" else "exact_match", scale * k * step),
            ("bits_per_byte", 400 / (step + 10 * k)),
        )
    ]
    return table("mixture task metric step value stderr n", rows)


def downstream(_):
    return plot_answers.draw_average(answers(1e-3)), ["baseline", "bimix", "average over tasks"]


def downstream_tasks(_):
    return plot_answers.draw_tasks(answers(1e-3)), ["baseline", "bimix", "copying (40 items)"]


FIGURES = [
    *(steps, proportions, predictions, optimum, recommended, perplexity, seeds, mixtures),
    *(entropy, cross_entropy, learning, sizes),
    *(downstream, downstream_tasks),
]


def overlap(one, other) -> bool:
    """Whether two boxes share more than an edge of half a pixel."""
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    return across > 0.5 and min(one.y1, other.y1) - max(one.y0, other.y0) > 0.5


@pytest.fixture(scope="module", params=FIGURES, ids=lambda draw: draw.__name__)
def drawn(request, known):
    """A figure laid out on 100 pixels an inch, its renderer, and texts that must be found on it."""
    figure, names = request.param(known)
    figure.set_dpi(100)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return figure, canvas.get_renderer(), names


def written(figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def test_it_fits_a_column_and_can_be_read_there(drawn):
    figure, renderer, names = drawn
    assert figure.get_figwidth() == figures.WIDTH
    assert figure.get_figheight() <= 9
    texts = written(figure)
    assert min(text.get_fontsize() for text in texts) >= figures.SMALL == 7
    shown = {text.get_text() for text in texts} | {text.get_text().partition(":")[0] for text in texts}
    assert not [name for name in names if name not in shown]
    box = figure.get_tightbbox(renderer)  # inches; nothing runs over the edge
    assert box.x0 >= -0.02 and box.x1 <= figures.WIDTH + 0.02
    assert box.y0 >= -0.02 and box.y1 <= figure.get_figheight() + 0.02
    # no panel is empty, and ticks do not overlap
    assert figure.axes
    for axis in figure.axes:
        assert axis.has_data() or axis.texts
        low, high = axis.get_xlim(), axis.get_ylim()
        inside = {
            "x": [t for t in axis.get_xticklabels() if min(low) - 1e-9 <= t.get_position()[0] <= max(low) + 1e-9],
            "y": [t for t in axis.get_yticklabels() if min(high) - 1e-9 <= t.get_position()[1] <= max(high) + 1e-9],
        }
        for labels in inside.values():
            boxes = [text.get_window_extent(renderer) for text in labels if text.get_text() and not text.get_rotation()]
            assert not [pair for pair in itertools.combinations(boxes, 2) if overlap(*pair)]
    # no line hides another: lines of one panel with the same points and different colours
    for axis in figure.axes:
        seen = {}
        for line in axis.lines:
            points = line.get_xydata()
            if len(points) > 1 and line.get_linestyle() != "None":
                assert seen.setdefault(points.tobytes(), line.get_color()) == line.get_color()


def test_where_nothing_was_answered_bits_per_byte_are_drawn_and_a_sentence_says_so():
    for draw in (plot_answers.draw_average, plot_answers.draw_tasks):
        figure, known = draw(answers(0.0)), draw(answers(1e-3))
        assert len(known.axes) == 2 * len(figure.axes) == 4
        assert not any("right" in axis.get_xlabel() + axis.get_ylabel() for axis in figure.axes)
        curves = [line for line in figure.axes[0].lines if len(line.get_ydata()) == 2]
        assert len(curves) == 2 and all(np.diff(line.get_ydata()) < 0 for line in curves)
        texts = " ".join(text.get_text().replace("\n", " ") for text in written(figure))
        assert "No model answered a single question right." in texts
        assert "No model" not in " ".join(text.get_text() for text in written(known))


def test_the_pages_show_every_figure_and_each_fits_a_column():
    """The committed drawings, as they are: 5.5 inches at 72 points, no letter below 7 points."""
    page = "".join((ROOT / "docs" / name).read_text() for name in ("results.md", "proof.md"))
    found = sorted((ROOT / "docs/figures").rglob("*.svg"))
    assert len(found) > 10
    for path in found:
        svg = path.read_text()
        assert f"({path.relative_to(ROOT / 'docs')})" in page, path.name
        assert re.search(r'<svg [^>]*width="396pt"', svg), path.name
        letters = [float(size) for size in re.findall(r"font(?:-size)?: (?:[a-z0-9]+ )*([0-9.]+)px", svg)]
        assert letters and min(letters) >= figures.SMALL, path.name


def test_numbers_of_large_runs_and_not_their_places_are_on_the_axis():
    rows = [("one -> two", runs, draw, 3 / (1 + runs), 0.9) for runs in range(0, 20, 2) for draw in range(2)]
    left = plot_learning.draw_sizes(table("runs large_runs draw error spearman", rows)).axes[0]
    assert [text.get_text() for text in left.get_xticklabels()] == [str(runs) for runs in range(0, 20, 2)]
    # a law looks the same in the learning curve next to any other
    rows = [(law, runs, 0, 0.1 / runs, 0.1, 0.9, None) for law in ("transfer", "olmix") for runs in (4, 8)]
    left = plot_learning.draw_learning(table("law runs draw mre mre_worst spearman note", rows)).axes[0]
    assert [line.get_color() for line in left.lines] == [
        look.colour for look in figures.looks(["transfer", "olmix"]).values()
    ]


def title(figure) -> str:
    said = figure.legends[0].get_title() if figure.legends else figure.texts[0]
    return said.get_text().replace("\n", " ")


def test_titles_have_the_numbers_of_what_was_found(known):
    law, seen = known["law"], observations(known["losses"], known["mixtures"])
    skewed = dataclasses.replace(seen, losses=laws.predict(law, seen.proportions, seen.steps) * 1.25)
    assert re.findall(r"(\d+) %", plot_fit.missed(law, skewed, seen.steps)) == ["20", "20"]
    nats = {("a", "a"): 2.0, ("a", "b"): 2.3, ("a", "c"): 4.0, ("b", "a"): 2.9, ("b", "b"): 2.5, ("b", "c"): 4.5}
    nats |= {("c", "a"): 5.0, ("c", "b"): 5.5, ("c", "c"): 3.0}
    near = plot_cross_entropy.draw(table("domain under nats", ((*pair, value) for pair, value in nats.items())))
    ends = [("a", 9, "x", 2.0), ("b", 9, "x", 1.9)]
    columns = "round mixture voice promised measured deviation_percent expected_gain_percent noise_percent stopped"
    start = [(0, "hand", "by hand", None, 3.1, None, None, None, None)]
    ran = (1, "round1", "law", 3.0, 2.945, 0.5, 2.0, 0.1, None)
    ended = (1, None, None, None, None, None, 0.05, 0.1, "little is expected.")
    for figure, parts in (
        (steps(known)[0], ["misses a loss by"]),
        (proportions(known)[0], ["misses a loss by"]),
        (learning(known)[0], ["bimix at 4 (8.3 %)", "bimix at 16 (2.1 %)"]),
        (near, ["a is nearest to b (0.30", "c is far from all others (2.00"]),
        (plot_perplexity.draw([table("mixture step domain loss", ends)], "a"), ["b ", "1.9000", "5.00 % below a"]),
        (mixtures(known)[0], ["moves most: from"]),
        (entropy(known)[0], ["Most entropy has"]),
        (plot_rounds.draw(table(columns, [*start, ran])), ["round1", "2 runs", "2.9450", "5.00 % below", "All rounds"]),
        (plot_rounds.draw(table(columns, [*start, ended])), ["no round found", "before round 1: little is"]),
    ):
        assert not [part for part in parts if part not in title(figure)], title(figure)
