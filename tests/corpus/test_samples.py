"""The sample does not depend on the order of documents nor on how they are sharded."""

import itertools
import json

import polars as pl

from bimix.corpus.documents import hash_text
from bimix.corpus.samples import Smallest, merge_samples, read_sample

TEXTS = [f"text {number % 900}" for number in range(1000)]  # a hundred stand there twice


def shard_sample(texts: list[str], limit: int) -> list[bytes]:
    smallest, places = Smallest(limit), []
    for text in texts:
        key = hash_text(text)
        if smallest.wants(key):
            smallest.offer(key, len(places))
            places.append(json.dumps({"key": key.hex(), "text": text}).encode())
    return [places[place] for _, place in smallest.entries()]


def test_sharding_does_not_change_the_sample():
    for size, shards in itertools.product((0, 1, 150, 1000, 2000), (1, 3, 50)):
        expected = sorted(TEXTS, key=hash_text)[:size]
        files = [shard_sample(TEXTS[start::shards], size) for start in range(shards)]
        assert merge_samples(files, size) == merge_samples(reversed(files), size) == expected


def test_every_domain_gives_as_many_as_the_scarcest(tmp_path):
    index = pl.DataFrame(
        {"domain": ["a", "b", "a"], "documents": [10, 15, 20], "path": [str(tmp_path / f"{n}.bin") for n in range(3)]}
    )
    for number in range(3):
        (tmp_path / f"{number}.sample.jsonl").write_bytes(b"\n".join(shard_sample(TEXTS[number::3], 40)))
    for domain, parts in (("a", [0, 2]), ("b", [1])):
        texts = sorted((text for part in parts for text in TEXTS[part::3]), key=hash_text)
        assert read_sample(index, domain, ["a", "b"], 100) == texts[:15]
        assert read_sample(index, domain, ["a", "b"], 7) == texts[:7]
    assert read_sample(index, "a", ["a", "b", "c"], 7) == []
