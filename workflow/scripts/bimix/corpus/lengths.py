"""How many bytes of text each token id stands for, so that losses can be told by the byte.

A token of a byte-level tokenizer has one character for each byte, whatever the text: a character of
several bytes that is cut between two tokens, or between two rows, is counted byte by byte. A
tokenizer with byte fallback, such as Llama's, has its marks for spaces and single bytes.
"""

import json
import re

import numpy as np

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space in tokens of SentencePiece
ONE_BYTE = re.compile("<0x[0-9A-F]{2}>")


def byte_lengths(definition: str, end_of_text: str) -> np.ndarray | None:
    """Bytes (ids,) that each id of a tokenizer.json decodes to; None where its ids do not say.

    Special tokens, `end_of_text` among them, are 0: no text is behind them. Other added tokens are
    as long as they are written.
    """
    settings = json.loads(definition)
    kinds = {part["type"] for part in parts(settings.get("decoder")) + parts(settings.get("pre_tokenizer"))}
    if "ByteLevel" in kinds:
        length = len
    elif {"Metaspace", "ByteFallback"} & kinds:
        length = length_of_piece
    else:
        return None
    vocabulary = settings["model"]["vocab"]
    if isinstance(vocabulary, list):  # of Unigram: token and score, in the order of the ids
        vocabulary = {token: number for number, (token, _) in enumerate(vocabulary)}
    added = settings.get("added_tokens") or []
    lengths = np.zeros(max([*vocabulary.values(), *(token["id"] for token in added)]) + 1, dtype=np.int64)
    for token, number in vocabulary.items():
        lengths[number] = length(token)
    for token in added:
        silent = token["special"] or token["content"] == end_of_text
        lengths[token["id"]] = 0 if silent else len(token["content"].encode())
    return lengths


def parts(component: dict | None) -> list[dict]:
    """A decoder or pre-tokenizer, or those that a sequence is made of."""
    if component is None:
        return []
    inner = component.get("decoders") or component.get("pretokenizers") or []
    return [part for own in inner for part in parts(own)] or [component]


def length_of_piece(token: str) -> int:
    """Bytes of a token of SentencePiece."""
    return 1 if ONE_BYTE.fullmatch(token) else len(token.replace(SPACE, " ").encode())
