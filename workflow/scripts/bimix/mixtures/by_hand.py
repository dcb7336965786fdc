"""Mixtures by a rule, without a law: the rules that a search has to beat.

`temperature` and `unimax` use the tokens of the domains. The others read the wanted domains for a
number of epochs and mix the rest by the shares of the reference, equally (`uniform`), or by how
well their text predicts the wanted text (`kin`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bimix.errors import InputError
from bimix.names import paired

# The largest share of the run for all wanted domains together, so that the others are read, too.
MOST_WANTED = 0.8
# Without runs, mixtures are ranked by the sum of log(share + this) over the wanted domains; the
# constant keeps the score of a mixture that leaves one out finite.
SHARE_FLOOR = 0.003
SOFTNESS = 0.5  # nats of a gap of cross-entropy that divide the weight of a domain by e, of `kin`
HALVINGS = 200  # of the logarithm of a scale between 1e-20 and 1e20: far below rounding


def temperature(tokens: np.ndarray, exponent: float) -> np.ndarray:
    """Shares (m,) of tokens (m,) to an exponent: 1 keeps them (mT5, Xue et al. 2021, Sec. 3.1)."""
    powers = (np.asarray(tokens, dtype=float) / np.max(tokens)) ** exponent
    return powers / powers.sum()


def unimax(tokens: np.ndarray, run_tokens: float, most_epochs: float) -> np.ndarray:
    """Shares (m,) as equal as possible with at most `most_epochs` epochs of each domain (UniMax,
    Chung et al. 2023); the token shares where the run reads all text more often than that.
    """
    tokens = np.asarray(tokens, dtype=float)
    most_epochs = max(most_epochs, run_tokens / tokens.sum())
    read = share_equally(np.zeros(len(tokens)), most_epochs * tokens, run_tokens)
    return read / read.sum()


def share_equally(lower: np.ndarray, upper: np.ndarray, total: float) -> np.ndarray:
    """Amounts (m,) within bounds that are as equal as possible and sum to `total`, or to the
    nearest sum that the bounds allow: one level for all, clipped to the bounds.
    """
    levels = np.sort(np.concatenate([lower, upper]))
    sums = np.clip(levels[:, None], lower, upper).sum(axis=1)
    return np.clip(np.interp(total, sums, levels), lower, upper)


def wanted_domains(weights: Mapping[str, float], domains: Sequence[str], losses: Sequence[str]) -> np.ndarray:
    """The mask (m,) of training domains that an objective wants: those whose loss has a weight;
    where all losses have one, those above the mean weight.

    `losses`: the names of all loss domains. No weights, or equal ones, want none.
    """
    weight = np.array([float(weights.get(name, 0.0)) for name in losses])
    above = weight.mean() * (1 + 1e-9) if weight.size and weight.min() > 0 else 0.0
    by_domain = {domain: weights.get(name, 0.0) for name, domain in paired(losses, domains).items()} | dict(weights)
    return np.array([float(by_domain.get(name, 0.0)) > above for name in domains], dtype=bool)


def mix_by_epochs(
    tokens: np.ndarray,
    run_tokens: float,
    own: np.ndarray,
    epochs: float,
    rest: np.ndarray,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> np.ndarray:
    """Shares (m,) of a run: `epochs` x tokens / `run_tokens` for the wanted domains (a mask (m,)),
    and the remainder in proportion to `rest` (m,), in any unit.

    Bounds (m,) hold for all. The wanted domains together get at most 80 % of the run; if they would
    get more, they share it as equally as `epochs` of each allow. No other domain is read more often
    than `epochs` times, unless the run is too long for that. Errors: no mixture satisfies the
    bounds, or `rest` is 0 for all others.
    """
    m = len(tokens)
    lower = np.zeros(m) if lower is None else np.asarray(lower, dtype=float)
    upper = np.ones(m) if upper is None else np.minimum(np.asarray(upper, dtype=float), 1.0)
    often = epochs * np.asarray(tokens, dtype=float) / run_tokens
    most = min(MOST_WANTED, 1 - lower[~own].sum()) if (~own).any() else 1.0
    share = np.clip(often, lower, upper)
    if share[own].sum() > most:
        share[own] = share_equally(lower[own], share[own], most)
    if not own.any() or not np.asarray(rest, dtype=float)[~own].sum() > 0:
        raise InputError("a rule by hand needs a wanted domain, and another one with a share above 0.")
    low, high = np.where(own, share, lower), np.where(own, share, np.clip(often, lower, upper))
    if high.sum() < 1:
        high = np.where(own, share, upper)
    if high.sum() < 1:  # the others cannot take the rest: the wanted ones do
        high = upper
    if high.sum() < 1 - 1e-9 or low.sum() > 1 + 1e-9:
        raise InputError(
            f"no mixture reads the wanted domains {epochs:g} times within the bounds, which sum to {lower.sum():.4g} and"
            f" {upper.sum():.4g}: widen them, or allow more epochs (max_epochs)."
        )
    return fit_into_bounds(np.where(own, share, np.asarray(rest, dtype=float))[None], low, high)[0]


def kin(cross_entropies: np.ndarray, own: np.ndarray, softness: float = SOFTNESS) -> np.ndarray:
    """Weights (m,) of domains by how well their text predicts wanted text: the mean over the wanted
    domains of exp(-gap / softness).

    `cross_entropies` (d, m): nats per token of wanted loss domain i under a model of domain j;
    `own` (d,): the column of the domain itself, from which the gap is taken, or -1 where nothing
    trains on it: then the gap is from the lowest of its row.
    """
    base = np.where(own >= 0, cross_entropies[np.arange(len(own)), own], cross_entropies.min(axis=1))
    return np.exp(-(cross_entropies - base[:, None]) / softness).mean(axis=0)


def fit_into_bounds(shares: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Mixtures (n, m) within bounds: lower + min(scale x share, upper - lower), summing to 1."""
    shares, slack, rest = np.maximum(shares, 1e-12), upper - lower, 1 - lower.sum()
    low, high = np.full((len(shares), 1), -20.0), np.full((len(shares), 1), 20.0)
    for _ in range(HALVINGS):
        scale = 0.5 * (low + high)
        short = np.minimum(10**scale * shares, slack).sum(axis=1, keepdims=True) < rest
        low, high = np.where(short, scale, low), np.where(short, high, scale)
    filled = np.minimum(10**high * shares, slack)
    # Rounding: an excess over 1 is taken from domains that are above their lower bounds.
    total = filled.sum(axis=1, keepdims=True)
    return lower + filled * np.divide(rest, total, out=np.ones_like(total), where=total > 0)
