"""Write a mixture as the configuration of a training stack, with the weights in its unit.

mixture {domain: proportion} or stages of them, or a table of such as propose_round.py writes;
data.json (files of each domain, by its name) -> one file of the format; a table of shares and
epochs on standard output

A proportion is a share of the run's tokens. docs/export.md says what data.json holds and what each
format weighs.
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import InputError, finite, run
from bimix.exports.data import as_data
from bimix.exports.formats import FORMATS
from bimix.exports.weights import staged
from bimix.exports.write import overview, write
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_text
from bimix.tables import read_json, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixture", type=Path, required=True, help="JSON, or a table of domain and proportion")
    parser.add_argument("--name", help="the mixture's, in a table of several")
    parser.add_argument("--data", type=Path, required=True, help="JSON of the files of each domain")
    parser.add_argument("--format", required=True, choices=list(FORMATS), help="of which stack")
    parser.add_argument(
        "--tokens",
        nargs="?",
        help="unique tokens by domain: a table of domain and tokens, a JSON file or the JSON itself",
    )
    parser.add_argument("--run-tokens", nargs="?", type=finite, help="tokens that the run trains on, for epochs")
    parser.add_argument("--run-steps", nargs="?", type=int, help="updates of the run, for where stages begin")
    parser.add_argument("--out", type=Path, required=True, help="the configuration to write")
    options = parser.parse_args(argv)

    if options.run_tokens is not None and not 1 <= options.run_tokens < float("inf"):
        raise InputError(f"--run-tokens is {options.run_tokens:g}: it must be a number of tokens.")
    data = as_data(read_json(options.data), str(options.data))
    mixture = Mixture.read(options.mixture, name=options.name)
    known = read_tokens(options.tokens) if options.tokens else {}
    stages = staged(options.format, data, mixture, str(options.mixture), known, options.run_tokens, options.run_steps)
    written = write(stages)
    write_text(options.out, written.text)
    for remark in written.remarks:
        print(f"Remark: {remark}", file=sys.stderr)
    print(overview(stages))


if __name__ == "__main__":
    sys.exit(run(main))
