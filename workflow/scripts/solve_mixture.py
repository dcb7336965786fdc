"""The best mixture of two tables, and why, in seconds: laws fitted and scored, optima, the verdict.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion) -> FOLDER/mixture.json,
the recommended mixture, FOLDER/summary.txt, and FOLDER/explore.html, a page to move the shares on
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import run
from bimix.judge.measured import add_criterion
from bimix.laws.table import LAWS
from bimix.mixtures.mixture import as_mixture
from bimix.observations.flags import add_allowed, add_lower, add_priors
from bimix.observations.metrics import read_with_metrics
from bimix.observations.observations import Observations, observations, with_priors
from bimix.observations.tables import read_mixtures
from bimix.optimum.flags import add_flags, asked_tokens
from bimix.optimum.objective import weighed
from bimix.optimum.report import epochs_sentence, further_epochs
from bimix.outputs import write_text
from bimix.results import sections
from bimix.results.explore import DRAWN
from bimix.results.explore import page as explore_page
from bimix.results.headline import OBSERVED, Headline, headline, title
from bimix.results.headline import at as at_size
from bimix.results.layout import WIDTH, paragraph, table
from bimix.results.pages import entries
from bimix.search.by_hand import EPOCHS
from bimix.search.solve import Answer, solve_tables
from bimix.tables import read_numbers, read_tokens

TRIED = ("transfer", "bimix")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy or wide losses, csv or parquet")
    parser.add_argument("--mixtures", type=Path, required=True, help="tidy or wide mixtures, csv or parquet")
    parser.add_argument("--metrics", type=Path, help="metrics of the runs in addition to their losses, csv or parquet")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last one measured")
    parser.add_argument("--reference", help="the mixture that gains are counted from; without it the first")
    add_priors(parser)
    parser.add_argument(
        "--hand",
        nargs="+",
        type=float,
        metavar="EPOCHS",
        help=f"of the domains that --weights want, in rules by hand: candidates for the answer ({EPOCHS[0]} {EPOCHS[1]})",
    )
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=TRIED, help="that are tried")
    add_criterion(parser)
    add_flags(parser, "limits", "run-tokens", "parameters")
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
    observed = with_priors(observed, options.prior, options.domain_groups)
    options.reference = options.reference or observed.mixtures[0]
    options.step = options.step or int(observed.steps[-1])
    found = solve_tables(options, losses, observed)
    page = heading(options, found)
    lines, best = solve(options, found, observed, page)
    options.out.mkdir(parents=True, exist_ok=True)
    as_mixture(list(best), np.array(list(best.values()))).write(options.out / "mixture.json")
    if text := explored(options, found, page):
        write_text(options.out / "explore.html", text)
        lines += ["", "Open explore.html, next to this file: move the shares, see what each loss does."]
    write_text(options.out / "summary.txt", "\n".join([*lines, ""]))
    print("\n".join(lines))


def heading(options: argparse.Namespace, found: Answer) -> Headline:
    """What decides."""
    verdict = found.verdict
    return Headline(
        dataset=options.losses.stem,
        verdict=verdict,
        target=found.runs,
        model=OBSERVED,
        reference=found.criterion.reference,
        searched=found.searched,
        moved=sections.moved(found.called, found.ran, found.optima),
        places={verdict.best: str(options.out / "mixture.json")},
        weighed=weighed(found.law, found.criterion.weights),
        epochs=epochs_of(options, found.law, (found.optima | found.shares)[verdict.best]),
    )


def solve(
    options: argparse.Namespace, found: Answer, observed: Observations, page: Headline
) -> tuple[list[str], dict[str, float]]:
    """The summary, and the mixture to take."""
    verdict, runs, judging, law = found.verdict, found.runs, found.criterion, found.law
    lines = [title(page), "=" * WIDTH, *headline(page), ""]
    best = (found.optima | found.shares)[verdict.best]
    epochs, most = page.epochs, options.max_epochs
    pair = (judging.reference, found.shares[judging.reference], verdict.best, best, law["proportions_seen"])
    lines += [*sections.proportions(*pair, None, epochs), *sections.epoch_bound(epochs, most)]
    lines += [] if found.size else sections.beyond(options.step, law["steps"])
    lines += doubts(options, law, observed, best)
    if runs is not None:
        unit = judging.unit(runs.runs.columns)
        lines += ["", *sections.compared(runs, f"{at_size(runs.runs, OBSERVED)}, trained on each mixture ({unit})")]
    rows = [[one.law, f"{100 * one.left_out:.2f}", f"{one.value:.4f}", f"{one.upper:.4f}"] for one in found.promises]
    lines += ["", "The laws, by their errors on runs left out", ""]
    lines += table(["law", "error %", "its optimum", "upper 80 % end"], rows)
    for law_name, why in found.refused:
        lines += paragraph(f"{law_name}: {why}", "  ", "    ")
    return lines, best


def explored(options: argparse.Namespace, found: Answer, page: Headline) -> str | None:
    """The page to play with, of the laws that are formulas, the most trusted first, under the
    summary's first lines; None where no law is one.
    """
    fits = sorted(found.fits.values(), key=lambda one: one.fitted is not found.law)
    if not any(one.fitted["law"] in DRAWN for one in fits):
        return None
    known, best = found.shares | found.optima, found.verdict.best
    rules = [name for name in found.shares if name not in found.ran and name not in found.called.values()]
    shown = dict.fromkeys((found.criterion.reference, best, *found.optima, *rules))
    limits = (options.lower and read_numbers(options.lower), options.upper and read_numbers(options.upper))
    return explore_page(
        title=f"{options.losses.stem}: the mixture to take, and others to try",
        laws={one.fitted["law"]: one.fitted for one in fits},
        spans=pl.concat([one.spans for one in fits]),
        mixtures={name: known[name] for name in shown},
        ran=found.ran,
        reference=found.criterion.reference,
        start=best,
        objective=fits[0].goal.objective,
        limits=(*limits, options.max_epochs),
        tokens=read_tokens(options.tokens) if options.tokens else {},
        run_tokens=options.run_tokens,
        step=options.step,
        parameters=options.parameters,
        said=entries(headline(page)),
    )


def doubts(options: argparse.Namespace, law: dict, observed: Observations, best: Mapping[str, float]) -> list[str]:
    """What is remarkable in the tables, what the runs do not determine, and the domains that
    the mixture reads more often than any run did.
    """
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(law, options.run_tokens, options.step, options.parameters)
    shares = np.array([best.get(name, 0.0) for name in law["domains"]])
    further = epochs_sentence(further_epochs(law, shares, tokens, run_tokens))
    said = [*observed.remarks, *law["warnings"], *([further] if further else [])]
    lines = [line for sentence in said for line in paragraph(sentence, "  - ", "    ")]
    return ["", "What the data do not determine", "", *lines] if lines else []


def epochs_of(options: argparse.Namespace, law: dict, shares: Mapping[str, float]) -> dict[str, float]:
    """How often the run reads the text of each domain, as far as its tokens are known."""
    tokens = read_tokens(options.tokens) if options.tokens else {}
    run_tokens = asked_tokens(law, options.run_tokens, options.step, options.parameters)
    return {name: one * run_tokens / tokens[name] for name, one in shares.items() if run_tokens and tokens.get(name)}


if __name__ == "__main__":
    sys.exit(run(main))
