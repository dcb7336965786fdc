"""Train a byte-level BPE tokenizer on the training documents of a corpus; those of validation files
are left out by their hash.

manifest of the shards and their raw files -> tokenizer.json, in which the end of text has id 0
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.corpus.documents import Reader, held_out_keys, is_within, reading_parser
from bimix.corpus.encoders import set_threads
from bimix.corpus.shards import longest_of, read_shards, validation_files
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
    keys = held_out_keys(options.reading, validation_files(shards))
    texts = (
        piece.text
        for shard in shards
        if shard.split != "validation"
        for piece in Division(
            "hash", options.validation_share, longest_of(options.held_out_characters, shard.domain), keys
        ).pieces(reader, shard.files)
        if piece.split == "train" and is_within(piece.key[8:], options.share)
    )
    tokenizer.train_from_iterator(texts, trainer)
    reader.rejects.check()
    yielded = tokenizer.get_vocab_size()
    if yielded < options.vocabulary:
        said = f"The text yields {yielded} tokens, fewer than the vocabulary of {options.vocabulary}"
        if not options.fewer:
            raise InputError(f"{said}; train on a larger share or set a smaller vocabulary.")
        print(f"Remark: {said}, which the size ladder chose; these are taken.", file=sys.stderr)
    with replacing(options.out) as temporary:
        tokenizer.save(str(temporary))


if __name__ == "__main__":
    sys.exit(run(main))
