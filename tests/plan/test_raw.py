"""What paths, globs and lists of raw files stand for."""

from pathlib import Path

import pytest

from bimix.errors import InputError
from bimix.plan.raw import has_wildcards, raw_files


@pytest.fixture
def config() -> dict:
    return {"datasets": {"own": {"corpus": {"shard_megabytes": 1}}}}


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with six raw files in two folders."""
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        file = tmp_path / f"raw/part{number % 2}/file{number}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * (number + 1))
    return tmp_path


def test_a_glob_takes_files_in_order_with_their_bytes(config: dict) -> None:
    files = list(raw_files(config, "own", "train", "raw/*/*.jsonl"))
    assert [name for name, _, _ in files] == [f"part{n % 2}.file{n}" for n in (0, 2, 4, 1, 3, 5)]
    assert [size for _, _, size in files] == [1, 3, 5, 2, 4, 6]
    assert next(raw_files(config, "own", "train", ["raw/part1/file?.jsonl"]))[0] == "file1"


def test_one_file_fills_a_shard_before_it_is_there(config: dict) -> None:
    named = ["https://host/x.jsonl?part=1", "made/later.jsonl"]
    assert [size for _, _, size in raw_files(config, "own", "train", named)] == [10**6, 10**6]


@pytest.mark.parametrize(
    ("pattern", "glob"),
    [
        ("a*.txt", True),
        ("a?.txt", True),
        ("a[0-9]", True),
        ("https://h/a?b=1", False),
        ("https://h/*", True),
        ("a", False),
    ],
)
def test_a_question_mark_of_an_address_is_no_glob(pattern: str, glob: bool) -> None:
    assert has_wildcards(pattern) == glob


def test_a_list_names_files_and_their_bytes(config: dict, workplace: Path) -> None:
    (workplace / "list").write_text("data/one/a.jsonl\t40\ndata/two/b.jsonl\n")
    assert list(raw_files(config, "own", "train", "@list")) == [
        ("one.a", "data/one/a.jsonl", 40),
        ("two.b", "data/two/b.jsonl", 10**6),
    ]
    (workplace / "list").write_text("/disk/a.jsonl\t1\nhttp://host/b.jsonl\t2\n")
    assert [path for _, path, _ in raw_files(config, "own", "train", "@list")][1] == "http://host/b.jsonl"


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("none/*.jsonl", "datasets/own/corpus/train: no file matches 'none/.*"),
        ("@empty", "datasets/own/corpus/train: no file matches '@empty'"),
        ("@missing", "datasets/own/corpus/train: 'missing' cannot be read as a list of files"),
        ("@bad", "datasets/own/corpus/train: 'bad' cannot be read as a list of files .invalid literal"),
        ("https://host/*.jsonl", "datasets/own/corpus/train: 'https://host/.*' cannot be listed"),
    ],
)
def test_what_stands_for_no_file_is_refused_with_its_key(
    config: dict, workplace: Path, pattern: str, sentence: str
) -> None:
    (workplace / "empty").write_text("")
    (workplace / "bad").write_text("a.jsonl\t40 kB")
    with pytest.raises(InputError, match=sentence):
        list(raw_files(config, "own", "train", pattern))
