"""Raw files become shards, and shards the inputs and parameters of jobs."""

import copy
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from refusals import refused

from bimix.corpus.files import held_by_hash
from bimix.corpus.shards import Shard, describe_raw
from bimix.digests import digest_file, stamp_file
from bimix.errors import InputError
from bimix.plan import shards as planning
from bimix.plan.dataset import Dataset
from bimix.plan.shards import Shards, digest, open_shards, plan_shards, versions_of

CONFIG = {
    "datasets": {
        "own": {
            "domains": ["a", "b"],
            "corpus": {
                "train": "raw/*/*.jsonl",
                "validation": {"share": 0.1},
                "shard_megabytes": 1,
                "formats": {".jsonl": "lines"},
            },
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


def read(config: dict, **settings: object) -> Shards:
    config["datasets"]["own"]["corpus"].update(settings)
    own = Dataset(config, "own")
    return Shards(own, plan_shards(own), unchanged)


def files(shards: Shards, split: str) -> list[str]:
    return [path for shard in shards.in_split(split) for path in shard.files]


def test_validation_is_a_share_or_files(config: dict) -> None:
    for validation, by_hash in (
        ({"share": 0.1}, True),
        ("val.jsonl", False),
        ({"share": "share.jsonl", "tokens": ["a.jsonl"]}, False),  # two domains of these names
    ):
        config["datasets"]["own"]["corpus"]["validation"] = validation
        own = Dataset(config, "own")
        assert held_by_hash(own.block["corpus"]) == by_hash


def test_splits_by_hash_share_their_shards(config: dict) -> None:
    shards = read(config)
    (shard,) = shards.by_name.values()
    assert (shard.name, shard.split, shard.domain, len(shard.files)) == ("part1.file5", "hash", None, 6)
    assert shards.domains(shard.name) == ["a", "b"] and shards.hashes(shard.name) == []
    assert shards.inputs("train") == list(shard.files) and shards.inputs("validation") == []


def test_files_by_domain_have_shards_by_domain(config: dict) -> None:
    train = {"a": "raw/part0/*.jsonl", "b": ["raw/part1/file1.jsonl", "s3://bucket/x.jsonl"]}
    shards = read(config, train=train, validation={"a": "raw/part1/file3.jsonl", "b": "http://host/v.jsonl"})
    assert [*shards.by_name] == ["a.file4", "b.file1", "b.x", "validation.a.file3", "validation.b.v"]
    assert shards.domains("b.x") == ["b"] and shards.local_files(shards.by_name["b.x"].files) == []
    assert shards.settings("b.x") == ["train", "b", "s3://bucket/x.jsonl"]
    assert shards.settings("b.file1") == ["train", "b"]
    alone = Shards(shards.dataset, {"b.x": shards.by_name["b.x"]}, unchanged)
    assert alone.hashes("b.x") == ["results/own/held_out.hashes"]  # planning must not look at all shards for each
    assert shards.hashes("validation.b.v") == []
    assert shards.inputs("validation") == ["raw/part1/file3.jsonl"] and shards.made_inputs("validation") == []
    assert len(files(shards, "train")) == 5 and len(shards.inputs("train")) == 4


def test_a_harvest_is_read_from_the_results_and_says_how_large_it_will_be(config: dict) -> None:
    for megabytes, threads in ((1.5, 1), (64, 2)):
        shards = read(config, harvest={"a": {"megabytes": megabytes}, "b": {"megabytes": 1}})
        assert files(shards, "train") == ["results/own/corpus/a.jsonl", "results/own/corpus/b.jsonl"]
        assert shards.threads("a.a") == threads
        assert shards.made_inputs("train") == shards.inputs("train")


def test_the_manifest_is_written_by_the_call_that_plans(config: dict, workplace: Path) -> None:
    manifest, own = workplace / "results/own/shards.jsonl", Dataset(config, "own")
    dry = open_shards(own, planning=True, runs_jobs=False)
    assert not manifest.exists()  # as -n does
    planned = open_shards(own, planning=True, runs_jobs=True)
    assert planned == dry
    text, written = manifest.read_text(), manifest.stat()
    assert open_shards(own, planning=True, runs_jobs=True) == planned
    assert manifest.stat().st_mtime_ns == written.st_mtime_ns and manifest.stat().st_ino == written.st_ino
    (workplace / "raw/part1/file7.jsonl").touch()
    assert open_shards(own, planning=False, runs_jobs=True) == planned  # a job reads what was planned
    assert manifest.read_text() == text
    again = open_shards(own, planning=True, runs_jobs=True)
    assert sum(len(shard.files) for shard in again.values()) == 7
    assert [path.name for path in manifest.parent.iterdir()] == ["shards.jsonl"]
    manifest.unlink()
    assert open_shards(own, planning=False, runs_jobs=True) == again  # a job without one plans by itself


def test_domains_that_are_only_measured_have_validation_shards_and_are_left_out_of_training(config, workplace) -> None:
    (workplace / "tasks.jsonl").write_bytes(b"x")
    for validation in ({"share": 0.1}, "raw/part1/*.jsonl"):
        settings = {"validation": validation, "train": "raw/part0/*.jsonl"}
        before = read(copy.deepcopy(config), **settings).by_name
        shards = read(copy.deepcopy(config), **settings, validation_only={"tasks": "tasks.jsonl"})
        assert shards.dataset.only_measured == ["tasks"]
        added = Shard("validation.tasks.tasks", "validation", "tasks", ("tasks.jsonl",))
        assert shards.by_name == before | {added.name: added}  # nothing else is tokenised again but for the hashes
        assert "tasks.jsonl" in files(shards, "validation") and "tasks.jsonl" not in files(shards, "train")
        assert shards.domains(added.name) == ["tasks"]
        for name, shard in shards.by_name.items():
            trains = shard.split != "validation"
            assert shards.hashes(name) == (["results/own/held_out.hashes"] if trains else [])
            assert not trains or shards.domains(name) == ["a", "b"]


def test_domains_in_another_order_are_the_same_shards(config: dict) -> None:
    train = {"b": "raw/part1/*.jsonl", "a": "raw/part0/*.jsonl"}
    only = {"d": "raw/part0/file0.jsonl", "c": "raw/part0/file2.jsonl"}
    first = read(config, train=train, validation_only=only)
    assert [shard.domain for shard in first.by_name.values()][-2:] == first.dataset.only_measured == ["c", "d"]
    turned = read(config, train=dict(reversed(train.items())), validation_only=dict(reversed(only.items())))
    assert list(turned.by_name.items()) == list(first.by_name.items())
    for split in ("train", "validation"):
        assert turned.digest(split) == first.digest(split)


# Raw files against what was tokenised: other bytes are a version, whatever their times say

SHARD = Shard("a", "train", "a", ("raw/one.jsonl", "raw/two.jsonl", "s3://far/three.jsonl", "results/own/made.jsonl"))


@pytest.fixture
def raw(workplace: Path) -> Path:
    """The first of two raw files; both were tokenised."""
    for name in ("one", "two"):
        Path(f"raw/{name}.jsonl").write_text(name)
    tokenised()
    return Path("raw/one.jsonl")


def tokenised() -> None:
    """The report of the shard, as tokenize_shard.py leaves it."""
    report = Path("results/own/shards/train/a/report.json")
    report.parent.mkdir(parents=True, exist_ok=True)
    files = [Path("raw/one.jsonl"), Path("raw/two.jsonl")]
    raw = {str(path): {"digest": digest_file(path), "stamp": stamp_file(path)} for path in files}
    report.write_text(json.dumps({"raw": raw}))


def replace(path: Path, text: str) -> None:
    """Other bytes under the old time of modification, as `cp -p` leaves them."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def find(looks: bool = True, writes: bool = True) -> list[str]:
    return versions_of(Dataset(CONFIG, "own"), looks, writes)(SHARD)


def test_other_text_under_an_old_time_is_a_version_that_stays(raw: Path) -> None:
    assert find() == []  # as it was
    replace(raw, "six")
    report = Path("results/own/shards/train/a/report.json")
    tokenised_before = report.read_text()
    report.unlink()
    assert find() == [] and not Path("results/own/contents").exists()  # was never tokenised
    report.write_text(tokenised_before)
    changed = [digest_file(raw)]
    assert find(writes=False) == changed and not Path("results/own/contents").exists()
    assert find() == changed
    assert find(looks=False) == changed  # a job on another machine
    tokenised()
    assert find() == changed  # else the job would run again
    replace(raw, "ten")
    assert find() == [digest_file(raw)] != changed


def test_the_index_of_a_file_of_tokens_is_known_by_its_bytes_too(workplace: Path, config: dict) -> None:
    config["datasets"]["own"]["corpus"]["formats"] = formats = {".ds": "tokens"}
    ids, index = Path("raw/words.ds"), Path("raw/words.ds.index")
    for path in (ids, index):
        path.write_text("one")
    Path("results/own/shards/train/a").mkdir(parents=True)
    report = {"raw": describe_raw([str(ids)], formats)}
    Path("results/own/shards/train/a/report.json").write_text(json.dumps(report))
    shard = Shard("a", "train", "a", (str(ids),))
    for path in (ids, index):
        replace(path, "six")
        assert versions_of(Dataset(config, "own"), True, False)(shard) == [digest_file(path)]
        replace(path, "one")
        assert versions_of(Dataset(config, "own"), True, False)(shard) == []


def test_the_same_bytes_are_no_version_and_are_read_once(raw: Path, monkeypatch, capsys) -> None:
    read = []
    monkeypatch.setattr(planning, "digest_file", lambda path: read.append(path) or digest_file(path))
    for path in (raw, Path("raw/two.jsonl")):
        path.rename("aside")
        path.write_bytes(Path("aside").read_bytes())  # copied, without its times
    assert find() == find() == []
    assert read == [raw, Path("raw/two.jsonl")]
    assert capsys.readouterr().err.count("was changed, copied or moved since it was tokenised") == 1


def test_versions_decide_a_shard_and_all_that_reads_the_text(raw: Path) -> None:
    def planned() -> tuple[list, str]:
        own = Dataset(CONFIG, "own")
        shards = Shards(own, {"a": SHARD}, versions_of(own, True, True))
        return shards.settings("a"), shards.digest("train")

    before = planned()
    replace(raw, "six")
    after = planned()
    assert after[0] == [*before[0], digest_file(raw)] and after[1] != before[1]


def test_files_of_tokenizer_and_tasks_are_known_by_their_bytes(raw: Path) -> None:
    task = {"task": "near", "dataset_kwargs": {"data_files": {"test": str(raw), "train": "hf://far/x.jsonl"}}}
    (raw.parent / "near.yaml").write_text(yaml.safe_dump(task))
    block = {"tasks": ["near", "arc_easy"], "task_files": str(raw.parent)}
    own = Dataset({"datasets": {"own": {"downstream": block}}}, "own")
    for text in ("one", "six"):
        replace(raw, text)
        assert planning.file_version(own, str(raw)) == digest_file(raw)
        assert planning.task_versions(own) == [digest_file(raw.parent / "near.yaml"), digest_file(raw)]


# What paths, globs and lists of raw files stand for


def listed(patterns: str | list[str]) -> list[tuple[str, str, int]]:
    return list(planning.raw_files(patterns, 10**6, "config: datasets/own/corpus/train"))


def test_globs_lists_and_names_stand_for_files_in_order_with_their_bytes(workplace: Path) -> None:
    """A file that is not there, or says no bytes, fills a shard."""
    found = listed("raw/*/*.jsonl")
    assert [name for name, _, _ in found] == [f"part{n % 2}.file{n}" for n in (0, 2, 4, 1, 3, 5)]
    assert [size for _, _, size in found] == [1, 3, 5, 2, 4, 6]
    assert listed(["raw/part1/file?.jsonl"])[0][0] == "file1"
    named = ["https://host/x.jsonl?part=1", "made/later.jsonl"]  # this question mark is no glob
    assert [size for _, _, size in listed(named)] == [10**6, 10**6]
    assert all(map(planning.has_wildcards, ("a*.txt", "a?.txt", "a[0-9]", "https://h/*")))
    assert not any(map(planning.has_wildcards, ("https://h/a?b=1", "a")))
    (workplace / "list").write_text("data/one/a.jsonl\t40\ndata/two/b.jsonl\n")
    assert listed("@list") == [("one.a", "data/one/a.jsonl", 40), ("two.b", "data/two/b.jsonl", 10**6)]
    (workplace / "list").write_text("\ufeff/disk/a.jsonl\t1\r\n \nhttp://host/b.jsonl\t2\n")
    assert [path for _, path, _ in listed("@list")] == ["/disk/a.jsonl", "http://host/b.jsonl"]
    (workplace / "raw/part0/[1].jsonl").touch()  # a file of that name is no glob
    (workplace / "raw/part0/_SUCCESS").touch()  # of Spark
    assert [path for _, path, _ in listed("raw/part0/[1].jsonl")] == ["raw/part0/[1].jsonl"]
    assert len(listed("raw/part0")) == 4


def test_a_file_that_is_there_twice_and_what_is_no_file_are_refused(workplace: Path) -> None:
    part = workplace / "raw/part0"
    (workplace / "whole").symlink_to("raw/part0")
    (workplace / "list").write_text("raw/part0/file0.jsonl\nraw/part0/file0.jsonl\n")
    twice = ["raw/part0/*.jsonl", "raw/part0/file0*"], ["raw/part0", f"{part}/file2.jsonl"], ["raw/part0", "whole"]
    for patterns in (*twice, ["@list"], ["https://host/x.jsonl", "https://host/x.jsonl"]):
        refused("train: .* and .* are one file or its packed copy", listed, patterns)
    (part / "loop").symlink_to("..")
    refused("are one file", listed, "raw/part0/**/*.jsonl")
    (part / "loop").unlink()
    for name in ("gone.jsonl", "file0.jsonl.gz", "brace{x}.jsonl", "folder.jsonl"):
        path = part / name
        if name.startswith("gone"):
            path.symlink_to("nowhere")
            words = r"train: 'raw/part0/gone\.jsonl' is a link to nothing"
        elif name.startswith("folder"):
            path.mkdir()
            words = r"'raw/part0/folder\.jsonl' is a folder: name the files in it, as by 'raw/part0/\*\.jsonl\*/\*'"
        else:
            path.touch()
            words = "as a wildcard; rename it" if "{" in name else "one file or its packed copy"
        refused(words, listed, "raw/part0/*.jsonl*")
        path.rmdir() if path.is_dir() else path.unlink()
    assert len(listed("raw/part0/*.jsonl*")) == 3


def test_what_stands_for_no_file_and_names_that_meet_are_refused_with_their_key(config: dict, workplace: Path) -> None:
    (workplace / "empty").write_text("")
    (workplace / "bad").write_text("a.jsonl\t40 kB")
    for pattern, sentence in (
        ("none/*.jsonl", "no file matches 'none/.*"),
        ("@empty", "no file matches '@empty'"),
        ("@missing", "'missing' cannot be read as a list of files"),
        ("@bad", "'bad' cannot be read as a list of files .invalid literal"),
        ("https://host/*.jsonl", "'https://host/.*' cannot be listed"),
    ):
        refused(f"datasets/own/corpus/train: {sentence}", listed, pattern)
    with pytest.raises(InputError, match=r"own/corpus/train: 'y/f\.jsonl' and 'x/f\.jsonl' share a name"):
        read(config, train=["x/f.jsonl", "y/f.jsonl"])


def test_endings_without_a_form_are_one_fault_with_the_line_that_mends_it(config: dict, workplace: Path) -> None:
    files = ["raw/part0/file0.jsonl", "a/ls.1.gz", "a/cp.1.gz", "a/changelog.gz", "b/x.py"]
    with pytest.raises(InputError, match="own/corpus/formats: 4 files have endings that `formats` lacks") as fault:
        read(config, train=files)
    line = yaml.safe_load(re.search(r"formats: \{.*\}", str(fault.value))[0])
    assert line["formats"] == {".jsonl": "lines", ".1": "text", "": "text", ".py": "text"}
    assert len(read(config, train=files, **line).by_name) == len(files)
    with pytest.raises(InputError, match=r'formats: {"\.jsonl": lines, "\.JSONL": lines}'):
        read(config, train=["a.jsonl", "B.JSONL"], formats={".jsonl": "lines"})
    for name in ("a.csv", "b.jsonl.bz2", "c.tar.gz", "d.jsonl.GZ", "e.arrow"):  # whose marks would be trained on
        refused("name others, or make JSON lines", read, config, train=["a.jsonl", name], formats={".jsonl": "lines"})


def test_files_that_are_not_there_are_one_sentence(config: dict, workplace: Path) -> None:
    """A plan alone counts a glob of no file as a shard; a glob that is there, and what jobs make, lack nothing."""
    own = config["datasets"]["own"]
    own["corpus"]["validation"] = {"a": ["data/pile/*.jsonl", "results/own/later.jsonl"]}
    own["vectors"] = {"file": "data/cc.en.300.bin"}
    dataset = Dataset(config, "own")
    assert list(planning.missing(dataset)) == ["data/pile/*.jsonl", "data/cc.en.300.bin"]
    sentence = r"own: these files are not there: data/pile/\*.jsonl, data/cc.*docs/data.md says.*`vectors: null`"
    refused(sentence, open_shards, dataset, True, False)
    assert not [shard for shard in open_shards(dataset, True, False, True).values() if not shard.files]


def test_a_digest_stands_for_a_list(config: dict) -> None:
    named = {name: Shard(name, split, None, (f"{name}.txt",)) for name, split in (("a", "train"), ("v", "validation"))}
    shards = Shards(Dataset(config, "own"), named, unchanged)
    assert shards.digest("train") == digest(["a.txt"]) != digest(["a.txt", "b.txt"])
    assert shards.digest("validation") == digest(["v.txt"])
    assert digest(shards.by_name) == digest(["a", "v"]) != digest(["v", "a"])
