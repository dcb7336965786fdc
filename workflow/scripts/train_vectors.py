"""Train FastText word vectors on the sampled documents of all domains.

index of the training split, parquet (and the samples next to the rows) -> a model in the
format of FastText, .bin
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from gensim.models import FastText
from gensim.models.fasttext import save_facebook_model
from gensim.models.word2vec import LineSentence

from bimix.corpus.samples import as_line, read_sample
from bimix.errors import InputError, run
from bimix.outputs import replacing
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="index of the training split, parquet")
    parser.add_argument("--domains", nargs="+", required=True, help="domains whose samples are read")
    parser.add_argument("--documents", type=int, required=True, help="documents of a domain, at most")
    parser.add_argument("--settings", type=json.loads, required=True, help="arguments of gensim's FastText, JSON")
    parser.add_argument("--out", type=Path, required=True, help="model to write")
    options = parser.parse_args(argv)

    index = read_table(options.index)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text.txt"
        with file.open("w", encoding="utf-8") as lines:
            for domain in options.domains:
                texts = read_sample(index, domain, options.domains, options.documents)
                lines.writelines(f"{as_line(text)}\n" for text in texts)
        # Not FastText's own trainer: with one thread it leaves nine tenths of its matrix as it
        # found them in memory, with more its vectors differ from run to run. One worker of gensim's
        # gives the same vectors each time.
        try:
            model = FastText(sentences=LineSentence(file), workers=1, **options.settings)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"FastText cannot be trained with vectors.train = {options.settings}: {error}.") from error
    with replacing(options.out) as temporary:
        save_facebook_model(model, str(temporary))


if __name__ == "__main__":
    sys.exit(run(main))
