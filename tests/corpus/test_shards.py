"""Shards: nothing is lost or doubled, their size, and that a new file changes one of them."""

import pytest

from bimix.corpus.shards import Shard, group_files, name_file, read_shards, write_shards
from bimix.errors import InputError

FILES = [(f"f{number:04}", f"data/f{number:04}.jsonl", 1 + number * 7919 % 1000) for number in range(3000)]


def test_groups_hold_each_file_once_in_order():
    for target in (1, 100, 20_000, 10**9):
        groups = group_files(FILES, target)
        assert [path for _, paths in groups for path in paths] == [path for _, path, _ in FILES]
        assert all(paths[-1] == f"data/{name}.jsonl" for name, paths in groups)
        assert len({name for name, _ in groups}) == len(groups)


def test_groups_are_as_large_as_asked_for():
    total = sum(size for _, _, size in FILES)
    assert len(group_files(FILES, 20_000)) == pytest.approx(total / 20_000, rel=0.25)
    assert len(group_files(FILES, 1)) == len(FILES)  # a file that is large enough ends a shard
    assert len(group_files(FILES, 10**12)) == 1


def test_a_file_more_changes_one_shard():
    whole = set(group_files(FILES, 20_000))
    for place in (0, 1, 777, 2999):
        less = set(group_files(FILES[:place] + FILES[place + 1 :], 20_000))
        assert len(whole - less) <= 2 and len(less - whole) <= 2 and len(whole ^ less) <= 3


def test_manifest_comes_back():
    shards = [Shard("a", "hash", None, ("x", "y\n\tz")), Shard("validation.Ü", "validation", "Ü (1)", ("s3://b/k",))]
    assert list(read_shards(write_shards(shards).splitlines()).values()) == shards


@pytest.mark.parametrize(
    "line", ["{", "[]", "3", '{"name": "a"}', '{"name": [], "split": "hash", "domain": null, "files": []}']
)
def test_a_damaged_manifest_is_a_sentence(line: str) -> None:
    good = write_shards([Shard("a", "hash", None, ("a.txt",))])
    with pytest.raises(InputError, match=r"results/own/shards\.jsonl, line 2: this is no shard"):
        read_shards([*good.splitlines(), line], "results/own/shards.jsonl")


def test_a_file_whose_name_is_not_utf8_is_refused():
    with pytest.raises(InputError, match=r"'data/k\\udcfcche.jsonl': the name of the file is not UTF-8; rename it"):
        name_file("data/k\udcfcche.jsonl", "data/")


def test_names_are_parts_of_paths():
    assert name_file("data/train/chunk1/a b.jsonl.zst", "data/train/") == "chunk1.a_b"
    names = {name_file(f"https://host/x/y.parquet?token={word}", "https://host/") for word in ("one", "two")}
    assert len(names) == 2 and all(name.startswith("x.y.") and "token" not in name for name in names)
    assert name_file("corpus/Gutenberg (PG-19).v2.json", "corpus/") == "Gutenberg_(PG-19).v2"
