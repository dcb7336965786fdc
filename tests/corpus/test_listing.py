"""Globs far away: what a store lists becomes shards, what cannot be listed is told."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import pytest

from bimix.corpus.sources import list_files
from bimix.errors import InputError

RECORDS = b'{"text": "some words here"}\n' * 40
SIZES = {"data/a.jsonl": len(RECORDS), "data/b.jsonl": len(RECORDS), "data/c.txt": 7}
SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"


def test_a_store_lists_its_files():
    store = fsspec.filesystem("memory")
    for name in ("part1/b.jsonl", "part1/a.jsonl", "part2/a.jsonl", "part2/a.txt", "part2/deep/a.jsonl"):
        store.pipe(f"/corpus/{name}", RECORDS)
    found = list_files("memory://corpus/*/*.jsonl")
    names = [f"memory:///corpus/{name}" for name in ("part1/a.jsonl", "part1/b.jsonl", "part2/a.jsonl")]
    assert [(path.replace(":////", ":///"), size) for path, size in found] == [(name, len(RECORDS)) for name in names]
    assert len(list_files("memory://corpus/**/*.jsonl")) == 4
    assert list_files("memory://corpus/*.zst") == []


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("http://127.0.0.1:9/*.jsonl", r"cannot be listed: a web server does not say what it has; name the files"),
        ("nowhere://x/*.jsonl", r"'nowhere://x/\*.jsonl' cannot be listed \(Protocol not known"),
    ],
)
def test_what_cannot_be_listed_is_told(pattern, sentence):
    with pytest.raises(InputError, match=sentence):
        list_files(pattern)


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
        body = RECORDS if "/resolve/" in path else json.dumps(content).encode()
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
    assert done.stdout.splitlines() == [f"hf://datasets/o/d/data/{name}.jsonl {len(RECORDS)} 40" for name in "ab"], done
