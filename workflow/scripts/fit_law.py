"""Fit a mixing law to observed losses.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion), for the law transfer a
prior from text (domain, under, nats; measure_cross_entropy.py) -> coefficients.json

If the losses are of models of several sizes, the law is set to the largest, or to the run of
--asked; other scripts may set it to another.

Its key `provenance` has the version of the code, and a digest of all other keys.
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.laws.document import digest_law
from bimix.laws.fitted import asked_at, fit
from bimix.laws.table import LAWS
from bimix.observations.flags import add_tables, read_tables
from bimix.outputs import write_json
from bimix.tables import read_size
from bimix.training.provenance import FITTING, code


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", required=True, choices=list(LAWS), help="what is fitted")
    add_tables(parser)
    parser.add_argument(
        "--asked",
        type=Path,
        nargs="?",
        help="run.json, or JSON with parameters and tokens, of the run that a law over several sizes is read at",
    )
    parser.add_argument("--out", type=Path, required=True, help="coefficients.json")
    options = parser.parse_args(argv)

    observed = read_tables(options)
    fitted = fit(options.law, observed)
    if options.asked:
        fitted = asked_at(fitted, *read_size(options.asked))
    write_json(options.out, fitted | {"provenance": code(FITTING) | {"digest": digest_law(fitted)}})
    print(
        f"{options.law}: {fitted['coefficients_fitted']} coefficients from {len(fitted['mixtures'])} mixtures, "
        f"{len(observed.steps)} steps and {len(observed.loss_domains)} loss domains"
    )
    for sentence in (*observed.remarks, *fitted["warnings"]):
        print(f"warning: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
