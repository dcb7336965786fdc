"""Put what was found on one page of text: the mixture to take and why, its gain as measured and as
predicted, what to do next.

losses of the runs compared and of the proxies, coefficients.json, intervals.csv, mixtures, the
tables -> summary.txt, summary_details.txt, both in summary.html, verdict.json (the facts behind them),
recommended.json (mixture, why, proportions), and explore.html, the page to move the shares on
"""

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.judge.evidence import add_evidence, evidence, moved, outside, ranks_of, roles_of
from bimix.judge.facts import (
    Evidence,
    data_facts,
    entropy_facts,
    law_facts,
    names_of,
    optimum_facts,
    shown_optimum,
    verdict_facts,
)
from bimix.judge.law_scores import LAWS_TABLE
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.remarks import add_text, remarks
from bimix.judge.verdict import OBSERVED, Promise
from bimix.mixtures.mixture import read_proportions, whole_runs
from bimix.mixtures.names import GIVEN, SEARCHED
from bimix.observations.tables import by_mixture
from bimix.optimum.flags import asked_objective, asked_tokens, number_or_none, run_tokens_of
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.objective import weighed
from bimix.optimum.optimum import Sought
from bimix.optimum.report import by_harm, epochs_of
from bimix.outputs import write_json, write_text
from bimix.results import sections
from bimix.results.explore import beside
from bimix.results.explore import page as explore_page
from bimix.results.headline import model_name, optimum_line
from bimix.results.layout import WIDTH, paragraph
from bimix.results.summary import Summary, bound
from bimix.search.by_hand import Wanted, add_rules
from bimix.search.weighing import add_fitted, read_believed, verdict
from bimix.tables import read_json, read_table, read_tokens
from bimix.training.provenance import FITTING, code

DOMAINS = 10  # rows of the mixture on the page


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="its name, for the title")
    parser.add_argument("--fitted-model", required=True, help="name of the model the laws were fitted on")
    parser.add_argument("--asked-model", default="none", help="the model of laws over sizes; none: the fitted")
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
    parser.add_argument("--max-epochs", type=number_or_none, help="the bound of the optimum, or none")
    parser.add_argument("--laws", type=Path, nargs="?", help="tables/laws.csv, of laws fitted at one size")
    parser.add_argument("--scores", type=Path, nargs="?", help="written by compare_laws.py: errors on runs left out")
    parser.add_argument("--answers", type=Path, nargs="*", default=[], help="tables/downstream.csv, if there is one")
    parser.add_argument("--search", type=Path, nargs="?", help="answer.txt of a search by rounds, if there was one")
    parser.add_argument("--tables", type=Path, nargs="*", default=[], help="to be listed; Tables 2 and 3 are read")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="likewise")
    parser.add_argument("--out", type=Path, required=True, help="summary.txt")
    parser.add_argument("--details", type=Path, required=True, help="summary_details.txt")
    parser.add_argument("--page", type=Path, required=True, help="summary.html")
    parser.add_argument("--recommended", type=Path, help="the mixture to take: mixture, why, proportions, JSON")
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

    results = read(options)
    summary = results.summary()
    behind = results.details()
    texts = {options.out: summary.text(), options.details: "\n".join([*behind, ""]), options.page: summary.html(behind)}
    facts = summary.facts
    if options.recommended:
        best = {"mixture": facts["take"], "why": facts["why"], "proportions": facts["shares"]}
        write_json(options.recommended, best)
    if options.verdict:
        write_json(options.verdict, facts)
    if options.explore:
        texts[options.explore] = explored(results, summary)
    for path, text in texts.items():
        write_text(path, text)


@dataclass(frozen=True)
class Results:
    """The files of a dataset, and the verdict on them.

    `laws` and `optima` by the mixture that each law found; `own`: that of the law with the least
    error; `shares` of all mixtures; `ran`: all runs as they were called; `hand`: rules by hand.
    `run_tokens` of the run that epochs are counted for, by law.
    """

    options: argparse.Namespace
    evidence: Evidence
    laws: Mapping[str, dict]
    optima: Mapping[str, Mapping[str, float]]
    own: str
    ran: Mapping[str, Mapping[str, float]]
    hand: Collection[str]
    spans: pl.DataFrame
    promises: Sequence[Promise]
    tokens: Mapping[str, float]
    run_tokens: Mapping[str, float | None]
    renamed: Sequence[str]

    def summary(self) -> Summary:
        """The page of the verdict."""
        options, facts, law = self.options, verdict_facts(self.evidence), self.laws[self.own]
        objective = asked_objective(asked(options))
        search = " ".join(options.search.read_text(encoding="utf-8").split()) if options.search else ""
        weights = weighed(law, self.evidence.target.criterion.weights)
        remarks = [
            ("Weights", f"in all averages {weights}, and nothing else." if weights else ""),
            ("Bound", bound(objective, law, options.asked_model)),
            ("Search", search.removeprefix("Answer: ")),
            ("Sizes", sections.size_sentence(law, options.fitted_model, options.asked_model)),
            *(("Renamed", text) for text in self.renamed),
            ("Export", export_line(options, self.evidence)),
        ]
        tables = [self.mixture(facts), sections.compared(facts)]
        if options.answers:
            tables.append(sections.answers(read_table(options.answers[0]), options.reference))
        return Summary(facts, self.pages(), tables, remarks)

    def pages(self) -> list[str]:
        """What to open."""
        options = self.options
        found = [f"{options.explore} (move the shares, see each loss)"] if options.explore else []
        mixture = options.reference_mixture.with_name(f"{self.evidence.verdict.best}.json")
        found += [str(mixture)] if mixture.exists() else []
        return [
            *found,
            f"details: {options.details}",
            f"figures: `snakemake --report results/{options.dataset}/report.html`",
        ]

    def mixture(self, facts: Mapping) -> list[str]:
        """The mixture to take next to the reference; where it is that, or has stages, the law's optimum."""
        options, law, shares = self.options, self.laws[self.own], self.evidence.shares
        name = facts["take"] if facts["take"] in shares and facts["take"] != options.reference else self.own
        epochs = epochs_of(shares[name], self.tokens, self.run_tokens.get(self.own))
        pair = (options.reference, shares[options.reference]), (name, shares[name])
        lines = sections.mixture(facts, law, *pair, epochs, options.max_epochs, self.run_tokens.get(self.own), DOMAINS)
        return lines + sections.beyond(options.step, law)

    def details(self) -> list[str]:
        """The details: each law's optimum, its predictions and warnings, and where the figures are."""
        options, weights = self.options, self.evidence.target.criterion.weights
        fitted, read_at = options.fitted_model, model_name(options.asked_model)
        lines = [f"{options.dataset}: details of the summary", "=" * WIDTH]
        if options.laws:
            scores = read_as(options.laws, LAWS_TABLE)
            lines += ["", "The laws on the same rows", "", *sections.laws(scores)]
        if text := remarks(options, weights):
            lines += ["", "The text behind the losses", ""]
            lines += [line for one in text for line in paragraph(one, "  ", "    ")]
        files = dict(zip(self.laws, options.coefficients, strict=True))
        for name, law in self.laws.items():
            lines += ["", f"Mixture optimised with the law {law['law']}, for step {options.step:,} of {read_at}"]
            lines += [*sections.beyond(options.step, law), *self.optimum_lines(name, law)]
            lines += ["", *sections.fitted_to(law, fitted, str(files[name]))]
        made = [f"  {path}" for path in (*options.tables, *options.figures)]
        return [*lines, "", "Tables and figures", *made, "", *sections.origin(code(FITTING))]

    def optimum_lines(self, name: str, law: dict) -> list[str]:
        """The mixture that a law calls best next to the reference, and the gain with its interval."""
        of, reference = self.evidence, self.options.reference
        pair = (reference, of.shares[reference], name, self.optima[name], law["proportions_seen"])
        lines = ["", *sections.proportions(*pair)]
        for promise in (one for one in self.promises if one.mixture == name):
            span = (
                "" if promise.low is None else f" ({promise.low:.4f} to {promise.high:.4f}, {100 * promise.level:g} %)"
            )
            text = f"Predicted by {promise.law} for {model_name(promise.model)} at step {promise.step:,}: "
            optimum = optimum_facts(name, promise, of.target, of.model, of.verdict)
            lines += [
                "",
                *paragraph(
                    f"{text}{promise.value:.4f}{span}; {optimum_line({'names': names_of(of)}, optimum)}", "  ", "  "
                ),
            ]
        return lines


def export_line(options: argparse.Namespace, of: Evidence) -> str:
    """How the mixture is written for another trainer, where it was trained here."""
    if of.model == OBSERVED or of.judged is not of.target or of.judged is None:
        return ""
    return f"snakemake --cores all results/{options.dataset}/runs/{of.model}/{of.verdict.best}/export"


def explored(results: Results, summary: Summary) -> str:
    """The page to play with, open at the mixture to take and the law with the least error."""
    options, of, reference = results.options, results.evidence, results.options.reference
    names = sorted(results.laws, key=lambda name: name != results.own)
    shown = dict.fromkeys((reference, of.verdict.best, *results.laws, *of.target.mixtures, *results.hand))
    return explore_page(
        asked(options),
        **beside(summary),
        laws={name: results.laws[name] for name in names},
        spans=results.spans,
        mixtures={name: of.shares[name] for name in shown if name in of.shares},
        ran=results.ran,
        reference=reference,
        step=options.step,
        model=model_name(options.asked_model),
    )


def asked(options: argparse.Namespace) -> argparse.Namespace:
    """The flags of the optima, as their own scripts have them."""
    tokens = options.tokens[0] if options.tokens else None
    flags = {"tokens": tokens, "run_tokens": options.optimum_tokens, "reference": options.objective_reference}
    return argparse.Namespace(**vars(options) | flags)


def read(options: argparse.Namespace) -> Results:
    """The files, and the verdict on them."""
    names = [path.stem for path in options.optimised]
    optima = {name: read_proportions(path) for name, path in zip(names, options.optimised, strict=True)}
    laws = {name: read_json(path) for name, path in zip(names, options.coefficients, strict=True)}
    groups = [read_table(path) for path in options.mixtures]
    ran = {name: own for table in groups for name, own in by_mixture(table).items()}
    staged = {name: own for table in groups for name, own in whole_runs(table).items()}
    called = moved(ran, optima)
    renamed = sections.moved(called, ran, optima)
    for sentence in renamed:
        print(sentence, file=sys.stderr)
    shares = optima | {options.reference: read_proportions(options.reference_mixture)}
    shares |= {called.get(name, name): own for name, own in ran.items()}
    run_tokens = {name: run_tokens_of(law, options.run_tokens, options.step) for name, law in laws.items()}
    tokens = read_tokens(options.tokens[0]) if options.tokens else {}
    ranks = ranks_of(shares, roles_of(shares, tokens), options.ranks)
    forbidden = outside(shares | staged, options, tokens, run_tokens.get(names[0]))
    spans = pl.concat([pl.DataFrame(schema=INTERVALS), *(read_as(path, INTERVALS) for path in options.intervals)])
    target, proxies, promises = evidence(options, criterion_of(options), laws, spans, forbidden, called)

    # rules that need no run are candidates, too
    law = laws[names[0]]
    horizon = asked_tokens(law, options.run_tokens or options.optimum_tokens, options.step, None)
    weights = asked_objective(asked(options)).domain_weights()
    rules = Wanted.of(options, law, weights, tokens, horizon).every_rule(options.hand, options.max_epochs)
    believed = read_believed(options, laws, optima, promises, ran, called, rules)
    hand = rules if believed is None else believed.hand
    shares = {name: dict(zip(law["domains"], own.tolist(), strict=True)) for name, own in hand.items()} | shares

    found, roles = verdict(target, proxies, promises, ranks, believed), roles_of(shares, tokens)
    own = found.promise.mixture if found.promise else names[0]
    shown, made = shown_optimum(names, found, target), {path.stem: path for path in options.tables}
    promised = next((one for one in promises if one.mixture == shown), None)
    scores = [read_table(made[name]) if name in made else None for name in ("extrapolation", "generalization")]
    entropies = None  # in a user's table se, je, ce, vne may be anything
    if options.compared_model != OBSERVED and proxies is not None:
        token_shares = next((name for name in proxies.mixtures if roles.get(name) == "token shares"), None)
        entropies = entropy_facts(proxies, options.asked_model, token_shares)
    return Results(
        options=options,
        evidence=Evidence(
            dataset=options.dataset,
            verdict=found,
            target=target,
            model=options.compared_model,
            shares=shares,
            data=data_facts(law["domains"], len(ran), read_table(options.tokens[0]) if options.validation else None),
            roles=roles,
            laws={name: law["law"] for name, law in laws.items()},
            searched=[name for name in target.mixtures if ranks.get(name, GIVEN) >= SEARCHED],
            epochs=epochs_of(shares.get(found.best, {}), tokens, run_tokens.get(own)),
            law=law_facts(laws[shown], options.fitted_model, promised, *scores),
            entropies=entropies,
            optimum=optimum_facts(shown, promised, target, options.compared_model, found),
            sought=Sought.of(asked(options), laws[shown], options.step),
            by_harm=by_harm(Sought.of(asked(options), one, options.step) for one in laws.values()),
        ),
        laws=laws,
        optima=optima,
        own=own,
        ran=ran,
        hand=tuple(hand),
        spans=spans,
        promises=promises,
        tokens=tokens,
        run_tokens=run_tokens,
        renamed=renamed,
    )


def read_as(path: Path, schema: dict) -> pl.DataFrame:
    """A table in the types of a schema."""
    table = read_table(path)
    return table.cast({name: kind for name, kind in schema.items() if name in table.columns})


if __name__ == "__main__":
    sys.exit(run(main))
