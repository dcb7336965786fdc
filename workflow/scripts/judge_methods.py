"""Judge methods by the runs on what they proposed, over seeds.

losses of the compared runs, tables/methods.csv, the laws behind the proposals ->
tables/verdict.csv, tables/proposals.csv of the laws that proposed several mixtures, and one
paragraph, tables/verdict.txt
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.costs.prices import PREDICTED
from bimix.costs.said import paragraph
from bimix.costs.worth import proposals, verdict
from bimix.errors import run
from bimix.laws import at_run, predict_defined
from bimix.observed.averages import add_weights, of_losses
from bimix.observed.metrics import losses_only
from bimix.optimum.flags import number_or_none
from bimix.optimum.optimum import average, target_weights
from bimix.outputs import replacing, write_table
from bimix.tables import read_json, read_table, read_tokens


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
    add_weights(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv")
    parser.add_argument("--proposals", type=Path, required=True, help="of each method with several, csv")
    parser.add_argument("--page", type=Path, required=True, help="what it says, txt")
    options = parser.parse_args(argv)
    measured = read_table(options.losses)
    weights, losses = of_losses(options.weights, measured), losses_only(measured)
    table = read_table(options.mixtures)
    shares = {
        name: dict(rows.select("domain", "proportion").iter_rows())
        for (name,), rows in table.group_by("mixture", maintain_order=True)
    }
    tokens = read_tokens(options.tokens[0]) if options.tokens else None
    predicted = {
        name: gain(
            read_json(Path(law["coefficients"])),
            law["step"],
            shares[options.reference],
            shares[name],
            tokens,
            options.run_tokens,
            weights,
        )
        for name, law in options.laws.items()
    }
    known = {name: value for name, value in predicted.items() if value is not None}
    prices = read_table(options.prices)
    if PREDICTED in prices.columns:
        told = prices.drop_nulls(PREDICTED).select("mixture", PREDICTED)
        known = dict(told.iter_rows()) | known
    factors = dict(read_table(options.bytes).select("domain", "bits_per_nat").iter_rows()) if options.bytes else None
    found = verdict(losses, prices, options.reference, known, factors, weights)
    several = proposals(losses, known, weights)
    said = paragraph(found, several, options.reference, set(prices.filter(pl.col("search_runs") == 0)["mixture"]))
    print(said)
    write_table(found, options.out)
    write_table(several, options.proposals)
    with replacing(options.page) as temporary:
        temporary.write_text(said + "\n", encoding="utf-8")


def gain(
    fitted: dict,
    step: int,
    reference: dict,
    mixture: dict,
    tokens: dict | None,
    run_tokens: float | None,
    weights: dict,
) -> float | None:
    """The gain of a mixture over the reference in the average loss that a law predicts, in percent;
    None where the law does not define a loss.
    """
    fitted = at_run(fitted, tokens=run_tokens, pools=tokens, step=step)
    rows = np.array([[one.get(domain, 0.0) for domain in fitted["domains"]] for one in (reference, mixture)])
    before, after = average(predict_defined(fitted, rows, np.array([step]))[:, 0], target_weights(fitted, weights))
    return float(100 * (1 - after / before)) if np.isfinite(before + after) else None


if __name__ == "__main__":
    sys.exit(run(main))
