"""The uncertainty of the law `transfer` in mixtures with domains that no fitted run trains on.

For such a domain j, k_ij comes from the prior alone: exp(u_i - gap_ij), with u at its mean over the
domains where i = j. Its standard deviation is that of log k of the trained domains around the same
prior, at least LEAST, since with few runs the ridge shrinks log k to the prior. To first order the
log loss deviates by that times its derivative by log k.
"""

from collections.abc import Sequence

import numpy as np

from bimix.observations.prior import offsets, recorded
from bimix.transfer.factor import read
from bimix.transfer.run import effects_at, run_of

LEAST = 1.6  # deviation of log k from its prior, with which 90 % intervals hold 90 % on Olmix' 64 domains
MOVE = 1e-6  # of k, for slopes
SEEN = 1e-3  # a share that no run exceeds says nothing of its domain
VARIED, OFTEN = 0.05, 0.2  # the range of shares that says something of a domain; a part of the runs


def unseen(fitted: dict) -> list[str]:
    """The training domains that have practically no share in any fitted run."""
    return [name for name, one in fitted["proportions_seen"].items() if one["max"] <= SEEN]


def confounded(shares: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of domains (i, j): the runs (n, m) without i, two and OFTEN of all at least, have one share
    of j, so that a law may take what a first share of i is worth for what j is.
    """
    pairs, varied = [], np.ptp(shares, axis=0) > VARIED
    for i, column in enumerate(shares.T):
        without = shares[column <= SEEN]
        if max(2, OFTEN * len(shares)) <= len(without) < len(shares):
            same = varied & (np.ptp(without, axis=0) <= SEEN)
            pairs += [(i, int(j)) for j in np.flatnonzero(same) if j != i]
    return pairs


def deviations(fitted: dict, shares: np.ndarray, step: float) -> np.ndarray:
    """Deviations (n, d) of log losses at shares (n, m) from `unseen` domains, 0 without any."""
    names, domains = unseen(fitted) if fitted["law"] == "transfer" else [], fitted["domains"]
    if not names:
        return np.zeros((len(shares), len(fitted["loss_domains"])))
    factor = read(fitted["coefficients"], domains)
    columns = [domains.index(name) for name in names]
    used = bool(fitted.get("choice", {}).get("prior"))
    gaps = offsets(recorded(fitted, tuple(domains), tuple(fitted["loss_domains"]))) if used else None
    trained = [fitted["coefficients"][name].get("own", name) for name in fitted["loss_domains"]]
    own = [domains.index(name) if name in domains else -1 for name in trained]
    levels = factor.levels(shares)
    moves = [1 + MOVE * (np.arange(len(domains)) == column) for column in columns]
    slopes = np.array([(factor._replace(k=factor.k * move).levels(shares) - levels) / MOVE for move in moves])
    grown = run_of(fitted["coefficients"], domains).nu * effects_at(fitted["coefficients"], [step])[0]
    return _of_seen(factor, gaps, columns, own) * grown * np.sqrt((np.nan_to_num(slopes) ** 2).sum(axis=0))


def _of_seen(factor, gaps: np.ndarray | None, columns: Sequence[int], own: Sequence[int]) -> float:
    """The standard deviation of log k of trained domains around the prior, over all losses."""
    d, _, m = factor.k.shape
    counts = ~np.isin(np.arange(m), columns)[None] & (np.arange(m) != np.array(own)[:, None])
    if counts.sum() <= d:
        return LEAST
    logs = np.log(np.maximum(factor.k[:, 0], 1e-30)) + (0.0 if gaps is None else gaps)
    means = (logs * counts).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    variance = ((logs - means) ** 2 * counts).sum() / (counts.sum() - d)
    return float(max(np.sqrt(variance), LEAST))


def unseen_sentence(fitted: dict, shares: np.ndarray) -> str:
    """A warning where a mixture (m,) trains on domains that no fitted run did, else ""."""
    new = [name for name in unseen(fitted) if shares[fitted["domains"].index(name)] > SEEN]
    if not new:
        return ""
    return (
        f"no fitted run trains on {', '.join(new)}: {basis(fitted)}; intervals are wider for it, and"
        " `bimix next` proposes runs that settle it."
    )


def basis(fitted: dict) -> str:
    """In words: the basis of a prediction for a domain that no run trains on."""
    if fitted["law"] != "transfer":
        return f"the law {fitted['law']} does not know what it is worth"
    prior = fitted.get("choice", {}).get("prior")
    return f"what it is worth is {'read off its text' if prior else 'taken from the other domains'} alone"
