"""Shards of raw files, their index, samples of their text."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from tokenised import call, tokenize, write_records

import index_tokens
from bimix.corpus.documents import hash_text
from bimix.corpus.samples import Smallest, merge_samples, read_sample
from bimix.corpus.shards import Shard, group_files, name_file, read_shards, write_shards
from bimix.errors import InputError

FILES = [(f"f{number:04}", f"data/f{number:04}.jsonl", 1 + number * 7919 % 1000) for number in range(3000)]


def test_groups_hold_each_file_once_are_as_large_as_asked_for_and_a_file_more_changes_one():
    for target in (1, 100, 20_000, 10**9):
        groups = group_files(FILES, target)
        assert [path for _, paths in groups for path in paths] == [path for _, path, _ in FILES]
        assert all(paths[-1] == f"data/{name}.jsonl" for name, paths in groups)
        assert len({name for name, _ in groups}) == len(groups)
    # groups are as large as asked for
    total = sum(size for _, _, size in FILES)
    assert len(group_files(FILES, 20_000)) == pytest.approx(total / 20_000, rel=0.25)
    assert len(group_files(FILES, 1)) == len(FILES)  # a file that is large enough ends a shard
    assert len(group_files(FILES, 10**12)) == 1
    # a file more changes one shard
    whole = set(group_files(FILES, 20_000))
    for place in (0, 1, 777, 2999):
        less = set(group_files(FILES[:place] + FILES[place + 1 :], 20_000))
        assert len(whole - less) <= 2 and len(less - whole) <= 2 and len(whole ^ less) <= 3


def test_a_manifest_comes_back_with_names_that_are_parts_of_paths():
    shards = [Shard("a", "hash", None, ("x", "y\n\tz")), Shard("validation.Ü", "validation", "Ü (1)", ("s3://b/k",))]
    assert list(read_shards(write_shards(shards).splitlines()).values()) == shards
    # names are parts of paths
    assert name_file("data/train/chunk1/a b.jsonl.zst", "data/train/") == "chunk1.a_b"
    names = {name_file(f"https://host/x/y.parquet?token={word}", "https://host/") for word in ("one", "two")}
    assert len(names) == 2 and all(name.startswith("x.y.") and "token" not in name for name in names)
    assert name_file("corpus/Gutenberg (PG-19).v2.json", "corpus/") == "Gutenberg_(PG-19).v2"
    # a file whose name is not utf8 is refused
    with pytest.raises(InputError, match=r"'data/k\\udcfcche.jsonl': the name of the file is not UTF-8; rename it"):
        name_file("data/k\udcfcche.jsonl", "data/")


@pytest.mark.parametrize(
    "line", ["{", "[]", "3", '{"name": "a"}', '{"name": [], "split": "hash", "domain": null, "files": []}']
)
def test_a_damaged_manifest_is_a_sentence(line: str) -> None:
    good = write_shards([Shard("a", "hash", None, ("a.txt",))])
    with pytest.raises(InputError, match=r"results/own/shards\.jsonl, line 2: this is no shard"):
        read_shards([*good.splitlines(), line], "results/own/shards.jsonl")


def build_index(folder: Path, domains: list[str]) -> None:
    indices = {split: folder / f"{split}.parquet" for split in ("train", "validation")}
    call(index_tokens, folder=folder, shards=folder / "shards.jsonl", domains=domains, **indices)


def test_index_lists_the_rows(tmp_path, tokenizer):
    records = [{"text": f"text {number} " * 9, "meta": {"set": name}} for number in range(60) for name in "bc"]
    records = [record | {"meta": {"set": record["meta"]["set"].replace("b", "b.v2")}} for record in records]
    reports = tokenize(tmp_path, [write_records(tmp_path / "raw.jsonl", records)], tokenizer)
    build_index(tmp_path, ["b.v2", "c"])
    for split, report in reports.items():
        index = pl.read_parquet(tmp_path / f"{split}.parquet")
        assert index["domain"].to_list() == ["b.v2", "c"]
        for domain, path, rows, tokens, documents, dtype, digest, *raw in index.iter_rows():
            found = report["domains"][domain]
            assert (rows, documents, digest) == (found["rows"], found["documents"], found["digest"])
            assert raw == [found["records"], found["ends"]]
            assert np.fromfile(path, dtype).size == tokens == found["tokens_in_rows"]


def test_domain_without_rows_is_told(tmp_path, tokenizer):
    records = [{"text": f"document {number}", "meta": {"set": "c"}} for number in range(20)]
    file = write_records(tmp_path / "raw.jsonl", records)
    tokenize(tmp_path, [file], tokenizer, split="train")
    refused(r"Domain 'c' has no row of validation text \(0 documents\)", build_index, tmp_path, ["c"])
    refused(r"Domain 'Gutenberg \(PG-19\)' has no row of train text", build_index, tmp_path, ["Gutenberg (PG-19)", "c"])
    tokenize(tmp_path, [file], tokenizer, **{"validation-share": "0.2", "sequence-length": "100"})
    refused(r"Domain 'c' has no row of validation text \(\d documents\)", build_index, tmp_path, ["c"])


def test_rows_of_two_lengths_are_refused(tmp_path: Path, tokenizer: Path) -> None:
    file = write_records(tmp_path / "raw.jsonl", [{"text": f"text {number} " * 9} for number in range(60)])
    settings = {"domains": "c", "domain-field": "null"}
    tokenize(tmp_path, [file], tokenizer, **settings)
    for split in ("train", "validation"):
        shutil.move(tmp_path / split / "s", tmp_path / split / "older")
    tokenize(tmp_path, [file], tokenizer, **settings, **{"sequence-length": "32"})
    shards = [Shard(name, "hash", "c", (str(file),)) for name in ("older", "s")]
    (tmp_path / "shards.jsonl").write_text(write_shards(shards))
    refused("of 16 tokens in .*/older and of 32 tokens in .*/s; delete", build_index, tmp_path, ["c"])


def test_the_index_names_empty_files_what_shards_drop_and_domains_of_the_same_text(tmp_path: Path, capsys) -> None:
    domains = {"sea": (100, "s"), "ocean": (100, "s"), "lost": (10, "l")}  # rows in two shards, digest
    shards = [Shard(f"{domain}.{n}", "hash", domain, (f"{domain}{n}",)) for domain in domains for n in range(2)]
    (tmp_path / "shards.jsonl").write_text(write_shards(shards))
    for split in ("train", "validation"):
        for shard in shards:
            rows, digest = domains[shard.domain]
            own = {
                "rows": rows // 2,
                "tokens_in_rows": rows * 8,
                "dropped_tail": 15,
                "dtype": "uint16",
                "digest": digest,
            }
            own |= dict.fromkeys(("documents", "records"), 200) | {"ends": 0}
            place = tmp_path / split / shard.name
            place.mkdir(parents=True)
            raw = {
                f"{shard.name}.txt": {"bytes": 9, "digest": digest + shard.name[-1]},
                "none": {"bytes": 0, "digest": ""},
            }
            report = {"sequence_length": 16, "domains": {shard.domain: own}, "without_text": [f"{shard.name}.txt"] * 2}
            report["raw"] = raw
            (place / "report.json").write_text(json.dumps(report))
    build_index(tmp_path, list(domains))
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Remark")]
    assert "sea.0.txt, sea.0.txt, sea.1.txt" in said[0] and "and 7 more" in said[0]
    assert ["lost" in line and "16%" in line for line in said[1:]] == [True, True, False, False, False]
    assert "train" in said[1] and "validation" in said[2] and "ocean and sea have the same text" in said[-2]
    assert "ocean.0.txt = sea.0.txt, ocean.1.txt = sea.1.txt; leave" in said[-1]
    assert "dropped" not in pl.read_parquet(tmp_path / "train.parquet").columns


TEXTS = [f"text {number % 900}" for number in range(1000)]  # a hundred stand there twice


def shard_sample(path: Path, texts: list[str], limit: int) -> Path:
    smallest, places = Smallest(limit), []
    for text in texts:
        key = hash_text(text)
        if smallest.wants(key):
            smallest.offer(key, len(places))
            places.append(json.dumps({"key": key.hex(), "text": text}).encode())
    path.write_bytes(b"\n".join(places[place] for _, place in smallest.entries()))
    return path


def test_sharding_does_not_change_the_sample(tmp_path):
    for size, shards in itertools.product((0, 1, 150, 1000, 2000), (1, 3, 50)):
        expected = sorted(TEXTS, key=hash_text)[:size]
        files = [shard_sample(tmp_path / str(start), TEXTS[start::shards], size) for start in range(shards)]
        assert merge_samples(files, size) == merge_samples(reversed(files), size) == expected


def test_every_domain_gives_as_many_as_the_scarcest(tmp_path):
    index = pl.DataFrame(
        {"domain": ["a", "b", "a"], "documents": [10, 15, 20], "path": [str(tmp_path / f"{n}.bin") for n in range(3)]}
    )
    for number in range(3):
        shard_sample(tmp_path / f"{number}.sample.jsonl", TEXTS[number::3], 40)
    for domain, parts in (("a", [0, 2]), ("b", [1])):
        texts = sorted((text for part in parts for text in TEXTS[part::3]), key=hash_text)
        assert read_sample(index, domain, ["a", "b"], 100) == texts[:15]
        assert read_sample(index, domain, ["a", "b"], 7) == texts[:7]
    assert read_sample(index, "a", ["a", "b", "c"], 7) == []
