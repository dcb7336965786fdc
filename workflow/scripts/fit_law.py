"""Fit a mixing law to observed losses.

losses (mixture, step, domain, loss), mixtures (mixture, domain, proportion) -> coefficients.json

Its key `provenance` is the code that fitted it.
"""

import argparse
import sys

from bimix.errors import run
from bimix.laws import LAWS, fit
from bimix.laws.observations import observations
from bimix.outputs import write_json
from bimix.runs.provenance import FITTING, code
from bimix.tables import read_table


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", required=True, choices=list(LAWS))
    parser.add_argument("--losses", required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--mixtures", required=True, help="tidy mixtures, parquet or csv")
    parser.add_argument("--out", required=True, help="coefficients.json")
    args = parser.parse_args(argv)

    observed = observations(read_table(args.losses), read_table(args.mixtures), (args.losses, args.mixtures))
    document = fit(args.law, observed)
    write_json(args.out, document | {"provenance": code(FITTING)})
    print(
        f"{args.law}: {document['coefficients_fitted']} coefficients from {len(observed.mixtures)} mixtures, "
        f"{len(observed.steps)} steps and {len(observed.loss_domains)} loss domains"
    )
    for sentence in document["warnings"]:
        print(f"warning: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
