"""Harvest one domain of the demo's corpus from Python packages that are installed here.

files of the named packages -> JSON lines of {"text", "source"}, one file per line, without near
copies, in an order that depends only on the pinned versions
"""

import argparse
import json
import sys
from pathlib import Path

from bimix.corpus.documents import cut_text
from bimix.corpus.harvest import KINDS, read_sources, unlike
from bimix.errors import InputError, run
from bimix.outputs import replacing


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True, help="what is taken from a file")
    parser.add_argument("--packages", nargs="+", required=True, help="distributions, by the names that pip knows")
    parser.add_argument("--suffixes", nargs="+", required=True, help="endings of the files that are read")
    parser.add_argument("--megabytes", type=float, required=True, help="text to collect, in millions of bytes")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines to write")
    options = parser.parse_args(argv)

    extract = KINDS[options.kind]
    wanted, written, documents = options.megabytes * 1e6, 0, 0
    sources = read_sources(options.packages, set(options.suffixes), options.kind == "descriptions")
    with replacing(options.out) as temporary, temporary.open("w", encoding="utf-8") as out:
        for source, text in unlike((source, extract(content)) for source, content in sources):
            full = len(text.encode("utf-8")) >= wanted - written
            if full:  # the last file ends where there is enough
                text = cut_text(text, max(int(wanted - written), 1))[0]
            documents += 1
            written += len(text.encode("utf-8"))
            out.write(json.dumps({"text": text, "source": source}, ensure_ascii=False) + "\n")
            if full:
                break
        else:
            raise InputError(
                f"The packages {', '.join(options.packages)} hold {written / 1e6:.2f} MB of {options.kind} in files that "
                f"end in {', '.join(options.suffixes)}, not {options.megabytes:g}; name more of them or fewer megabytes."
            )
    print(f"{options.out}: {documents:,} documents, {written / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
