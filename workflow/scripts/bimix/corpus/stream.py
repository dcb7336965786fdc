"""What one split of one domain leaves of its documents: rows of token ids,
n-gram counts and a sample.
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import NgramCounter, add_up
from bimix.corpus.permutation import permute
from bimix.corpus.samples import Smallest
from bimix.outputs import write_pieces

ROWS_KEY = 2  # names the permutation of a file's rows; not that of a run's rows (training/rows)
WRITTEN_TOGETHER = 2**24  # bytes of permuted rows
MOST_WAITING = 2**25  # tokens held back until they are counted, of all domains together: 64 or 128 MB
MOST_PAIRS = 2**23  # distinct pairs in memory, of all domains together; some 50 bytes each while they are merged


def id_type(vocabulary: int) -> np.dtype:
    """Smallest little-endian type for ids below `vocabulary`: two bytes up
    to 65,536 ids, else four.
    """
    return np.dtype("<u2") if vocabulary <= 2**16 else np.dtype("<u4")


class Packer:
    """Cuts one stream of ids into rows of `length`; what is left at the end is the
    dropped tail (paper App. A).
    """

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
    """What one split of one domain leaves in its folder.

    Files open with the `with` block, tables come with `finish`.
    """

    def __init__(self, path: Path, sequence_length: int, vocabulary: int, sample: int) -> None:
        self.path = path
        self.packer = Packer(sequence_length, id_type(vocabulary))
        self.counter = NgramCounter()
        self.smallest = Smallest(sample)
        self.digest = ""
        self.waiting: list[np.ndarray] = []
        self.chosen: list[bytes] = []
        self.aside: list[Path] = []
        self.documents = self.records = self.ends = self.tokens = self.rows = self.chosen_bytes = 0

    def __enter__(self) -> "Stream":
        self.unordered = self._file("rows").open("w+b")
        self.texts = self._file("texts").open("w+b")
        return self

    def __exit__(self, *error: object) -> None:
        self.unordered.close()
        self.texts.close()

    def add(self, text: str, key: bytes, ids: list[np.ndarray], records: int, ends: int) -> None:
        """Take in one document and its ids, the end of text included.

        `records` and `ends` are those of a `shard.Piece`.
        """
        self.documents += 1
        self.records += records
        self.ends += ends
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
        self.unordered.write(rows)
        self.counter.add(rows)

    def put_aside(self) -> None:
        """Write the pairs counted so far to a file of their own and forget them."""
        self.aside.append(self._file(f"{len(self.aside)}.pairs"))
        write_pairs(self.counter.give_away(), self.aside[-1])

    def finish(self) -> None:
        """Write the rows, the counts and the chosen texts."""
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
        with self._file("sample.jsonl").open("wb") as chosen:
            for key, (start, size) in self.smallest.entries():
                self.texts.seek(start)
                text = self.texts.read(size).decode("utf-8")
                chosen.write(json.dumps({"key": key.hex(), "text": text}, ensure_ascii=False).encode("utf-8") + b"\n")
        self.texts.close()
        self._file("texts").unlink()

    def permute_rows(self) -> None:
        """Write the rows in the order of a permutation that depends on their number alone.

        Text that lies together is alike, and some readers take the first rows of a file. Memory is
        that of WRITTEN_TOGETHER bytes: the rows lie in a file of their own until then.
        """
        digest, width = hashlib.blake2b(digest_size=16), self.packer.length * self.packer.left.itemsize
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
        """Account of the stream: tokens made = tokens in rows + dropped tail."""
        return {
            "records": self.records,
            "documents": self.documents,
            "ends": self.ends,
            "tokens": self.tokens,
            "rows": self.rows,
            "tokens_in_rows": self.rows * self.packer.length,
            "dropped_tail": self.packer.tail,
            "dtype": self.packer.left.dtype.name,
            "digest": self.digest,
        }

    def _file(self, ending: str) -> Path:
        # not with_suffix: a domain's name may hold dots
        return self.path.with_name(f"{self.path.name}.{ending}")


def pack(taken: list[tuple[Stream, tuple[list[np.ndarray], list[bytes]]]]) -> None:
    """Write and count what came in.

    Where too many rows are held back, count the most of them; where the counts have grown too
    large, put the largest aside.
    """
    for stream, (ids, chosen) in taken:
        stream.pack(ids, chosen)
    while sum(stream.counter.waiting for stream, _ in taken) > MOST_WAITING:
        max((stream.counter for stream, _ in taken), key=lambda counter: counter.waiting).count()
    while sum(stream.counter.distinct for stream, _ in taken) > MOST_PAIRS:
        max((stream for stream, _ in taken), key=lambda stream: stream.counter.distinct).put_aside()


def write_pairs(pairs: tuple[np.ndarray, np.ndarray, np.ndarray], path: Path) -> None:
    """Write first and second ids and counts as a table."""
    pl.DataFrame(dict(zip(("first", "second", "n"), pairs, strict=True))).write_parquet(path)
