"""Judge methods by the runs on what they proposed, over seeds, and by what they spent before.

losses of the compared runs, the laws behind the proposals, reports of the runs that mixtures were
found with or a table of their costs -> tables/verdict.csv
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from bimix.errors import run
from bimix.judge.comparison import compared
from bimix.judge.measured import Criterion, add_criterion, criterion_of, measured
from bimix.judge.worth import read_cost, read_spent, spent_on, verdict
from bimix.laws.document import checked_law
from bimix.laws.fitted import at_run, predict_defined
from bimix.observations.tables import by_mixture
from bimix.optimum.flags import number_or_none
from bimix.outputs import write_table
from bimix.tables import read_json, read_table, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="mixture, seed, step, domain, loss of the runs")
    parser.add_argument("--reference", required=True, help="the mixture that gains are measured against")
    parser.add_argument("--large", type=Path, nargs="?", help="run.json of the large run on the reference")
    parser.add_argument(
        "--searches",
        type=json.loads,
        default={},
        help="{mixture: list of the run.json and runs.parquet of the runs that it was found with}, JSON",
    )
    parser.add_argument(
        "--costs",
        type=Path,
        nargs="?",
        help="of runs trained elsewhere, in the place of these two: mixture, search_runs, search_flops, large_flops",
    )
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion")
    parser.add_argument(
        "--laws",
        type=json.loads,
        required=True,
        help="{mixture: {coefficients, step}} of the mixtures that a law proposed, JSON",
    )
    parser.add_argument("--tokens", type=Path, nargs="*", help="tokens there are of each domain: none or one table")
    parser.add_argument("--run-tokens", type=number_or_none, required=True, help="of a compared run, or none")
    add_criterion(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)
    criterion = criterion_of(options)
    comparison = compared(measured(read_table(options.losses)), criterion)
    shares = by_mixture(read_table(options.mixtures))
    tokens = read_tokens(options.tokens[0]) if options.tokens else None
    predicted = {}
    for name, law in options.laws.items():
        run = {"tokens": options.run_tokens, "pools": tokens, "step": law["step"]}
        fitted = at_run(checked_law(Path(law["coefficients"])), **run)
        value = gain(fitted, law["step"], (shares[options.reference], shares[name]), criterion)
        if value is not None:
            predicted[name] = value
    spent, large_flops = None, None
    if options.large is not None:
        spent = {
            name: spent_on([cost for path in paths for cost in costs(Path(path))])
            for name, paths in options.searches.items()
        }
        large_flops = read_cost(read_json(options.large), str(options.large))["flops"]
    elif options.costs is not None:
        spent, large_flops = read_spent(read_table(options.costs))
    write_table(verdict(comparison, spent, large_flops, predicted), options.out)


def costs(path: Path) -> list[dict[str, float]]:
    """Of each run that a report is of, what it cost."""
    if path.suffix == ".json":
        return [read_cost(read_json(path), str(path))]
    return [read_cost(row, str(path)) for row in read_table(path).iter_rows(named=True)]


def gain(fitted: dict, step: int, pair: tuple[dict, dict], criterion: Criterion) -> float | None:
    """The gain of the second mixture over the first, the reference, in what is minimised, as a law
    predicts it, in percent; None where the law does not define a loss.
    """
    rows = np.array([[one.get(domain, 0.0) for domain in fitted["domains"]] for one in pair])
    before, after = criterion.predicted(predict_defined(fitted, rows, np.array([step]))[:, 0], fitted["loss_domains"])
    return float(100 * (1 - after / before)) if np.isfinite(before + after) else None


if __name__ == "__main__":
    sys.exit(run(main))
