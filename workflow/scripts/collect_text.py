"""Harvest one domain of the demo's corpus from Python packages that are installed here.

files of the named packages -> JSON lines of {"text", "source"}, one file per line, without
duplicates, in an order that depends only on the pinned versions
"""

import argparse
import json
import sys
from pathlib import Path

from bimix.corpus.documents import cut_text, hash_text
from bimix.corpus.harvest import KINDS, read_sources
from bimix.errors import InputError, run
from bimix.outputs import replacing


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True, help="what is taken from a file")
    parser.add_argument("--packages", nargs="+", required=True, help="distributions, by the names that pip knows")
    parser.add_argument("--suffixes", nargs="+", required=True, help="endings of the files that are read")
    parser.add_argument("--megabytes", type=float, required=True, help="text to collect, in millions of bytes")
    parser.add_argument(
        "--longest", type=int, nargs="?", help="characters of a document at most; longer ones are left out"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines to write")
    options = parser.parse_args(argv)

    extract = KINDS[options.kind]
    wanted, written, seen = options.megabytes * 1e6, 0, set()
    with replacing(options.out) as temporary, temporary.open("w", encoding="utf-8") as out:
        for source, content in read_sources(options.packages, set(options.suffixes), options.kind == "descriptions"):
            text = extract(content)
            key = hash_text(text)
            if not text.strip() or key in seen or (options.longest and len(text) > options.longest):
                continue
            full = len(text.encode("utf-8")) >= wanted - written
            if full:  # the last file ends where there is enough
                text = cut_text(text, max(int(wanted - written), 1))[0]
            seen.add(key)
            written += len(text.encode("utf-8"))
            out.write(json.dumps({"text": text, "source": source}, ensure_ascii=False) + "\n")
            if full:
                break
        else:
            bound = f", of {options.longest:,} characters at most" if options.longest else ""
            raise InputError(
                f"The packages {', '.join(options.packages)} hold {written / 1e6:.2f} MB of {options.kind} in files that "
                f"end in {', '.join(options.suffixes)}{bound}, not {options.megabytes:g}; name more of them or fewer megabytes."
            )
    print(f"{options.out}: {len(seen):,} documents, {written / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
