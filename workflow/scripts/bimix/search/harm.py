"""Runs that settle what repetition costs: one scarce domain, its pool cut so that it is read more
or less often.

A swarm says nothing of it, as a domain is read more often only where its share is larger. So the
runs differ in share and in epochs apart. Of the log loss on the domain at share r, read e times,

    y = c - a log rho(r) + log(1 + H / L)        (`transfer/repetition`)

is made linear in c, log a and the logs of R, P, mu and kappa, near their priors or where runs have
them. L, the loss without harm, is taken to be LEVEL nats. Runs are picked one by one, each the one
that adds most to what is known of the last four, in nats.
"""

from collections.abc import Sequence

import numpy as np

from bimix.errors import InputError
from bimix.mixtures.by_hand import within
from bimix.search.proposals import Proposed, last_number, rounded
from bimix.search.setting import Setting
from bimix.transfer import repetition
from bimix.transfer.mixing import MEAN_LOG_A
from bimix.transfer.run import form_of

EPOCHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SHARES = 8  # of the domain, within its bounds
LEAST_SHARE, MOST_SHARE = 0.02, 0.5
LEVEL = 3.0
# Deviations of c and log a before any run; and of a run, without further seeds.
FREE, OF_LOG_A, NOISE = 1.0, 0.5, 0.005
MOVE = 1e-4  # of a number, for its slope
COUNT = 3


def harm_runs(asked: Setting, domain: str) -> list[Proposed]:
    """The runs to make, in the order in which they were picked. Other domains keep the ratios of
    the mean of those that are done, or have equal shares, as far as their bounds leave it.

    Errors: no such domain; not one model; bounds or a pool that leave no run.
    """
    if domain not in asked.domains:
        raise InputError(f"--harm names {domain!r}, which no mixture trains on: {', '.join(asked.domains)}.")
    if len(asked.domains) < 2:
        raise InputError("--harm varies the share of a domain: it needs two domains or more.")
    if len(asked.models) != 1:
        raise InputError("--harm needs --models with one model: its tokens say how often a run reads a pool.")
    own, model = asked.domains.index(domain), asked.models[0]
    form = None if asked.fitted is None else form_of(asked.fitted["coefficients"])
    form = form or repetition.Repetition(*map(float, np.exp(repetition.PRIOR)))
    low, high = max(asked.lower[own], LEAST_SHARE), min(asked.upper[own], MOST_SHARE)
    pool = np.inf if asked.pools is None else asked.pools[own]
    shares, epochs = (one.ravel() for one in np.meshgrid(np.geomspace(low, max(low, high), SHARES), EPOCHS))
    kept = (shares <= high) & (shares * model.tokens / epochs <= pool)
    kept &= (1 - shares >= asked.lower.sum() - asked.lower[own]) & (1 - shares <= asked.upper.sum() - asked.upper[own])
    if not kept.any():
        raise InputError(f"--harm: no run of {model.name} reads {domain} within the bounds and its pool.")
    shares, epochs = shares[kept], epochs[kept]
    slopes = slopes_of(shares, epochs, model.tokens, form.scale or model.parameters, form)
    precision = np.diag(1 / np.array([FREE, OF_LOG_A, *repetition.SPREAD]) ** 2)
    before, runs = _known(precision), []
    others = asked.centre()
    others[own] = 0.0
    last = last_number(asked.done.mixtures)
    for number in range(last + 1, last + 1 + (COUNT if asked.count is None else asked.count)):
        after = [precision + np.outer(one, one) / (asked.noise or NOISE) ** 2 for one in slopes]
        best = int(np.argmax([_known(one) for one in after]))
        precision = after[best]
        lower, upper = asked.lower.copy(), asked.upper.copy()
        lower[own] = upper[own] = shares[best]
        ratio = (1 - shares[best]) * others / max(others.sum(), 1e-300)
        mixture = rounded(within(np.maximum(ratio - lower, 0.0)[None], lower, upper)[0])
        pools = np.full(len(others), np.inf) if asked.pools is None else asked.pools.copy()
        pools[own] = round(mixture[own] * model.tokens / epochs[best])
        runs.append(Proposed(f"proposed_{number:03d}", mixture, True, model, pools, 1, _known(precision) - before))
    return runs


def slopes_of(
    shares: np.ndarray, epochs: np.ndarray, tokens: float, scale: float, form: repetition.Repetition
) -> np.ndarray:
    """How y (n,) of runs changes with c, log a and the logs of R, P, mu and kappa: (n, 6)."""

    def level(z):
        c, log_a, *logs = z
        r, p, mu, kappa = np.exp(logs)
        per_share = epochs / shares
        height = p * (scale * per_share / tokens) ** kappa
        added = repetition.harm(shares, per_share, height, mu)[0]
        return c - np.exp(log_a) * np.log(repetition.counted(shares, per_share, r)[0]) + np.log1p(added / LEVEL)

    at = np.array([0.0, MEAN_LOG_A, *np.log([form.R, form.P, form.mu, form.kappa])])
    return np.stack([(level(at + one) - level(at - one)) / (2 * MOVE) for one in MOVE * np.eye(len(at))], axis=1)


def _known(precision: np.ndarray) -> float:
    """What is known of the last four numbers, in nats."""
    return -0.5 * float(np.linalg.slogdet(np.linalg.inv(precision)[2:, 2:])[1])


def harm_lines(runs: Sequence[Proposed], domain: str, asked: Setting) -> list[str]:
    """The runs for a person."""
    own = asked.domains.index(domain)
    lines = [f"{len(runs)} runs of {runs[0].model.name} say what it costs to repeat {domain}:"]
    for one in runs:
        epochs = one.shares[own] * one.model.tokens / one.pools[own]
        lines.append(
            f"{one.mixture}: {domain} at {one.shares[own]:.3g} of a pool of {one.pools[own]:,.0f} tokens, read {epochs:.3g} times."
        )
    return lines
