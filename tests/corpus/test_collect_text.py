"""The harvest is text of the named kind, without duplicates, the same each time."""

import json

import pytest
from tokenised import call

import collect_text
from bimix.corpus.harvest import docstrings
from bimix.errors import InputError


def harvest(path, *, kind="files", package="numpy", suffix=".pyi", megabytes="0.05"):
    call(collect_text, kind=kind, packages=package, suffixes=suffix, megabytes=megabytes, out=path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_harvest(tmp_path):
    for kind, suffix in (("files", ".pyi"), ("docstrings", ".py"), ("descriptions", ".md")):
        megabytes = "0.01" if kind == "descriptions" else "0.05"
        records = harvest(tmp_path / "a.jsonl", kind=kind, suffix=suffix, megabytes=megabytes)
        texts = [record["text"] for record in records]
        assert len(set(texts)) == len(texts)
        assert all(text.strip() for text in texts)
        assert len({record["source"] for record in records}) == len(records)  # a file is a document
        size = sum(len(text.encode()) for text in texts)
        assert 0.9 * float(megabytes) * 1e6 <= size <= float(megabytes) * 1e6 + 200
        harvest(tmp_path / "b.jsonl", kind=kind, suffix=suffix, megabytes=megabytes)
        assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match="'no-such-package' is not installed"):
        harvest(tmp_path / "a.jsonl", package="no-such-package")
    with pytest.raises(InputError, match="not 1000; name more of them or fewer megabytes"):
        harvest(tmp_path / "a.jsonl", megabytes="1000")
    assert not list(tmp_path.iterdir())


def test_docstrings_alone():
    source = '"""Module."""\n\ndef f():\n    """Of f:\n\n    indented.\n    """\n    return "no docstring"\n'
    assert docstrings(source) == "Module.\n\nOf f:\n\nindented."
    assert docstrings("print 'old'") == docstrings("\0") == ""
