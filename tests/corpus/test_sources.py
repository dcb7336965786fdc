"""Raw files of every kind give the same documents, from a disk or from a server.

Genuine records are understood.
"""

import functools
import http.server
import json
import lzma
import os
import re
import threading
from pathlib import Path

import polars as pl
import pytest
import smart_open

from bimix.corpus import sources
from bimix.corpus.documents import Reader, Reading
from bimix.corpus.sources import write_field
from bimix.errors import InputError

FORMATS = {".jsonl": "lines", ".parquet": "parquet", ".txt": "text"}
DATA = Path(__file__).parents[2].parent / "shared" / "data"
RECORDS = [{"text": f"document {number} é\r\n", "meta": {"set": "ab"[number % 2]}} for number in range(3000)]
EXPECTED = [(record["text"], record["meta"]["set"].upper()) for record in RECORDS]


def read(
    path: Path | str, text="text", domain="meta.set", domains=None, rejects=0.0, longest=10**7
) -> list[tuple[str, str]]:
    reader = Reader(Reading(FORMATS, text, longest / 10**6, None, rejects), domain, domains or {"a": "A", "b": "B"})
    documents = list(reader.read(str(path)))
    assert len(documents) == reader.kept
    reader.rejects.check()
    return documents


def write_lines(path: Path) -> Path:
    raw = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    if path.suffix == ".xz":
        path.write_bytes(lzma.compress(raw))
    else:
        with smart_open.open(path, "wb") as file:
            file.write(raw)
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_lines(tmp_path, ending):
    assert read(write_lines(tmp_path / f"raw.jsonl{ending}")) == EXPECTED


@pytest.mark.parametrize("as_string", [False, True])
def test_parquet(tmp_path, as_string):
    rows = [record | {"meta": json.dumps(record["meta"])} for record in RECORDS] if as_string else RECORDS
    pl.DataFrame(rows).with_columns(other=pl.lit(1)).write_parquet(tmp_path / "raw.parquet", row_group_size=700)
    assert read(tmp_path / "raw.parquet") == EXPECTED


def test_faults_of_parquet_are_told(tmp_path):
    path = tmp_path / "raw.parquet"
    pl.DataFrame({"text": ["a", None, "b"], "source": ["a", "a", "z"]}).write_parquet(path)
    with pytest.raises(InputError, match=r"raw\.parquet:2: field 'text' holds NoneType"):
        read(path, domain="source")
    with pytest.raises(InputError, match=r"raw\.parquet:1: .*no field 'content'"):
        read(path, text="content", domain="source")
    assert read(path, domain="source", rejects=0.9) == [("a", "A")]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"raw\.parquet:1: the file is damaged"):
        read(path, domain="source")


def test_a_text_file_is_one_document(tmp_path):
    (tmp_path / "a b.txt").write_bytes("line\r\n\n日本\0".encode())
    assert read(tmp_path / "a b.txt", "a.b", None, {"": "A"}) == [("line\r\n\n日本\0", "A")]
    (tmp_path / "c.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"c\.txt:1: the file is not UTF-8"):
        read(tmp_path / "c.txt", "text", None, {"": "A"})
    (tmp_path / "d.txt").write_bytes(b"")
    assert read(tmp_path / "d.txt", "text", None, {"": "A"}) == []
    assert write_field("a.b.c", 1) == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize("kind", ["raw.jsonl", "raw.jsonl.zst", "raw.parquet", "raw.txt"])
def test_a_record_too_long_is_told_and_the_others_are_read(tmp_path, kind):
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
    with pytest.raises(InputError, match=rf"{kind}:{number}: the record is longer than 0.0002 MB; raise corpus.docu"):
        read(path, "text", None, {"": "A"}, longest=200)
    assert [text for text, _ in read(path, "text", None, {"": "A"}, rejects=1.0, longest=200)] == texts[::2][
        : number * 2 - 2
    ]
    assert "x" * 300 in [text for text, _ in read(path, "text", None, {"": "A"}, longest=400)]


def test_unknown_ending_and_missing_file_are_told(tmp_path):
    with pytest.raises(InputError, match=r"raw\.csv\.gz has none of the endings .jsonl, .parquet, .txt; say in corpus"):
        read(tmp_path / "raw.csv.gz")
    with pytest.raises(InputError, match=r"raw\.jsonl cannot be opened"):
        read(tmp_path / "raw.jsonl")


def test_a_pipe_or_a_device_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", tmp_path):
        with pytest.raises(InputError, match=r"is no file; check corpus\.train"):
            sources.open_stream(str(path))
    with pytest.raises(InputError, match=r"/dev/zero is no file"):
        sources.open_stream("/dev/zero")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; of files that are called short it sends a part only, as
    a broken connection does.
    """

    def log_message(self, *arguments):
        pass

    def do_GET(self):
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
        self.wfile.write(content[start : (start + end) // 2 if "short" in self.path else end])
        return None


@pytest.fixture
def server(tmp_path):
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_files_of_a_server_are_streamed(tmp_path, server, ending):
    write_lines(tmp_path / f"raw.jsonl{ending}")
    assert read(f"{server}/raw.jsonl{ending}") == EXPECTED
    write_lines(tmp_path / f"short.jsonl{ending}")
    with pytest.raises(InputError, match=r"short\.jsonl.*: the file breaks off"):
        read(f"{server}/short.jsonl{ending}")
    with pytest.raises(InputError, match=r"none\.jsonl.* cannot be opened"):
        read(f"{server}/none.jsonl{ending}")


class Silent(http.server.BaseHTTPRequestHandler):
    """Sends a first line, and then nothing for as long as the connection lasts."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if "begun" in self.path:
            self.wfile.write(b'{"text": "a"}\n')
            self.wfile.flush()
        self.rfile.read(1)


@pytest.mark.parametrize("name", ["begun.jsonl", "begun.txt"])
def test_a_server_that_falls_silent_is_given_up(monkeypatch, name):
    monkeypatch.setattr(sources, "SILENCE_SECONDS", 0.3)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match=r"breaks off or is damaged.*timed out"):
            read(f"http://127.0.0.1:{server.server_address[1]}/{name}", "text", None, {"": "A"})
        server.shutdown()


def test_parquet_of_a_server(tmp_path, server):
    pl.DataFrame(RECORDS).write_parquet(tmp_path / "raw.parquet")
    assert read(f"{server}/raw.parquet") == EXPECTED
    with pytest.raises(InputError, match=r"none\.parquet:1: the file is damaged here or cannot be read"):
        read(f"{server}/none.parquet")


NATIVE = {
    "arxiv.jsonl": None,
    "stack_exchange.jsonl": None,
    "dolma_cc_en_head-0091.jsonl": "source",
    "redpajama-c4-refined.jsonl": None,
    "the-pile-nih-refined.jsonl": None,
    "the-pile-uspto-refined.jsonl": None,
}


@pytest.mark.skipif(
    not (DATA / "native_samples").exists(), reason="no genuine records at ../shared/data/native_samples"
)
@pytest.mark.parametrize("name", NATIVE)
def test_genuine_records(name):
    path = DATA / "native_samples" / name
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    domains = {"common-crawl": "x", "cc_en_head": "x"}
    documents = read(path, "text", NATIVE[name], domains if NATIVE[name] else {"": "x"})
    assert documents == [(line["text"], "x") for line in lines if line["text"]]


@pytest.mark.skipif(not (DATA / "pile22").exists(), reason="no stand-ins at ../shared/data/pile22")
@pytest.mark.parametrize("name", ["NIH_ExPorter", "Gutenberg_(PG-19)"])
def test_stand_ins_of_the_pile(name):
    documents = read(
        DATA / "pile22" / f"{name}.jsonl.zst", "text", "meta.pile_set_name", {name.replace("_", " ", 1): "x", name: "x"}
    )
    assert documents
