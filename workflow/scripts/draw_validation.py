"""Draw a fixed number of validation tokens of each domain from the training files.

manifest of the shards, their raw files, tokenizer.json -> a folder with {domain}.jsonl, the drawn
documents, and ends of long ones
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tokenizers import Tokenizer

from bimix.corpus.documents import ENDS, Reader, hash_text, labelled, reading_parser, split_document
from bimix.corpus.shards import Shard, longest_of, read_shards
from bimix.corpus.sources import write_field
from bimix.errors import InputError, run
from bimix.outputs import replacing_folder


def main(argv: list[str] | None = None) -> None:
    parser = reading_parser(__doc__)
    add = parser.add_argument
    add("--tokenizer", type=Path, required=True, help="tokenizer.json")
    add("--domain-field", type=json.loads, required=True, help="dotted name, JSON; null: by file")
    add("--domains", nargs="+", required=True, help="domains of the dataset")
    add("--labels", type=json.loads, required=True, help="{domain: value of its field}, JSON")
    add("--tokens", type=int, required=True, help="tokens to draw of each domain, or a little more")
    add("--share", type=float, required=True, help="share of the text that may be drawn, by hash")
    add("--held-out-characters", type=json.loads, required=True, help="of a longer document the end may be, JSON")
    add("--out", type=Path, required=True, help="folder to write")
    options = parser.parse_args(argv)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one document at a time
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    tokenizer.encode_special_tokens = True
    with options.shards.open(encoding="utf-8") as lines:
        shards = [shard for shard in read_shards(lines).values() if shard.split == "train"]

    missing = dict.fromkeys(options.domains, options.tokens)
    with replacing_folder(options.out) as folder, ExitStack() as stack:
        files = {
            domain: stack.enter_context((folder / f"{domain}.jsonl").open("w", encoding="utf-8")) for domain in missing
        }
        seen: set[bytes] = set()
        drawn, ends = Counter(), Counter()
        for trains, text, domain in read_documents(options, shards, missing):
            key = hash_text(text)
            if text and missing[domain] > 0 and key not in seen:
                seen.add(key)
                drawn[domain] += 1
                ends[domain] += bool(trains)
                pieces = options.reading.pieces(text)
                missing[domain] -= sum(len(tokenizer.encode(one, add_special_tokens=False)) + 1 for one in pieces)
                print(json.dumps(write_field(options.reading.text_field, text), ensure_ascii=False), file=files[domain])
        for domain, count in drawn.items():
            print(f"{domain}: {count:,} texts, {ends[domain]:,} of them {ENDS}", file=sys.stderr)
        for domain, tokens in missing.items():
            if tokens > 0:
                raise InputError(
                    f"The share {options.share:g} of domain {domain!r} holds {options.tokens - tokens:,} tokens, fewer "
                    f"than {options.tokens:,}; set validation.tokens lower or validation.share higher."
                )


def read_documents(
    options: argparse.Namespace, shards: list[Shard], missing: dict[str, int]
) -> Iterator[tuple[str, str, str]]:
    """(what trains, what may be drawn, domain) of the documents, until no domain is missing any.
    Files come in an order drawn by hash; those of full domains are skipped.
    """
    files = [(hash_text(path), path, shard.domain) for shard in shards for path in shard.files]
    for _, path, domain in sorted(files):
        if domain and missing[domain] <= 0:
            continue
        own = labelled([domain] if domain else options.domains, options.labels)
        reader = Reader(options.reading, None if domain else options.domain_field, own)
        longest = longest_of(options.held_out_characters, domain)
        for text, own_domain in reader.read(path):
            yield *split_document(text, hash_text(text), options.share, longest), own_domain
            if max(missing[name] for name in own.values()) <= 0:
                break
        reader.rejects.check()
        if max(missing.values()) <= 0:
            return


if __name__ == "__main__":
    sys.exit(run(main))
