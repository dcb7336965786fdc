"""The order of a run's rows: the k-th row is a pure function of (seed, mixture, k).

The domain of each row comes from Tijdeman's chairman assignment (R. Tijdeman, "The chairman
assignment problem", Discrete Mathematics 32, 1980): after every prefix of k rows each of m domains
has been read k r_i times to within 1 - 1/(2m - 2), which is optimal. The row inside the domain
comes from a pseudo-random permutation of the domain's rows, a new one each epoch, that depends on
the seed, the domain's name and the epoch only: all mixtures read a domain's rows in the same order.
The only state is the number of rows read of each domain.

A mixture may change between two updates. The assignment then starts again, so that each stage is as
close to its own proportions; the rows inside a domain continue after those of the stage before.
"""

import hashlib
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from bimix.corpus.permutation import permute


@dataclass(frozen=True)
class Schedule:
    """Proportions (stages, m) of the domains, and the first update of each stage, counted from 0."""

    proportions: np.ndarray
    starts: tuple[int, ...] = (0,)

    def proportions_at(self, update: int) -> np.ndarray:
        """The proportions (m,) of an update, counted from 0."""
        return self.proportions[bisect_right(self.starts, update) - 1]

    def reads(self) -> np.ndarray:
        """Whether a domain is read in any stage, bool (m,)."""
        return (self.proportions > 0).any(0)

    def scaled(self) -> "Schedule":
        """The schedule with proportions that sum to exactly one.

        A mixture sums to one within 1e-6, by which the first domain would get a hundred of 10^8
        rows too many. Each stage separately, since a sum over an axis may round differently.
        """
        return Schedule(np.stack([stage / stage.sum() for stage in self.proportions]), self.starts)


def assign_domains(proportions: np.ndarray, taken: np.ndarray, rows: int) -> np.ndarray:
    """Domains of the next `rows` rows, int64 (rows,), after `taken` (m,) rows of
    each domain have been read.

    `taken` must come from earlier calls of this function, in any partition of the run; it is not
    changed.
    """
    chosen = np.empty(rows, dtype=np.int64)
    active = np.flatnonzero(proportions > 0)
    if len(active) == 1:
        chosen[:] = active[0]
        return chosen
    share = proportions[active]
    counts = taken[active].astype(np.float64)
    done = int(taken.sum())
    slack = 1 / (2 * len(active) - 2)
    for row in range(rows):
        due = share * (done + row + 1) - counts
        # Of the domains that may be read without exceeding their bound, the one with the earliest
        # deadline.
        deadline = np.where(due >= slack - 1e-9, (1 - slack - due) / share, np.inf)
        pick = int(deadline.argmin())
        counts[pick] += 1
        chosen[row] = active[pick]
    return chosen


def rows_of_domain(seed: int, domain: str, size: int, visits: np.ndarray, backwards: bool = False) -> np.ndarray:
    """Row numbers read at the given `visits` (n,) of a domain of `size` rows; visit v is in epoch
    v // size.

    With `backwards` each epoch is read from its end, so that the first rows are those that another
    run of less than an epoch has not read.
    """
    rows = np.empty(len(visits), dtype=np.int64)
    epochs, places = visits // size, visits % size
    if backwards:
        places = size - 1 - places
    for epoch in np.unique(epochs):
        here = epochs == epoch
        digest = hashlib.blake2b(f"{seed}\0{domain}\0{int(epoch)}".encode(), digest_size=8).digest()
        rows[here] = permute(places[here], size, int.from_bytes(digest, "little"))
    return rows


def next_rows(
    seed: int,
    domains: list[str],
    proportions: np.ndarray,
    sizes: np.ndarray,
    taken: np.ndarray,
    rows: int,
    backwards: bool = False,
    before: np.ndarray | int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Domain numbers (rows,), row numbers inside them (rows,) and the new `taken` (m,)
    of the next `rows` rows.

    `before` (m,) are the rows `taken` before the current stage.
    """
    chosen = assign_domains(proportions, taken - before, rows)
    numbers = np.empty(rows, dtype=np.int64)
    after = taken.copy()
    for domain in np.unique(chosen):
        here = np.flatnonzero(chosen == domain)
        visits = taken[domain] + np.arange(len(here))
        numbers[here] = rows_of_domain(seed, domains[domain], int(sizes[domain]), visits, backwards)
        after[domain] += len(here)
    return chosen, numbers, after
