"""Documents of one shard to rows of token ids, n-gram counts and samples, a stream for each split of each domain.

Documents come from a reader, are left out where they are held out, encoded in batches while the next are read, and
taken in by the stream of their split and domain.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer

from bimix.data.documents import Reader, hash_text, is_within
from bimix.data.encoders import Encoder
from bimix.data.reading import Reading
from bimix.data.samples import Smallest
from bimix.entropy.counts import NgramCounter, add_up
from bimix.errors import InputError
from bimix.outputs import write_pieces

BATCH_CHARACTERS = 2**20  # texts encoded together: enough for all threads, some 100 MB of encodings at most
MOST_PAIRS = 2**23  # distinct pairs in memory, of all domains together; some 50 bytes each while they are merged
Document = tuple[str, str, str, bytes]  # split, domain, text, hash


def load_tokenizer(path: Path, end_of_text: str) -> tuple[str, int, int, list[str]]:
    """The tokenizer's definition, the id of its end of text, the number of its ids and its special tokens."""
    definition = json.loads(path.read_text(encoding="utf-8"))
    for token in definition.get("added_tokens", []):
        # some files list the end of text as an ordinary added token, which a document could then write
        token["special"] = token["special"] or token["content"] == end_of_text
    special = [token["content"] for token in definition.get("added_tokens", []) if token["special"]]
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    end = tokenizer.token_to_id(end_of_text)
    if end is None:
        raise InputError(f"{path} has no token {end_of_text!r}; set end_of_text to the one that ends its documents.")
    return json.dumps(definition), end, max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1, special


def read_documents(reading: Reading, reader: Reader, files: Iterable[str], share: float) -> Iterator[Document]:
    """Split, domain, text and hash of each document of the files."""
    for name in files:
        for text, domain in reading.documents(name, reader):
            key = hash_text(text)
            yield "validation" if is_within(key[:8], share) else "train", domain, text, key


class HeldOut:
    """Leaves documents out of training whose hash is among `keys`, and counts them."""

    def __init__(self, keys: frozenset[bytes]) -> None:
        self.keys = keys
        self.documents = 0

    def leave_out(self, documents: Iterable[Document]) -> Iterator[Document]:
        for split, domain, text, key in documents:
            if split == "train" and key in self.keys:
                self.documents += 1
            else:
                yield split, domain, text, key


def batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in lists of BATCH_CHARACTERS characters or a little more."""
    batch, characters = [], 0
    for document in documents:
        batch.append(document)
        characters += len(document[2])
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def encode_ahead(
    encoder: Encoder, batched: Iterable[list[Document]]
) -> Iterator[tuple[list[Document], list[np.ndarray]]]:
    """Batches with the ids of their documents; one is encoded in a thread while the next is read."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting: tuple[list[Document], Future[list[np.ndarray]]] | None = None
        for batch in batched:
            started = thread.submit(encoder.encode, [text for _, _, text, _ in batch])
            if waiting:
                yield waiting[0], waiting[1].result()
            waiting = batch, started
        if waiting:
            yield waiting[0], waiting[1].result()


def id_type(vocabulary: int) -> np.dtype:
    """Smallest little-endian type for ids below `vocabulary`: two bytes up to 65,536 ids, else four."""
    return np.dtype("<u2") if vocabulary <= 2**16 else np.dtype("<u4")


class Packer:
    """Cuts one stream of ids into rows of `length`; what is left at the end is the dropped tail (paper App. A)."""

    def __init__(self, length: int, dtype: np.dtype) -> None:
        self.length = length
        self.left = np.empty(0, dtype=dtype)

    def add(self, ids: np.ndarray) -> np.ndarray:
        """Rows (n, length) that `ids` (k,) complete; n may be 0."""
        stream = np.concatenate([self.left, ids.astype(self.left.dtype, copy=False)])
        whole = len(stream) // self.length * self.length
        self.left = stream[whole:].copy()
        return stream[:whole].reshape(-1, self.length)

    @property
    def tail(self) -> int:
        """Tokens that fill no row yet."""
        return len(self.left)


class Stream:
    """What one split of one domain leaves in its folder; files open with the `with` block, tables come with `finish`."""

    def __init__(self, path: Path, sequence_length: int, vocabulary: int, sample: int) -> None:
        self.path = path
        self.packer = Packer(sequence_length, id_type(vocabulary))
        self.counter = NgramCounter()
        self.smallest = Smallest(sample)
        self.digest = hashlib.blake2b(digest_size=16)
        self.waiting: list[np.ndarray] = []
        self.chosen: list[bytes] = []
        self.aside: list[Path] = []
        self.documents = self.tokens = self.rows = self.chosen_bytes = 0

    def __enter__(self) -> "Stream":
        self.bin = self._file("bin").open("wb")
        self.texts = self._file("texts").open("w+b")
        return self

    def __exit__(self, *error: object) -> None:
        self.bin.close()
        self.texts.close()

    def add(self, text: str, key: bytes, ids: list[np.ndarray]) -> None:
        """Take in one document and its ids, the end of text included."""
        self.documents += 1
        self.waiting += ids
        if self.smallest.wants(key):
            encoded = text.encode("utf-8")
            self.smallest.offer(key, (self.chosen_bytes, len(encoded)))
            self.chosen_bytes += len(encoded)
            self.chosen.append(encoded)

    def take(self) -> tuple[list[np.ndarray], list[bytes]]:
        """Ids and texts of the sample that came in since the last call."""
        taken = self.waiting, self.chosen
        self.waiting, self.chosen = [], []
        self.tokens += sum(map(len, taken[0]))
        return taken

    def pack(self, ids: list[np.ndarray], chosen: list[bytes]) -> None:
        """Cut ids into rows; write and count them; put texts aside."""
        if not ids:
            return
        self.texts.writelines(chosen)
        rows = self.packer.add(np.concatenate(ids))
        self.rows += len(rows)
        self.bin.write(rows)
        self.digest.update(rows)
        self.counter.add(rows)

    def put_aside(self) -> None:
        """Write the pairs counted so far to a file of their own and forget them."""
        self.aside.append(self._file(f"{len(self.aside)}.pairs"))
        write_pairs(self.counter.give_away(), self.aside[-1])

    def finish(self) -> None:
        """Write the counts and the chosen texts."""
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
        with self._file("sample.jsonl").open("wb") as chosen:
            for key, (start, size) in self.smallest.entries():
                self.texts.seek(start)
                text = self.texts.read(size).decode("utf-8")
                chosen.write(json.dumps({"key": key.hex(), "text": text}, ensure_ascii=False).encode("utf-8") + b"\n")
        self.texts.close()
        self._file("texts").unlink()

    def report(self) -> dict[str, object]:
        """Account of the stream: tokens made = tokens in rows + dropped tail."""
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "rows": self.rows,
            "tokens_in_rows": self.rows * self.packer.length,
            "dropped_tail": self.packer.tail,
            "dtype": self.packer.left.dtype.name,
            "digest": self.digest.hexdigest(),
        }

    def _file(self, ending: str) -> Path:
        # not with_suffix: a domain's name may hold dots
        return self.path.with_name(f"{self.path.name}.{ending}")


def pack(taken: list[tuple[Stream, tuple[list[np.ndarray], list[bytes]]]]) -> None:
    """Write and count what came in; where the counts have grown too large, put the largest aside."""
    for stream, (ids, chosen) in taken:
        stream.pack(ids, chosen)
    while sum(stream.counter.distinct for stream, _ in taken) > MOST_PAIRS:
        max((stream for stream, _ in taken), key=lambda stream: stream.counter.distinct).put_aside()


def write_pairs(pairs: tuple[np.ndarray, np.ndarray, np.ndarray], path: Path) -> None:
    """Write first and second ids and counts as a table."""
    pl.DataFrame(dict(zip(("first", "second", "n"), pairs, strict=True))).write_parquet(path)


class Progress:
    """Tokens so far and tokens per second, on standard error, every ten seconds."""

    def __init__(self) -> None:
        self.started = self.shown = time.monotonic()

    def show(self, tokens: int) -> None:
        now = time.monotonic()
        if now - self.shown >= 10:
            print(f"{tokens:,} tokens, {tokens / (now - self.started):,.0f} tokens/s", file=sys.stderr, flush=True)
            self.shown = now
