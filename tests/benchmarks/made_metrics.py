"""Tables of metrics that are made: 19 training domains, 17 error rates, noisy and of different
scales, some of which a domain hurts.

Six kinds of truth, so that no law is judged by its own form alone.
"""

import numpy as np

DOMAINS, METRICS = 19, 17
KINDS = ("helps", "hurts", "skills", "crowding", "best", "roots")


def mixtures(draw, n):
    """Proportions (n, 19): Dirichlet draws about a prior of unequal shares, 0 below 2e-3."""
    prior = np.sort(draw.dirichlet(np.full(DOMAINS, 1.0)))[::-1] + 0.01
    shares = np.array([draw.dirichlet(DOMAINS * prior * draw.choice([0.3, 0.6, 1.2, 2.5])) for _ in range(n)])
    shares = np.where(shares < 2e-3, 0.0, shares)
    return shares / shares.sum(axis=1, keepdims=True)


def log_errors(kind, draw):
    """The truth of a kind: a function of proportions (n, 19) to log error rates (n, 17)."""
    d, m = METRICS, DOMAINS
    k = np.exp(draw.normal(-2.5, 1.2, (d, m)))
    k[np.arange(d), draw.permutation(m)[:d]] = 1.0
    a = draw.uniform(0.03, 0.25, (d, 1))
    hurt = (draw.random((d, m)) < 0.2) * draw.uniform(0.1, 0.6, (d, m)) * (draw.random((d, 1)) < 0.7)
    if kind == "helps":  # the law transfer as it was: nothing hurts
        return lambda r: -a.T * np.log(np.sqrt(r) @ k.T + 1e-3)
    if kind == "hurts":  # the signed form itself
        return lambda r: -a.T * np.log(np.sqrt(r) @ k.T + 1e-3) + r @ hurt.T
    if kind == "skills":  # a logistic curve of the losses of the domains, for each metric its own
        own = np.exp(draw.normal(-3, 1, (m, m)))
        np.fill_diagonal(own, 1.0)
        weigh = draw.dirichlet(np.full(m, 0.3), d)
        middle, slope = draw.normal(0, 0.5, d), draw.uniform(0.8, 2, d)
        floor = draw.uniform(0.05, 0.3, d)

        def skills(r):
            losses = (r @ own.T + 1e-3) ** -0.2 - 1.3
            return np.log(floor + (1 - floor) / (1 + np.exp(-slope * (losses @ weigh.T - middle) - r @ hurt.T * 2)))

        return skills
    if kind == "crowding":  # each domain saturates, and what interferes does so by pairs
        scale, height = draw.uniform(0.02, 0.2, (d, m)), draw.exponential(0.05, (d, m))
        pairs = draw.normal(0, 0.6, (d, m, m)) * (draw.random((d, m, m)) < 0.05)

        def crowding(r):
            gained = (height * (1 - np.exp(-r[:, None] / scale))).sum(axis=2)
            return np.log(0.8) - gained + np.einsum("ni,dij,nj->nd", r, pairs, r) + 0.5 * (r @ hurt.T)

        return crowding
    if kind == "best":  # every metric has a best mixture, and errors grow with the distance from it
        place, steep = draw.dirichlet(np.full(m, 0.5), d), draw.uniform(0.2, 1.5, (d, m))
        return lambda r: np.log(0.5 + ((r[:, None] - place) ** 2 * steep).sum(axis=2))
    b = draw.exponential(0.1, (d, m))  # roots: linear in the roots of the shares and in the shares
    return lambda r: -(np.sqrt(r) @ b.T) + r @ hurt.T


def table(kind, seed, runs=64, new=300):
    """Shares (runs, 19), noisy error rates (runs, 17), and new ones without noise."""
    draw = np.random.default_rng([KINDS.index(kind), seed])
    shares, truth = mixtures(draw, runs + new), log_errors(kind, draw)
    logs = truth(shares)
    spread = logs.std(axis=0)
    # metrics of very different scale, and noise of a third to three times of what mixtures do
    wanted = np.exp(draw.uniform(np.log(0.005), np.log(0.1), METRICS))
    logs = (logs - logs.mean(axis=0)) * wanted / spread + np.log(draw.uniform(0.2, 0.8, METRICS))
    noise = wanted * np.exp(draw.uniform(np.log(0.3), np.log(3), METRICS))
    seen = logs[:runs] + noise * draw.standard_normal((runs, METRICS))
    return shares[:runs], np.exp(seen), shares[runs:], np.exp(logs[runs:])
