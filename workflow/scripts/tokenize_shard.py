"""Tokenise the raw files of one shard in one pass: rows of token ids, n-gram counts and a sample, per split and domain.

manifest of the shards, raw files of one, tokenizer.json -> a folder per split of {domain}.bin (rows one after the other,
little-endian ids), {domain}.unigrams.parquet (token, n), {domain}.bigrams.parquet (first, second, n),
{domain}.sample.jsonl (the texts of smallest hash) and report.json (what came in, was kept, rejected, dropped)
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer

from bimix.addresses import masked
from bimix.data.documents import Reader, hash_text, is_within, split_hashes
from bimix.data.encoders import BACKENDS, Encoder
from bimix.data.packing import Packer, id_type
from bimix.data.reading import Reading, reading_parser
from bimix.data.samples import Smallest
from bimix.data.shards import read_shards
from bimix.entropy.counts import NgramCounter, add_up
from bimix.errors import InputError, run
from bimix.outputs import replacing_folder, write_json, write_pieces
from bimix.runs.artefacts import digest_file

BATCH_CHARACTERS = 2**20  # texts encoded together: enough for all threads, some 100 MB of encodings at most
MOST_PAIRS = 2**23  # distinct pairs in memory, of all domains together; some 50 bytes each while they are merged
SPLITS = ("train", "validation")
Document = tuple[str, str, str, bytes]  # split, domain, text, hash


def main(argv: list[str] | None = None) -> None:
    parser = reading_parser(__doc__)
    parser.add_argument("--shard", required=True, help="name of the shard to read")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--backend", choices=BACKENDS, required=True, help="what encodes; the ids are the same")
    parser.add_argument("--end-of-text", required=True, help="token that is put after each document")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens in a row")
    parser.add_argument(
        "--domain-field", type=json.loads, required=True, help="dotted name, JSON; null: one domain only"
    )
    parser.add_argument("--domains", nargs="+", required=True, help="domains that these files may hold")
    parser.add_argument(
        "--labels", type=json.loads, required=True, help="{domain: value of its field}, where it differs"
    )
    parser.add_argument("--validation-share", type=float, required=True, help="share held out of a shard split by hash")
    parser.add_argument(
        "--held-out", type=Path, nargs="*", required=True, help="hashes of documents that are left out of training"
    )
    parser.add_argument("--sample-documents", type=int, required=True, help="size of the sample of each domain")
    parser.add_argument("--threads", type=int, required=True, help="threads of the tokenizer")
    parser.add_argument("--train", type=Path, required=True, help="folder to write")
    parser.add_argument("--validation", type=Path, required=True, help="folder to write")
    options = parser.parse_args(argv)
    with options.shards.open(encoding="utf-8") as lines:
        shard = read_shards(lines)[options.shard]
    domain_field = None if shard.domain else options.domain_field
    if domain_field is None and len(options.domains) != 1:
        raise InputError("Without a domain field the files of a shard hold one domain; set corpus.domain_field.")

    domains = {options.labels.get(domain, domain): domain for domain in options.domains}
    if len(domains) < len(options.domains):
        raise InputError("Two domains have the same label in their records; set corpus.labels to tell them apart.")

    # the thread pool of the tokenizers reads these once, when it is first used
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    share = {"train": 0.0, "validation": 1.0, "hash": options.validation_share}[shard.split]
    definition, end, vocabulary, special = load_tokenizer(options.tokenizer, options.end_of_text)
    encoder = Encoder(options.backend, definition, special)
    end = np.array([end], dtype=np.uint32)

    reader = options.reading.reader(domain_field, domains)
    with ExitStack() as stack:
        folders = {split: stack.enter_context(replacing_folder(getattr(options, split))) for split in SPLITS}
        writer = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        # beside the reading, of which it brings the bytes into memory; hashing does not hold the lock
        hashing = stack.enter_context(ThreadPoolExecutor(max_workers=1)).submit(describe_raw, shard.files)
        streams: dict[tuple[str, str], Stream] = {}
        progress = Progress()
        held_out = HeldOut(split_hashes(b"".join(path.read_bytes() for path in options.held_out)))
        documents = held_out.leave_out(read_documents(options.reading, reader, shard.files, share))
        writing: Future[None] | None = None
        for batch, encoded in encode_ahead(encoder, batches(documents)):
            for (split, domain, text, key), ids in zip(batch, encoded, strict=True):
                if (split, domain) not in streams:
                    stream = Stream(
                        folders[split] / domain, options.sequence_length, vocabulary, options.sample_documents
                    )
                    streams[split, domain] = stack.enter_context(stream)
                streams[split, domain].add(text, key, [ids, end])
            # rows are written and counted while other batches are read and encoded; sorting does not hold the lock
            if writing:
                writing.result()
            writing = writer.submit(pack, [(stream, stream.take()) for stream in streams.values()])
            progress.show(sum(stream.tokens for stream in streams.values()))
        if writing:
            writing.result()
        reader.check()
        raw = hashing.result()
        for stream in streams.values():
            stream.finish()
        for split in SPLITS:
            report = {
                "files": [masked(path) for path in shard.files],
                "raw": raw,
                "records": {
                    "in": reader.records,
                    "kept": reader.kept,
                    "rejected": dict(sorted(reader.rejected.items())),
                },
                "encoder": encoder.account,
                "in_validation": held_out.documents,
                "sequence_length": options.sequence_length,
                "vocabulary": vocabulary,
                "domains": {name: stream.report() for (own, name), stream in sorted(streams.items()) if own == split},
            }
            write_json(folders[split] / "report.json", report)


def describe_raw(files: Iterable[str]) -> dict[str, dict[str, object]]:
    """{path: bytes, and their digest} of the raw files on a disk: what was tokenised, whatever their times say later.

    Errors: a file that is written to meanwhile.
    """
    found = {}
    for path in map(Path, files):
        if path.is_file():
            before = path.stat()
            found[str(path)] = {"bytes": before.st_size, "digest": digest_file(path)}
            after = path.stat()
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise InputError(f"{path} was written to while it was read; start again when it is whole.")
    return found


def load_tokenizer(path: Path, end_of_text: str) -> tuple[str, int, int, list[str]]:
    """The tokenizer's definition, the id of its end of text, the number of its ids and its special tokens."""
    definition = json.loads(path.read_text(encoding="utf-8"))
    for token in definition.get("added_tokens", []):
        # some files list the end of text as an ordinary added token, which a document could then write
        token["special"] = token["special"] or token["content"] == end_of_text
    special = [token["content"] for token in definition.get("added_tokens", []) if token["special"]]
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    end = tokenizer.token_to_id(end_of_text)
    if end is None:
        raise InputError(f"{path} has no token {end_of_text!r}; set end_of_text to the one that ends its documents.")
    return json.dumps(definition), end, max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1, special


def read_documents(reading: Reading, reader: Reader, files: Iterable[str], share: float) -> Iterator[Document]:
    """Split, domain, text and hash of each document of the files."""
    for name in files:
        for text, domain in reading.documents(name, reader):
            key = hash_text(text)
            yield "validation" if is_within(key[:8], share) else "train", domain, text, key


def encode_ahead(
    encoder: Encoder, batched: Iterable[list[Document]]
) -> Iterator[tuple[list[Document], list[np.ndarray]]]:
    """Batches with the ids of their documents; one is encoded in a thread while the next is read."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting: tuple[list[Document], Future[list[np.ndarray]]] | None = None
        for batch in batched:
            started = thread.submit(encoder.encode, [text for _, _, text, _ in batch])
            if waiting:
                yield waiting[0], waiting[1].result()
            waiting = batch, started
        if waiting:
            yield waiting[0], waiting[1].result()


def pack(taken: list[tuple["Stream", tuple[list[np.ndarray], list[bytes]]]]) -> None:
    """Write and count what came in; where the counts have grown too large, put the largest aside."""
    for stream, (ids, chosen) in taken:
        stream.pack(ids, chosen)
    while sum(stream.counter.distinct for stream, _ in taken) > MOST_PAIRS:
        max((stream for stream, _ in taken), key=lambda stream: stream.counter.distinct).put_aside()


class HeldOut:
    """Leaves documents out of training whose hash is among `keys`, and counts them."""

    def __init__(self, keys: frozenset[bytes]) -> None:
        self.keys = keys
        self.documents = 0

    def leave_out(self, documents: Iterable[Document]) -> Iterator[Document]:
        for split, domain, text, key in documents:
            if split == "train" and key in self.keys:
                self.documents += 1
            else:
                yield split, domain, text, key


def batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in lists of BATCH_CHARACTERS characters or a little more."""
    batch, characters = [], 0
    for document in documents:
        batch.append(document)
        characters += len(document[2])
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class Stream:
    """What one split of one domain leaves in its folder; files open with the `with` block, tables come with `finish`."""

    def __init__(self, path: Path, sequence_length: int, vocabulary: int, sample: int) -> None:
        self.path = path
        self.packer = Packer(sequence_length, id_type(vocabulary))
        self.counter = NgramCounter()
        self.smallest = Smallest(sample)
        self.digest = hashlib.blake2b(digest_size=16)
        self.waiting: list[np.ndarray] = []
        self.chosen: list[bytes] = []
        self.aside: list[Path] = []
        self.documents = self.tokens = self.rows = self.chosen_bytes = 0

    def __enter__(self) -> "Stream":
        self.bin = self._file("bin").open("wb")
        self.texts = self._file("texts").open("w+b")
        return self

    def __exit__(self, *error: object) -> None:
        self.bin.close()
        self.texts.close()

    def add(self, text: str, key: bytes, ids: list[np.ndarray]) -> None:
        """Take in one document and its ids, the end of text included."""
        self.documents += 1
        self.waiting += ids
        if self.smallest.wants(key):
            encoded = text.encode("utf-8")
            self.smallest.offer(key, (self.chosen_bytes, len(encoded)))
            self.chosen_bytes += len(encoded)
            self.chosen.append(encoded)

    def take(self) -> tuple[list[np.ndarray], list[bytes]]:
        """Ids and texts of the sample that came in since the last call."""
        taken = self.waiting, self.chosen
        self.waiting, self.chosen = [], []
        self.tokens += sum(map(len, taken[0]))
        return taken

    def pack(self, ids: list[np.ndarray], chosen: list[bytes]) -> None:
        """Cut ids into rows; write and count them; put texts aside."""
        if not ids:
            return
        self.texts.writelines(chosen)
        rows = self.packer.add(np.concatenate(ids))
        self.rows += len(rows)
        self.bin.write(rows)
        self.digest.update(rows)
        self.counter.add(rows)

    def put_aside(self) -> None:
        """Write the pairs counted so far to a file of their own and forget them."""
        self.aside.append(self._file(f"{len(self.aside)}.pairs"))
        write_pairs(self.counter.give_away(), self.aside[-1])

    def finish(self) -> None:
        """Write the counts and the chosen texts."""
        tokens, counts = self.counter.tokens()
        pl.DataFrame({"token": tokens, "n": counts}).write_parquet(self._file("unigrams.parquet"))
        if self.aside:
            self.put_aside()
            pieces = add_up([pl.scan_parquet(path, glob=False) for path in self.aside], ["first", "second"])
            write_pieces(pieces, self._file("bigrams.parquet"))
            for path in self.aside:
                path.unlink()
        else:
            write_pairs(self.counter.give_away(), self._file("bigrams.parquet"))
        with self._file("sample.jsonl").open("wb") as chosen:
            for key, (start, size) in self.smallest.entries():
                self.texts.seek(start)
                text = self.texts.read(size).decode("utf-8")
                chosen.write(json.dumps({"key": key.hex(), "text": text}, ensure_ascii=False).encode("utf-8") + b"\n")
        self.texts.close()
        self._file("texts").unlink()

    def report(self) -> dict[str, object]:
        """Account of the stream: tokens made = tokens in rows + dropped tail."""
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "rows": self.rows,
            "tokens_in_rows": self.rows * self.packer.length,
            "dropped_tail": self.packer.tail,
            "dtype": self.packer.left.dtype.name,
            "digest": self.digest.hexdigest(),
        }

    def _file(self, ending: str) -> Path:
        # not with_suffix: a domain's name may hold dots
        return self.path.with_name(f"{self.path.name}.{ending}")


def write_pairs(pairs: tuple[np.ndarray, np.ndarray, np.ndarray], path: Path) -> None:
    """Write first and second ids and counts as a table."""
    pl.DataFrame(dict(zip(("first", "second", "n"), pairs, strict=True))).write_parquet(path)


class Progress:
    """Tokens so far and tokens per second, on standard error, every ten seconds."""

    def __init__(self) -> None:
        self.started = self.shown = time.monotonic()

    def show(self, tokens: int) -> None:
        now = time.monotonic()
        if now - self.shown >= 10:
            print(f"{tokens:,} tokens, {tokens / (now - self.started):,.0f} tokens/s", file=sys.stderr, flush=True)
            self.shown = now


if __name__ == "__main__":
    sys.exit(run(main))
