"""Train a byte-level BPE tokenizer on the training documents of a corpus.

manifest of the shards and their raw files -> tokenizer.json, in which the end of text has id 0
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.data.documents import Reader, hash_text, is_within, split_hashes
from bimix.data.reading import Reading, reading_parser
from bimix.data.shards import read_shards
from bimix.errors import InputError, run
from bimix.outputs import replacing


def main(argv: list[str] | None = None) -> None:
    parser = reading_parser(__doc__)
    parser.add_argument("--validation-share", type=float, required=True, help="share held out by hash: not read here")
    parser.add_argument(
        "--held-out", type=Path, nargs="*", required=True, help="hashes of validation documents: not read either"
    )
    parser.add_argument("--share", type=float, required=True, help="share of the other documents to train on, by hash")
    parser.add_argument("--vocabulary", type=int, required=True, help="number of tokens")
    parser.add_argument("--end-of-text", required=True, help="token that is put after each document")
    parser.add_argument("--threads", type=int, required=True, help="threads of the trainer")
    parser.add_argument("--out", type=Path, required=True, help="tokenizer.json to write")
    options = parser.parse_args(argv)

    # the thread pool of the tokenizers reads these once, when it is first used
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    with options.shards.open(encoding="utf-8") as lines:
        shards = read_shards(lines).values()
    files = [file for shard in shards if shard.split != "validation" for file in shard.files]
    reader = options.reading.reader()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary,
        special_tokens=[options.end_of_text],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    held_out = split_hashes(b"".join(path.read_bytes() for path in options.held_out))
    texts = (
        text
        for text, key in read_texts(options.reading, reader, files)
        if not is_within(key[:8], options.validation_share)
        and is_within(key[8:], options.share)
        and key not in held_out
    )
    tokenizer.train_from_iterator(texts, trainer)
    reader.check()
    if tokenizer.get_vocab_size() < options.vocabulary:
        raise InputError(
            f"The text yields {tokenizer.get_vocab_size()} tokens, fewer than the vocabulary of {options.vocabulary}; "
            f"train on a larger share or set a smaller vocabulary."
        )
    with replacing(options.out) as temporary:
        tokenizer.save(str(temporary))


def read_texts(reading: Reading, reader: Reader, files: list[str]) -> Iterator[tuple[str, bytes]]:
    """Texts and their hashes."""
    for name in files:
        for text, _ in reading.documents(name, reader):
            yield text, hash_text(text)


if __name__ == "__main__":
    sys.exit(run(main))
