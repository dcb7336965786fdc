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
from bimix.outputs import replacing
from bimix.results import sections
from bimix.results.explore import DRAWN, Explored
from bimix.results.explore import page as explore_page
from bimix.results.headline import OBSERVED, Headline, headline, title
from bimix.results.headline import at as at_size
from bimix.results.layout import WIDTH, paragraph, table
from bimix.search.by_hand import EPOCHS
from bimix.search.solve import LEVEL, Answer, solve_tables
from bimix.tables import read_tokens

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
        nargs="*",
        type=float,
        default=EPOCHS,
        metavar="EPOCHS",
        help="of the domains that --weights want, in rules by hand: candidates for the answer (%(default)s)",
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
    lines, best = solve(options, found, observed)
    options.out.mkdir(parents=True, exist_ok=True)
    as_mixture(list(best), np.array(list(best.values()))).write(options.out / "mixture.json")
    if text := explored(options, found, best):
        with replacing(options.out / "explore.html") as temporary:
            temporary.write_text(text, encoding="utf-8")
        lines += ["", "Open explore.html, next to this file: move the shares, see what each loss does."]
    with replacing(options.out / "summary.txt") as temporary:
        temporary.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(lines))


def solve(options: argparse.Namespace, found: Answer, observed: Observations) -> tuple[list[str], dict[str, float]]:
    """The summary, and the mixture to take."""
    verdict, runs, judging, law = found.verdict, found.runs, found.criterion, found.law
    page = Headline(
        dataset=options.losses.stem,
        verdict=verdict,
        target=runs,
        model=OBSERVED,
        reference=judging.reference,
        searched=found.searched,
        moved=sections.moved(found.called, found.ran, found.optima),
        places={verdict.best: str(options.out / "mixture.json")},
        weighed=weighed(law, judging.weights),
    )
    lines = [title(page), "=" * WIDTH, *headline(page), ""]
    best = (found.optima | found.shares)[verdict.best]
    epochs, most = epochs_of(options, law, best), options.max_epochs
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


def explored(options: argparse.Namespace, found: Answer, best: Mapping[str, float]) -> str | None:
    """The page to play with, of the laws with formulas, most trusted first; or None."""
    order = sorted(found.fits.values(), key=lambda one: one.fitted is not found.law)
    drawn = [one for one in order if one.fitted["law"] in DRAWN]
    if not drawn:
        return None
    first, reference = drawn[0], found.criterion.reference
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(first.fitted, options.run_tokens, options.step, options.parameters)
    kept = {reference: found.shares[reference], found.verdict.best: best}
    rules = {
        name: own for name, own in found.shares.items() if name not in found.ran and name not in found.called.values()
    }
    return explore_page(
        f"{options.losses.stem}: move the shares",
        [Explored(one.fitted["law"], one.fitted, one.spans) for one in order],
        kept | found.optima | rules,
        found.ran,
        reference,
        found.verdict.best,
        first.goal.objective,
        options.step,
        (first.lower, first.upper),
        tokens,
        run_tokens,
        LEVEL,
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
