"""Hash the documents of the validation files, so that training leaves them out.

manifest of the shards, their raw files -> 16 bytes of each document and of each of its pieces,
sorted, one after the other
"""

import sys
from pathlib import Path

from bimix.corpus.documents import Reader, hash_text, reading_parser
from bimix.corpus.shards import read_shards
from bimix.errors import run
from bimix.outputs import replacing


def main(argv: list[str] | None = None) -> None:
    parser = reading_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args(argv)

    with options.shards.open(encoding="utf-8") as lines:
        shards = [shard for shard in read_shards(lines).values() if shard.split == "validation"]
    reader = Reader(options.reading)
    keys = {
        hash_text(part)
        for shard in shards
        for path in shard.files
        for text, _ in reader.read(path)
        for part in (text, *options.reading.pieces(text))
    }
    reader.rejects.check()
    with replacing(options.out) as temporary:
        temporary.write_bytes(b"".join(sorted(keys)))


if __name__ == "__main__":
    sys.exit(run(main))
