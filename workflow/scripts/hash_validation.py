"""Hash the documents of the validation files, so that training leaves them out.

manifest of the shards, their raw files -> 16 bytes of each document and of each of its pieces,
sorted, one after the other
"""

import sys
from pathlib import Path

from bimix.corpus.documents import held_out_keys, reading_parser
from bimix.corpus.shards import read_shards, validation_files
from bimix.errors import run
from bimix.outputs import replacing


def main(argv: list[str] | None = None) -> None:
    parser = reading_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args(argv)

    with options.shards.open(encoding="utf-8") as lines:
        files = validation_files(read_shards(lines).values())
    keys = held_out_keys(options.reading, files)
    with replacing(options.out) as temporary:
        temporary.write_bytes(b"".join(sorted(keys)))


if __name__ == "__main__":
    sys.exit(run(main))
