"""Rows of equal length cut from a stream of token ids."""

import numpy as np


def id_type(vocabulary: int) -> np.dtype:
    """Smallest little-endian type for ids below `vocabulary`: two bytes up to 65,536 ids, else four."""
    return np.dtype("<u2") if vocabulary <= 2**16 else np.dtype("<u4")


class Packer:
    """Cuts one stream of ids into rows of `length`; what is left at the end is the dropped tail (paper App. A)."""

    def __init__(self, length: int, dtype: np.dtype) -> None:
        self.length = length
        self.left = np.empty(0, dtype=dtype)

    def add(self, ids: np.ndarray) -> np.ndarray:
        """Rows (n, length) that `ids` (k,) complete; n may be 0."""
        stream = np.concatenate([self.left, ids.astype(self.left.dtype, copy=False)])
        whole = len(stream) // self.length * self.length
        self.left = stream[whole:].copy()
        return stream[:whole].reshape(-1, self.length)

    @property
    def tail(self) -> int:
        """Tokens that fill no row yet."""
        return len(self.left)
