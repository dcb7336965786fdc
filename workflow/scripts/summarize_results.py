"""Put what was found on one page of text: the mixture to take, its gain as measured and as
predicted, what to do next.

coefficients.json, intervals.csv, mixtures, the tables -> summary.txt, summary_details.txt, and both
in summary.html
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.laws.sized import size_read
from bimix.mixtures.mixture import read_proportions
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.optimum import weighed
from bimix.outputs import replacing
from bimix.results import headline, sizes, summary
from bimix.results import verdict as verdicts
from bimix.results.answers import answers
from bimix.results.layout import WIDTH, paragraph
from bimix.results.verdict import Spread, Verdict
from bimix.runs.provenance import FITTING, code
from bimix.scores.laws import LAWS_TABLE
from bimix.scores.scores import EXTRAPOLATION, GENERALIZATION
from bimix.scores.sizes import SIZES
from bimix.tables import read_json, read_numbers, read_table

DOMAINS = 12  # rows of the mixture on the page
NUMBERS = ("steps_to_reference", "steps_ratio", "deviation_percent", "scatter_percent")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="its name, for the title")
    parser.add_argument("--fitted-model", required=True, help="name of the model the laws were fitted on")
    parser.add_argument(
        "--asked-model", default="none", help="name of the model that laws over sizes were asked for; none: the fitted"
    )
    parser.add_argument("--compared-model", required=True, help="name of the model the comparison was trained on")
    parser.add_argument("--step", type=int, required=True, help="the step that the mixtures were optimised for")
    parser.add_argument("--weights", help="of the optimum, as for optimize_mixture.py")
    parser.add_argument(
        "--coefficients", type=Path, nargs="+", required=True, help="of each law, written by fit_law.py"
    )
    parser.add_argument(
        "--optimised", type=Path, nargs="+", required=True, help="mixture of each law, in the same order"
    )
    parser.add_argument("--reference", required=True, help="name of the mixture that the others are measured against")
    parser.add_argument("--reference-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--extrapolation", type=Path, nargs="?", help="tables/extrapolation.csv, of laws over steps")
    parser.add_argument("--generalization", type=Path, nargs="?", help="tables/generalization.csv, of the same")
    parser.add_argument("--comparison", type=Path, required=True, help="tables/comparison.csv")
    parser.add_argument("--laws", type=Path, nargs="?", help="tables/laws.csv, of laws fitted at one size")
    parser.add_argument("--intervals", type=Path, nargs="*", default=[], help="of each law, with three runs or more")
    parser.add_argument("--sizes", type=Path, nargs="*", default=[], help="sizes.csv of each law over sizes")
    parser.add_argument("--answers", type=Path, nargs="*", default=[], help="tables/downstream.csv, if there is one")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="where they lie, to be listed")
    parser.add_argument("--out", type=Path, required=True, help="summary.txt")
    parser.add_argument("--details", type=Path, required=True, help="summary_details.txt")
    parser.add_argument("--page", type=Path, required=True, help="summary.html")
    options = parser.parse_args(argv)
    if options.asked_model == "none":
        options.asked_model = options.fitted_model

    found = read(options)
    page, details = "\n".join(first_page(options, found)), "\n".join(behind(options, found))
    texts = {options.out: page, options.details: details}
    texts[options.page] = summary.page(options.dataset, f"{page}\n\n{details}")
    for path, text in texts.items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Found:
    """What the files say: `laws` by the mixture that each found, these `mixtures` and the
    reference's, the tables.
    """

    laws: dict[str, dict]
    mixtures: dict[str, dict[str, float]]
    before: dict[str, float]
    weights: dict[str, float] | None
    runs: pl.DataFrame
    spans: pl.DataFrame
    spread: Spread
    verdict: Verdict
    same: dict[str, str]

    def of(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of the law that found a mixture."""
        return table.filter(pl.col("law") == self.laws[name]["law"])


def read(options: argparse.Namespace) -> Found:
    """The files that both texts tell of."""
    names = [path.stem for path in options.optimised]
    mixtures = {name: read_proportions(path) for name, path in zip(names, options.optimised, strict=True)}
    runs = read_table(options.comparison)
    runs = runs.with_columns(pl.col(column).cast(pl.Float64) for column in NUMBERS)
    spans = [read_table(path).cast(INTERVALS) for path in options.intervals] or [pl.DataFrame(schema=INTERVALS)]
    laws = {name: read_json(place) for name, place in zip(names, options.coefficients, strict=True)}
    counts = {law["law"]: len(law["mixtures"]) for law in laws.values()}
    spread = verdicts.spread(runs, verdicts.left_out_percent(pl.concat(spans), counts))
    return Found(
        laws=laws,
        mixtures=mixtures,
        before=read_proportions(options.reference_mixture),
        weights=options.weights and read_numbers(options.weights),
        runs=runs,
        spans=pl.concat(spans),
        spread=spread,
        verdict=verdicts.judge(runs, names, spread),
        same=verdicts.found_twice(mixtures),
    )


def first_page(options: argparse.Namespace, found: Found) -> list[str]:
    """The page: what decides first, then the mixture, the runs and the laws beside each other."""
    own, runs = found.verdict.own, found.runs
    law = found.laws[own]
    folder = options.reference_mixture.parent
    at_hand = options.compared_model == options.asked_model and runs["step"][0] == options.step
    model, has_runs = options.compared_model, options.compared_model != "observed"
    lines = [headline.title(options.dataset, found.verdict), "=" * WIDTH]
    lines += headline.headline(
        found.verdict,
        runs,
        found.spread,
        options.reference,
        model,
        headline.predicted(found.of(own, found.spans), options.reference, options.asked_model, at_hand),
        {name: str(folder / f"{name}.json") for name in [*found.laws, *runs["mixture"]]},
        found.same,
        headline.next_steps(options.dataset, found.verdict, model, has_runs, runs, found.spread),
        sizes.asked(law, options.fitted_model, options.asked_model),
        weighed(law, found.weights),
    )
    lines += ["", f"The mixture of the law {law['law']}, for step {options.step:,} of {options.asked_model}", ""]
    names = (options.reference, found.before, own, found.mixtures[own])
    lines += summary.proportions(*names, law["proportions_seen"], rows=DOMAINS)
    lines += [] if size_read(law) else summary.beyond(options.step, law["steps"])
    lines += ["", *summary.compared(runs, model, options.reference)]
    if options.laws:
        lines += ["", "The laws on the same rows", "", *summary.laws(read_table(options.laws).cast(LAWS_TABLE))]
    for path in options.answers:
        lines += ["", *answers(read_table(path), options.reference)]
    lines += ["", f"Details, and a list of the figures: {options.details}", *summary.origin(code(FITTING)), ""]
    return lines


def behind(options: argparse.Namespace, found: Found) -> list[str]:
    """The details: each law's optimum, its predictions and warnings, the verdict on it, and where
    the figures are.
    """
    scored = ((options.extrapolation, EXTRAPOLATION), (options.generalization, GENERALIZATION))
    extrapolated, generalized = (read_table(path) if path else pl.DataFrame(schema=empty) for path, empty in scored)
    by_size = [read_table(path).cast(SIZES) for path in options.sizes] or [pl.DataFrame(schema=SIZES)]
    lines = [f"{options.dataset}: details of the summary", "=" * WIDTH]
    for (name, law), place in zip(found.laws.items(), options.coefficients, strict=True):
        title = f"Mixture optimised with the law {law['law']}, for step {options.step:,} of {options.asked_model}"
        lines += ["", title]
        if name in found.same:
            lines += ["", f"  The mixture of {found.same[name]} to four digits."]
        else:
            lines += [] if size_read(law) else summary.beyond(options.step, law["steps"])
            pair = (options.reference, name, found.before, found.mixtures[name])
            lines += summary.optimised(law, *pair, found.of(name, found.spans), weighed(law, found.weights))
            others = [other for other in found.laws if other != name]
            lines += ["", *paragraph(summary.verdict(found.runs, options.reference, name, others, found.spread))]
        scores = (found.of(name, extrapolated), found.of(name, generalized))
        lines += ["", "", *summary.predicts(law, options.fitted_model, *scores, str(place))]
        of_size = pl.concat(by_size).filter(pl.col("runs") == law["law"])
        lines += sizes.by_large_runs(of_size, options.asked_model) if of_size.height else []
    twice = {f"_{found.laws[name]['law']}_" for name in found.same}
    figures = [path for path in options.figures if not any(law in path.stem for law in twice)]
    return [*lines, "", "Figures", *(f"  {path}" for path in figures), ""]


if __name__ == "__main__":
    sys.exit(run(main))
