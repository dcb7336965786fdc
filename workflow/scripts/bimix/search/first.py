"""The first runs of a search, before any loss is known: each as far as possible from all others.

Distances are Hellinger's, in which small shares count for more than by their difference: a law is
fitted to logs of shares.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from bimix.errors import InputError
from bimix.mixtures.by_hand import fit_into_bounds
from bimix.search.posterior import squares
from bimix.transfer.unseen import SEEN, VARIED, confounded

NAMED = re.compile(r"first_(\d+)")
DRAWN = 2000
STRENGTHS = (1.0, 3.0, 10.0)  # of Dirichlet draws, in units of the number of domains
NEAR = 0.05  # Hellinger distance below which two runs say the same


def first_runs(
    rules: Mapping[str, np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray],
    seen: np.ndarray,
    count: int,
    seed: int,
    after: int = 0,
) -> dict[str, np.ndarray]:
    """{name: shares (m,)} of `count` mixtures to run, in order.

    `rules` are mixtures with names, the first of them run first where there is no other run yet;
    draws around their mean are called first_001, first_002, ..., from `after` + 1 on. `bounds`: lower and upper, each
    (m,); `seen` (k, m): mixtures already run. Errors: the bounds leave fewer mixtures apart.
    """
    names, shares = list(rules), np.stack(list(rules.values()))
    drawn = draws(shares.mean(axis=0), *bounds, seed)
    offered = np.concatenate([shares, drawn])
    rows = maximin(offered, seen, count)
    if len(rows) < count:
        raise InputError(
            f"only {len(rows)} of the {count} mixtures are within the bounds and {NEAR:g} or more apart (Hellinger distance):"
            " widen the bounds, or lower --count."
        )
    found: dict[str, np.ndarray] = {}
    for row in rows:
        if row >= len(names):
            after += 1
        found[names[row] if row < len(names) else f"first_{after:03d}"] = offered[row]
    return found


def separating(
    seen: np.ndarray, drawn: np.ndarray, lower: np.ndarray, upper: np.ndarray, counts: np.ndarray | None = None
) -> np.ndarray:
    """Mixtures (k, m) that separate domains which the runs `seen` (n, m) do not: the drawn ones without the
    domain i of most pairs (`confounded`), those with another share of the most j. None where i must have a
    share by its lower bound, or does not count: `counts` (m,).
    """
    found = confounded(seen) if len(seen) else []
    pairs = [(i, j) for i, j in found if lower[i] == 0 and (counts is None or counts[i])]
    if not pairs:
        return drawn[:0]
    left_out = Counter(i for i, _ in pairs).most_common(1)[0][0]
    others = [j for i, j in pairs if i == left_out]
    usual = seen[seen[:, left_out] <= SEEN][0, others]
    without = fit_into_bounds(drawn, lower, np.where(np.arange(len(upper)) == left_out, 0.0, upper))
    told = (np.abs(without[:, others] - usual) > VARIED).sum(axis=1)
    return without[(told == told.max()) & (told > 0)]


def last_number(names: Iterable[str]) -> int:
    """The largest number of a name such as first_012; 0 without any."""
    return max((int(found[1]) for found in map(NAMED.fullmatch, names) if found), default=0)


def draws(centre: np.ndarray, lower: np.ndarray, upper: np.ndarray, seed: int) -> np.ndarray:
    """Mixtures (n, m) drawn around a centre (m,), within bounds (m,)."""
    m, draw = len(centre), np.random.default_rng(seed)
    concentration = m * (np.maximum(centre, 1e-3) + 1 / m) / 2
    parts = [draw.dirichlet(strength * concentration, DRAWN // len(STRENGTHS)) for strength in STRENGTHS]
    drawn = fit_into_bounds(np.concatenate(parts), lower, upper)
    return drawn[central(drawn)]


def central(mixtures: np.ndarray) -> np.ndarray:
    """Rows of the half of the mixtures (n, m) that is nearest to their mean, the nearest first.

    The other half is nearer to single domains. Runs there, which maximin would take first, say
    little about mixtures: a law of four or eight of them errs more than one of random runs.
    """
    return np.argsort(squares(mixtures, mixtures.mean(axis=0)[None])[:, 0], kind="stable")[: (len(mixtures) + 1) // 2]


def maximin(offered: np.ndarray, seen: np.ndarray, count: int) -> list[int]:
    """Rows of the mixtures (n, m) to run: the first, then each the one whose nearest run is farthest.

    Runs are those picked before and `seen` (k, m). Fewer than `count` where all others are near.
    """
    rows: list[int] = []
    away = np.full(len(offered), np.inf)
    if len(seen):
        away = np.sqrt(squares(offered, seen)).min(axis=1)
    while len(rows) < count:
        row = int(np.argmax(away))
        if away[row] < NEAR:
            break
        rows.append(row)
        away = np.minimum(away, np.sqrt(squares(offered, offered[[row]]))[:, 0])
    return rows
