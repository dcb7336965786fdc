"""Put what was found on one page of text: the mixture to take and why, its gain as measured and as
predicted, what to do next.

losses of the runs compared and of the proxies, coefficients.json, intervals.csv, mixtures, the
tables -> summary.txt, summary_details.txt, and both in summary.html
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.judge.comparison import Comparison
from bimix.judge.errors import EXTRAPOLATION, GENERALIZATION
from bimix.judge.evidence import add_evidence, evidence, moved, outside
from bimix.judge.law_scores import LAWS_TABLE, SIZES
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.verdict import Verdict, decide
from bimix.mixtures.mixture import read_proportions
from bimix.optimum.flags import number_or_none, run_tokens_of
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.objective import weighed
from bimix.outputs import replacing
from bimix.plan.sources import GIVEN, SEARCHED, observed_rank
from bimix.results import sizes, summary
from bimix.results.answers import answers
from bimix.results.headline import Headline, headline, next_steps, title
from bimix.results.headline import at as at_run
from bimix.results.layout import WIDTH
from bimix.tables import read_json, read_table, read_tokens
from bimix.training.provenance import FITTING, code
from bimix.transfer.run import size_read

DOMAINS = 10  # rows of the mixture on the page


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="its name, for the title")
    parser.add_argument("--fitted-model", required=True, help="name of the model the laws were fitted on")
    parser.add_argument(
        "--asked-model", default="none", help="name of the model that laws over sizes were asked for; none: the fitted"
    )
    parser.add_argument("--compared-model", required=True, help="name of the model the comparison was trained on")
    parser.add_argument("--step", type=int, required=True, help="the step that the mixtures were optimised for")
    add_criterion(parser)
    parser.add_argument("--stage", nargs="?", type=int, help="the stage, from 1, that the mixtures were optimised for")
    parser.add_argument("--optimised", type=Path, nargs="+", required=True, help="mixture of each law, as coefficients")
    parser.add_argument("--reference", required=True, help="name of the mixture that the others are compared with")
    parser.add_argument("--reference-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--compared", type=Path, required=True, help="tidy losses of the runs compared")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures of all these runs")
    parser.add_argument("--ranks", type=json.loads, default={}, help="{mixture: what it costs to find, 0 to 4}, JSON")
    parser.add_argument("--tokens", type=Path, nargs="*", help="tokens there are of each domain: none or one table")
    parser.add_argument("--run-tokens", type=number_or_none, help="of the run that epochs are counted for, or none")
    parser.add_argument("--lower", help="{domain: least proportion} of the optimum, JSON")
    parser.add_argument("--upper", help="{domain: largest proportion}, likewise")
    parser.add_argument("--max-epochs", type=number_or_none, help="the bound of the optimum, or none")
    parser.add_argument("--extrapolation", type=Path, nargs="?", help="tables/extrapolation.csv, of laws over steps")
    parser.add_argument("--generalization", type=Path, nargs="?", help="tables/generalization.csv, of the same")
    parser.add_argument("--laws", type=Path, nargs="?", help="tables/laws.csv, of laws fitted at one size")
    parser.add_argument("--scores", type=Path, nargs="?", help="written by compare_laws.py: errors on runs left out")
    parser.add_argument("--sizes", type=Path, nargs="*", default=[], help="sizes.csv of each law over sizes")
    parser.add_argument("--answers", type=Path, nargs="*", default=[], help="tables/downstream.csv, if there is one")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="where they lie, to be listed")
    parser.add_argument("--out", type=Path, required=True, help="summary.txt")
    parser.add_argument("--details", type=Path, required=True, help="summary_details.txt")
    parser.add_argument("--page", type=Path, required=True, help="summary.html")
    add_evidence(parser)
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
    """What the files say: `laws` by the mixture that each found; `shares` of all mixtures; the
    verdict; `target` are the runs of the model to be made good, `searched` the mixtures of searches
    among them, `moved` says which run has the name of an optimum with other proportions.
    """

    laws: Mapping[str, dict]
    shares: Mapping[str, Mapping[str, float]]
    spans: pl.DataFrame
    target: Comparison
    verdict: Verdict
    searched: tuple[str, ...]
    same: Mapping[str, str]
    moved: Sequence[str]

    def of(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of the law that found a mixture."""
        return table.filter(pl.col("law") == self.laws[name]["law"])


def read(options: argparse.Namespace) -> Found:
    """The files that both texts tell of, and the verdict on them."""
    names = [path.stem for path in options.optimised]
    optima = {name: read_proportions(path) for name, path in zip(names, options.optimised, strict=True)}
    laws = {name: read_json(place) for name, place in zip(names, options.coefficients, strict=True)}
    spans = [read_table(path).cast(INTERVALS) for path in options.intervals] or [pl.DataFrame(schema=INTERVALS)]
    judging = criterion_of(options)
    ran = {
        name: dict(rows.select("domain", "proportion").iter_rows())
        for path in options.mixtures
        for (name,), rows in read_table(path).group_by("mixture", maintain_order=True)
    }
    called = moved(ran, optima)
    said = summary.moved(called, ran, optima)
    for sentence in said:
        print(sentence, file=sys.stderr)
    shares = optima | {options.reference: read_proportions(options.reference_mixture)}
    shares |= {called.get(name, name): own for name, own in ran.items()}
    ranks = {name: observed_rank(name, own) for name, own in shares.items()} | options.ranks
    tokens, run_tokens = epochs_of(options, next(iter(laws.values())))
    forbidden = outside(shares, options, tokens, run_tokens)
    target, proxies, promises = evidence(options, judging, laws, pl.concat(spans), forbidden, called)
    searched = tuple(name for name in target.mixtures if ranks.get(name, GIVEN) >= SEARCHED)
    verdict = decide(target, proxies, promises, ranks)
    return Found(laws, shares, pl.concat(spans), target, verdict, searched, summary.found_twice(optima), said)


def epochs_of(options: argparse.Namespace, law: dict) -> tuple[dict[str, float], float | None]:
    """The tokens there are and those of the run, by which epochs are counted; of a stage none."""
    tokens = read_tokens(options.tokens[0]) if options.tokens else {}
    return tokens, None if options.stage else run_tokens_of(law, options.run_tokens, options.step)


def first_page(options: argparse.Namespace, found: Found) -> list[str]:
    """The page: what decides first, then the mixture, the runs and the laws beside each other."""
    verdict, folder = found.verdict, options.reference_mixture.parent
    own = verdict.promise.mixture if verdict.promise else next(iter(found.laws))
    law = found.laws[own]
    places = {name: folder / f"{name}.json" for name in [*found.laws, *found.shares, *found.target.mixtures]}
    reference = options.reference + (f" in stage {options.stage}" if options.stage else "")
    page = Headline(
        dataset=options.dataset,
        verdict=verdict,
        target=found.target,
        model=options.compared_model,
        reference=reference,
        searched=found.searched,
        places={name: str(place) for name, place in places.items() if place.exists()},
        same=found.same,
        moved=found.moved,
        sizes=sizes.asked(law, options.fitted_model, options.asked_model),
        weighed=weighed(law, criterion_of(options).weights),
    )
    lines = [title(page), "=" * WIDTH, *headline(page), *next_steps(page), ""]
    best = verdict.best if verdict.best in found.shares and verdict.best != options.reference else own
    after = found.shares[best]
    of_law = f", the optimum of the law {found.laws[best]['law']}," if best in found.laws else ""
    stage = f", stage {options.stage}," if options.stage else ""
    lines += [f"The mixture {best}{of_law}{stage} for step {options.step:,} of {options.asked_model}", ""]
    tokens, run_tokens = epochs_of(options, law)
    known = {name: share for name, share in after.items() if tokens.get(name)} if run_tokens else {}
    epochs = {name: share * run_tokens / tokens[name] for name, share in known.items()}
    pair = (reference, found.shares[options.reference], best, after, law["proportions_seen"])
    lines += [*summary.proportions(*pair, DOMAINS, epochs), *summary.epoch_bound(epochs, options.max_epochs)]
    lines += [] if size_read(law) else summary.beyond(options.step, law["steps"])
    judged, model = (page.judged or found.target), page.judged_model
    unit = judged.criterion.unit(judged.runs.columns)
    lines += ["", *summary.compared(judged, f"{at_run(judged.runs, model)}, trained on each mixture ({unit})")]
    if options.laws:
        lines += ["", "The laws on the same rows", "", *summary.laws(read_table(options.laws).cast(LAWS_TABLE))]
    for path in options.answers:
        lines += ["", *answers(read_table(path), options.reference)]
    lines += ["", f"Details, and a list of the figures: {options.details}", *summary.origin(code(FITTING)), ""]
    return lines


def behind(options: argparse.Namespace, found: Found) -> list[str]:
    """The details: each law's optimum, its predictions and warnings, and where the figures are."""
    scored = ((options.extrapolation, EXTRAPOLATION), (options.generalization, GENERALIZATION))
    extrapolated, generalized = (read_table(path) if path else pl.DataFrame(schema=empty) for path, empty in scored)
    by_size = [read_table(path).cast(SIZES) for path in options.sizes] or [pl.DataFrame(schema=SIZES)]
    reference, weights = options.reference, criterion_of(options).weights
    lines = [f"{options.dataset}: details of the summary", "=" * WIDTH]
    for place, path in zip(options.coefficients, options.optimised, strict=True):
        name, law = path.stem, found.laws[path.stem]
        heading = f"Mixture optimised with the law {law['law']}, for step {options.step:,} of {options.asked_model}"
        lines += ["", heading]
        if name in found.same:
            lines += ["", f"  The mixture of {found.same[name]} to four digits."]
        else:
            lines += [] if size_read(law) else summary.beyond(options.step, law["steps"])
            pair = (reference, name, read_proportions(options.reference_mixture), read_proportions(path))
            lines += summary.optimised(law, *pair, found.of(name, found.spans), weighed(law, weights))
        scores = (found.of(name, extrapolated), found.of(name, generalized))
        lines += ["", "", *summary.predicts(law, options.fitted_model, *scores, str(place))]
        of_size = pl.concat(by_size).filter(pl.col("runs") == law["law"])
        lines += sizes.by_large_runs(of_size, options.asked_model) if of_size.height else []
    twice = {f"_{found.laws[name]['law']}_" for name in found.same}
    figures = [path for path in options.figures if not any(law in path.stem for law in twice)]
    return [*lines, "", "Figures", *(f"  {path}" for path in figures), ""]


if __name__ == "__main__":
    sys.exit(run(main))
