"""Harvest one domain of the demo's corpus from Python packages that are installed here.

files of the named packages -> JSON lines of {"text", "source"}, a file a line, without duplicates,
in an order that only the pins decide
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from bimix.corpus.documents import cut_text, hash_text
from bimix.corpus.harvest import KINDS, description
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
    wanted, written, seen = options.megabytes * 1e6, 0, set()
    with replacing(options.out) as temporary, temporary.open("w", encoding="utf-8") as out:
        for source, content in read_sources(options.packages, set(options.suffixes), options.kind == "descriptions"):
            text = extract(content)
            key = hash_text(text)
            if not text.strip() or key in seen:
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
            raise InputError(
                f"The packages {', '.join(options.packages)} hold {written / 1e6:.2f} MB of {options.kind} in files that "
                f"end in {', '.join(options.suffixes)}, not {options.megabytes:g}; name more of them or ask for less."
            )
    print(f"{options.out}: {len(seen):,} documents, {written / 1e6:.2f} MB", file=sys.stderr)


def read_sources(packages: list[str], suffixes: set[str], with_description: bool) -> Iterator[tuple[str, str]]:
    """Name and text of each file, in the order of hashed names: a mixed one, and
    the same on every machine.
    """
    sources = []
    for package in packages:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            raise InputError(f"Package {package!r} is not installed; install envs/requirements.txt.") from None
        # the normalised name: a distribution may spell its own in several ways
        name = re.sub(r"[-_.]+", "-", package).lower()
        if with_description:
            sources.append((f"{name}: description", description(distribution.metadata)))
        files = (file for file in distribution.files or [] if file.suffix in suffixes)
        sources += [(f"{name}: {file.as_posix()}", Path(file.locate())) for file in files if ".." not in file.parts]
    for source, content in sorted(sources, key=lambda entry: hashlib.blake2b(entry[0].encode()).digest()):
        try:
            yield source, content if isinstance(content, str) else content.read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            continue  # a file that was removed after the installation, or that is no text


if __name__ == "__main__":
    sys.exit(run(main))
