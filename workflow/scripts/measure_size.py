"""Count the parameters of a model with a tokenizer, and the tokens that its whole run reads.

tokenizer.json, shape, tokens -> sizes/{model}.json (parameters, tokens), as in run.json
"""

import argparse
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from bimix.errors import run
from bimix.model.shape import Shape
from bimix.outputs import write_json


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--shape", type=json.loads, required=True, help="{layers, width, heads}, JSON, or {}")
    parser.add_argument("--parameters", type=float, default=0, help="of a model without a shape, as its command has")
    parser.add_argument("--tokens", type=int, required=True, help="of the whole run")
    parser.add_argument("--out", type=Path, required=True, help="json")
    options = parser.parse_args(argv)
    vocabulary = Tokenizer.from_file(str(options.tokenizer)).get_vocab_size()
    parameters = Shape(**options.shape, vocabulary=vocabulary).parameters if options.shape else options.parameters
    write_json(options.out, {"parameters": parameters, "tokens": options.tokens})


if __name__ == "__main__":
    sys.exit(run(main))
