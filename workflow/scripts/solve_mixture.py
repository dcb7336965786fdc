"""The best mixture of two tables, and why, in seconds: laws fitted and scored, optima, the verdict.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion) -> FOLDER/mixture.json,
the recommended mixture, FOLDER/summary.txt, FOLDER/verdict.json, the facts behind it, and
FOLDER/explore.html, a page to move the shares on
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import finite, run
from bimix.judge.facts import Evidence, data_facts, law_facts, optimum_facts, shown_optimum, verdict_facts
from bimix.judge.measured import add_criterion, criterion_of
from bimix.judge.verdict import OBSERVED
from bimix.laws.table import LAWS
from bimix.mixtures.mixture import as_mixture
from bimix.observations.chosen import read_chosen
from bimix.observations.flags import add_lower, add_priors
from bimix.observations.observations import Observations
from bimix.optimum.flags import add_flags
from bimix.optimum.objective import weighed
from bimix.optimum.report import by_harm, epochs_of, epochs_sentence, further_epochs
from bimix.outputs import write_json, write_text
from bimix.results import sections
from bimix.results.explore import DRAWN, beside
from bimix.results.explore import page as explore_page
from bimix.results.layout import paragraph, table
from bimix.results.summary import Summary, bound
from bimix.search.by_hand import EPOCHS
from bimix.search.solve import Answer, solve_tables

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

    observed, chosen = read_chosen(options, criterion_of(options).weights)
    options.reference, options.step = options.reference or chosen.mixtures[0], chosen.step
    found = solve_tables(options, chosen, observed)
    answer = answered(options, found, observed)
    options.out.mkdir(parents=True, exist_ok=True)
    best = answer.facts["shares"]
    as_mixture(list(best), np.array(list(best.values()))).write(options.out / "mixture.json")
    if text := explored(options, found, answer):
        write_text(options.out / "explore.html", text)
    else:
        (options.out / "explore.html").unlink(missing_ok=True)  # of an earlier answer
    write_json(options.out / "verdict.json", answer.facts)
    write_text(options.out / "summary.txt", answer.text())
    for remark in observed.remarks:
        print(remark, file=sys.stderr)
    print("\n".join(answer.first_screen()))


def answered(options: argparse.Namespace, found: Answer, observed: Observations) -> Summary:
    """The summary of an answer."""
    verdict, sought = found.verdict, found.sought
    shown = shown_optimum(list(found.fits), verdict, found.runs)
    law, promise = found.fits[shown].sought.fitted, found.fits[shown].promise
    facts = verdict_facts(
        Evidence(
            dataset=options.losses.stem,
            verdict=verdict,
            target=found.runs,
            model=OBSERVED,
            shares=found.shares,
            data=data_facts(law["domains"], len(found.ran)),
            roles=found.roles,
            laws={name: name for name in found.fits},
            searched=found.searched,
            epochs=epochs_of(found.shares[verdict.best], sought.pools, sought.run_tokens),
            law=law_facts(law, OBSERVED, promise),
            optimum=optimum_facts(shown, promise, found.runs, OBSERVED, verdict),
            sought=found.fits[shown].sought,
            by_harm=by_harm(one.sought for one in found.fits.values()),
            refused=found.refused,
        )
    )
    weights = weighed(found.law, found.criterion.weights)
    remarks = [
        ("Weights", f"in all averages {weights}, and nothing else." if weights else ""),
        ("Bound", bound(sought.objective, law, "a model")),
        ("Sizes", sections.size_sentence(law, "runs", "a model")),
        *(("Renamed", text) for text in sections.moved(found.called, found.ran, found.shares)),
    ]
    explore = [f"{options.out / 'explore.html'} (move the shares, see each loss)"] if is_drawn(found) else []
    pages = [*explore, str(options.out / "mixture.json"), f"tables: {options.out / 'summary.txt'}"]
    tables = [mixture_table(options, found, facts), doubts(found, observed), *run_tables(found, facts)]
    return Summary(facts, pages, tables, remarks)


def mixture_table(options: argparse.Namespace, found: Answer, facts: Mapping) -> list[str]:
    """The mixture to take next to the reference."""
    law, reference, best = found.law, found.criterion.reference, facts["take"]
    epochs = epochs_of(facts["shares"], found.sought.pools, found.sought.run_tokens)
    pair = (reference, found.shares[reference]), (best, facts["shares"])
    lines = sections.mixture(facts, law, *pair, epochs, options.max_epochs, found.sought.run_tokens)
    return lines + sections.beyond(options.step, law)


def run_tables(found: Answer, facts: Mapping) -> list[list[str]]:
    """The runs, and the laws by their errors."""
    rows = []
    for one in (fit.promise for fit in found.fits.values() if fit.promise):
        ends = ["-" if end is None else f"{end:.4f}" for end in (one.low, one.high)]
        rows.append([one.law, f"{100 * one.left_out:.2f}", f"{one.value:.4f}", *ends])
    laws = ["The laws, by their errors on left-out runs", ""]
    laws += table(["law", "left-out error %", "predicted optimum", "90 % from", "to"], rows)
    runs = [] if facts["measured"] is None else [sections.compared(facts)]
    return [*runs, laws]


def is_drawn(found: Answer) -> bool:
    """Whether a law is a formula, which a browser can compute."""
    return any(law in DRAWN for law in found.fits)


def explored(options: argparse.Namespace, found: Answer, answer: Summary) -> str | None:
    """The page to play with, of the laws that are formulas, the most trusted first, under the
    summary's first lines; None where no law is one.
    """
    if not is_drawn(found):
        return None
    runs = {found.called.get(name, name) for name in found.ran}
    rules = (name for name in found.shares if name not in runs)
    shown = dict.fromkeys((found.criterion.reference, found.verdict.best, *found.fits, *rules))
    return explore_page(
        found.asked,
        **beside(answer),
        laws={law: one.sought.fitted for law, one in found.fits.items()},
        spans=pl.concat([one.spans for one in found.fits.values()]),
        mixtures={name: found.shares[name] for name in shown},
        ran=found.ran,
        reference=found.criterion.reference,
        step=options.step,
    )


def doubts(found: Answer, observed: Observations) -> list[str]:
    """Remarks on the tables, what the runs do not determine, and text that no run read as often."""
    law, sought, best = found.law, found.sought, found.shares[found.verdict.best]
    shares = np.array([best.get(name, 0.0) for name in law["domains"]])
    further = epochs_sentence(further_epochs(law, shares, sought.pools, sought.run_tokens))
    said = [*observed.remarks, *law["warnings"], *([further] if further else [])]
    lines = [line for sentence in said for line in paragraph(sentence, "  - ", "    ")]
    return ["What the data do not determine", "", *lines] if lines else []


if __name__ == "__main__":
    sys.exit(run(main))
