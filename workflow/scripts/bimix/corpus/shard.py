"""The pass over the documents of a shard: they are read, split, cut into pieces, encoded, and taken
in by streams.

Pieces are encoded in batches while the next are read; rows are written and counted while
other batches are encoded.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from bimix.corpus.documents import Reader, hash_text, split_document
from bimix.corpus.encoders import Encoder
from bimix.corpus.reading import Reading
from bimix.corpus.stream import Stream, pack
from bimix.digests import check
from bimix.errors import InputError

BATCH_CHARACTERS = 2**20  # texts encoded together: enough for all threads, some 100 MB of encodings at most


class Piece(NamedTuple):
    """A piece of a document, which is encoded as a document of its own.

    `key` is the hash of its text. `records` is 1 where a record of the raw file begins with it, and
    `ends` where the held-out end of a document does whose beginning trains.
    """

    split: str
    domain: str
    text: str
    key: bytes
    records: int = 1
    ends: int = 0


def load_tokenizer(path: Path, end_of_text: str) -> tuple[str, int, int, list[str]]:
    """The tokenizer's definition, the id of its end of text, the number of its
    ids and its special tokens.
    """
    definition = json.loads(check(path).read_text(encoding="utf-8"))
    for token in definition.get("added_tokens", []):
        # some files list the end of text as an ordinary added token, which a
        # document could then write
        token["special"] = token["special"] or token["content"] == end_of_text
    special = [token["content"] for token in definition.get("added_tokens", []) if token["special"]]
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    end = tokenizer.token_to_id(end_of_text)
    if end is None:
        raise InputError(f"{path} has no token {end_of_text!r}; set end_of_text to the one that ends its documents.")
    return json.dumps(definition), end, max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1, special


@dataclass
class Division:
    """What decides the split of each document of a shard, and an account of what is left out.

    `split`: train, validation, or hash, where `share` of the text is held out; a document of more
    characters than `longest` gives its end (`documents.split_document`). `keys` are hashes of
    held-out documents and pieces, which never train.
    """

    split: str
    share: float
    longest: int
    keys: frozenset[bytes] = frozenset()
    left_out: int = field(default=0, init=False)  # pieces of documents that are held out elsewhere

    def pieces(self, reading: Reading, reader: Reader, files: Iterable[str]) -> Iterator[Piece]:
        """Pieces of the documents of the files, in order."""
        for name in files:
            for text, domain in reading.documents(name, reader):
                key, records = hash_text(text), 1
                parts = self.parts(text, key)
                for split, part in parts:
                    ends = int(split == "validation" and len(parts) > 1)
                    for piece in reading.pieces(part):
                        own = key if piece is text else hash_text(piece)
                        if split == "train" and (key in self.keys or own in self.keys):
                            self.left_out += 1
                        else:
                            yield Piece(split, domain, piece, own, records, ends)
                            records = ends = 0

    def parts(self, text: str, key: bytes) -> list[tuple[str, str]]:
        """(split, text) of what a document is divided into."""
        if self.split == "validation":
            return [("validation", text)]
        trains, held_out = split_document(text, key, self.share, self.longest)
        if self.split == "hash":
            return [(split, part) for split, part in (("train", trains), ("validation", held_out)) if part]
        if trains and held_out and hash_text(held_out) in self.keys:  # the end was drawn for validation
            self.left_out += 1
            return [("train", trains)]
        return [("train", text)]


def batches(documents: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces in lists of BATCH_CHARACTERS characters or a little more."""
    batch, characters = [], 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def encode_ahead(encoder: Encoder, batched: Iterable[list[Piece]]) -> Iterator[tuple[list[Piece], list[np.ndarray]]]:
    """Batches with the ids of their documents.

    One is encoded in a thread while the next is read.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting: tuple[list[Piece], Future[list[np.ndarray]]] | None = None
        for batch in batched:
            started = thread.submit(encoder.encode, [piece.text for piece in batch])
            if waiting:
                yield waiting[0], waiting[1].result()
            waiting = batch, started
        if waiting:
            yield waiting[0], waiting[1].result()


class Streams:
    """The streams of a shard, one for each split of each domain, in the folder of their split.

    All of them are files that close with the `with` block.

    `settings` are those of a Stream: the length of a row, the number of ids, the size of a sample.
    """

    def __init__(self, folders: dict[str, Path], *settings: int) -> None:
        self.folders = folders
        self.settings = settings
        self.streams: dict[tuple[str, str], Stream] = {}

    def __enter__(self) -> "Streams":
        self.stack = ExitStack()
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    @property
    def tokens(self) -> int:
        """Tokens taken out so far."""
        return sum(stream.tokens for stream in self.streams.values())

    def add(self, batch: list[Piece], encoded: list[np.ndarray], end: int) -> None:
        """Take in documents with their ids, `end` after each; a stream opens
        with its first document.
        """
        after = np.array([end], dtype=np.uint32)
        for piece, ids in zip(batch, encoded, strict=True):
            place = piece.split, piece.domain
            if place not in self.streams:
                stream = Stream(self.folders[piece.split] / piece.domain, *self.settings)
                self.streams[place] = self.stack.enter_context(stream)
            self.streams[place].add(piece.text, piece.key, [ids, after], piece.records, piece.ends)

    def take(self) -> list[tuple[Stream, tuple[list[np.ndarray], list[bytes]]]]:
        """What each stream has taken in since the last call, for `pack`."""
        return [(stream, stream.take()) for stream in self.streams.values()]

    def finish(self) -> None:
        """Write the counts and the samples."""
        for stream in self.streams.values():
            stream.finish()

    def reports(self, split: str) -> dict[str, dict]:
        """{domain: account of its stream} of one split, by name."""
        return {domain: stream.report() for (own, domain), stream in sorted(self.streams.items()) if own == split}


def fill(streams: Streams, encoded: Iterable[tuple[list[Piece], list[np.ndarray]]], end: int) -> None:
    """Take in batches of documents with their ids, each ended by `end`, and write their rows.

    One thread writes and counts, of which the sorting does not hold the lock;
    its errors are raised here.
    """
    progress, writing = Progress(), None
    with ThreadPoolExecutor(max_workers=1) as writer:
        for batch, ids in encoded:
            streams.add(batch, ids, end)
            if writing:
                writing.result()
            writing = writer.submit(pack, streams.take())
            progress.show(streams.tokens)
        if writing:
            writing.result()


class Progress:
    """Tokens so far and tokens per second, on standard error, every ten seconds."""

    def __init__(self) -> None:
        self.started = self.shown = time.monotonic()

    def show(self, tokens: int) -> None:
        now = time.monotonic()
        if now - self.shown >= 10:
            print(f"{tokens:,} tokens, {tokens / (now - self.started):,.0f} tokens/s", file=sys.stderr, flush=True)
            self.shown = now
