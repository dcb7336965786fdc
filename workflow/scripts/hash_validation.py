"""Hash the documents of the validation files, so that training leaves out those that stand in both.

manifest of the shards, their raw files -> 16 bytes of each document, sorted, one after the other
"""

import argparse
import json
import sys
from pathlib import Path

from bimix.documents import Reader, hash_text
from bimix.errors import run
from bimix.outputs import replacing
from bimix.shards import read_shards
from bimix.sources import read_records


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=Path, required=True, help="manifest of the shards")
    parser.add_argument("--formats", type=json.loads, required=True, help="{ending: lines, parquet or text}, JSON")
    parser.add_argument("--text-field", required=True, help="dotted name of the field that holds the text")
    parser.add_argument("--document-megabytes", type=float, required=True, help="a longer record is rejected")
    parser.add_argument("--cut-characters", type=json.loads, required=True, help="longest document; null: no cutting")
    parser.add_argument("--rejects", type=float, required=True, help="share of records that may be rejected")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args(argv)

    with options.shards.open(encoding="utf-8") as lines:
        shards = [shard for shard in read_shards(lines).values() if shard.split == "validation"]
    reader = Reader(options.text_field, None, {"": ""}, options.cut_characters, options.rejects)
    longest = int(options.document_megabytes * 10**6)
    keys = {
        hash_text(text)
        for shard in shards
        for path in shard.files
        for text, _ in reader.read(read_records(path, options.formats, options.text_field, None, longest), path)
    }
    reader.check()
    with replacing(options.out) as temporary:
        temporary.write_bytes(b"".join(sorted(keys)))


if __name__ == "__main__":
    sys.exit(run(main))
