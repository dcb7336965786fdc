"""Records become documents or a reason; cuts lose nothing; a hash decides the split."""

import io
import itertools
import json

import pytest
from refusals import refused
from tiny_run import READING
from tokenised import call

import collect_text
from bimix.corpus.documents import Reader, Reading, cut_text, hash_text, is_within, lookup_field, reading_parser
from bimix.corpus.harvest import docstrings
from bimix.corpus.sources import EMPTY, Rejected, number_lines

DOMAINS = {"PileA": "A", "b": "b"}


def reader(rejects: float = 0.0, domain_field: str | None = None, domains: dict | None = None) -> Reader:
    return Reader(
        Reading(
            formats={".jsonl": "lines"}, text_field="text", document_megabytes=0.2, cut_characters=None, rejects=rejects
        ),
        domain_field,
        domains,
    )


def line(**record) -> bytes:
    return json.dumps(record).encode()


def test_bad_record_has_its_reason():
    for raw, reason in (
        (b'{"text": "x"', "invalid JSON"),
        (b'{"text": "x"} {"text": "y"}', "invalid JSON"),
        (b"[" * 100_000, "invalid JSON"),
        (b'{"text": "x", "n": ' + b"1" * 5000 + b"}", "invalid JSON"),
        (b'{"text": "\xff"}', "invalid UTF-8"),
        (b'{"text": "\xed\xa0\x80", "set": "b"}', "invalid UTF-8"),
        (line(set="b"), "missing field"),
        (line(text="x"), "missing field"),
        (b"17", "missing field"),
        (line(text=3, set="b"), "text is no string"),
        (line(text="\ud800", set="b"), "lone surrogate"),
        (line(text="x", set="C"), "unknown domain"),
        (line(text="x", set=["b"]), "unknown domain"),
        (line(text="x", set=None), "unknown domain"),
        (line(text="", set="b"), EMPTY),
    ):
        with pytest.raises(Rejected) as rejection:
            reader(0.0, "set", DOMAINS).parse(raw)
        assert rejection.value.reason == reason, raw[:80]
        assert "sys." not in str(rejection.value), "Python's own advice"


def test_a_field_may_pass_through_json_and_the_hash_is_of_the_text_alone():
    for meta in ({"set": {"name": "PileA"}}, json.dumps({"set": {"name": "PileA"}})):
        assert reader(0.0, "meta.set.name", DOMAINS).parse(line(text=" \0\r\n", meta=meta)) == (" \0\r\n", "A")
    for meta in ("", "no JSON", "[" * 100_000, "[]"):  # a string that is no object has no fields
        with pytest.raises(Rejected, match=r"no field 'meta\.set'"):
            lookup_field({"meta": meta}, "meta.set")
    # hash of the text alone decides
    keys = [hash_text(f"document {number}") for number in range(20_000)]
    chosen = [is_within(key[:8], 0.1) for key in keys]
    assert abs(sum(chosen) / len(keys) - 0.1) < 0.01
    assert not any(is_within(key[:8], 0) for key in keys)
    assert all(is_within(key[:8], 1) for key in keys)
    both = sum(first and is_within(key[8:], 0.1) for key, first in zip(keys, chosen, strict=True))
    assert abs(both / sum(chosen) - 0.1) < 0.03  # the second half of the hash knows nothing of the first


def test_lines_are_numbered_with_the_blank_ones_and_of_one_too_long_a_part_is_held():
    assert list(number_lines(io.BytesIO(b"a\r\n\n \t\nb"), "f", 9)) == [(1, b"a\r\n"), (4, b"b")]

    class Stream(io.BytesIO):
        def readline(self, limit):
            line = super().readline(limit)
            assert len(line) <= 11
            return line

    for end, size in itertools.product((b"", b"\n", b"\nlast\n"), (1, 9, 10, 11, 20, 35)):
        raw = b"first\n" + b"x" * size + end
        found = list(number_lines(Stream(raw), "f", 10))
        kept = {number: line for number, line in found if isinstance(line, bytes)}
        expected = dict(enumerate(raw.splitlines(keepends=True), 1))
        assert kept == {number: line for number, line in expected.items() if len(line) <= 10}
        assert [number for number, _ in found] == list(expected)
        assert all(line.reason == "too long" for number, line in found if number not in kept)


def test_share_of_rejects(tmp_path):
    file = tmp_path / "f.jsonl"
    file.write_bytes(b'{"text": "x"}\n' * 98 + b"no\n" + b'{"text": 1}\n' + b'{"text": ""}\n' * 50)
    enough, few = reader(0.02), reader(0.01)
    assert len(list(enough.read(str(file)))) == enough.kept == 98
    assert enough.reasons == {"invalid JSON": 1, "text is no string": 1, EMPTY: 50}
    assert enough.records == 150
    enough.check()
    list(few.read(str(file)))
    refused(r"2 of 150 records were rejected, more than the share 0.01 .*first is .*:99:", few.check)


def cut_slowly(text: str, limit: int) -> list[str]:
    """What `cut_text` promises, tried place by place from the limit down."""
    pieces, start = [], 0
    while len(text) - start > limit:
        ends = range(start + limit, start, -1)
        end = next((end for end in ends if text[end - 1] == "\n" or text[end] == " "), start + limit)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def test_every_short_text_is_cut_as_promised():
    texts = ["".join(letters) for size in range(8) for letters in itertools.product("x \n", repeat=size)]
    for text, limit in itertools.product(texts, range(1, 5)):
        assert cut_text(text, limit) == cut_slowly(text, limit), (text, limit)
    for text in ("é😀 " * 25, "word " * 30 + "x" * 33, "a b\nc  d\n\n" * 20):
        assert cut_text(text, 30) == cut_slowly(text, 30) and cut_text(text, None) == [text]


def test_a_setting_too_many_or_too_few_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text, sentence in (
        (json.dumps(READING | {"text_fields": "x"}), "text_fields"),
        (json.dumps({"text_field": "text"}), "formats: the key is missing"),
        ("{", "--reading"),
    ):
        with pytest.raises(SystemExit):
            reading_parser("").parse_args(["--shards", "s.jsonl", "--reading", text])
        assert sentence in capsys.readouterr().err


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


def test_what_cannot_be_harvested_is_told_and_docstrings_are_taken_alone(tmp_path):
    refused("'no-such-package' is not installed", harvest, tmp_path / "a.jsonl", package="no-such-package")
    refused("not 1000; name more of them or fewer megabytes", harvest, tmp_path / "a.jsonl", megabytes="1000")
    assert not list(tmp_path.iterdir())
    # docstrings alone
    source = '"""Module."""\n\ndef f():\n    """Of f:\n\n    indented.\n    """\n    return "no docstring"\n'
    assert docstrings(source) == "Module.\n\nOf f:\n\nindented."
    assert docstrings("print 'old'") == docstrings("\0") == ""
