"""The best mixture of two tables, and why, in seconds: laws fitted and scored, optima, the verdict.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion) -> FOLDER/mixture.json,
the recommended mixture, FOLDER/summary.txt, FOLDER/verdict.json, the facts behind it, and
FOLDER/explore.html, a page to move the shares on
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import finite, run
from bimix.judge.facts import law_facts, optimum_facts, shown_optimum
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.verdict import OBSERVED
from bimix.laws.table import LAWS
from bimix.mixtures.mixture import as_mixture
from bimix.observations.chosen import choose
from bimix.observations.flags import add_lower, add_priors
from bimix.observations.metrics import read_with_metrics
from bimix.observations.observations import Observations, observations, with_priors
from bimix.observations.tables import read_mixtures
from bimix.optimum.flags import add_flags
from bimix.optimum.objective import weighed
from bimix.optimum.report import epochs_of, epochs_sentence, further_epochs
from bimix.outputs import write_json, write_text
from bimix.results import sections
from bimix.results.explore import DRAWN, beside
from bimix.results.explore import page as explore_page
from bimix.results.headline import Headline, headline, reasons, title
from bimix.results.layout import WIDTH, paragraph, table
from bimix.results.summary import bound
from bimix.search.by_hand import EPOCHS
from bimix.search.solve import Answer, solve_tables
from bimix.transfer.run import size_read

TRIED = ("transfer", "bimix")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy or wide losses, csv or parquet")
    parser.add_argument("--mixtures", type=Path, required=True, help="tidy or wide mixtures, csv or parquet")
    parser.add_argument("--metrics", type=Path, help="metrics of the runs in addition to their losses, csv or parquet")
    parser.add_argument("--step", type=int, help="of the run to be made good; without it the last that most runs share")
    parser.add_argument("--reference", help="the mixture that gains are counted from; without it the first")
    add_priors(parser)
    parser.add_argument(
        "--hand",
        nargs="+",
        type=finite,
        metavar="EPOCHS",
        help=f"of the domains that --weights want, in rules by hand: candidates for the answer ({EPOCHS[0]} {EPOCHS[1]})",
    )
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=TRIED, help="that are tried")
    add_criterion(parser)
    add_flags(parser, "limits", "run-tokens", "parameters")
    add_lower(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder of mixture.json and summary.txt")
    options = parser.parse_args(argv)

    mixtures = read_mixtures(options.mixtures).table
    names = mixtures["domain"].cast(pl.String).unique(maintain_order=True).to_list()
    read = read_with_metrics(options.losses, names, options.metrics, options.lower_is_better)
    losses = read.table
    files = (str(options.losses), str(options.mixtures))
    observed = observations(losses, mixtures, files)
    chosen = choose(losses, criterion_of(options).weights, options.step, options.parameters)
    if chosen.losses.height < losses.height:
        observed = observations(chosen.losses, mixtures, files)
    observed = with_priors(observed, options.prior, options.domain_groups)
    observed = replace(observed, remarks=(*observed.remarks, *chosen.remarks))
    options.reference, options.step = options.reference or chosen.mixtures[0], chosen.step
    found = solve_tables(options, chosen, observed)
    page = heading(options, found)
    lines, best = solve(options, found, observed, page), found.shares[found.verdict.best]
    options.out.mkdir(parents=True, exist_ok=True)
    as_mixture(list(best), np.array(list(best.values()))).write(options.out / "mixture.json")
    if text := explored(options, found, page):
        write_text(options.out / "explore.html", text)
        lines += ["", "Open explore.html, next to this file: move the shares, see what each loss does."]
    else:
        (options.out / "explore.html").unlink(missing_ok=True)  # of an earlier answer
    write_json(options.out / "verdict.json", page.facts())
    write_text(options.out / "summary.txt", "\n".join([*lines, ""]))
    print("\n".join(lines))


def heading(options: argparse.Namespace, found: Answer) -> Headline:
    """What decides."""
    verdict, sought = found.verdict, found.sought
    shown = shown_optimum(list(found.fits), verdict, found.runs)
    law, promise = found.fits[shown].sought.fitted, found.fits[shown].promise
    return Headline(
        dataset=options.losses.stem,
        verdict=verdict,
        target=found.runs,
        model=OBSERVED,
        reference=found.criterion.reference,
        law=law_facts(law, OBSERVED, promise),
        optimum=optimum_facts(shown, promise, found.runs, OBSERVED),
        roles=found.roles,
        searched=found.searched,
        moved=sections.moved(found.called, found.ran, found.shares),
        sizes=sections.size_sentence(law, "runs", "a model"),
        bound=bound(sought.objective, law, "a model"),
        places={verdict.best: str(options.out / "mixture.json")},
        weighed=weighed(found.law, found.criterion.weights),
        epochs=epochs_of(found.shares[verdict.best], sought.pools, sought.run_tokens),
        refused=found.refused,
    )


def solve(options: argparse.Namespace, found: Answer, observed: Observations, page: Headline) -> list[str]:
    """The summary."""
    runs, judging, law, best = found.runs, found.criterion, found.law, found.shares[found.verdict.best]
    lines = [*paragraph(title(page)), "=" * WIDTH, *headline(page), "", *reasons(page), ""]
    pair = (judging.reference, found.shares[judging.reference], found.verdict.best, best, law["proportions_seen"])
    lines += [*sections.proportions(*pair, None, page.epochs), *sections.epoch_bound(page.epochs, options.max_epochs)]
    lines += [] if size_read(law) else sections.beyond(options.step, law["steps"])
    lines += doubts(found, observed, best)
    if runs is not None:
        lines += ["", *sections.compared(runs, OBSERVED)]
    promises = [one.promise for one in found.fits.values() if one.promise]
    rows = [
        [
            one.law,
            f"{100 * one.left_out:.2f}",
            f"{one.value:.4f}",
            *(f"{end:.4f}" if end else "-" for end in (one.low, one.high)),
        ]
        for one in promises
    ]
    lines += ["", "The laws, by their errors on left-out runs", ""]
    lines += table(["law", "left-out error %", "predicted optimum", "90 % from", "to"], rows)
    for name, why in found.refused:
        lines += paragraph(f"{name}: {why}", "  ", "    ")
    return lines


def explored(options: argparse.Namespace, found: Answer, page: Headline) -> str | None:
    """The page to play with, of the laws that are formulas, the most trusted first, under the
    summary's first lines; None where no law is one.
    """
    if not any(law in DRAWN for law in found.fits):
        return None
    runs = {found.called.get(name, name) for name in found.ran}
    rules = (name for name in found.shares if name not in runs)
    shown = dict.fromkeys((found.criterion.reference, found.verdict.best, *found.fits, *rules))
    return explore_page(
        found.asked,
        **beside(page),
        laws={law: one.sought.fitted for law, one in found.fits.items()},
        spans=pl.concat([one.spans for one in found.fits.values()]),
        mixtures={name: found.shares[name] for name in shown},
        ran=found.ran,
        reference=found.criterion.reference,
        step=options.step,
    )


def doubts(found: Answer, observed: Observations, best: Mapping[str, float]) -> list[str]:
    """Remarks on the tables, what the runs do not determine, and text that no run read as often."""
    law, sought = found.law, found.sought
    shares = np.array([best.get(name, 0.0) for name in law["domains"]])
    further = epochs_sentence(further_epochs(law, shares, sought.pools, sought.run_tokens))
    said = [*observed.remarks, *law["warnings"], *([further] if further else [])]
    lines = [line for sentence in said for line in paragraph(sentence, "  - ", "    ")]
    return ["", "What the data do not determine", "", *lines] if lines else []


if __name__ == "__main__":
    sys.exit(run(main))
