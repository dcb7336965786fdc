"""One pass over raw files: nothing lost, nothing half-written, no text is a special token."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from tokenised import END, LABELS, NEOX, flags, reading, tokenize, words, write_records
from tokenizers import Tokenizer

import tokenize_shard
from bimix.corpus import encoders, shards, stream
from bimix.corpus.documents import cut_text, hash_text, split_document
from bimix.corpus.permutation import permute
from bimix.digests import digest_file, stamp_file


def in_order(path: Path | str, length: int, dtype: str = "<u2") -> np.ndarray:
    """The ids of a file, its rows put back into the order of the text."""
    rows = np.fromfile(path, dtype).reshape(-1, length)
    restored = np.empty_like(rows)
    restored[permute(np.arange(len(rows)), len(rows), stream.ROWS_KEY)] = rows
    return restored.ravel()


def odd_texts(generator: random.Random) -> list[str]:
    kinds = [
        lambda: "",
        lambda: "x",
        lambda: "\0",
        lambda: "line\r\nline\r\n\r\n",
        lambda: "  " * generator.randrange(1, 40),
        lambda: f"{END} and {END}{END}",
        lambda: "word " * generator.randrange(1, 300) + "日本語😀é",
        lambda: "".join(map(chr, generator.choices([*range(1, 0xD800), *range(0xE000, 0x11000)], k=50))),
    ]
    texts = [generator.choice(kinds)() for _ in range(300)]
    return [*texts, "huge " * 40_000, *texts[:20]]


@pytest.mark.parametrize(("suffix", "end", "cut"), [("", "\n", None), (".gz", "\r\n", 100), (".zst", "\n \n", 1)])
def test_nothing_is_lost(tmp_path, tokenizer, suffix, end, cut):
    generator = random.Random(suffix)
    texts = odd_texts(generator) if cut != 1 else odd_texts(generator)[:60]
    good = [{"text": text, "meta": {"set": generator.choice(list(LABELS.values()))}} for text in texts]
    bad = [
        {"text": "x", "meta": {"set": "unknown"}},
        {"text": "\ud800", "meta": {"set": "c"}},
        {"meta": 1},
        {"text": 1},
        [],
    ]
    records = good + bad
    generator.shuffle(records)
    files = [write_records(tmp_path / f"raw{part}.jsonl{suffix}", records[part::2], end) for part in range(2)]
    reports = tokenize(tmp_path, files, tokenizer, reading=reading(cut_characters=cut, rejects=0.5))

    streams: dict[tuple[str, str], list[str]] = {}
    names = {label: domain for domain, label in LABELS.items()}
    for record in (record for record in records[0::2] + records[1::2] if record in good and record["text"]):
        parts = split_document(record["text"], hash_text(record["text"]), 0.3, 20_000)
        for split, part in zip(("train", "validation"), parts, strict=True):
            own = streams.setdefault((split, names[record["meta"]["set"]]), [])
            own += cut_text(part, cut) if part else []

    reference = Tokenizer.from_file(str(tokenizer))
    reference.encode_special_tokens = True
    for split, report in reports.items():
        account = report["records"]
        assert account["in"] == len(records) == account["kept"] + sum(account["rejected"].values())
        assert account["kept"] == sum(bool(text) for text in texts)
        assert set(report["domains"]) == {domain for own, domain in streams if own == split}
        for domain, found in report["domains"].items():
            documents = streams[split, domain]
            expected = [token for text in documents for token in [*reference.encode(text).ids, 0]]
            stem = str(tmp_path / split / "s" / domain)
            rows = in_order(f"{stem}.bin", 16)
            assert found["documents"] == len(documents)
            assert found["tokens"] == len(expected) == found["tokens_in_rows"] + found["dropped_tail"]
            assert len(rows) == found["tokens_in_rows"] == 16 * found["rows"] and found["dropped_tail"] < 16
            assert rows.tolist() == expected[: len(rows)]
            assert (rows == 0).sum() == expected[: len(rows)].count(0) <= len(documents)
            assert pl.read_parquet(f"{stem}.unigrams.parquet")["n"].sum() == len(rows)
            assert pl.read_parquet(f"{stem}.bigrams.parquet")["n"].sum() == 15 * found["rows"]
            sample = [json.loads(line)["text"] for line in Path(f"{stem}.sample.jsonl").read_bytes().splitlines()]
            assert sample == sorted(documents, key=hash_text)[:5]
    assert not list(tmp_path.rglob("*.partial")) + list(tmp_path.rglob("*.texts"))


NEEDS_GIGATOKEN = pytest.mark.skipif(
    importlib.util.find_spec("gigatoken") is None, reason="the optional backend gigatoken is not installed"
)


@NEEDS_GIGATOKEN
@pytest.mark.parametrize("which", ["own", "neox"])
def test_backends_write_the_same_bytes(tmp_path, tokenizer, which):
    if which == "neox" and not NEOX.exists():
        pytest.skip("the GPT-NeoX tokenizer is not at ../shared/data/tokenizer")
    texts = [text for text in odd_texts(random.Random(7)) if text]
    file = write_records(tmp_path / "raw.jsonl", [{"text": text} for text in texts])
    for backend in ("tokenizers", "gigatoken"):
        only = {"domains": "c", "domain-field": "null", "backend": backend}
        report = tokenize(tmp_path / backend, [file], NEOX if which == "neox" else tokenizer, **only)["train"]
        assert report["encoder"]["backend"] == backend
    assert report["encoder"]["compared_tokens"] > 1000
    for path in (tmp_path / "tokenizers" / "train" / "s").iterdir():
        if path.name != "report.json":
            assert path.read_bytes() == (tmp_path / "gigatoken" / "train" / "s" / path.name).read_bytes()


@NEEDS_GIGATOKEN
def test_a_backend_that_differs_is_not_used(tmp_path, tokenizer, monkeypatch):
    def wrong(definition):
        encode = encoders.reference_encoder(definition)
        return lambda texts: [ids[::-1] for ids in encode(texts)]

    monkeypatch.setitem(encoders.BACKENDS, "gigatoken", wrong)
    file = write_records(tmp_path / "raw.jsonl", [{"text": f"text {number}"} for number in range(50)])
    only = {"domains": "c", "domain-field": "null"}
    tokenize(tmp_path / "a", [file], tokenizer, **only)
    report = tokenize(tmp_path / "b", [file], tokenizer, backend="gigatoken", **only)["train"]
    assert report["encoder"]["backend"] == "tokenizers"
    assert "gigatoken: it gives other ids for" in report["encoder"]["refused"]
    assert (tmp_path / "a/train/s/c.bin").read_bytes() == (tmp_path / "b/train/s/c.bin").read_bytes()


def test_counts_that_were_put_aside_are_the_same(tmp_path, tokenizer, monkeypatch):
    texts = [text for text in odd_texts(random.Random(9)) if text]
    records = [{"text": text, "meta": {"set": "bc"[len(text) % 2].replace("b", "b.v2")}} for text in texts]
    file = write_records(tmp_path / "raw.jsonl", records)
    tokenize(tmp_path / "whole", [file], tokenizer)
    monkeypatch.setattr("bimix.corpus.counts.BLOCK", 64)
    monkeypatch.setattr(stream, "MOST_PAIRS", 200)
    monkeypatch.setattr(stream, "BATCH_CHARACTERS", 500)
    held, put_aside = [], stream.Stream.put_aside

    def watched(own):
        put_aside(own)
        held.append(own.aside[-1].name)

    monkeypatch.setattr(stream.Stream, "put_aside", watched)
    tokenize(tmp_path / "parts", [file], tokenizer)
    assert len(set(held)) > 10
    for path in (tmp_path / "whole").rglob("*.parquet"):
        assert pl.read_parquet(path).equals(pl.read_parquet(tmp_path / "parts" / path.relative_to(tmp_path / "whole")))
    assert {path.name for path in tmp_path.rglob("parts/**/*.*")} == {
        path.name for path in tmp_path.rglob("whole/**/*.*")
    }


def test_rows_that_wait_are_bounded_over_all_domains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_WAITING", 100)
    ids = np.arange(63, dtype=np.uint32)  # and the end of text

    def add(**documents: np.ndarray) -> list[int]:
        encoding = Future()
        encoding.set_result(list(documents.values()))
        streams.write([stream.Piece("train", domain, "", bytes(16)) for domain in documents], encoding)
        return [own.counter.waiting for own in streams.streams.values()]

    with stream.Streams({"train": tmp_path}, 299, str, 8, 300, 0) as streams:
        assert add(a=ids, b=ids[:39]) == [0, 40]  # 104: the larger is counted
        assert add(a=ids[:55]) == [56, 40]
        counted = [own.counter.pairs()[2].sum() for own in streams.streams.values()]
        assert counted == [(8 + 7) * 7, 5 * 7] and streams.tokens == 64 + 40 + 56


def test_rows_of_a_file_are_permuted_and_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = []
    monkeypatch.setattr(stream, "permute", lambda rows, *more: placed.append(len(rows)) or permute(rows, *more))
    for count, together in ((0, 64), (7, 1), (7, 64), (1000, 64), (1000, 2**24)):
        monkeypatch.setattr(stream, "WRITTEN_TOGETHER", together)  # less than a row, two rows, or all of them
        placed.clear()
        with stream.Stream(tmp_path / "c", 16, 300, 0) as written:
            for part in np.array_split(np.arange(16 * count, dtype=np.uint32) // 16 % 300, 5):
                written.write([(stream.Piece("train", "c", "", bytes(16)), part[:-1])], part[-1:], str)
            written.finish()
        assert sum(placed) == count and max(placed, default=1) == min(max(together // 32, 1), count or 1)
        rows = np.fromfile(tmp_path / "c.bin", "<u2")
        assert len(rows) == 16 * written.report()["rows"] == 16 * count
        assert written.report()["digest"] == digest_file(tmp_path / "c.bin")
        assert np.array_equal(in_order(tmp_path / "c.bin", 16), np.arange(16 * count) // 16 % 300)
        if count == 1000:
            head = permute(np.arange(count), count, stream.ROWS_KEY)[:100]  # rows of the text at the file's head
            assert np.bincount(head // 100, minlength=10).min() >= 4
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            f"c.{ending}" for ending in ("bigrams.parquet", "bin", "sample.jsonl", "unigrams.parquet")
        ]


def test_ids_take_four_bytes_above_65536(tmp_path):
    for size, dtype in ((65_534, "<u2"), (65_535, "<u4")):
        ids = np.random.default_rng(1).integers(0, size, 1000).tolist() + [size - 1] * 8
        file = write_records(tmp_path / "raw.jsonl", [{"text": " ".join(map(str, ids))}])
        domain = {"domains": "c", "domain-field": "null", "split": "train"}
        report = tokenize(tmp_path, [file], words(tmp_path / "words.json", size), **domain)
        assert report["train"]["domains"]["c"]["dtype"] == np.dtype(dtype).name
        rows = in_order(tmp_path / "train" / "s" / "c.bin", 16, dtype)
        assert rows.tolist() == [*ids, size][: len(rows)] and len(rows) == 1008


def test_text_never_writes_the_end_of_text(tmp_path, tokenizer):
    for special in (True, False):
        definition = json.loads(tokenizer.read_text())
        definition["added_tokens"][0]["special"] = special
        definition["added_tokens"].append(
            definition["added_tokens"][0] | {"id": 300, "content": "    ", "special": False}
        )
        changed = tmp_path / "tokenizer.json"
        changed.write_text(json.dumps(definition))
        file = write_records(tmp_path / "raw.jsonl", [{"text": f"a{END}b    c {END}"}] * 10)
        given = {"domains": "c", "domain-field": "null", "split": "train", "sequence-length": "2"}
        tokenize(tmp_path, [file], changed, **given)
        rows = np.fromfile(tmp_path / "train" / "s" / "c.bin", dtype="<u2")
        assert (rows == 0).sum() == 10
        assert (rows == 300).sum() == 10  # ordinary added tokens, as GPT-NeoX has for runs of spaces, still work


def test_bad_input_stops_and_leaves_nothing(tmp_path, tokenizer):
    records = [{"text": f"{number} {random.random()}", "meta": {"set": "c"}} for number in range(5000)]
    cut = write_records(tmp_path / "raw.jsonl.zst", records).read_bytes()[:-200]
    for name, content, sentence in (
        ("raw.jsonl", b'{"text": "x", "meta": {"set": "c"}}\n{"text": "y', r"raw\.jsonl:2: the line is not JSON"),
        ("raw.jsonl", b'{"text": "x", "meta": {"set": "z"}}\n', r"raw\.jsonl:1: .*'z', none of 'Gutenberg_"),
        ("raw.jsonl.zst", cut, r"raw\.jsonl\.zst:\d+: the file breaks off"),
        ("raw.jsonl.zst", b"no zstandard", r"raw\.jsonl\.zst:1: the file breaks off or is damaged"),
        ("raw.jsonl.gz", b"no gzip", r"raw\.jsonl\.gz:1: the file breaks off or is damaged"),
    ):
        (tmp_path / name).write_bytes(content)
        refused(sentence, tokenize, tmp_path, [tmp_path / name], tokenizer)
        assert {path.name.split(".")[0] for path in tmp_path.rglob("*") if path.is_file()} == {"raw", "shards"}


def test_a_killed_job_leaves_no_output_and_the_next_one_no_trace(tmp_path, tokenizer):
    records = [{"text": f"document {number} " * 20, "meta": {"set": "c"}} for number in range(1000)]
    file = write_records(tmp_path / "raw.jsonl", records)
    tokenize(tmp_path / "whole", [file], tokenizer)
    large = tmp_path / "large.jsonl"
    large.write_bytes(file.read_bytes() * 200)  # the job is still reading it when it is killed
    arguments = flags(tmp_path / "killed", [large], tokenizer)
    code = (
        "import tokenize_shard; from bimix.corpus import stream; stream.BATCH_CHARACTERS = 9999; tokenize_shard.main()"
    )
    folder = {"PYTHONPATH": str(Path(tokenize_shard.__file__).parent)}
    job = subprocess.Popen([sys.executable, "-c", code, *arguments], env=os.environ | folder)
    while not any(path.stat().st_size for path in tmp_path.rglob("killed/*/.s.*.partial/c.rows")):
        assert job.poll() is None
        time.sleep(0.01)
    job.kill()
    assert job.wait() == -signal.SIGKILL
    assert list(tmp_path.rglob("killed/*/.s.*.partial"))
    assert not list(tmp_path.rglob("killed/*/s"))
    large.write_bytes(file.read_bytes())
    tokenize(tmp_path / "killed", [large], tokenizer)
    left = {path.relative_to(tmp_path / "killed") for path in tmp_path.rglob("killed/**/*")}
    assert left == {path.relative_to(tmp_path / "whole") for path in tmp_path.rglob("whole/**/*")}
    for path in tmp_path.rglob("whole/*/s/c.*"):
        assert path.read_bytes() == (tmp_path / "killed" / path.relative_to(tmp_path / "whole")).read_bytes()


def test_wrong_settings_are_told(tmp_path, tokenizer):
    file = write_records(tmp_path / "raw.jsonl", [{"text": "x"}])
    refused(r"no token '</s>'; set end_of_text", tokenize, tmp_path, [file], tokenizer, **{"end-of-text": "</s>"})


def test_the_raw_files_are_recorded_as_they_were_read(tmp_path, tokenizer, monkeypatch):
    record = {"text": "The a of as;", "meta": {"set": "c"}}
    files = [write_records(tmp_path / name, [record] * 40) for name in ("one.jsonl", "two.jsonl.gz")]
    files.append(write_records(tmp_path / "empty.jsonl", []))
    reports = tokenize(tmp_path / "out", files, tokenizer)
    expected = {
        str(path): {"bytes": path.stat().st_size, "digest": digest_file(path), "stamp": stamp_file(path)}
        for path in files
    }
    assert reports["train"]["raw"] == reports["validation"]["raw"] == expected
    assert reports["train"]["without_text"] == [str(tmp_path / "empty.jsonl")]

    def growing(path: Path) -> str:
        if path.suffix == ".jsonl":  # an empty line more is no damage, wherever the reading is
            with path.open("ab") as file:
                file.write(b"\n")
        return digest_file(path)

    monkeypatch.setattr(shards, "digest_file", growing)
    refused(r"one\.jsonl was written to while it was read", tokenize, tmp_path / "again", files, tokenizer)
    assert not (tmp_path / "again/train/s").exists()


class Counting:
    """Encodes each text as five ids from its number on, in batches of two."""

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        return [np.arange(1, 6, dtype=np.uint32) + int(text) for text in texts]


def test_an_error_of_the_thread_that_writes_ends_the_pass(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(stream, "BATCH_CHARACTERS", 2)
    calls, taken = [], []

    def full(*given: object) -> None:
        calls.append(given)
        if len(calls) == 3:
            raise OSError("No space left on device")

    def pieces() -> Iterator[stream.Piece]:
        for number in range(18):
            taken.append(number)
            yield stream.Piece("train", "ab"[number % 2], str(number // 2), bytes(16))

    monkeypatch.setattr(stream.Streams, "write", full)
    with (
        pytest.raises(OSError, match="No space left"),
        stream.Streams({"train": tmp_path}, 299, str, 4, 300, 2) as streams,
    ):
        stream.fill(streams, pieces(), Counting())
    assert 3 <= len(calls) <= 5 and len(taken) <= 12
    assert all(own.unordered.closed for own in streams.streams.values())
