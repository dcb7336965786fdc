"""The pass over the documents of a shard.

Documents are divided into pieces, each of one split; pieces are encoded in batches; their ids go to
the stream of their split and domain, which cuts them into rows, counts n-grams and keeps a sample.
While one batch is encoded, the next is read and the previous one is written and counted.
"""

import hashlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from bimix.corpus.counts import NgramCounter, add_up
from bimix.corpus.documents import Reader, Text, cut_text, hash_text, split_document
from bimix.corpus.encoders import Encoder
from bimix.corpus.permutation import permute
from bimix.corpus.samples import Smallest
from bimix.outputs import write_pieces

BATCH_CHARACTERS = 2**20  # texts encoded together: enough for all threads, some 100 MB of encodings at most
ROWS_KEY = 2  # names the permutation of a file's rows; not that of a run's rows (training/rows)
WRITTEN_TOGETHER = 2**24  # bytes of permuted rows
MOST_WAITING = 2**25  # tokens held back until they are counted, of all domains together: 64 or 128 MB
MOST_PAIRS = 2**23  # distinct pairs in memory, of all domains together; some 50 bytes each while they are merged
WAITING_BATCHES = 2  # read and not yet written, so that reading, encoding and writing go on together
PROGRESS_SECONDS = 10


class Piece(NamedTuple):
    """A piece of a document, which is encoded as a document of its own.

    `key` is the hash of its text. `records` is 1 in the first piece of a record of the raw file;
    `ends` is 1 in the first piece of a held-out end whose document's beginning trains.
    """

    split: str
    domain: str
    text: Text
    key: bytes
    records: int = 1
    ends: int = 0


@dataclass
class Division:
    """Decides the split of each document of a shard and counts the documents that are left out.

    `split`: train, validation, or hash, where `share` of the text is held out; of a document of
    more characters than `longest` the end is (`documents.split_document`). `keys` are hashes of
    held-out documents and pieces, which never train.
    """

    split: str
    share: float
    longest: int
    keys: frozenset[bytes] = frozenset()
    left_out: int = field(default=0, init=False)  # pieces of documents that are held out elsewhere

    def pieces(self, reader: Reader, files: Iterable[str]) -> Iterator[Piece]:
        """Pieces of the documents of the files, in order."""
        for path in files:
            for text, domain in reader.read(path):
                key, records = hash_text(text), 1
                parts = self.parts(text, key)
                for split, part in parts:
                    ends = int(split == "validation" and len(parts) > 1)
                    for piece in cut_text(part, reader.reading.cut_characters):
                        own = key if piece is text else hash_text(piece)
                        if split == "train" and (key in self.keys or own in self.keys):
                            self.left_out += 1
                        else:
                            yield Piece(split, domain, piece, own, records, ends)
                            records = ends = 0

    def parts(self, text: Text, key: bytes) -> list[tuple[str, Text]]:
        """(split, text) of each part of a document."""
        if self.split != "hash":
            return [(self.split, text)]
        trains, held_out = split_document(text, key, self.share, self.longest)
        return [(split, part) for split, part in (("train", trains), ("validation", held_out)) if len(part)]


def batched(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces in lists of BATCH_CHARACTERS characters or a little more."""
    batch, characters = [], 0
    for piece in pieces:
        batch.append(piece)
        characters += len(piece.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def fill(streams: "Streams", pieces: Iterable[Piece], encoder: Encoder) -> None:
    """Encode the pieces and write them to their streams. One thread encodes, one writes and counts;
    neither encoding nor sorting holds the GIL. Their errors are raised here.
    """
    started = shown = time.monotonic()
    writing: deque[Future] = deque()
    with ThreadPoolExecutor(max_workers=1) as encodes, ThreadPoolExecutor(max_workers=1) as writes:
        for batch in batched(pieces):
            writing.append(writes.submit(streams.write, batch, encodes.submit(encode_pieces, batch, encoder)))
            if len(writing) > WAITING_BATCHES:
                writing.popleft().result()
            if time.monotonic() - shown >= PROGRESS_SECONDS:
                shown = time.monotonic()
                rate = streams.tokens / (shown - started)
                print(f"{streams.tokens:,} tokens, {rate:,.0f} tokens/s", file=sys.stderr, flush=True)
        for written in writing:
            written.result()


def encode_pieces(pieces: Iterable[Piece], encoder: Encoder) -> list[np.ndarray]:
    """Ids of each piece; those of files of tokens as they are."""
    encoded = iter(encoder.encode([piece.text for piece in pieces if isinstance(piece.text, str)]))
    return [next(encoded) if isinstance(piece.text, str) else piece.text for piece in pieces]


class Streams(ExitStack):
    """The streams of a shard, one for each split of each domain, in the folder of their split.

    `end` is the id after each document, `decode` gives the text of ids; `settings` are the
    arguments of a Stream: the length of a row, the number of ids, the size of a sample. Files
    close with the `with` block.
    """

    def __init__(self, folders: dict[str, Path], end: int, decode: Callable[[np.ndarray], str], *settings: int) -> None:
        super().__init__()
        self.folders = folders
        self.decode = decode
        self.end = np.array([end], dtype=np.uint32)
        self.settings = settings
        self.streams: dict[tuple[str, str], Stream] = {}
        self.tokens = 0

    def write(self, pieces: list[Piece], encoding: Future) -> None:
        """Write and count pieces with their ids; a stream opens with its first piece. If too many rows
        are buffered, count the largest buffer; if the counts have grown too large, merge the largest
        table or write it to a file.
        """
        documents: dict[tuple[str, str], list[tuple[Piece, np.ndarray]]] = {}
        for piece, ids in zip(pieces, encoding.result(), strict=True):
            documents.setdefault((piece.split, piece.domain), []).append((piece, ids))
        for (split, domain), added in documents.items():
            if (split, domain) not in self.streams:
                stream = Stream(self.folders[split] / domain, *self.settings)
                self.streams[split, domain] = self.enter_context(stream)
            self.tokens += self.streams[split, domain].write(added, self.end, self.decode)
        streams = list(self.streams.values())
        while sum(stream.counter.waiting for stream in streams) > MOST_WAITING:
            max((stream.counter for stream in streams), key=lambda counter: counter.waiting).count()
        while sum(stream.counter.distinct for stream in streams) > MOST_PAIRS:
            largest = max(streams, key=lambda stream: stream.counter.distinct)
            if not largest.counter.merge():
                largest.put_aside()

    def finish(self) -> None:
        """Write the rows in their order, the counts and the samples."""
        for stream in self.streams.values():
            stream.finish()

    def reports(self, split: str) -> dict[str, dict]:
        """{domain: report of its stream} of one split, by name."""
        return {domain: stream.report() for (own, domain), stream in sorted(self.streams.items()) if own == split}


class Stream:
    """Writes the rows, counts and sample of one split of one domain into its folder.

    The ids of all documents are concatenated and cut into rows of `length`; the last ids, which do
    not fill a row, are dropped (paper App. A). Files open with the `with` block; `finish` writes
    the tables.
    """

    def __init__(self, path: Path, length: int, ids: int, sample: int) -> None:
        self.path = path
        self.length = length
        self.left = np.empty(0, dtype=id_type(ids))  # ids that fill no row yet
        self.counter = NgramCounter()
        self.smallest = Smallest(sample)
        self.digest = ""
        self.aside: list[Path] = []
        self.documents = self.records = self.ends = self.tokens = self.rows = self.sample_bytes = 0

    def __enter__(self) -> "Stream":
        self.unordered = self._file("rows").open("w+b")
        self.sample = self._file("texts").open("w+b")
        return self

    def __exit__(self, *error: object) -> None:
        self.unordered.close()
        self.sample.close()

    def write(
        self, documents: list[tuple[Piece, np.ndarray]], end: np.ndarray, decode: Callable[[np.ndarray], str]
    ) -> int:
        """Write and count pieces with their ids, `end` after each, and keep texts for the sample;
        `decode` gives the text of ids. Return the number of tokens.
        """
        added = [self.left]
        for piece, ids in documents:
            added += [ids, end]
            self.documents += 1
            self.records += piece.records
            self.ends += piece.ends
            if self.smallest.wants(piece.key):
                text = (piece.text if isinstance(piece.text, str) else decode(piece.text)).encode("utf-8")
                self.smallest.offer(piece.key, (self.sample_bytes, len(text)))
                self.sample_bytes += self.sample.write(text)
        stream = np.concatenate(added, dtype=self.left.dtype)
        tokens = len(stream) - len(self.left)
        whole = len(stream) // self.length * self.length
        rows, self.left = stream[:whole].reshape(-1, self.length), stream[whole:].copy()
        self.tokens += tokens
        self.rows += len(rows)
        self.unordered.write(rows)
        self.counter.add(rows)
        return tokens

    def put_aside(self) -> None:
        """Write the pairs counted so far to a separate file and delete them from memory."""
        self.aside.append(self._file(f"{len(self.aside)}.pairs"))
        write_pairs(self.counter.give_away(), self.aside[-1])

    def finish(self) -> None:
        """Write the rows in their order, the counts and the sample."""
        self.permute_rows()
        tokens, counts = self.counter.tokens()
        pl.DataFrame({"token": tokens, "n": counts}).write_parquet(self._file("unigrams.parquet"))
        if self.aside:
            self.put_aside()
            pieces = add_up([pl.scan_parquet(path, glob=False) for path in self.aside], ["first", "second"])
            write_pieces(pieces, self._file("bigrams.parquet"))
            for path in self.aside:
                path.unlink()
        else:
            write_pairs(self.counter.give_away(), self._file("bigrams.parquet"))
        with self._file("sample.jsonl").open("wb") as lines:
            for key, (start, size) in self.smallest.entries():
                self.sample.seek(start)
                text = self.sample.read(size).decode("utf-8")
                lines.write(json.dumps({"key": key.hex(), "text": text}, ensure_ascii=False).encode("utf-8") + b"\n")
        self.sample.close()
        self._file("texts").unlink()

    def permute_rows(self) -> None:
        """Write the rows in the order of a permutation that depends on their number alone.

        Neighbouring text is similar, and some readers take the first rows of a file. The rows are
        in a temporary file until then; memory is WRITTEN_TOGETHER bytes.
        """
        digest, width = hashlib.blake2b(digest_size=16), self.length * self.left.itemsize
        together = max(WRITTEN_TOGETHER // width, 1)
        self.unordered.flush()
        with self._file("bin").open("wb") as permuted:
            for start in range(0, self.rows, together):
                numbers = permute(np.arange(start, min(start + together, self.rows)), self.rows, ROWS_KEY)
                rows = b"".join(os.pread(self.unordered.fileno(), width, width * number) for number in numbers.tolist())
                permuted.write(rows)
                digest.update(rows)
        self.digest = digest.hexdigest()
        self.unordered.close()
        self._file("rows").unlink()

    def report(self) -> dict[str, object]:
        """Report of the stream: tokens encoded = tokens in rows + dropped tokens."""
        return {
            "records": self.records,
            "documents": self.documents,
            "ends": self.ends,
            "tokens": self.tokens,
            "rows": self.rows,
            "tokens_in_rows": self.rows * self.length,
            "dropped_tail": len(self.left),
            "dtype": self.left.dtype.name,
            "digest": self.digest,
        }

    def _file(self, ending: str) -> Path:
        # not with_suffix: a domain's name may hold dots
        return self.path.with_name(f"{self.path.name}.{ending}")


def id_type(ids: int) -> np.dtype:
    """The little-endian type of token ids below `ids`: two bytes up to 65,536 ids, else four."""
    return np.dtype("<u2") if ids <= 2**16 else np.dtype("<u4")


def write_pairs(pairs: tuple[np.ndarray, np.ndarray, np.ndarray], path: Path) -> None:
    """Write first and second ids and counts as a table."""
    pl.DataFrame(dict(zip(("first", "second", "n"), pairs, strict=True))).write_parquet(path)
