"""Judge methods by the runs on what they proposed, over seeds.

losses of the compared runs, tables/methods.csv, the laws behind the proposals ->
tables/verdict.csv
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from bimix.errors import run
from bimix.judge.comparison import compared, in_bits
from bimix.judge.measured import Criterion, add_criterion, criterion_of, measured
from bimix.judge.worth import PREDICTED, PRICES, verdict
from bimix.laws.document import checked_law
from bimix.laws.fitted import at_run, predict_defined
from bimix.optimum.flags import number_or_none
from bimix.outputs import write_table
from bimix.tables import read_table, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="mixture, seed, step, domain, loss of the runs")
    parser.add_argument("--prices", type=Path, required=True, help="written by price_methods.py")
    parser.add_argument("--reference", required=True, help="the mixture that gains are measured against")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion")
    parser.add_argument(
        "--laws",
        type=json.loads,
        required=True,
        help="{mixture: {coefficients, step}} of the mixtures that a law proposed, JSON",
    )
    parser.add_argument("--tokens", type=Path, nargs="*", help="tokens there are of each domain: none or one table")
    parser.add_argument("--run-tokens", type=number_or_none, required=True, help="of a compared run, or none")
    parser.add_argument("--bytes", type=Path, nargs="?", help="domain and bits_per_nat, csv; none: no bits per byte")
    add_criterion(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)
    criterion = criterion_of(options)
    comparison = compared(measured(read_table(options.losses)), criterion)
    table = read_table(options.mixtures)
    shares = {
        name: dict(rows.select("domain", "proportion").iter_rows())
        for (name,), rows in table.group_by("mixture", maintain_order=True)
    }
    tokens = read_tokens(options.tokens[0]) if options.tokens else None
    predicted = {
        name: gain(
            checked_law(Path(law["coefficients"])),
            law["step"],
            shares[options.reference],
            shares[name],
            tokens,
            options.run_tokens,
            criterion,
        )
        for name, law in options.laws.items()
    }
    known = {name: value for name, value in predicted.items() if value is not None}
    prices = read_table(options.prices)
    prices = prices.cast({name: kind for name, kind in PRICES.items() if name in prices.columns})
    if PREDICTED in prices.columns:
        brought = prices.drop_nulls(PREDICTED).select("mixture", PREDICTED)
        known = dict(brought.iter_rows()) | known
    factors = dict(read_table(options.bytes).select("domain", "bits_per_nat").iter_rows()) if options.bytes else {}
    write_table(verdict(comparison, prices, known, in_bits(comparison, factors)), options.out)


def gain(
    fitted: dict,
    step: int,
    reference: dict,
    mixture: dict,
    tokens: dict | None,
    run_tokens: float | None,
    criterion: Criterion,
) -> float | None:
    """The gain of a mixture over the reference in what is minimised, as a law predicts it, in
    percent; None where the law does not define a loss.
    """
    fitted = at_run(fitted, tokens=run_tokens, pools=tokens, step=step)
    rows = np.array([[one.get(domain, 0.0) for domain in fitted["domains"]] for one in (reference, mixture)])
    before, after = criterion.predicted(predict_defined(fitted, rows, np.array([step]))[:, 0], fitted["loss_domains"])
    return float(100 * (1 - after / before)) if np.isfinite(before + after) else None


if __name__ == "__main__":
    sys.exit(run(main))
