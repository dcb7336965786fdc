"""Put what was found on one page of text: the mixture to take and why, its gain as measured and as
predicted, what to do next.

losses of the runs compared and of the proxies, coefficients.json, intervals.csv, mixtures, the
tables -> summary.txt, summary_details.txt, both in summary.html, verdict.json (the facts behind them),
and explore.html, the page to move the shares on
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.judge.evidence import add_evidence, evidence, moved, outside, ranks_of, roles_of
from bimix.judge.facts import Evidence, Fit, optimum_facts, verdict_facts
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.remarks import add_text
from bimix.judge.remarks import remarks as text_remarks
from bimix.judge.verdict import OBSERVED
from bimix.mixtures.mixture import read_proportions, whole_runs
from bimix.mixtures.names import GIVEN, SEARCHED
from bimix.observations.tables import by_mixture
from bimix.optimum.flags import asked_objective, asked_tokens, epochs_or_none, number_or_none, run_tokens_of
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.optimum import Sought
from bimix.outputs import write_json, write_text
from bimix.results import sections
from bimix.results.explore import verdict_page
from bimix.results.headline import model_name, optimum_line
from bimix.results.layout import WIDTH, paragraph
from bimix.results.summary import Summary, remarks
from bimix.search.by_hand import Wanted, add_rules
from bimix.search.weighing import add_fitted, read_believed, verdict
from bimix.tables import read_json, read_table, read_tokens

DOMAINS = 10  # rows of the mixture on the page


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="its name, for the title")
    parser.add_argument("--fitted-model", required=True, help="name of the model the laws were fitted on")
    parser.add_argument("--asked-model", default="none", help="the model of laws over sizes; none: the fitted")
    parser.add_argument("--sizes", nargs="*", default=[], help="models of a law that reads the runs compared, too")
    parser.add_argument("--compared-model", required=True, help="name of the model the comparison was trained on")
    parser.add_argument("--step", type=int, required=True, help="the step that the mixtures were optimised for")
    add_criterion(parser)
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
    parser.add_argument("--max-epochs", type=epochs_or_none, help="the bound of the optimum, or none")
    parser.add_argument("--laws", type=Path, nargs="?", help="tables/laws.csv, of laws fitted at one size")
    parser.add_argument("--scores", type=Path, nargs="?", help="written by compare_laws.py: errors on runs left out")
    parser.add_argument("--answers", type=Path, nargs="*", default=[], help="tables/downstream.csv, if there is one")
    parser.add_argument("--search", type=Path, nargs="?", help="answer.txt of a search by rounds, if there was one")
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="to be listed; Tables 2 and 3 are read")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="likewise")
    parser.add_argument("--out", type=Path, required=True, help="summary.txt")
    parser.add_argument("--details", type=Path, required=True, help="summary_details.txt")
    parser.add_argument("--page", type=Path, required=True, help="summary.html")
    parser.add_argument("--verdict", type=Path, help="verdict.json: the facts that the page is written from")
    parser.add_argument("--explore", type=Path, help="explore.html; without it none is written")
    parser.add_argument("--prior", type=Path, nargs="?", help="cross-entropies between domains, of the rules kin")
    add_evidence(parser)
    add_text(parser)
    add_fitted(parser)
    add_rules(parser)
    options = parser.parse_args(argv)
    if options.asked_model == "none":
        options.asked_model = options.fitted_model

    tokens = options.tokens[0] if options.tokens else None
    flags = {"tokens": tokens, "run_tokens": options.optimum_tokens, "reference": options.objective_reference}
    results = read(options, argparse.Namespace(**vars(options) | flags))
    of, facts = results.evidence, verdict_facts(results.evidence)
    tables = [sections.mixture(of, facts, options.max_epochs, DOMAINS), sections.compared(facts)]
    if options.answers:
        tables.append(sections.answers(read_table(options.answers[0]), options.reference))
    search = " ".join(options.search.read_text(encoding="utf-8").split()) if options.search else ""
    more = [("Search", search.removeprefix("Answer: ")), ("Export", export_line(of))]
    summary = Summary(facts, pages(options, of), tables, [*remarks(of, results.renamed), *more])
    behind = details(options, results, facts)
    texts = {options.out: summary.text(), options.details: "\n".join([*behind, ""]), options.page: summary.html(behind)}
    if options.verdict:
        write_json(options.verdict, facts)
    if options.explore:
        shown = (*of.target.mixtures, *results.hand)
        texts[options.explore] = verdict_page(results.asked, of, summary, results.spans, results.ran, shown)
    for path, text in texts.items():
        write_text(path, text)


@dataclass(frozen=True)
class Results:
    """The evidence in a dataset's files, and what pages show besides it: intervals of the laws, all runs as
    they were called, rules by hand, sentences on runs of an earlier optimum; `asked`: the flags of the
    optima, as their own scripts have them.
    """

    evidence: Evidence
    asked: argparse.Namespace
    spans: pl.DataFrame
    ran: Mapping[str, Mapping[str, float]]
    hand: Sequence[str]
    renamed: Sequence[str]


def read(options: argparse.Namespace, asked: argparse.Namespace) -> Results:
    """The files, and the verdict on them."""
    names = [path.stem for path in options.optimised]
    optima = {name: read_proportions(path) for name, path in zip(names, options.optimised, strict=True)}
    laws = {name: read_json(path) for name, path in zip(names, options.coefficients, strict=True)}
    law, tokens = laws[names[0]], read_tokens(asked.tokens) if asked.tokens else {}
    groups = [read_table(path) for path in options.mixtures]
    ran = {name: own for table in groups for name, own in by_mixture(table).items()}
    staged = {name: own for table in groups for name, own in whole_runs(table).items()}
    called = moved(ran, optima)
    renamed = sections.moved(called, ran, optima)
    for sentence in renamed:
        print(sentence, file=sys.stderr)
    shares = optima | {options.reference: read_proportions(options.reference_mixture)}
    shares |= {called.get(name, name): own for name, own in ran.items()}
    ranks = ranks_of(shares, roles_of(shares, tokens), options.ranks)
    run_tokens = run_tokens_of(law, options.run_tokens, options.step)
    forbidden = outside(shares | staged, options, tokens, run_tokens)
    spans = pl.concat(
        [pl.DataFrame(schema=INTERVALS), *(read_table(path).cast(INTERVALS) for path in options.intervals)]
    )
    target, proxies, promises = evidence(options, criterion_of(options), laws, spans, forbidden, called)

    # rules that need no run are candidates, too
    horizon = asked_tokens(law, options.run_tokens or options.optimum_tokens, options.step, None)
    weights = asked_objective(asked).domain_weights()
    rules = Wanted.of(options, law, weights, tokens, horizon).every_rule(options.hand, options.max_epochs)
    believed = read_believed(options, asked, laws, optima, promises, ran, called, rules)
    hand = rules if believed is None else believed.hand
    shares = {name: dict(zip(law["domains"], own.tolist(), strict=True)) for name, own in hand.items()} | shares

    promised = {one.mixture: one for one in promises}
    fits = {name: Fit(Sought.of(asked, laws[name], options.step), optima[name], promised.get(name)) for name in names}
    made = {path.stem: read_table(path) for path in options.tables if path.stem in ("extrapolation", "generalization")}
    found = Evidence(
        dataset=options.dataset,
        reference=options.reference,
        verdict=verdict(target, proxies, promises, ranks, believed),
        target=target,
        shares=shares,
        fits=fits,
        trained=len(ran),
        model=options.compared_model,
        fitted_model=options.fitted_model,
        asked_model=options.asked_model,
        proxies=proxies,
        roles=roles_of(shares, tokens),
        searched=[name for name in target.mixtures if ranks.get(name, GIVEN) >= SEARCHED],
        index=read_table(asked.tokens) if options.validation else None,
        pools=tokens,
        run_tokens=run_tokens,
        sizes=options.sizes,
        **made,
    )
    return Results(found, asked, spans, ran, tuple(hand), renamed)


def pages(options: argparse.Namespace, of: Evidence) -> list[str]:
    """What to open."""
    found = [f"{options.explore} (move the shares, see each loss)"] if options.explore else []
    mixture = options.reference_mixture.with_name(f"{of.verdict.best}.json")
    found += [str(mixture)] if mixture.exists() else []
    figures = f"figures: `snakemake --report results/{options.dataset}/report.html`"
    return [*found, f"details: {options.details}", figures]


def export_line(of: Evidence) -> str:
    """How the mixture is written for another trainer, where it was trained here."""
    if of.model == OBSERVED or of.judged is not of.target or of.judged is None:
        return ""
    return f"snakemake --cores all results/{of.dataset}/runs/{of.model}/{of.verdict.best}/export"


def details(options: argparse.Namespace, results: Results, facts: Mapping) -> list[str]:
    """The details: each law's optimum, its predictions and warnings, and where the figures are."""
    of, read_at = results.evidence, model_name(options.asked_model)
    lines = [f"{options.dataset}: details of the summary", "=" * WIDTH]
    if options.laws:
        lines += ["", "The laws on the same rows", "", *sections.laws(read_table(options.laws))]
    if text := text_remarks(options, of.target.criterion.weights):
        lines += ["", "The text behind the losses", ""]
        lines += [line for one in text for line in paragraph(one, "  ", "    ")]
    for path, (name, fit) in zip(options.coefficients, of.fits.items(), strict=True):
        law = fit.sought.fitted
        lines += ["", f"Mixture optimised with the law {law['law']}, for step {options.step:,} of {read_at}"]
        lines += [*sections.beyond(options.step, law), *optimum_lines(of, facts, name)]
        lines += ["", *sections.fitted_to(law, options.fitted_model, str(path))]
    made = [f"  {path}" for path in (*options.tables, *options.figures)]
    return [*lines, "", "Tables and figures", *made]


def optimum_lines(of: Evidence, facts: Mapping, name: str) -> list[str]:
    """The mixture that a law calls best next to the reference, and the gain with its interval."""
    fit = of.fits[name]
    seen, one = fit.sought.fitted["proportions_seen"], fit.promise
    lines = ["", *sections.proportions(of.reference, of.shares[of.reference], name, fit.optimum, seen)]
    if one is None:
        return lines
    span = "" if one.low is None else f" ({one.low:.4f} to {one.high:.4f}, {100 * one.level:g} %)"
    text = f"Predicted by {one.law} for {model_name(one.model)} at step {one.step:,}: {one.value:.4f}{span}"
    return [*lines, "", *paragraph(f"{text}; {optimum_line(facts, optimum_facts(of, name))}", "  ", "  ")]


if __name__ == "__main__":
    sys.exit(run(main))
