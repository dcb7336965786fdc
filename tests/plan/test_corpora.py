"""Raw files become shards, and shards the inputs and parameters of jobs."""

import copy
from pathlib import Path

import pytest

from bimix.corpus.shards import Shard
from bimix.errors import InputError
from bimix.plan import corpora

CONFIG = {
    "datasets": {
        "own": {
            "domains": ["a", "b"],
            "corpus": {"train": "raw/*/*.jsonl", "validation": {"share": 0.1}, "shard_megabytes": 1},
            "vectors": {"train": {}},
        }
    }
}


def unchanged(shard: Shard) -> list[str]:
    """Versions of files that are as they were tokenised."""
    return []


@pytest.fixture
def config() -> dict:
    return copy.deepcopy(CONFIG)


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with six raw files in two folders."""
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        file = tmp_path / f"raw/part{number % 2}/file{number}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * (number + 1))
    return tmp_path


def read(config: dict, **settings: object) -> dict[str, Shard]:
    config["datasets"]["own"]["corpus"].update(settings)
    return corpora.plan_shards(config, "own")


@pytest.mark.parametrize(
    ("validation", "kind"),
    [
        ({"share": 0.1}, "share"),
        ({"share": 0.1, "tokens": 9}, "tokens"),
        ("val.jsonl", "files"),
        ({"share": "share.jsonl", "tokens": ["a.jsonl"]}, "files"),  # two domains of these names
    ],
)
def test_validation_is_a_share_tokens_or_files(config: dict, validation: object, kind: str) -> None:
    config["datasets"]["own"]["corpus"]["validation"] = validation
    assert corpora.validation_kind(config, "own") == kind
    hashes = ["results/own/held_out.hashes"] if kind == "files" else []
    assert corpora.tokenizer_hashes(config, "own") == hashes


def test_splits_by_hash_share_their_shards(config: dict) -> None:
    (shard,) = read(config).values()
    assert (shard.name, shard.split, shard.domain, len(shard.files)) == ("part1.file5", "hash", None, 6)
    shards = {shard.name: shard}
    assert corpora.shard_domains(config, "own", shards, shard.name) == ["a", "b"]
    assert corpora.shard_hashes(config, "own", shards, shard.name) == []
    assert corpora.training_inputs("own", shards) == list(shard.files)
    assert corpora.validation_inputs("own", shards) == []


def test_files_by_domain_have_shards_by_domain(config: dict) -> None:
    train = {"a": "raw/part0/*.jsonl", "b": ["raw/part1/file1.jsonl", "s3://bucket/x.jsonl"]}
    shards = read(config, train=train, validation={"a": "raw/part1/file3.jsonl", "b": "http://host/v.jsonl"})
    assert [*shards] == ["a.file4", "b.file1", "b.x", "validation.a.file3", "validation.b.v"]
    assert corpora.shard_names(shards) == [*shards]
    assert corpora.shard_domains(config, "own", shards, "b.x") == ["b"]
    assert corpora.shard_inputs("own", shards, "b.x") == []
    assert corpora.shard_settings(shards, unchanged, "b.x") == ["train", "b", "s3://bucket/x.jsonl"]
    assert corpora.shard_settings(shards, unchanged, "b.file1") == ["train", "b"]
    alone = {"b.x": shards["b.x"]}  # planning must not look at all shards for each of them
    assert corpora.shard_hashes(config, "own", alone, "b.x") == ["results/own/held_out.hashes"]
    assert corpora.shard_hashes(config, "own", shards, "validation.b.v") == []
    assert corpora.validation_inputs("own", shards) == ["raw/part1/file3.jsonl"]
    assert len(corpora.training_files(shards)) == 5 and len(corpora.training_inputs("own", shards)) == 4


def test_small_shards_take_one_thread(config: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = read(config, train={"a": "raw/part0/*.jsonl", "b": ["raw/part1/file1.jsonl", "s3://bucket/x.jsonl"]})
    threads = {name: corpora.shard_threads(config, "own", shards, name) for name in shards}
    assert threads == {"a.file4": 1, "b.file1": 1, "b.x": 2}  # nobody knows how many bytes lie far away
    monkeypatch.setattr(corpora, "SMALL_SHARD", 9)  # bytes; a.file4 has 1 + 3 + 5
    threads = {name: corpora.shard_threads(config, "own", shards, name) for name in shards}
    assert threads == {"a.file4": 2, "b.file1": 1, "b.x": 2}


@pytest.mark.parametrize(("megabytes", "threads"), [(1.5, 1), (64, 2)])
def test_a_harvest_says_how_large_its_shard_will_be(config: dict, megabytes: float, threads: int) -> None:
    config["datasets"]["own"]["corpus"]["harvest"] = {"a": {"megabytes": megabytes}}
    shards = {"a.a": Shard("a.a", "hash", "a", ("results/own/corpus/a.jsonl",))}
    assert corpora.shard_threads(config, "own", shards, "a.a") == threads


def test_drawn_validation_is_one_folder(config: dict) -> None:
    shards = read(config, validation={"share": 0.1, "tokens": 5})
    assert corpora.validation_files(shards) == ["results/own/held_out/a.jsonl", "results/own/held_out/b.jsonl"]
    assert corpora.validation_inputs("own", shards) == ["results/own/held_out"]


def test_a_harvest_is_read_from_the_results(config: dict) -> None:
    shards = read(config, harvest={"a": {}, "b": {}})
    assert corpora.training_files(shards) == ["results/own/corpus/a.jsonl", "results/own/corpus/b.jsonl"]


def test_two_shards_of_one_name_are_refused(config: dict) -> None:
    with pytest.raises(InputError, match=r"'y/f\.jsonl' and 'x/f\.jsonl' share a name"):
        read(config, train=["x/f.jsonl", "y/f.jsonl"])


def test_the_manifest_is_written_by_the_call_that_plans(config: dict, workplace: Path) -> None:
    manifest = workplace / "results/own/shards.jsonl"
    dry = corpora.open_shards(config, "own", planning=True, runs_jobs=False)
    assert not manifest.exists()  # as -n does
    planned = corpora.open_shards(config, "own", planning=True, runs_jobs=True)
    assert planned == dry
    text, written = manifest.read_text(), manifest.stat()
    assert corpora.open_shards(config, "own", planning=True, runs_jobs=True) == planned
    assert manifest.stat().st_mtime_ns == written.st_mtime_ns and manifest.stat().st_ino == written.st_ino
    (workplace / "raw/part1/file7.jsonl").touch()
    assert corpora.open_shards(config, "own", planning=False, runs_jobs=True) == planned  # a job reads what was planned
    assert manifest.read_text() == text
    again = corpora.open_shards(config, "own", planning=True, runs_jobs=True)
    assert len(corpora.training_files(again)) == 7
    assert [path.name for path in manifest.parent.iterdir()] == ["shards.jsonl"]
    manifest.unlink()
    assert (
        corpora.open_shards(config, "own", planning=False, runs_jobs=True) == again
    )  # a job without one plans by itself


def test_a_digest_stands_for_a_list() -> None:
    shards = {name: Shard(name, split, None, (f"{name}.txt",)) for name, split in (("a", "train"), ("v", "validation"))}
    assert corpora.training_digest(shards, unchanged) == corpora.digest(["a.txt"]) != corpora.digest(["a.txt", "b.txt"])
    assert corpora.validation_digest(shards, unchanged) == corpora.digest(["v.txt"])
    assert corpora.names_digest(shards) == corpora.digest(["a", "v"]) != corpora.digest(["v", "a"])


def test_vectors_come_from_a_file_or_from_the_corpus(config: dict) -> None:
    assert corpora.vectors_model(config, "own") == "results/own/vectors/model.bin"
    config["datasets"]["own"]["vectors"] = {"file": "data/vectors.bin"}
    assert corpora.vectors_model(config, "own") == "data/vectors.bin"


@pytest.mark.parametrize("kind", ["share", "tokens", "files"])
def test_domains_that_are_only_measured_have_validation_shards_and_are_left_out_of_training(
    config: dict, workplace: Path, kind: str
) -> None:
    (workplace / "tasks.jsonl").write_bytes(b"x")
    validation = {"share": {"share": 0.1}, "tokens": {"share": 0.1, "tokens": 9}, "files": "raw/part1/*.jsonl"}[kind]
    settings = {"validation": validation, "train": "raw/part0/*.jsonl"}
    before = read(config, **settings)
    shards = read(config, **settings, validation_only={"tasks": "tasks.jsonl"})
    assert corpora.count_measured(config, "own") == 3
    added = shards.pop("validation.tasks.tasks")
    assert shards == before  # nothing else is tokenised anew but for the hashes
    assert added == Shard("validation.tasks.tasks", "validation", "tasks", ("tasks.jsonl",))
    shards[added.name] = added
    assert "tasks.jsonl" in corpora.validation_files(shards) and "tasks.jsonl" not in corpora.training_files(shards)
    assert corpora.shard_domains(config, "own", shards, added.name) == ["tasks"]
    for name, shard in shards.items():
        hashes = [] if shard.split == "validation" else ["results/own/held_out.hashes"]
        assert corpora.shard_hashes(config, "own", shards, name) == hashes
        trains = shard.split != "validation" and corpora.shard_domains(config, "own", shards, name)
        assert not trains or trains == ["a", "b"]
    assert corpora.tokenizer_hashes(config, "own") == ["results/own/held_out.hashes"]


def test_without_validation_files_there_are_no_hashes(config: dict) -> None:
    shards = read(config)
    assert [corpora.shard_hashes(config, "own", shards, name) for name in shards] == [[]] * len(shards)
    assert corpora.tokenizer_hashes(config, "own") == []


def test_domains_in_another_order_are_the_same_shards(config: dict) -> None:
    train = {"b": "raw/part1/*.jsonl", "a": "raw/part0/*.jsonl"}
    only = {"d": "raw/part0/file0.jsonl", "c": "raw/part0/file2.jsonl"}
    first = read(config, train=train, validation_only=only)
    assert [shard.domain for shard in first.values()][-2:] == corpora.only_measured(config, "own") == ["c", "d"]
    turned = read(config, train=dict(reversed(train.items())), validation_only=dict(reversed(only.items())))
    assert list(turned.items()) == list(first.items())
    for digest in (corpora.training_digest, corpora.validation_digest):
        assert digest(turned, unchanged) == digest(first, unchanged)
