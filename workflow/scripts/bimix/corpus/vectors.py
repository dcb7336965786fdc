"""Second moments of document vectors: what von Neumann entropy needs of a domain, in
one pass and one matrix.
"""

import numpy as np


def as_line(text: str) -> str:
    """A document as the one line that FastText takes: newlines become spaces."""
    return text.replace("\n", " ")


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Rows of `vectors` (n, d) that are not zero, float64, each scaled to length one."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    return vectors[lengths > 0] / lengths[lengths > 0, None]


class SecondMoment:
    """Sum of v v' over unit document vectors v of dimension d; moments of shards add up.

    `gram` is (d, d) float64, `documents` counts the vectors in it, `zeros` those dropped
    because they have no direction.
    """

    def __init__(self, dimensions: int) -> None:
        self.gram = np.zeros((dimensions, dimensions))
        self.documents = 0
        self.zeros = 0

    def add(self, vectors: np.ndarray) -> None:
        """Take in the vectors (n, d) of n documents."""
        units = unit_vectors(vectors)
        self.gram += units.T @ units
        self.documents += len(units)
        self.zeros += len(vectors) - len(units)
