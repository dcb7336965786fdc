"""Second moment of the FastText vectors of a domain's sampled documents.

FastText model, index of the training split (and the samples next to the rows) -> gram (d, d) = sum
of v v' over unit vectors v, documents, zeros (documents without a vector: dropped), npz
"""

import argparse
import sys
from pathlib import Path

import fasttext
import numpy as np

from bimix.corpus.samples import as_line, read_sample, second_moment
from bimix.digests import check
from bimix.errors import InputError, run
from bimix.outputs import replacing
from bimix.tables import read_table

BATCH = 1024  # document vectors multiplied at once


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="FastText model, .bin")
    parser.add_argument("--index", type=Path, required=True, help="index of the training split, parquet")
    parser.add_argument("--domain", required=True, help="domain to embed")
    parser.add_argument("--domains", nargs="+", required=True, help="all domains: sampled as often as the scarcest")
    parser.add_argument("--documents", type=int, required=True, help="documents of a domain, at most")
    parser.add_argument("--out", type=Path, required=True, help="npz to write")
    options = parser.parse_args(argv)

    try:
        model = fasttext.load_model(str(check(options.model)))
    except ValueError as error:
        raise InputError(f"{options.model} is no FastText model ({error}); name a .bin that FastText wrote.") from error
    index = read_table(options.index)
    texts = read_sample(index, options.domain, options.domains, options.documents)
    batches = (
        np.array([model.get_sentence_vector(as_line(text)) for text in texts[start : start + BATCH]])
        for start in range(0, len(texts), BATCH)
    )
    gram, documents, zeros = second_moment(batches, model.get_dimension())
    if not documents:
        raise InputError(f"No document of domain {options.domain!r} has a word that {options.model} can embed.")
    with replacing(options.out) as temporary, temporary.open("wb") as file:
        np.savez(file, gram=gram, documents=documents, zeros=zeros)


if __name__ == "__main__":
    sys.exit(run(main))
