"""Tokenise the raw files of one shard in one pass: rows of token ids, n-gram counts and a sample,
per split and domain.

manifest of the shards, raw files of one, tokenizer.json -> a folder per split of {domain}.bin (rows
one after the other, little-endian ids), {domain}.unigrams.parquet (token, n),
{domain}.bigrams.parquet (first, second, n), {domain}.sample.jsonl (the texts of smallest hash) and
report.json (what came in, was kept, rejected, dropped)
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bimix.addresses import masked
from bimix.corpus.documents import Reader, split_hashes
from bimix.corpus.encoders import BACKENDS, Encoder
from bimix.corpus.reading import reading_parser
from bimix.corpus.shard import Division, Streams, batches, encode_ahead, fill, load_tokenizer
from bimix.corpus.shards import Shard, read_shards
from bimix.digests import digest_file, stamp_file
from bimix.errors import InputError, run
from bimix.outputs import replacing_folder, write_json

SPLITS = ("train", "validation")


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    with options.shards.open(encoding="utf-8") as lines:
        shard = read_shards(lines)[options.shard]
    reader = open_reader(shard, options)
    # the thread pool of the tokenizers reads these once, when it is first used
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    definition, end, vocabulary, special = load_tokenizer(options.tokenizer, options.end_of_text)
    encoder = Encoder(options.backend, definition, special)

    with ExitStack() as stack:
        known = {split: {} for split in SPLITS}
        folders = {
            split: stack.enter_context(replacing_folder(getattr(options, split), known[split])) for split in SPLITS
        }
        # beside the reading, of which it brings the bytes into memory; hashing does not hold the
        # lock
        hashing = stack.enter_context(ThreadPoolExecutor(max_workers=1)).submit(describe_raw, shard.files)
        settings = (options.sequence_length, vocabulary, options.sample_documents)
        streams = stack.enter_context(Streams(folders, *settings))
        keys = split_hashes(b"".join(path.read_bytes() for path in options.held_out))
        division = Division(shard.split, options.validation_share, options.held_out_characters, keys)
        pieces = division.pieces(options.reading, reader, shard.files)
        fill(streams, encode_ahead(encoder, batches(pieces)), end)
        reader.check()
        raw = hashing.result()
        check_unchanged(raw)
        streams.finish()
        account = {
            "files": [masked(path) for path in shard.files],
            "raw": raw,
            "records": count_records(reader),
            "encoder": encoder.account,
            "in_validation": division.left_out,
            "sequence_length": options.sequence_length,
            "vocabulary": vocabulary,
        }
        for split in SPLITS:
            # hashed while they were written; the folder's record takes them over
            known[split] |= {f"{domain}.bin": own["digest"] for domain, own in streams.reports(split).items()}
            write_json(folders[split] / "report.json", account | {"domains": streams.reports(split)})


def parse(argv: list[str] | None) -> argparse.Namespace:
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
    parser.add_argument(
        "--validation-share", type=float, required=True, help="share of the text that is held out by hash"
    )
    parser.add_argument(
        "--held-out-characters", type=int, required=True, help="a longer document gives its end, not all of it"
    )
    parser.add_argument(
        "--held-out", type=Path, nargs="*", required=True, help="hashes of documents that are left out of training"
    )
    parser.add_argument("--sample-documents", type=int, required=True, help="size of the sample of each domain")
    parser.add_argument("--threads", type=int, required=True, help="threads of the tokenizer")
    parser.add_argument("--train", type=Path, required=True, help="folder to write")
    parser.add_argument("--validation", type=Path, required=True, help="folder to write")
    return parser.parse_args(argv)


def open_reader(shard: Shard, options: argparse.Namespace) -> Reader:
    """What reads the shard's files.

    Errors: no field names their domains, or two domains have one label.
    """
    domain_field = None if shard.domain else options.domain_field
    if domain_field is None and len(options.domains) != 1:
        raise InputError("Without a domain field the files of a shard hold one domain; set corpus.domain_field.")
    domains = {options.labels.get(domain, domain): domain for domain in options.domains}
    if len(domains) < len(options.domains):
        raise InputError("Two domains have the same label in their records; set corpus.labels to tell them apart.")
    return options.reading.reader(domain_field, domains)


def describe_raw(files: Iterable[str]) -> dict[str, dict[str, object]]:
    """{path: bytes, digest and stamp} of the raw files on a disk: what was tokenised, whatever
    their times say later.
    """
    found = {}
    for path in map(Path, files):
        if path.is_file():
            stamp = stamp_file(path)
            found[str(path)] = {"bytes": stamp[0], "digest": digest_file(path), "stamp": stamp}
    return found


def check_unchanged(raw: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse raw files that were written to while they were read, be it by the tokenisation or for
    their digest.
    """
    for path, found in raw.items():
        if stamp_file(Path(path)) != found["stamp"]:
            raise InputError(f"{path} was written to while it was read; start again when it is whole.")


def count_records(reader: Reader) -> Mapping[str, object]:
    """The records that came in, were kept, and were rejected, by reason."""
    return {"in": reader.records, "kept": reader.kept, "rejected": dict(sorted(reader.rejected.items()))}


if __name__ == "__main__":
    sys.exit(run(main))
