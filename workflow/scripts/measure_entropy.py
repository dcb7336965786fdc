"""Measure the entropies of every domain: Shannon (SE), joint (JE), conditional (CE) and von Neumann
(VNE).

unigram and bigram counts and second moments of the domains -> entropy.csv: domain, measure, nats
(plug-in: the paper's), miller_madow, chao_shen, tokens, pairs, documents, zeros (pieces with and
without a vector, VNE), distinct, singletons, coverage; empty: does not apply
"""

import argparse
import sys
from pathlib import Path

from bimix.corpus.estimators import entropy_table
from bimix.errors import run
from bimix.judge.remarks import pieces_taken
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", nargs="+", required=True, help="domains, in the order of the files")
    parser.add_argument("--unigrams", nargs="+", type=Path, required=True, help="token, n; parquet")
    parser.add_argument("--bigrams", nargs="+", type=Path, required=True, help="first, second, n; parquet")
    parser.add_argument("--moments", nargs="*", type=Path, required=True, help="gram, documents, zeros; npz; or none")
    parser.add_argument("--out", type=Path, required=True, help="entropy.csv to write")
    options = parser.parse_args(argv)

    table = entropy_table(options.domains, options.unigrams, options.bigrams, options.moments)
    for documents, zeros in table.filter(measure="VNE").head(1)["documents", "zeros"].iter_rows():
        print(pieces_taken(documents + zeros), file=sys.stderr)
    write_table(table, options.out)


if __name__ == "__main__":
    sys.exit(run(main))
