"""Put what was found on one page of text: the optimised mixture, its predicted gain, the scores of the laws, how the large runs compare.

coefficients.json, intervals.csv, mixtures, the tables -> summary.txt, and summary.html, the same text for the report
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.optimum import weighed
from bimix.outputs import replacing
from bimix.results import summary
from bimix.runs.provenance import FITTING, code
from bimix.scores.laws import LAWS_TABLE
from bimix.tables import read_json, read_numbers, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="its name, for the title")
    parser.add_argument("--fitted-model", required=True, help="name of the model the laws were fitted on")
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
    parser.add_argument("--extrapolation", type=Path, required=True, help="tables/extrapolation.csv")
    parser.add_argument("--generalization", type=Path, required=True, help="tables/generalization.csv")
    parser.add_argument("--comparison", type=Path, required=True, help="tables/comparison.csv")
    parser.add_argument("--laws", type=Path, required=True, help="tables/laws.csv")
    parser.add_argument("--intervals", type=Path, nargs="*", default=[], help="of each law, with three runs or more")
    parser.add_argument("--answers", type=Path, nargs="*", default=[], help="tables/downstream.csv, if there is one")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="where they lie, to be listed")
    parser.add_argument("--out", type=Path, required=True, help="summary.txt")
    parser.add_argument("--page", type=Path, required=True, help="summary.html")
    options = parser.parse_args(argv)

    before = read_numbers(options.reference_mixture)
    weights = options.weights and read_numbers(options.weights)
    extrapolated, generalized = read_table(options.extrapolation), read_table(options.generalization)
    runs, laws = read_table(options.comparison), read_table(options.laws).cast(LAWS_TABLE)
    spans = pl.concat(
        [read_table(path).cast(INTERVALS) for path in options.intervals] or [pl.DataFrame(schema=INTERVALS)]
    )
    lines = [f"{options.dataset}: what the runs say", "=" * summary.WIDTH]
    for place, path in zip(options.coefficients, options.optimised, strict=True):
        law = read_json(place)
        own = pl.col("law") == law["law"]
        title = f"Mixture optimised with the law {law['law']}, for step {options.step:,} of {options.fitted_model}"
        lines += ["", title, *summary.beyond(options.step, law["steps"])]
        names = (options.reference, path.stem)
        lines += summary.optimised(law, *names, before, read_numbers(path), spans.filter(own), weighed(law, weights))
        scores = (extrapolated.filter(own), generalized.filter(own))
        lines += ["", "", *summary.predicts(law, options.fitted_model, *scores, str(place))]
    lines += ["", "The laws on the same rows", "", *summary.laws(laws), "", ""]
    optimised = [path.stem for path in options.optimised]
    lines += summary.compared(runs, options.compared_model, options.reference, optimised)
    for path in options.answers:
        lines += [*summary.answers(read_table(path), options.reference), ""]
    lines += ["Figures", *(f"  {path}" for path in options.figures), ""]
    lines += [*summary.origin(code(FITTING)), ""]

    text = "\n".join(lines)
    with replacing(options.out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    with replacing(options.page) as temporary:
        temporary.write_text(summary.page(options.dataset, text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run(main))
