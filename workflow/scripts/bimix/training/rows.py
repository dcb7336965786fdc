"""Token rows by (domain, row number), from any number of files."""

import hashlib
import json
import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.permutation import permute
from bimix.digests import stamp_file
from bimix.errors import InputError
from bimix.mixtures.pools import pool_rows
from bimix.outputs import replacing

OPEN_FILES = 20_000  # maps of one process; the system allows 65,530 and some are of others
CHECKED = "checked.json"  # next to the token index
PIECE = 2**22  # bytes of a shard that are looked at together
SPREAD_KEY = 1  # names the permutation that spreads rows over a domain's files; every run of any seed has the same


class RowStore:
    """The rows of `domains` in an `index` (domain, path, rows, tokens, documents, dtype, digest).

    `open_rows(path, dtype, rows)` returns an array-like (rows, row length) for one file, usually a
    memory map; at most OPEN_FILES are kept, since the system's maps are limited.
    """

    def __init__(
        self, index: pl.DataFrame, domains: list[str], open_rows: Callable[[str, str, int], np.ndarray]
    ) -> None:
        self.domains = domains
        self.open_rows = open_rows
        self.files: list[list[tuple[str, str, int]]] = []
        self.ends: list[np.ndarray] = []
        for domain in domains:
            own = index.filter((pl.col("domain") == domain) & (pl.col("rows") > 0)).sort("path")
            if own.is_empty():
                raise InputError(f"The token index holds no row of domain {domain!r}; add text or drop the domain.")
            self.files.append(list(own.select("path", "dtype", "rows").iter_rows()))
            self.ends.append(own["rows"].to_numpy().astype(np.int64).cumsum())
        filled = index.filter(pl.col("rows") > 0)
        lengths = set((filled["tokens"] // filled["rows"]).to_list())
        if len(lengths) != 1:
            raise InputError(f"The token index mixes rows of {sorted(lengths)} tokens; tokenise all shards again.")
        self.row_length = lengths.pop()
        self.opened: dict[str, np.ndarray] = {}

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each domain, int64 (m,)."""
        return np.array([ends[-1] for ends in self.ends], dtype=np.int64)

    def read(self, chosen: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Rows `numbers` (n,) of domains `chosen` (n,) as int32 (n, row length)."""
        rows = np.empty((len(chosen), self.row_length), dtype=np.int32)
        for position, (domain, number) in enumerate(zip(chosen.tolist(), numbers.tolist(), strict=True)):
            ends = self.ends[domain]
            file = int(np.searchsorted(ends, number, side="right"))
            start = int(ends[file - 1]) if file else 0
            rows[position] = self._file(*self.files[domain][file])[number - start]
        return rows

    def sample(self, domain: int, rows: int) -> np.ndarray:
        """At most `rows` rows spread over one domain, int32 (n, row length); larger samples include
        smaller ones.

        Files are ordered by path, and neighbouring text is similar: the first rows would come from
        a few books.
        """
        size = int(self.ends[domain][-1])
        numbers = np.sort(permute(np.arange(min(rows, size)), size, SPREAD_KEY))
        return self.read(np.full(len(numbers), domain), numbers)

    def _file(self, path: str, dtype: str, rows: int) -> np.ndarray:
        if path not in self.opened:
            if len(self.opened) >= OPEN_FILES:
                self.opened.pop(next(iter(self.opened)))
            self.opened[path] = self.open_rows(path, dtype, rows)
        return self.opened[path]


def open_rows(path: str, dtype: str, rows: int) -> np.ndarray:
    """A memory map of one file of `rows` rows. Errors: another size."""
    kind = np.dtype(dtype).newbyteorder("<")
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # rows of 2 kB are read at random: the kernel would read ahead 128 kB for each
    mapped.madvise(mmap.MADV_RANDOM)
    if len(mapped) % (rows * kind.itemsize):
        raise InputError(f"{path} holds {len(mapped)} bytes, not {rows} rows of {kind.name}; tokenise its shard again.")
    return np.frombuffer(mapped, dtype=kind).reshape(rows, -1)


@dataclass(frozen=True)
class Part:
    """A part of a store's rows: of each domain `sizes` (m,) from `first` (m,) on, spread out."""

    store: RowStore
    first: np.ndarray
    sizes: np.ndarray

    @property
    def domains(self) -> list[str]:
        return self.store.domains

    @property
    def row_length(self) -> int:
        return self.store.row_length

    def read(self, chosen: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Rows `numbers` (n,) of domains `chosen` (n,) as int32 (n, row length)."""
        places = np.empty_like(numbers)
        for domain in np.unique(chosen):
            here = chosen == domain
            size = int(self.store.sizes[domain])
            places[here] = permute(self.first[domain] + numbers[here], size, SPREAD_KEY)
        return self.store.read(chosen, places)


def pool(store: RowStore, share: float) -> RowStore | Part:
    """The rows that a run may read: `share` of each domain's rows, rounded, at least one, spread
    out. A smaller share is a subset of a larger one.
    """
    if share >= 1:
        return store
    kept = pool_rows(store.sizes, share)
    return Part(store, np.zeros_like(kept), kept)


def set_aside(store: RowStore, share: float) -> tuple[Part, Part]:
    """The rows but a `share` of each domain's, spread out, and the rows of that share."""
    kept = np.maximum(np.ceil(share * store.sizes), 1).astype(np.int64)
    for domain, size in zip(store.domains, store.sizes - kept, strict=True):
        if size < 1:
            raise InputError(f"Domain {domain!r} has one row, and one is to be set aside; add text or drop the domain.")
    return Part(store, kept, store.sizes - kept), Part(store, np.zeros_like(kept), kept)


def check_shards(index: pl.DataFrame, vocabulary: int, threads: int) -> None:
    """Compare every file of a token index with its digest, and its ids with the vocabulary.

    Errors: the first file, in the order of the index, that has changed.
    """
    columns = index.select("path", "dtype", "digest").rows()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda row: check_shard(*row, vocabulary), columns))


def stamps(index: pl.DataFrame, vocabulary: int) -> dict[str, list]:
    """{path: its stamp, digest, vocabulary} of the shards that are there: what must be the same for a
    shard that was checked before.
    """
    shards = index.select("path", "digest").iter_rows()
    return {path: [*stamp_file(Path(path)), digest, vocabulary] for path, digest in shards if os.path.exists(path)}


def read_checked(record: Path) -> dict[str, list]:
    """The stamps of shards that trainings of this dataset have checked."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # all are checked again
    return found if isinstance(found, dict) else {}


def note_checked(record: Path, checked: dict[str, list]) -> str | None:
    """Add stamps to the record; a sentence where it cannot be written. Of two that write at once
    one is lost, and those shards are checked again.
    """
    try:
        with replacing(record, vouched=False) as temporary:
            temporary.write_text(json.dumps(read_checked(record) | checked) + "\n", encoding="utf-8")
    except OSError as error:
        return f"{record} cannot be written ({error.strerror}), so the next training checks these shards again."
    return None


def check_shard(path: str, dtype: str, digest: str, vocabulary: int) -> None:
    """Read a file of ids once. Errors: it cannot be read, or its digest or an id is wrong."""
    kind = np.dtype(dtype).newbyteorder("<")
    found, largest = hashlib.blake2b(digest_size=16), 0
    buffer = bytearray(PIECE)
    try:
        if not os.path.isfile(path):  # a device has no end, and a pipe may never begin
            raise FileNotFoundError("no such file")
        with open(path, "rb") as file:
            while count := file.readinto(buffer):  # full but at the end of the file
                found.update(memoryview(buffer)[:count])
                ids = np.frombuffer(buffer, kind, count // kind.itemsize)
                largest = max(largest, int(ids.max(initial=0)))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error}); tokenise its shard again.") from error
    if found.hexdigest() != digest:
        raise InputError(
            f"{path} is not as it was written: its digest is {found.hexdigest()}, {digest} in the token index;"
            f" tokenise its shard again."
        )
    if largest >= vocabulary:
        raise InputError(f"{path} holds the id {largest}, but there are {vocabulary} ids; tokenise its shard again.")
