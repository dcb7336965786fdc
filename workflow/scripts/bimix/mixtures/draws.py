"""RegMix's random mixtures around the token shares (Liu et al. 2024), for a swarm of small runs.

As in the released code, the prior is token shares^0.5, scaled to a sum of one. Each draw takes one
of 15 concentrations, log-spaced from 0.1 to 5, and then Dirichlet(concentration x prior). A draw
that gives a domain more than 15 times its token share is rejected. Shares below 2e-4 become 0, and
the rest is scaled to a sum of one. (The code then rounds to multiples of 2e-4, which is left out:
sums would no longer be one.)
"""

from collections.abc import Sequence

import numpy as np

from bimix.errors import InputError

STRENGTHS = (0.1, 5.0)  # least and greatest
TEMPERATURE = 0.5
MOST_REPEATED = 15  # times its token share: how far a domain may be repeated, were all tokens read once
LEAST = 2e-4  # about a hundred rows of 2,048 tokens in a run of a billion
ATTEMPTS = 100_000


def prior(token_shares: np.ndarray) -> np.ndarray:
    """Centre (m,) of the draws, from token shares or counts (m,)."""
    flattened = np.asarray(token_shares, dtype=np.float64) ** TEMPERATURE
    return flattened / flattened.sum()


def most(token_shares: np.ndarray) -> np.ndarray:
    """Largest proportions (m,) that a draw may have."""
    shares = np.asarray(token_shares, dtype=np.float64)
    return np.minimum(MOST_REPEATED * shares / shares.sum(), 1.0)


def strengths(between: Sequence[float]) -> np.ndarray:
    """The 15 Dirichlet concentrations, ascending; draws of higher ones are closer to the centre."""
    return np.geomspace(*between, 15)


def mixture(token_shares: np.ndarray, seed: int, number: int, between: Sequence[float] = STRENGTHS) -> np.ndarray:
    """Mixture `number` (m,) of the swarm of `seed`. Errors: 100,000 draws are all too uneven."""
    centre, upper = prior(token_shares), most(token_shares)
    draw = np.random.default_rng([seed, number])
    for _ in range(ATTEMPTS):
        drawn = draw.dirichlet(draw.choice(strengths(between)) * centre)
        if (drawn <= upper).all():
            return trimmed(drawn)
    raise InputError(
        f"mixture {number} of the swarm: in {ATTEMPTS:,} draws some domain always has more than {MOST_REPEATED} times its"
        f" share of the tokens, whose smallest is {upper.min() / MOST_REPEATED:.3g}: join the smallest domains."
    )


def simulated(token_shares: np.ndarray, count: int, seed: int, between: Sequence[float] = STRENGTHS) -> np.ndarray:
    """About `count` draws (n, m) before rejection, the same number of each concentration."""
    centre, draw = prior(token_shares), np.random.default_rng(seed)
    taken = strengths(between)
    each = -(-count // len(taken))
    return np.concatenate([draw.dirichlet(strength * centre, each) for strength in taken])


def trimmed(shares: np.ndarray) -> np.ndarray:
    """Proportions (..., m) without those below 2e-4."""
    kept = np.where(shares < LEAST, 0.0, shares)
    return kept / kept.sum(axis=-1, keepdims=True)


def check_drawn(names: list[str], domains: list[str], proportions: np.ndarray) -> None:
    """Refuse a swarm (n, m) in which a domain never occurs: its effect cannot be estimated."""
    never = [domain for domain, largest in zip(domains, proportions.max(axis=0), strict=True) if largest == 0]
    if never:
        raise InputError(
            f"in the {len(names)} mixtures of the swarm {', '.join(never)} ({len(never)} of {len(domains)} domains) never occurs:"
            f" raise `runs` of the swarm, or give it another `seed`."
        )
