"""Say what files and tokens a dataset has of each domain, as export_mixture.py reads it.

shards.jsonl, tokens/train.parquet, tokens/validation.parquet -> export/raw.json: its raw files; or
export/rows.json: its files of tokens
"""

import argparse
import sys
from pathlib import Path

from bimix.corpus.shards import read_shards
from bimix.errors import run
from bimix.exports.data import raw_data, rows_data
from bimix.outputs import write_json
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", required=True, choices=("raw", "rows"), help="raw text, or rows of token ids")
    parser.add_argument("--shards", type=Path, required=True, help="the manifest of the raw files")
    parser.add_argument("--index", type=Path, nargs=2, required=True, help="token index of training and of validation")
    parser.add_argument("--out", type=Path, required=True, help="JSON")
    options = parser.parse_args(argv)
    train, validation = map(read_table, options.index)
    if options.files == "raw":
        shards = read_shards(options.shards.read_text(encoding="utf-8").splitlines())
        content = raw_data(shards, train, validation)
    else:
        content = rows_data(train, validation)
    write_json(options.out, content)


if __name__ == "__main__":
    sys.exit(run(main))
