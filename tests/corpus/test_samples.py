"""The sample does not depend on the order of documents nor on how they are sharded."""

import json

import polars as pl
import pytest

from bimix.corpus.documents import hash_text
from bimix.corpus.samples import Smallest, merge_samples, sample_size

TEXTS = [f"text {number % 900}" for number in range(1000)]  # a hundred stand there twice


def shard_sample(texts: list[str], limit: int) -> list[bytes]:
    smallest, places = Smallest(limit), []
    for text in texts:
        key = hash_text(text)
        if smallest.wants(key):
            smallest.offer(key, len(places))
            places.append(json.dumps({"key": key.hex(), "text": text}).encode())
    return [places[place] for _, place in smallest.entries()]


@pytest.mark.parametrize("size", [0, 1, 150, 1000, 2000])
@pytest.mark.parametrize("shards", [1, 3, 50])
def test_sharding_does_not_change_the_sample(size, shards):
    expected = sorted(TEXTS, key=hash_text)[:size]
    files = [shard_sample(TEXTS[start::shards], size) for start in range(shards)]
    assert merge_samples(files, size) == expected
    assert merge_samples(reversed(files), size) == expected


def test_every_domain_gives_as_many_as_the_scarcest():
    index = pl.DataFrame({"domain": ["a", "b", "a"], "documents": [10, 15, 20]})
    assert sample_size(index, ["a", "b"], 100) == 15
    assert sample_size(index, ["a", "b"], 7) == 7
    assert sample_size(index, ["a", "b", "c"], 7) == 0
