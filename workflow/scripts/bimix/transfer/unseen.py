"""Domains that no fitted run trains on: how far the law `transfer` may be off where a mixture does.

Of such a domain j nothing but the prior says what k_ij is: exp(u_i - gap_ij), with u at its mean
over the domains where i = j. How far log k of the domains that were trained on lies from what the
same prior says of them is how far it may be off here, LEAST at least, as the ridge draws few runs'
log k to the prior. To first order the log loss then has the deviation

    e nu_i alpha_i k_ij r_j^gamma_i / S_i      times that of log k

with e of the step and nu of the size that the law is read at.
"""

from collections.abc import Sequence

import numpy as np

from bimix.observations.prior import offsets, recorded
from bimix.transfer.factor import read
from bimix.transfer.run import effects_at, run_of

LEAST = 1.6  # deviation of log k from its prior, with which 90 % intervals hold 90 % on Olmix' 64 domains
SEEN = 1e-3  # a share that no run exceeds says nothing of its domain


def unseen(fitted: dict) -> list[str]:
    """The training domains that no fitted run trains on, to speak of."""
    return [name for name, one in fitted["proportions_seen"].items() if one["max"] <= SEEN]


def deviations(fitted: dict, shares: np.ndarray, step: float) -> np.ndarray:
    """Deviations (n, d) of log losses at shares (n, m) and a step by what is not known of `unseen`
    domains; 0 of other laws, and where a mixture has none of them.
    """
    names, domains = unseen(fitted) if fitted["law"] == "transfer" else [], fitted["domains"]
    if not names:
        return np.zeros((len(shares), len(fitted["loss_domains"])))
    factor = read(fitted["coefficients"], domains)
    columns = [domains.index(name) for name in names]
    used = bool(fitted.get("choice", {}).get("prior"))
    gaps = offsets(recorded(fitted, tuple(domains), tuple(fitted["loss_domains"]))) if used else None
    spread = _of_seen(
        factor, gaps, columns, [domains.index(name) if name in domains else -1 for name in fitted["loss_domains"]]
    )
    parts = factor.k[None] * np.power(shares[:, None, :], factor.g[None, :, None])[:, :, None]
    sums = parts.sum(axis=3)
    with np.errstate(divide="ignore", invalid="ignore"):
        heights = factor.c - factor.a * np.log(sums)
        weights = np.exp(heights - heights.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        slopes = (weights * factor.a / sums)[..., None] * parts[..., columns]
    grown = run_of(fitted["coefficients"], domains).nu * effects_at(fitted["coefficients"], [step])[0]
    return spread * grown * np.sqrt((np.nan_to_num(slopes).sum(axis=2) ** 2).sum(axis=2))


def _of_seen(factor, gaps: np.ndarray | None, columns: Sequence[int], own: Sequence[int]) -> float:
    """The deviation of log k of the domains that runs trained on from its prior, pooled over the
    loss domains.
    """
    d, _, m = factor.k.shape
    counts = ~np.isin(np.arange(m), columns)[None] & (np.arange(m) != np.array(own)[:, None])
    if counts.sum() <= d:
        return LEAST
    logs = np.log(np.maximum(factor.k[:, 0], 1e-30)) + (0.0 if gaps is None else gaps)
    means = (logs * counts).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    variance = ((logs - means) ** 2 * counts).sum() / (counts.sum() - d)
    return float(max(np.sqrt(variance), LEAST))


def unseen_sentence(fitted: dict, shares: np.ndarray) -> str:
    """A sentence where a mixture (m,) trains on domains that no fitted run did; else nothing."""
    names = [name for name, share in zip(fitted["domains"], shares, strict=True) if share > SEEN]
    new = [name for name in unseen(fitted) if name in names]
    if not new:
        return ""
    return (
        f"no fitted run trains on {', '.join(new)}: {basis(fitted)}; intervals are wider for it, and"
        " `bimix next` proposes runs that settle it."
    )


def basis(fitted: dict) -> str:
    """What a law knows of a domain that no run trains on."""
    if fitted["law"] != "transfer":
        return f"the law {fitted['law']} does not know what it is worth"
    prior = fitted.get("choice", {}).get("prior")
    return f"what it is worth is {'read off its text' if prior else 'taken from the other domains'} alone"
