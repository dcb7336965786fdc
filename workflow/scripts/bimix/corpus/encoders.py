"""Texts to token ids: by `tokenizers`, the reference, or by gigatoken, which is faster
and must give the same ids.
"""

import importlib.metadata
import json
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from bimix.errors import InputError

Encode = Callable[[list[str]], list[np.ndarray]]

PROBES = [
    "",
    " ",
    "  \n\n\t x",
    "a\r\nb\0",
    "don't 1234567 éa\u0301 ﬁ \u00a0\u2003",
    "日本語 😀👩\u200d👩 \ufeff\u202e",
    "}{" * 40,
]


def reference_encoder(definition: str) -> Encode:
    """Encodes by `tokenizers`, as the definition (the text of a tokenizer.json) says, but
    never to a special token.
    """
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
        raise InputError(
            "The backend gigatoken is not installed; `pip install gigatoken` or set corpus.backend."
        ) from None
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
    """Encodes by a backend once it has given the ids of the reference for the first
    texts; else by the reference.

    `account` says what was used and why: backend, version, texts and tokens that were
    compared, the first difference.
    """

    def __init__(self, backend: str, definition: str, special: list[str]) -> None:
        self.reference = reference_encoder(definition)
        self.account: dict[str, object] = {"backend": backend, "version": importlib.metadata.version(backend)}
        self.backend: Encode | None = None
        self.probes = [*PROBES, *(f"a{token}b {token}" for token in special)]
        if backend != "tokenizers":
            try:
                self.backend = BACKENDS[backend](definition)
            except (ValueError, NotImplementedError) as error:
                self._refuse(f"it cannot load the tokenizer: {error}")

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
