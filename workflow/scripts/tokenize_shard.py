"""Tokenise the raw files of one shard in one pass: rows of token ids, n-gram counts and a sample,
per split and domain.

manifest of the shards, raw files of one, tokenizer.json -> a folder per split of {domain}.bin (rows
one after the other, little-endian ids), {domain}.unigrams.parquet (token, n),
{domain}.bigrams.parquet (first, second, n), {domain}.sample.jsonl (the texts of smallest hash) and
report.json (documents read, kept and rejected, tokens dropped)
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bimix.corpus.documents import Reader, reading_parser, split_hashes
from bimix.corpus.encoders import BACKENDS, Encoder, read_definition, set_threads
from bimix.corpus.shards import check_unchanged, describe_raw, read_shards
from bimix.corpus.stream import Division, Streams, fill
from bimix.errors import masked, run
from bimix.outputs import replacing_folder, write_json

SPLITS = ("train", "validation")


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    with options.shards.open(encoding="utf-8") as lines:
        shard = read_shards(lines)[options.shard]
    set_threads(options.threads)
    tokenizer = read_definition(options.tokenizer, options.end_of_text)
    domains = {options.labels.get(domain, domain): domain for domain in options.domains}
    field = None if shard.domain else options.domain_field
    reader = Reader(options.reading, field, domains, (tokenizer.end, tokenizer.ids))
    encoder = Encoder(options.backend, tokenizer)
    keys = split_hashes(b"".join(path.read_bytes() for path in options.held_out))
    division = Division(shard.split, options.validation_share, options.held_out_characters, keys)

    with ExitStack() as stack:
        folders = {split: stack.enter_context(replacing_folder(getattr(options, split))) for split in SPLITS}
        # during the reading, which brings the bytes into memory; hashing does not hold the lock
        hashing = stack.enter_context(ThreadPoolExecutor(max_workers=1)).submit(
            describe_raw, shard.files, options.reading.formats
        )
        settings = (options.sequence_length, tokenizer.ids, options.sample_documents)
        streams = stack.enter_context(Streams(folders, tokenizer.end, encoder.decode, *settings))
        fill(streams, division.pieces(reader, shard.files), encoder)
        reader.check()
        raw = hashing.result()
        check_unchanged(raw)
        streams.finish()
        rejected = dict(sorted(reader.reasons.items()))
        account = {
            "files": [masked(path) for path in shard.files],
            "raw": raw,
            "without_text": [masked(path) for path in reader.empty],
            "records": {"in": reader.records, "kept": reader.kept, "rejected": rejected},
            "encoder": encoder.account,
            "in_validation": division.left_out,
            "sequence_length": options.sequence_length,
            "vocabulary": tokenizer.ids,
        }
        for split in SPLITS:
            write_json(folders[split] / "report.json", account | {"domains": streams.reports(split)})


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = reading_parser(__doc__)
    add = parser.add_argument
    add("--shard", required=True, help="name of the shard to read")
    add("--tokenizer", type=Path, required=True, help="tokenizer.json")
    add("--backend", choices=BACKENDS, required=True, help="what encodes; the ids are the same")
    add("--end-of-text", required=True, help="token that is put after each document")
    add("--sequence-length", type=int, required=True, help="tokens in a row")
    add("--domain-field", type=json.loads, required=True, help="dotted name, JSON; null: one domain only")
    add("--domains", nargs="+", required=True, help="domains that these files may hold")
    add("--labels", type=json.loads, required=True, help="{domain: value of its field}, where it differs")
    add("--validation-share", type=float, required=True, help="share of the text that is held out by hash")
    add("--held-out-characters", type=int, required=True, help="a longer document gives its end, not all of it")
    add("--held-out", type=Path, nargs="*", required=True, help="hashes of documents that are left out of training")
    add("--sample-documents", type=int, required=True, help="size of the sample of each domain")
    add("--threads", type=int, required=True, help="threads of the tokenizer")
    add("--train", type=Path, required=True, help="folder to write")
    add("--validation", type=Path, required=True, help="folder to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
