"""Samples of documents by smallest hash: uniform, without replacement, and the same
however the corpus is sharded.
"""

import heapq
import json
from collections.abc import Iterable

import polars as pl

Place = int | tuple[int, int]  # where a text lies: its number, or its start and length


class Smallest:
    """The `limit` smallest keys of a stream, each with the place of its text.

    Memory grows with the limit alone.

    A text that is in the corpus twice has one key, so its copies are chosen or left out
    together, except at the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.heap: list[tuple[int, Place]] = []

    def wants(self, key: bytes) -> bool:
        """Whether `key` is among the smallest so far; then it should be offered
        with the place of its text.
        """
        return len(self.heap) < self.limit or (self.limit > 0 and -int.from_bytes(key, "big") > self.heap[0][0])

    def offer(self, key: bytes, place: Place) -> None:
        """Take a wanted key in, the largest out where there are too many."""
        entry = (-int.from_bytes(key, "big"), place)
        if len(self.heap) < self.limit:
            heapq.heappush(self.heap, entry)
        else:
            heapq.heapreplace(self.heap, entry)

    def entries(self) -> list[tuple[bytes, Place]]:
        """The chosen keys with their places, smallest key first."""
        ordered = sorted(self.heap, key=lambda entry: (-entry[0], entry[1]))
        return [((-negative).to_bytes(16, "big"), place) for negative, place in ordered]


def sample_size(index: pl.DataFrame, domains: list[str], limit: int) -> int:
    """Documents that every one of `domains` can give to a sample of at most `limit`: the
    same number for all of them.
    """
    documents = dict(index.group_by("domain").agg(pl.sum("documents")).iter_rows())
    return min([limit, *(documents.get(domain, 0) for domain in domains)])


def merge_samples(files: Iterable[Iterable[bytes]], size: int) -> list[str]:
    """The `size` texts of smallest key, smallest first, from several samples of one domain.

    Each file has lines {"key", "text"} of JSON, smallest key first, so that reading it stops
    at the first key too many.
    """
    smallest, texts = Smallest(size), []
    for lines in files:
        for line in lines:
            record = json.loads(line)
            key = bytes.fromhex(record["key"])
            if not smallest.wants(key):
                break
            smallest.offer(key, len(texts))
            texts.append(record["text"])
    return [texts[place] for _, place in smallest.entries()]
