"""How the raw files of a corpus are read, and the flags of every script that reads them."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bimix.corpus.documents import Reader, cut_text
from bimix.corpus.sources import Records, read_records


@dataclass(frozen=True)
class Reading:
    """Settings of a corpus that decide the text of its documents.

    `formats` gives lines, parquet or text by the ending of a file, `text_field` the dotted name of
    the field with the text. A record of more than `document_megabytes` is rejected, what is encoded
    is cut into pieces of `cut_characters` (None: left whole), and `rejects` is the share of records
    that may be rejected.
    """

    formats: Mapping[str, str]
    text_field: str
    document_megabytes: float
    cut_characters: int | None
    rejects: float

    def reader(self, domain_field: str | None = None, domains: Mapping[str, str] | None = None) -> Reader:
        """A reader that keeps account; `domains` by the value of their field, none: one domain."""
        return Reader(self.text_field, domain_field, domains or {"": ""}, self.rejects)

    def records(self, path: str, domain_field: str | None = None) -> Records:
        """Records of one raw file, numbered from 1. Errors: as of `sources.read_records`."""
        longest = int(self.document_megabytes * 10**6)
        return read_records(path, self.formats, self.text_field, domain_field, longest)

    def documents(self, path: str, reader: Reader) -> Iterator[tuple[str, str]]:
        """Whole documents (text, domain) of one raw file.

        Errors: as of the reader and of `records`.
        """
        return reader.read(self.records(path, reader.domain_field), path)

    def pieces(self, text: str) -> list[str]:
        """A text, or the part of one that is in one split, cut to what is encoded together."""
        return cut_text(text, self.cut_characters)


def reading_parser(description: str) -> argparse.ArgumentParser:
    """A parser of the flags that every reading of a corpus has: the shards, and how."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shards", type=Path, required=True, help="manifest of the shards")
    parser.add_argument("--reading", type=read_settings, required=True, help="fields of reading.Reading, JSON")
    return parser


def read_settings(text: str) -> Reading:
    """Reading from its fields as JSON. Errors: argparse says that a field is missing or unknown."""
    try:
        return Reading(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} does not say how a corpus is read ({error}).") from error
