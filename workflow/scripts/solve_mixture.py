"""The best mixture of two tables, and why, in seconds: laws fitted and scored, optima, the verdict.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion) -> FOLDER/mixture.json,
the recommended mixture, and FOLDER/summary.txt
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.judge.comparison import compared
from bimix.judge.evidence import known_from, moved, outside, promise, proxies_at, renamed
from bimix.judge.law_scores import COMPARISON
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.verdict import decide
from bimix.laws import LAWS, at_run, fit
from bimix.mixtures.mixture import as_mixture
from bimix.observations.metrics import read_with_metrics
from bimix.observations.observations import Observations, observations
from bimix.observations.observed_flags import add_allowed, add_lower
from bimix.observations.prior import read_gaps
from bimix.observations.wide import read_mixtures
from bimix.optimum.best import best_shares
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import add_limits, add_parameters, add_run_tokens, asked_tokens
from bimix.optimum.intervals import LeftOut, intervals, left_out
from bimix.optimum.objective import objective_of
from bimix.optimum.objective_intervals import objective_rows
from bimix.optimum.optimum import weighed
from bimix.optimum.report import epochs_sentence, further_epochs
from bimix.outputs import replacing
from bimix.plan.sources import SEARCHED, observed_rank
from bimix.results import summary
from bimix.results.headline import OBSERVED, Headline, headline, title
from bimix.results.headline import at as at_size
from bimix.results.layout import WIDTH, paragraph, table
from bimix.tables import read_numbers, read_tokens
from bimix.transfer.sized import size_read

LEVEL = 0.9  # of intervals
TRIED = ("transfer", "bimix")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy or wide losses, csv or parquet")
    parser.add_argument("--mixtures", type=Path, required=True, help="tidy or wide mixtures, csv or parquet")
    parser.add_argument("--metrics", type=Path, help="metrics of the runs beside their losses, csv or parquet")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last one measured")
    parser.add_argument("--reference", help="the mixture that gains are counted from; without it the first")
    parser.add_argument("--prior", type=Path, help="who speaks like whom (domain, under, nats), for the law transfer")
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=TRIED, help="that are tried")
    add_criterion(parser)
    add_limits(parser)
    add_run_tokens(parser)
    add_parameters(parser)
    add_allowed(parser)
    add_lower(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder of mixture.json and summary.txt")
    options = parser.parse_args(argv)

    mixtures = read_mixtures(options.mixtures).table
    names = mixtures["domain"].cast(pl.String).unique(maintain_order=True).to_list()
    read = read_with_metrics(options.losses, names, options.metrics, options.lower_is_better)
    losses = read.table
    files = (str(options.losses), str(options.mixtures))
    observed = observations(losses, mixtures, files, options.allow_unmeasured)
    if options.prior:
        observed = replace(observed, gaps=read_gaps(options.prior, observed.domains, observed.loss_domains))
    options.reference = options.reference or observed.mixtures[0]
    options.step = options.step or int(observed.steps[-1])
    lines, best = solve(options, losses, observed)
    options.out.mkdir(parents=True, exist_ok=True)
    as_mixture(list(best), np.array(list(best.values()))).write(options.out / "mixture.json")
    with replacing(options.out / "summary.txt") as temporary:
        temporary.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))


def solve(
    options: argparse.Namespace, losses: pl.DataFrame, observed: Observations
) -> tuple[list[str], dict[str, float]]:
    """The page, and the mixture to take."""
    judging = criterion_of(options)
    shares = {
        name: dict(zip(observed.domains, own.tolist(), strict=True))
        for name, own in zip(observed.mixtures, observed.proportions, strict=True)
    }
    if judging.reference not in shares:
        raise InputError(f"--reference {judging.reference!r} is none of the mixtures: {', '.join(shares)}.")
    found, promises, optima, refused = {}, [], {}, []
    scores = pl.DataFrame(schema=COMPARISON)
    for law in options.laws:
        try:
            fitted, own, errors, spans = solved(law, options, observed, shares[judging.reference])
        except InputError as refusal:
            refused.append((law, str(refusal)))
            continue
        scores = pl.concat([scores, left_out_scores(fitted, errors)])
        found[law], optima[law] = fitted, own
        said = promise(fitted, law, OBSERVED, spans, scores, judging)
        promises += [said] if said else []
    if not found:
        raise InputError(f"no law could be fitted: {'; '.join(f'{law}: {why}' for law, why in refused)}")
    size = next((size_read(one) for one in found.values()), None)
    called = moved(shares, optima)
    said = summary.moved(called, shares, optima)
    shares = {called.get(name, name): own for name, own in shares.items()}
    losses = renamed(losses, called)
    ranks = {name: observed_rank(name, own) for name, own in shares.items()}
    judging = replace(judging, reference=called.get(judging.reference, judging.reference))
    measured_at = proxies_at([losses], options.step, size)
    law = next(iter(found.values()))
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(law, options.run_tokens, options.step, options.parameters)
    forbidden = outside(shares, options, tokens, run_tokens)
    known = known_from(losses, judging, promises)
    runs = measured_at and compared(measured_at, judging, known, forbidden)
    verdict = decide(runs, runs, promises, ranks)
    law = found[verdict.promise.law] if verdict.promise else next(iter(found.values()))
    page = Headline(
        dataset=options.losses.stem,
        verdict=verdict,
        target=runs,
        model=OBSERVED,
        reference=judging.reference,
        searched=tuple(name for name in shares if ranks[name] >= SEARCHED),
        moved=said,
        places={verdict.best: str(options.out / "mixture.json")},
        weighed=weighed(law, judging.weights),
    )
    lines = [title(page), "=" * WIDTH, *headline(page), ""]
    best = (optima | shares)[verdict.best]
    epochs, most = epochs_of(options, law, best), options.max_epochs
    pair = (judging.reference, shares[judging.reference], verdict.best, best, law["proportions_seen"])
    lines += [*summary.proportions(*pair, None, epochs), *summary.epoch_bound(epochs, most)]
    lines += [] if size else summary.beyond(options.step, law["steps"])
    lines += doubts(options, law, observed, best)
    if runs is not None:
        unit = judging.unit(runs.runs.columns)
        lines += ["", *summary.compared(runs, f"{at_size(runs.runs, OBSERVED)}, trained on each mixture ({unit})")]
    rows = [[one.law, f"{100 * one.left_out:.2f}", f"{one.value:.4f}", f"{one.upper:.4f}"] for one in promises]
    lines += ["", "The laws, by their errors on runs left out", ""]
    lines += table(["law", "error %", "its optimum", "upper 80 % end"], rows)
    for law_name, why in refused:
        lines += paragraph(f"{law_name}: {why}", "  ", "    ")
    return lines, best


def solved(
    law: str, options: argparse.Namespace, observed: Observations, before: Mapping[str, float]
) -> tuple[dict, dict[str, float], LeftOut, pl.DataFrame]:
    """A fitted law, its optimum, its errors on runs left out, and its intervals."""
    judging, step = criterion_of(options), options.step
    fitted = fit(law, observed)
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(fitted, options.run_tokens, step, options.parameters)
    fitted = at_run(fitted, options.parameters, run_tokens, tokens, step)
    weights, reference = judging.weights, {name: share for name, share in before.items() if share > 0}
    objective = objective_of(
        options.objective, weights, None, None if judging.kind == "weighted" else json.dumps(reference)
    )
    bounds = (read_numbers(given) if given else None for given in (options.lower, options.upper))
    lower, upper = run_bounds(fitted, step, *bounds, options.max_epochs, tokens, run_tokens, objective.domain_weights())

    def find(one: dict) -> np.ndarray:
        return best_shares(one, step, objective, lower, upper, tokens)

    errors = left_out(fitted, observed, step)
    more = objective_rows(fitted, step, objective, find, errors, LEVEL, tokens)
    named = {judging.reference: np.array([before.get(name, 0.0) for name in fitted["domains"]])}
    spans = intervals(
        *(fitted, LEVEL, step, named, judging.reference, objective.domain_weights(), lower, upper, errors, None),
        find=find,
        more=more,
    )
    return fitted, dict(zip(fitted["domains"], find(fitted).tolist(), strict=True)), errors, spans


def left_out_scores(fitted: dict, errors: LeftOut) -> pl.DataFrame:
    """Mean relative errors on runs left out, as compare_laws.py writes them."""
    relative = np.nanmean(np.abs(errors.predicted / errors.observed - 1), axis=0)
    rows = [
        (fitted["law"], "left_out_mre", name, float(one), len(fitted["mixtures"]), None, None)
        for name, one in zip(fitted["loss_domains"], relative, strict=True)
    ]
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


def doubts(options: argparse.Namespace, law: dict, observed: Observations, best: Mapping[str, float]) -> list[str]:
    """What is remarkable in the tables, what the law could not tell from them, and the domains that
    the mixture reads more often than any run did.
    """
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(law, options.run_tokens, options.step, options.parameters)
    shares = np.array([best.get(name, 0.0) for name in law["domains"]])
    further = epochs_sentence(further_epochs(law, shares, tokens, run_tokens))
    said = [*observed.remarks, *law["warnings"], *([further] if further else [])]
    lines = [line for sentence in said for line in paragraph(sentence, "  - ", "    ")]
    return ["", "What the data could not tell", "", *lines] if lines else []


def epochs_of(options: argparse.Namespace, law: dict, shares: Mapping[str, float]) -> dict[str, float]:
    """How often the run reads the text of each domain, as far as its tokens are known."""
    tokens = read_tokens(options.tokens) if options.tokens else {}
    run_tokens = asked_tokens(law, options.run_tokens, options.step, options.parameters)
    return {name: one * run_tokens / tokens[name] for name, one in shares.items() if run_tokens and tokens.get(name)}


if __name__ == "__main__":
    sys.exit(run(main))
