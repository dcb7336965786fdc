"""Pseudo-random permutations of row numbers without a table of them."""

import numpy as np

FEISTEL_ROUNDS = 6


def permute(positions: np.ndarray, size: int, key: int) -> np.ndarray:
    """Images of `positions` (n,) under the permutation of 0..size-1 that `key` selects.

    Stateless, O(n): a Feistel network over the next even number of bits, repeated until the image
    is below `size` (cycle walking, Black & Rogaway 2002).
    """
    half = max((max(size - 1, 1).bit_length() + 1) // 2, 1)
    mask = np.uint64((1 << half) - 1)
    images = positions.astype(np.uint64)
    outside = np.ones(len(images), dtype=bool)
    while outside.any():
        left, right = images[outside] >> np.uint64(half), images[outside] & mask
        for turn in range(FEISTEL_ROUNDS):
            left, right = right, left ^ (_scramble(right, key, turn) & mask)
        images[outside] = (left << np.uint64(half)) | right
        outside = images >= np.uint64(size)
    return images.astype(np.int64)


def _scramble(values: np.ndarray, key: int, turn: int) -> np.ndarray:
    """SplitMix64 finaliser over `values`, uint64 (n,); wraps on purpose."""
    offset = np.uint64((key + (turn + 1) * 0x9E3779B97F4A7C15) % 2**64)
    mixed = values + offset
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
