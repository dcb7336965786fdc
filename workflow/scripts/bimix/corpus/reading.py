"""How the text of a corpus is read, without tables, since settings read it."""

from typing import Literal

from bimix.blocks import Block, Count, NoneEmpty, Positive, Share, described, need


class ReadingKeys(Block):
    """Settings for all corpora that decide the text of their documents."""

    text_field: described(str, "the name of a field of the records", min_length=1) = need(
        "The field of a record that holds the text."
    )
    rejects: Share = need("The share of bad records that may be left out; 0: the first one stops the job.")
    document_megabytes: Positive = need("Longer records are rejected, which bounds a job's memory.")
    formats: NoneEmpty[str, Literal["lines", "parquet", "text", "tokens"]] = need(
        "What a file holds, by its ending before `.gz`, `.xz` or `.zst`: `lines`, `parquet`, `text` or `tokens`."
    )


class Reading(ReadingKeys):
    """Settings of a corpus that decide the text of its documents.

    Text is encoded in pieces of `cut_characters` (None: whole).
    """

    cut_characters: Count | None
