"""Raw files of every kind give the same documents, from a disk or a server; listings."""

import codecs
import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import polars as pl
import pytest
import smart_open
from refusals import refused

from bimix.corpus import sources
from bimix.corpus.documents import Reader, Reading
from bimix.corpus.sources import list_files, write_field
from bimix.errors import InputError, masked, run

FORMATS = {".jsonl": "lines", ".parquet": "parquet", ".txt": "text"}
SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
RECORDS = [{"text": f"document {number} é\r\n", "meta": {"set": "ab"[number % 2]}} for number in range(3000)]
EXPECTED = [(record["text"], record["meta"]["set"].upper()) for record in RECORDS]


def open_reader(text="text", domain="meta.set", rejects=0.0, longest=10**7) -> Reader:
    settings = {"formats": FORMATS, "text_field": text, "document_megabytes": longest / 10**6, "rejects": 0.0}
    reader = Reader(Reading(**settings, cut_characters=None), domain, {"a": "A", "b": "B"} if domain else {"": "A"})
    reader.allowed = rejects
    return reader


def read(path: Path | str, text="text", **settings) -> list[tuple[str, str]]:
    reader = open_reader(text, **settings)
    documents = list(reader.read(str(path)))
    assert len(documents) == reader.kept
    reader.check()
    return documents


def pack(path: Path, content: bytes) -> bytes:
    """Write a file, packed as its ending says; return its bytes."""
    with smart_open.open(path, "wb") as file:
        file.write(content)
    return path.read_bytes()


def write_lines(path: Path) -> Path:
    pack(path, "".join(json.dumps(record) + "\n" for record in RECORDS).encode())
    return path


def test_lines_and_parquet(tmp_path):
    for ending in ("", ".gz", ".xz", ".zst"):
        assert read(write_lines(tmp_path / f"raw.jsonl{ending}")) == EXPECTED, ending
    for rows in (RECORDS, [record | {"meta": json.dumps(record["meta"])} for record in RECORDS]):
        pl.DataFrame(rows).with_columns(other=pl.lit(1)).write_parquet(tmp_path / "raw.parquet", row_group_size=700)
        assert read(tmp_path / "raw.parquet") == EXPECTED


def test_what_is_told_of_parquet_of_files_and_of_devices(tmp_path):
    path = tmp_path / "raw.parquet"
    pl.DataFrame({"text": ["a", None, "b"], "source": ["a", "a", "z"]}).write_parquet(path)
    refused(r"raw\.parquet:2: field 'text' holds NoneType", read, path, domain="source")
    assert read(path, domain="source", rejects=0.9) == [("a", "A")]
    path.write_bytes(path.read_bytes()[:-9])
    refused(r"raw\.parquet:1: the file breaks off or is damaged", read, path, domain="source")
    refused(
        r"raw\.csv\.gz has none of the endings .jsonl, .parquet, .txt; say in corpus", read, tmp_path / "raw.csv.gz"
    )
    refused(r"raw\.jsonl cannot be opened", read, tmp_path / "raw.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", tmp_path):
        refused(r"is no file; check corpus\.train", sources.open_stream, str(path))
    refused(r"/dev/zero is no file", sources.open_stream, "/dev/zero")


def test_a_column_that_a_parquet_file_lacks_is_named_whatever_is_allowed(tmp_path):
    path = tmp_path / "raw.parquet"
    for columns, text, lacking in (("content", "text", "text"), ("Text", "text", "text"), ("b", "a.text", "a")):
        pl.DataFrame({columns: ["x"]}).write_parquet(path)
        refused(f"no column '{lacking}', only {columns}:", read, path, text, domain=None, rejects=1.0)
    pl.DataFrame({"text": ["x"]}).write_parquet(path)
    refused("no column 'meta', only text:", read, path, rejects=1.0)


def test_a_pointer_of_git_lfs_and_a_packed_file_of_no_bytes_are_refused_and_empty_ones_named(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
    for ending in (".jsonl", ".txt", ".parquet", ".jsonl.gz", ".txt.zst"):
        (tmp_path / f"p{ending}").write_bytes(pointer)
        refused("is a pointer of git-lfs", read, tmp_path / f"p{ending}", domain=None, rejects=1.0)
    for ending in (".jsonl.gz", ".jsonl.zst", ".jsonl.xz", ".txt.gz"):
        (tmp_path / f"e{ending}").write_bytes(b"")
        refused("has 0 bytes", read, tmp_path / f"e{ending}", domain=None, rejects=1.0)
    reader = open_reader(domain=None, rejects=0.99)
    pl.DataFrame({"text": []}, schema={"text": pl.String}).write_parquet(tmp_path / "none.parquet")
    for name, content in (
        ("none.jsonl", b"\n\n"),
        ("none.txt", b""),
        ("one.jsonl", b'{"text": "x"}'),
        ("bad.jsonl", b"{"),
    ):
        (tmp_path / name).write_bytes(content)
    names = ["none.jsonl", "none.txt", "none.parquet", "one.jsonl", "bad.jsonl"]
    assert [text for name in names for text, _ in reader.read(str(tmp_path / name))] == ["x"]
    assert reader.empty == [str(tmp_path / name) for name in names[:3]]


def test_a_byte_order_mark_is_no_text(tmp_path):
    for name, content in (("m.jsonl", b'{"text": "x"}\n{"text": "\xef\xbb\xbfy"}'), ("m.txt", b"x\xef\xbb\xbfy")):
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + content)
    assert [text for text, _ in read(tmp_path / "m.jsonl", domain=None)] == ["x", "\ufeffy"]
    assert [text for text, _ in read(tmp_path / "m.txt", domain=None)] == ["x\ufeffy"]
    for ending in (".jsonl", ".txt"):  # a file of the mark alone
        (tmp_path / f"e{ending}").write_bytes(codecs.BOM_UTF8)
        assert read(tmp_path / f"e{ending}", domain=None) == []


def test_a_file_packed_in_parts_is_read_to_its_end(tmp_path):
    for ending, padding in ((".xz", b"\0" * 8), (".gz", b"\0"), (".zst", b"")):
        path = tmp_path / f"p.jsonl{ending}"
        part = pack(path, b'{"text": "x"}\n')
        path.write_bytes(part + part + padding)
        assert read(path, domain=None) == [("x", "A")] * 2, ending
        for damaged in (b"?" + part[1:], part[:-3], b"more"):
            path.write_bytes(part + damaged)
            refused("breaks off or is damaged here", read, path, domain=None)


def test_an_array_of_json_is_read_record_by_record(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "READ_BYTES", 50)  # so that records and characters are cut
    path = tmp_path / "raw.jsonl"
    for indent, mark in ((None, b""), (1, codecs.BOM_UTF8)):
        path.write_bytes(mark + json.dumps(RECORDS[:200], ensure_ascii=False, indent=indent).encode() + b"\n")
        assert read(path) == EXPECTED[:200]
        assert read(path, longest=60) == EXPECTED[:200]
    path.write_text("[]")
    assert read(path) == []
    path.write_text('\n \n[{"text": "x"}]')  # blank lines before it
    assert read(path, domain=None) == [("x", "A")]
    path.write_text('[{"text": "x", "meta": {"set": "a"}}, 3]')
    refused(r"raw\.jsonl:2: the record has no field 'text'", read, path)
    for content, words in (
        ('[{"text": "x"}, {"text": ', "record 2 of its array of JSON breaks off"),
        ('[{"text": "x"}]\n[{"text": "y"}]', "more follows its array"),
        (b'[{"text": "\xff"}]', "the array of JSON is not UTF-8"),
        ('[{"text": "x"}, ' + "[" * 100_000, "record 2 of its array of JSON breaks off, is too long"),
        (json.dumps([{"text": "x" * 500}]), "record 1 of its array of JSON breaks off, is too long"),
    ):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        refused(words, read, path, domain=None, longest=100)


def test_a_text_file_is_one_document(tmp_path):
    (tmp_path / "a b.txt").write_bytes("line\r\n\n日本\0".encode())
    assert read(tmp_path / "a b.txt", "a.b", domain=None) == [("line\r\n\n日本\0", "A")]
    (tmp_path / "c.txt").write_bytes(b"\xff")
    refused(r"c\.txt:1: the file is not UTF-8", read, tmp_path / "c.txt", domain=None)
    assert write_field("a.b.c", 1) == {"a": {"b": {"c": 1}}}


def test_a_record_too_long_is_told_and_the_others_are_read(tmp_path):
    for kind in ("raw.jsonl", "raw.jsonl.zst", "raw.parquet", "raw.txt"):
        path = tmp_path / kind
        texts = ["short", "x" * 300, "last"]
        if kind == "raw.txt":
            path.write_text(texts[1])
        elif kind == "raw.parquet":
            pl.DataFrame({"text": texts}).write_parquet(path)
        else:
            with smart_open.open(path, "wb") as file:
                file.write("".join(json.dumps({"text": text}) + "\n" for text in texts).encode())
        number = 1 if kind == "raw.txt" else 2
        with pytest.raises(
            InputError, match=rf"{kind}:{number}: the record is longer than 0.0002 MB; raise corpus.docu"
        ):
            read(path, domain=None, longest=200)
        assert [text for text, _ in read(path, domain=None, rejects=1.0, longest=200)] == texts[::2][: number * 2 - 2]
        assert "x" * 300 in [text for text, _ in read(path, domain=None, longest=400)]
    # of a row the text counts, in bytes, wherever it stands
    path = tmp_path / "nested.parquet"
    pl.DataFrame({"text": ["é" * 150, "é"], "doc": [{"text": "é" * 150}, {"text": "é"}]}).write_parquet(path)
    for field in ("text", "doc.text"):
        assert read(path, field, domain=None, rejects=1.0, longest=200) == [("é", "A")]
        assert len(read(path, field, domain=None, longest=300)) == 2


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; files called short break off, as by a broken connection, and of those called
    silent only the first line comes, while the connection lasts.
    """

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if "silent" in self.path:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"text": "a"}\n')
            self.wfile.flush()
            return self.rfile.read(1)
        content = Path(self.translate_path(self.path)).read_bytes() if "none" not in self.path else None
        if content is None:
            return self.send_error(404)
        part = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        start, end = 0, len(content)
        if part:
            start = int(part[1]) if part[1] else max(0, end - int(part[2]))
            end = min(end, int(part[2]) + 1) if part[1] and part[2] else end
        self.send_response(206 if part else 200)
        if part:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        return self.wfile.write(content[start : (start + end) // 2 if "short" in self.path else end])


@pytest.fixture
def server(tmp_path):
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_files_of_a_server_are_streamed(tmp_path, server):
    for ending in ("", ".zst"):
        write_lines(tmp_path / f"raw.jsonl{ending}")
        assert read(f"{server}/raw.jsonl{ending}") == EXPECTED
        write_lines(tmp_path / f"short.jsonl{ending}")
        refused(r"short\.jsonl.*: the file breaks off", read, f"{server}/short.jsonl{ending}")
        refused(r"none\.jsonl.* cannot be opened", read, f"{server}/none.jsonl{ending}")
    pl.DataFrame(RECORDS).write_parquet(tmp_path / "raw.parquet")
    assert read(f"{server}/raw.parquet") == EXPECTED
    refused(r"none\.parquet:1: the file breaks off or is damaged", read, f"{server}/none.parquet")


def test_a_server_that_falls_silent_is_given_up(monkeypatch, server):
    monkeypatch.setattr(sources, "SILENCE_SECONDS", 0.3)
    for name in ("silent.jsonl", "silent.txt"):
        refused("breaks off or is damaged.*timed out", read, f"{server}/{name}", domain=None)


LINES = b'{"text": "some words here"}\n' * 40
SIZES = {"data/a.jsonl": len(LINES), "data/b.jsonl": len(LINES), "data/c.txt": 7}


def test_a_store_lists_its_files():
    store = fsspec.filesystem("memory")
    for name in ("part1/b.jsonl", "part1/a.jsonl", "part2/a.jsonl", "part2/a.txt", "part2/deep/a.jsonl"):
        store.pipe(f"/corpus/{name}", LINES)
    found = list_files("memory://corpus/*/*.jsonl")
    names = [f"memory:///corpus/{name}" for name in ("part1/a.jsonl", "part1/b.jsonl", "part2/a.jsonl")]
    assert [(path.replace(":////", ":///"), size) for path, size in found] == [(name, len(LINES)) for name in names]
    assert len(list_files("memory://corpus/**/*.jsonl")) == 4
    assert list_files("memory://corpus/*.zst") == []
    for pattern, sentence in (
        ("http://127.0.0.1:9/*.jsonl", r"cannot be listed: a web server does not say what it has; name the files"),
        ("nowhere://x/*.jsonl", r"'nowhere://x/\*.jsonl' cannot be listed \(Protocol not known"),
    ):
        refused(sentence, list_files, pattern)


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub's interface as listing and reading a data set asks for."""

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/api/datasets/o/d/tree/main/data":
            content = [{"type": "file", "path": name, "size": size, "oid": "x"} for name, size in SIZES.items()]
        elif path == "/api/datasets/o/d/tree/main":
            content = [{"type": "directory", "path": "data", "size": 0, "oid": "x"}]
        else:
            content = {"id": "o/d", "sha": "0" * 40, "siblings": []}
        body = LINES if "/resolve/" in path else json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_a_data_set_of_the_hub_is_listed_and_read():
    code = """
from bimix.corpus.sources import list_files
from bimix.corpus.sources import read_records
for path, size in list_files("hf://datasets/o/d/data/*.jsonl"):
    print(path, size, sum(1 for _ in read_records(path, {".jsonl": "lines"}, ["text"], 1000)))
"""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"HF_ENDPOINT": address, "PYTHONPATH": str(SCRIPTS), "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        server.shutdown()
    assert done.stdout.splitlines() == [f"hf://datasets/o/d/data/{name}.jsonl {len(LINES)} 40" for name in "ab"], done


def test_an_address_loses_user_password_and_query(capsys, monkeypatch) -> None:
    for text, hidden in (
        ("https://me:secret@host/a.jsonl: the file", "https://***@host/a.jsonl: the file"),
        ("'https://host/a.jsonl?token=secret' is", "'https://host/a.jsonl?***' is"),
        ("(s3://key:se/cret@bucket/a?x=1&y=2, hf://datasets/a/b)", "(s3://***@bucket/a?*** hf://datasets/a/b)"),
        ("https://host:8080/a@b.jsonl", "https://host:8080/a@b.jsonl"),
        ("s3://bucket/a@b.jsonl", "s3://bucket/a@b.jsonl"),
        ("data/a?b@c.jsonl", "data/a?b@c.jsonl"),
    ):
        assert masked(text) == hidden

    def main():
        raise InputError("https://me:secret@host/a?token=secret cannot be opened.")

    monkeypatch.setattr(sys, "argv", ["script.py"])
    assert run(main) == 1
    assert capsys.readouterr().err == "script.py: error: https://***@host/a?*** cannot be opened.\n"
