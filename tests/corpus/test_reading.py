"""How a corpus is read, as one setting of all scripts that read it."""

import json
from pathlib import Path

import pytest
from tiny_run import READING

from bimix.corpus.documents import Reader, Reading, reading_parser
from bimix.errors import InputError
from bimix.plan.dataset import Dataset
from bimix.plan.shards import READING as SETTINGS
from bimix.plan.shards import reading


def test_what_the_config_gives_is_what_the_scripts_read() -> None:
    corpus = READING | {"train": "x", "shard_megabytes": 1}
    planned = reading(Dataset({"datasets": {"own": {"corpus": corpus}}}, "own"))
    assert planned == READING and tuple(READING) == SETTINGS
    options = reading_parser("").parse_args(["--shards", "s.jsonl", "--reading", json.dumps(planned)])
    assert options.shards == Path("s.jsonl") and options.reading == Reading(**READING)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (json.dumps(READING | {"text_fields": "x"}), "text_fields"),
        (json.dumps({"text_field": "text"}), "missing 4 required"),
        ("{", "does not say how a corpus is read"),
    ],
)
def test_a_setting_too_many_or_too_few_is_refused(capsys: pytest.CaptureFixture[str], text: str, sentence: str) -> None:
    with pytest.raises(SystemExit):
        reading_parser("").parse_args(["--shards", "s.jsonl", "--reading", text])
    assert sentence in capsys.readouterr().err


def test_documents_are_read_cut_and_bounded(tmp_path: Path) -> None:
    file = tmp_path / "raw.jsonl"
    file.write_text('{"text": "some words", "set": "x"}\n{"text": "more", "set": "y"}\n')
    cut = Reading(**READING | {"cut_characters": 6})
    documents = [text for text, _ in Reader(cut).read(str(file))]
    assert [cut.pieces(text) for text in documents] == [["some", " words"], ["more"]]
    named = Reader(cut, "set", {"x": "one", "y": "two"})
    assert [domain for _, domain in named.read(str(file))] == ["one", "two"]
    small = Reading(**READING | {"document_megabytes": 3e-5})
    with pytest.raises(InputError, match=r"raw.jsonl:1: .*longer"):
        list(Reader(small).read(str(file)))
