"""Samples of documents by smallest hash: uniform, without replacement, and independent of how the
corpus is sharded; and the second moments of their vectors, for von Neumann entropy.
"""

import heapq
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import check

Place = int | tuple[int, int]  # where a text lies: its number, or its start and length


class Smallest:
    """The `limit` smallest keys of a stream, each with the place of its text. A text that is in the
    corpus twice has one key, so its copies are chosen or left out together, except at the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.heap: list[tuple[int, Place]] = []  # of negative keys: the largest key is first

    def wants(self, key: bytes) -> bool:
        """Whether `key` is among the smallest so far, and should be offered."""
        return len(self.heap) < self.limit or (self.limit > 0 and -int.from_bytes(key, "big") > self.heap[0][0])

    def offer(self, key: bytes, place: Place) -> None:
        """Add a wanted key; if there are too many, remove the largest."""
        entry = (-int.from_bytes(key, "big"), place)
        if len(self.heap) < self.limit:
            heapq.heappush(self.heap, entry)
        else:
            heapq.heapreplace(self.heap, entry)

    def entries(self) -> list[tuple[bytes, Place]]:
        """The chosen keys with their places, smallest key first."""
        ordered = sorted(self.heap, key=lambda entry: (-entry[0], entry[1]))
        return [((-negative).to_bytes(16, "big"), place) for negative, place in ordered]


def read_sample(index: pl.DataFrame, domain: str, domains: list[str], limit: int) -> list[str]:
    """Texts of the documents of a domain that its shards sampled, smallest key first.

    All `domains` get the same number: that of the smallest domain, at most `limit`. `index` is the
    token index: domain, path, documents.
    """
    documents = dict(index.group_by("domain").agg(pl.sum("documents")).iter_rows())
    size = min([limit, *(documents.get(name, 0) for name in domains)])
    paths = index.filter(pl.col("domain") == domain)["path"]
    return merge_samples((Path(f"{path.removesuffix('.bin')}.sample.jsonl") for path in paths), size)


def merge_samples(files: Iterable[Path], size: int) -> list[str]:
    """The `size` texts with the smallest keys, in order, from several samples of one domain.

    Each file has lines {"key", "text"} of JSON, smallest key first, so that no file is read beyond
    the keys that are needed.
    """
    smallest, texts = Smallest(size), []
    for file in files:
        with check(file).open("rb") as lines:
            for line in lines:
                record = json.loads(line)
                key = bytes.fromhex(record["key"])
                if not smallest.wants(key):
                    break
                smallest.offer(key, len(texts))
                texts.append(record["text"])
    return [texts[place] for _, place in smallest.entries()]


def as_line(text: str) -> str:
    """A document as the one line that FastText takes: newlines become spaces."""
    return text.replace("\n", " ")


def second_moment(batches: Iterable[np.ndarray], dimensions: int) -> tuple[np.ndarray, int, int]:
    """Sum (d, d) of v v' over the unit vectors of documents, float64, the number of these, and that of
    zero vectors, which are dropped; `batches` are vectors (n, d).
    """
    gram, documents, zeros = np.zeros((dimensions, dimensions)), 0, 0
    for vectors in batches:
        vectors = np.asarray(vectors, dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        units = vectors[lengths > 0] / lengths[lengths > 0, None]
        gram += units.T @ units
        documents += len(units)
        zeros += len(vectors) - len(units)
    return gram, documents, zeros
