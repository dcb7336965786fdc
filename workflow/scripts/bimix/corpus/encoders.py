"""Texts to token ids, by `tokenizers` or by gigatoken, which must give the same; bytes of ids."""

import importlib.metadata
import json
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from bimix.digests import check
from bimix.errors import InputError

Encode = Callable[[list[str]], list[np.ndarray]]

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space in tokens of SentencePiece
ONE_BYTE = re.compile("<0x[0-9A-F]{2}>")

PROBES = [
    "",
    " ",
    "  \n\n\t x",
    "a\r\nb\0",
    "don't 1234567 éa\u0301 ﬁ \u00a0\u2003",
    "日本語 😀👩\u200d👩 \ufeff\u202e",
    "}{" * 40,
]


class Definition(NamedTuple):
    """A tokenizer.json as text, the id that ends a text, the number of ids, special tokens."""

    text: str
    end: int
    ids: int
    special: list[str]


def read_definition(path: Path, end_of_text: str) -> Definition:
    """The tokenizer in a file; its `end_of_text` becomes special. Errors: it has no such token."""
    definition = json.loads(check(path).read_text(encoding="utf-8"))
    for token in definition.get("added_tokens", []):
        # some files list the end of text as an ordinary added token, which a document could write
        token["special"] = token["special"] or token["content"] == end_of_text
    special = [token["content"] for token in definition.get("added_tokens", []) if token["special"]]
    text = json.dumps(definition)
    tokenizer = Tokenizer.from_str(text)
    end = tokenizer.token_to_id(end_of_text)
    if end is None:
        raise InputError(f"{path} has no token {end_of_text!r}; set end_of_text to the one that ends its documents.")
    return Definition(text, end, max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1, special)


def set_threads(count: int) -> None:
    """Set the threads of `tokenizers`, which reads the setting once, at its first use."""
    os.environ["RAYON_NUM_THREADS"] = str(count)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"


def reference_encoder(definition: str) -> Encode:
    """Encodes by `tokenizers` as the definition says, but never to a special token."""
    tokenizer = Tokenizer.from_str(definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True

    def encode(texts: list[str]) -> list[np.ndarray]:
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]

    return encode


def gigatoken_encoder(definition: str) -> Encode:
    """Encodes by gigatoken; its special tokens are taken away, so that no text can write one."""
    try:
        import gigatoken  # optional
    except ImportError:
        raise InputError("The backend gigatoken is not installed: install it, or set corpus.backend.") from None
    settings = json.loads(definition)
    settings["added_tokens"] = [token for token in settings.get("added_tokens") or [] if not token["special"]]
    tokenizer = gigatoken.Tokenizer.from_json(json.dumps(settings))

    def encode(texts: list[str]) -> list[np.ndarray]:
        layout = tokenizer.encode_batch(texts).layout
        ids, ends = np.asarray(layout.content.data), np.asarray(layout.offsets.data)
        return [ids[start:end] for start, end in pairwise(ends.tolist())]

    return encode


BACKENDS: dict[str, Callable[[str], Encode]] = {"tokenizers": reference_encoder, "gigatoken": gigatoken_encoder}


class Encoder:
    """Encodes by a backend if it gives the reference's ids for the first texts, else by the
    reference.

    `account` reports the choice: backend, version, the number of texts and tokens compared, and
    the first difference.
    """

    def __init__(self, backend: str, definition: Definition) -> None:
        self.tokenizer = Tokenizer.from_str(definition.text)
        self.reference = reference_encoder(definition.text)
        self.account: dict[str, object] = {"backend": backend, "version": importlib.metadata.version(backend)}
        self.backend: Encode | None = None
        self.probes = [*PROBES, *(f"a{token}b {token}" for token in definition.special)]
        if backend != "tokenizers":
            try:
                self.backend = BACKENDS[backend](definition.text)
            except (ValueError, NotImplementedError) as error:
                self._refuse(f"it cannot load the tokenizer: {error}")

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids, special tokens included."""
        return self.tokenizer.decode(ids.tolist(), skip_special_tokens=False)

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Ids (uint32) of each text; the first texts are encoded twice and compared."""
        if self.backend is None:
            return self.reference(texts)
        if "compared_texts" not in self.account:
            return self._compare(texts)
        return self.backend(texts)

    def _compare(self, texts: list[str]) -> list[np.ndarray]:
        checked = [*self.probes, *texts]
        expected, found = self.reference(checked), self.backend(checked)
        self.account["compared_texts"] = len(checked)
        self.account["compared_tokens"] = sum(map(len, expected))
        for text, own, other in zip(checked, expected, found, strict=True):
            if not np.array_equal(own, other):
                self._refuse(f"it gives other ids for {text[:200]!r}")
                break
        return expected[len(self.probes) :]

    def _refuse(self, reason: str) -> None:
        self.backend = None
        self.account |= {"refused": f"{self.account['backend']}: {reason}", "backend": "tokenizers"}
        self.account["version"] = importlib.metadata.version("tokenizers")


def byte_lengths(definition: str, end_of_text: str) -> np.ndarray | None:
    """Bytes (ids,) that each id of a tokenizer.json decodes to; None if its ids do not give it.

    A token of a byte-level tokenizer has one character for each byte, so that a character of
    several bytes, cut between two tokens or two rows, is counted byte by byte. A tokenizer with
    byte fallback, such as Llama's, marks spaces and bytes. Special tokens, such as `end_of_text`,
    have 0 bytes; other added tokens have the length of their text.
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
    """A decoder or pre-tokenizer as a list, or the members of a sequence of them."""
    if component is None:
        return []
    inner = component.get("decoders") or component.get("pretokenizers") or []
    return [part for own in inner for part in parts(own)] or [component]


def length_of_piece(token: str) -> int:
    """Bytes of a token of SentencePiece."""
    return 1 if ONE_BYTE.fullmatch(token) else len(token.replace(SPACE, " ").encode())
