"""Train a byte-level BPE tokenizer on the training documents of a corpus; those of validation files
are left out by their hash.

manifest of the shards and their raw files -> tokenizer.json, in which the end of text has id 0
"""

import argparse
import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.corpus.documents import Reader, held_out_keys, is_within, reading_parser
from bimix.corpus.encoders import set_threads
from bimix.corpus.shards import Shard, longest_of, read_shards, validation_files
from bimix.corpus.stream import Division
from bimix.errors import InputError, run
from bimix.outputs import replacing


def main(argv: list[str] | None = None) -> None:
    parser = reading_parser(__doc__)
    add = parser.add_argument
    add("--validation-share", type=float, required=True, help="share held out by hash: not read here")
    add("--held-out-characters", type=json.loads, required=True, help="of a longer document the end may be, JSON")
    add("--share", type=float, required=True, help="share of the other documents to train on, by hash")
    add("--vocabulary", type=int, required=True, help="number of tokens")
    add("--fewer", type=json.loads, required=True, help="JSON: whether fewer are taken where the text yields no more")
    add("--end-of-text", required=True, help="token that is put after each document")
    add("--threads", type=int, required=True, help="threads of the trainer")
    add("--out", type=Path, required=True, help="tokenizer.json to write")
    options = parser.parse_args(argv)

    set_threads(options.threads)
    with options.shards.open(encoding="utf-8") as lines:
        shards = read_shards(lines).values()
    reader = Reader(options.reading)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary,
        special_tokens=[options.end_of_text],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_texts(shards, reader, options), trainer)
    reader.check()
    yielded = tokenizer.get_vocab_size()
    if yielded < options.vocabulary:
        said = f"The text yields {yielded} tokens, fewer than the vocabulary of {options.vocabulary}"
        if not options.fewer:
            raise InputError(f"{said}; train on a larger share or set a smaller vocabulary.")
        print(f"Remark: {said}, which the size ladder chose; these are taken.", file=sys.stderr)
    with replacing(options.out) as temporary:
        tokenizer.save(str(temporary))


def training_texts(shards: Collection[Shard], reader: Reader, options: argparse.Namespace) -> Iterator[str]:
    """The texts of which a share is taken. Errors: a file of tokens."""
    keys = held_out_keys(options.reading, validation_files(shards))
    for shard in shards:
        if shard.split == "validation":
            continue
        longest = longest_of(options.held_out_characters, shard.domain)
        division = Division("hash", options.validation_share, longest, keys)
        for piece in division.pieces(reader, shard.files):
            if not isinstance(piece.text, str):
                raise InputError(
                    f"{shard.files[0]} holds tokens: name the tokenizer that wrote them (tokenizer: file, hub)."
                )
            if piece.split == "train" and is_within(piece.key[8:], options.share):
                yield piece.text


if __name__ == "__main__":
    sys.exit(run(main))
