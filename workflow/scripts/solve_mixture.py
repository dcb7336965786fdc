"""The best mixture of two tables, and why, in seconds: laws fitted and scored, optima, the verdict.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion) -> FOLDER/mixture.json,
the recommended mixture, FOLDER/summary.txt, FOLDER/verdict.json, the facts behind it, and
FOLDER/explore.html, a page to move the shares on
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import yaml

from bimix.errors import finite, run
from bimix.judge.facts import Evidence, verdict_facts
from bimix.judge.measured import add_criterion, criterion_of
from bimix.laws.table import LAWS
from bimix.mixtures.mixture import as_mixture
from bimix.observations.chosen import read_chosen
from bimix.observations.flags import add_lower, add_priors
from bimix.observations.observations import Observations
from bimix.optimum.flags import add_flags
from bimix.optimum.report import epochs_sentence, further_epochs
from bimix.outputs import write_json, write_text
from bimix.results import sections
from bimix.results.explore import DRAWN, verdict_page
from bimix.results.layout import paragraph, table
from bimix.results.summary import Summary, remarks
from bimix.search.by_hand import EPOCHS
from bimix.search.solve import solve_tables
from bimix.training.costs import Device

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
    of = replace(found.evidence, device=usual_device())
    facts, drawn = verdict_facts(of), any(law in DRAWN for law in of.fits)
    pages = [f"{options.out / 'explore.html'} (move the shares, see each loss)"] if drawn else []
    pages += [str(options.out / "mixture.json"), f"tables: {options.out / 'summary.txt'}"]
    runs = [] if facts["measured"] is None else sections.compared(facts)
    tables = [sections.mixture(of, facts, options.max_epochs), doubts(of, observed), runs, laws(of)]
    summary = Summary(facts, pages, tables, remarks(of, sections.moved(found.called, found.ran, of.shares)))

    options.out.mkdir(parents=True, exist_ok=True)
    best = facts["shares"]
    as_mixture(list(best), np.array(list(best.values()))).write(options.out / "mixture.json")
    if drawn:
        runs = {found.called.get(name, name) for name in found.ran}
        rules = [name for name in of.shares if name not in runs]
        spans = pl.concat([fit.spans for fit in of.fits.values()])
        write_text(options.out / "explore.html", verdict_page(found.asked, of, summary, spans, found.ran, rules))
    else:
        (options.out / "explore.html").unlink(missing_ok=True)  # of an earlier answer
    write_json(options.out / "verdict.json", facts)
    write_text(options.out / "summary.txt", summary.text())
    for remark in observed.remarks:
        print(remark, file=sys.stderr)
    print("\n".join(summary.first_screen()))


def usual_device() -> Device:
    """The GPU that plans assume where a config names none."""
    defaults = Path(__file__).parents[1] / "defaults.yaml"
    return Device(**yaml.safe_load(defaults.read_text(encoding="utf-8"))["hardware"]["gpu"])


def laws(of: Evidence) -> list[str]:
    """The laws by their errors on runs left out."""
    rows = []
    for one in (fit.promise for fit in of.fits.values() if fit.promise):
        ends = ["-" if end is None else f"{end:.4f}" for end in (one.low, one.high)]
        rows.append([one.law, f"{100 * one.left_out:.2f}", f"{one.value:.4f}", *ends])
    header = ["law", "left-out error %", "predicted optimum", "90 % from", "to"]
    return ["The laws, by their errors on left-out runs", "", *table(header, rows)]


def doubts(of: Evidence, observed: Observations) -> list[str]:
    """Remarks on the tables, what the runs do not determine, and text that no run read as often."""
    law, best = of.fits[of.trusted].sought.fitted, of.shares[of.verdict.best]
    shares = np.array([best.get(name, 0.0) for name in law["domains"]])
    further = epochs_sentence(further_epochs(law, shares, of.pools, of.run_tokens))
    said = [*observed.remarks, *law["warnings"], *([further] if further else [])]
    lines = [line for sentence in said for line in paragraph(sentence, "  - ", "    ")]
    return ["What the data do not determine", "", *lines] if lines else []


if __name__ == "__main__":
    sys.exit(run(main))
