"""Raw files against what was tokenised: other bytes are a version, whatever their times say;
nothing else is one.
"""

import json
import os
from pathlib import Path

import pytest

from bimix.corpus.shards import Shard
from bimix.digests import digest_file, stamp_file
from bimix.plan import contents, corpora

SHARD = Shard("a", "train", "a", ("raw/one.jsonl", "raw/two.jsonl", "s3://far/three.jsonl", "results/own/made.jsonl"))


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first of two raw files; both were tokenised."""
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()
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
    return contents.versions("own", looks, writes)(SHARD)


def test_what_was_never_tokenised_and_what_is_as_it_was_has_no_version(raw: Path) -> None:
    assert find() == []
    replace(raw, "six")
    Path("results/own/shards/train/a/report.json").unlink()
    assert find() == []
    assert not Path("results/own/contents").exists()


def test_other_text_under_an_old_time_is_a_version_that_stays(raw: Path) -> None:
    replace(raw, "six")
    changed = [digest_file(raw)]
    assert find(writes=False) == changed and not Path("results/own/contents").exists()
    assert find() == changed
    assert find(looks=False) == changed  # a job on another machine
    tokenised()
    assert find() == changed  # else the job would run again
    replace(raw, "ten")
    assert find() == [digest_file(raw)] != changed


def test_the_same_bytes_are_no_version_and_are_read_once(
    raw: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    read = []
    monkeypatch.setattr(contents, "digest_file", lambda path: read.append(path) or digest_file(path))
    for path in (raw, Path("raw/two.jsonl")):
        path.rename("aside")
        path.write_bytes(Path("aside").read_bytes())  # copied, without its times
    assert find() == find() == []
    assert read == [raw, Path("raw/two.jsonl")]
    assert capsys.readouterr().err.count("was changed, copied or moved since it was tokenised") == 1


def test_versions_decide_a_shard_and_all_that_reads_the_text(raw: Path) -> None:
    shards = {"a": SHARD}
    before = [corpora.shard_settings(shards, contents.versions("own", True, True), "a")]
    before += [corpora.training_digest(shards, contents.versions("own", True, True))]
    replace(raw, "six")
    found = contents.versions("own", True, True)
    after = [corpora.shard_settings(shards, found, "a"), corpora.training_digest(shards, found)]
    assert after[0] == [*before[0], digest_file(raw)] and after[1] != before[1]
    assert corpora.validation_digest(shards, found) == corpora.digest([])


def test_files_of_tokenizer_and_tasks_are_known_by_their_bytes(raw: Path) -> None:
    tasks = {
        "near": {"kind": "qa", "items": str(raw), "shots": "hf://far/x.jsonl"},
        "made": {"kind": "copy", "generate": {}},
        "hub": {"kind": "last_word", "items": {"hub": "x/y", "file": "z"}, "shots": None},
    }
    config = {"datasets": {"own": {"tokenizer": {"file": str(raw)}, "downstream": {"tasks": tasks}}}}
    for text in ("one", "six"):
        replace(raw, text)
        assert contents.tokenizer_version(config, "own") == digest_file(raw)
        assert contents.task_versions(config, "own") == [digest_file(raw), *[None] * 5]
    assert contents.tokenizer_version({"datasets": {"own": {"tokenizer": {"hub": "x"}}}}, "own") is None
