"""Put what was found on one page of text: the mixture to take and why, its gain as measured and as
predicted, what to do next.

losses of the runs compared and of the proxies, coefficients.json, intervals.csv, mixtures, the
tables -> summary.txt, summary_details.txt, both in summary.html, verdict.json (the facts behind them),
recommended.json (mixture, why, proportions), and explore.html, the page to move the shares on
"""

import argparse
import json
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.judge.evidence import add_evidence, evidence, moved, outside, ranks_of, roles_of
from bimix.judge.facts import entropy_facts, law_facts, optimum_facts, shown_optimum
from bimix.judge.law_scores import LAWS_TABLE
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.remarks import add_text, remarks
from bimix.judge.verdict import OBSERVED
from bimix.mixtures.mixture import read_proportions, whole_runs
from bimix.mixtures.names import GIVEN, SEARCHED
from bimix.observations.tables import by_mixture
from bimix.optimum.flags import asked_objective, asked_tokens, number_or_none, run_tokens_of
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.objective import weighed
from bimix.optimum.report import epochs_of
from bimix.outputs import write_json, write_text
from bimix.results import sections
from bimix.results.explore import beside
from bimix.results.explore import page as explore_page
from bimix.results.headline import Headline, model_name
from bimix.results.pages import summary_page
from bimix.results.summary import Result, bound, details, first_page
from bimix.search.by_hand import Wanted, add_rules
from bimix.search.weighing import add_fitted, read_believed, verdict
from bimix.tables import read_json, read_table, read_tokens


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

    result = read(options)
    page, behind = "\n".join(first_page(result)), "\n".join(details(result))
    texts = {options.out: page, options.details: behind}
    texts[options.page] = summary_page(options.dataset, f"{page}\n\n{behind}")
    if options.recommended:
        best, why = result.page.verdict.best, result.page.verdict.why
        write_json(options.recommended, {"mixture": best, "why": why, "proportions": result.shares[best]})
    if options.verdict:
        write_json(options.verdict, result.page.facts())
    if options.explore:
        texts[options.explore] = explored(options, result)
    for path, text in texts.items():
        write_text(path, text)


def explored(options: argparse.Namespace, result: Result) -> str:
    """The page to play with, open at the mixture to take and the law with the least error."""
    page = result.page
    names = sorted(result.laws, key=lambda name: name != result.trusted)
    shown = dict.fromkeys((result.reference, page.verdict.best, *result.laws, *page.target.mixtures, *result.hand))
    return explore_page(
        asked(options),
        **beside(page),
        laws={name: result.laws[name] for name in names},
        spans=result.tables["intervals"],
        mixtures={name: result.shares[name] for name in shown if name in result.shares},
        ran=result.ran,
        reference=result.reference,
        step=result.step,
        model=model_name(options.asked_model),
    )


def asked(options: argparse.Namespace) -> argparse.Namespace:
    """The flags of the optima, as their own scripts have them."""
    tokens = options.tokens[0] if options.tokens else None
    flags = {"tokens": tokens, "run_tokens": options.optimum_tokens, "reference": options.objective_reference}
    return argparse.Namespace(**vars(options) | flags)


def read(options: argparse.Namespace) -> Result:
    """The files, and the verdict on them."""
    names = [path.stem for path in options.optimised]
    optima = {name: read_proportions(path) for name, path in zip(names, options.optimised, strict=True)}
    laws = {name: read_json(path) for name, path in zip(names, options.coefficients, strict=True)}
    groups = [read_table(path) for path in options.mixtures]
    ran = {name: own for table in groups for name, own in by_mixture(table).items()}
    staged = {name: own for table in groups for name, own in whole_runs(table).items()}
    called = moved(ran, optima)
    said = sections.moved(called, ran, optima)
    for sentence in said:
        print(sentence, file=sys.stderr)
    shares = optima | {options.reference: read_proportions(options.reference_mixture)}
    shares |= {called.get(name, name): own for name, own in ran.items()}
    run_tokens = {name: run_tokens_of(law, options.run_tokens, options.step) for name, law in laws.items()}
    tokens = read_tokens(options.tokens[0]) if options.tokens else {}
    ranks = ranks_of(shares, roles_of(shares, tokens), options.ranks)
    forbidden = outside(shares | staged, options, tokens, run_tokens.get(names[0]))
    spans = [pl.DataFrame(schema=INTERVALS), *(read_as(path, INTERVALS) for path in options.intervals)]
    tables = {"intervals": pl.concat(spans)}
    if options.laws:
        tables["laws"] = read_as(options.laws, LAWS_TABLE)
    if options.answers:
        tables["downstream"] = read_table(options.answers[0])
    target, proxies, promises = evidence(options, criterion_of(options), laws, tables["intervals"], forbidden, called)
    objective = asked_objective(asked(options))
    law = laws[names[0]]
    horizon = asked_tokens(law, options.run_tokens or options.optimum_tokens, options.step, None)
    wanted = Wanted.of(options, law, objective.domain_weights(), tokens, horizon)
    rules = wanted.every_rule(options.hand, options.max_epochs)
    believed = read_believed(options, laws, optima, promises, ran, called, rules)
    hand = rules if believed is None else believed.hand
    shares = {name: dict(zip(law["domains"], own.tolist(), strict=True)) for name, own in hand.items()} | shares
    files = {name: options.reference_mixture.with_name(f"{name}.json") for name in [*laws, *shares, *target.mixtures]}
    found = verdict(target, proxies, promises, ranks, believed)
    own = found.promise.mixture if found.promise else names[0]
    law, best, compared, roles = laws[own], shares.get(found.best, {}), options.compared_model, roles_of(shares, tokens)
    shown, made = shown_optimum(list(laws), found, target), {path.stem: path for path in options.tables}
    promised = next((one for one in promises if one.mixture == shown), None)
    scores = [read_table(made[name]) if name in made else None for name in ("extrapolation", "generalization")]
    entropies = None  # in a user's table se, je, ce, vne may be anything
    if compared != OBSERVED and proxies is not None:
        token_shares = next((name for name in proxies.mixtures if roles.get(name) == "token shares"), None)
        entropies = entropy_facts(proxies, options.asked_model, token_shares)
    page = Headline(
        dataset=options.dataset,
        verdict=found,
        target=target,
        model=compared,
        reference=options.reference,
        law=law_facts(laws[shown], options.fitted_model, promised, *scores),
        entropies=entropies,
        optimum=optimum_facts(shown, promised, target, compared),
        roles=roles,
        searched=tuple(name for name in target.mixtures if ranks.get(name, GIVEN) >= SEARCHED),
        places={name: str(path) for name, path in files.items() if path.exists()},
        moved=said,
        sizes=sections.size_sentence(law, options.fitted_model, options.asked_model),
        weighed=weighed(law, target.criterion.weights),
        epochs=epochs_of(best, tokens, run_tokens.get(own)),
        explore=str(options.explore or ""),
        search=" ".join(options.search.read_text(encoding="utf-8").split()) if options.search else "",
        bound=bound(objective, law, options.asked_model),
    )
    return Result(
        page,
        models=(options.fitted_model, options.asked_model),
        step=options.step,
        reference=options.reference,
        laws=laws,
        trusted=own,
        law_files=dict(zip(names, options.coefficients, strict=True)),
        optima=optima,
        shares=shares,
        ran=ran,
        tables=tables,
        promises=promises,
        hand=tuple(hand),
        tokens=tokens,
        run_tokens=run_tokens,
        max_epochs=options.max_epochs,
        made=[*options.tables, *options.figures],
        details=options.details,
        text=remarks(options, target.criterion.weights),
    )


def read_as(path: Path, schema: dict) -> pl.DataFrame:
    """A table in the types of a schema."""
    table = read_table(path)
    return table.cast({name: kind for name, kind in schema.items() if name in table.columns})


if __name__ == "__main__":
    sys.exit(run(main))
