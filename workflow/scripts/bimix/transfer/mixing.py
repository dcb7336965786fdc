"""The mixing factor of the law `transfer`: the dependence of a run's loss levels on its mixture,
fitted for all loss domains together.

For loss domain i the level (log loss without the curve over steps) of a run with proportions r is

    y_i(r) = log sum_q exp(c_iq) S_iq(r)^-a_iq      S_iq(r) = sum_j k_iqj r_j^g_i      q = 1..K

with a > 0, k > 0 and 0 < g < 1. S is concave in r and a negative power of it convex, so every
predicted loss is convex. In the first term k_ii = 1 where domain i is trained on. Every other k_ij
= exp(u_i - gap_ij + delta_ij), where the gap is 0 or comes from a prior from text
(`observations/prior`), and delta_i = L z_i where domains have groups (`observations/groups`), else
z_i. The fitted parameters are c, log a, logit g, u and z. Few runs suffice through shrinkage across
domains: log a, logit g and u are shrunk to means that all domains share, which are fitted with weak
priors, and z to 0. One number, the ridge, scales all penalties; a loss domain may have its own. The
signed term (`signed`) is added to y and eliminated from the optimisation.

Least squares by Levenberg-Marquardt with the analytic Jacobian. The domains of a fit are coupled by
the shared means only, so a step is one small solve per domain and a Schur complement of the size of
the means. Many fits (folds, resamples) are computed together.
"""

from dataclasses import dataclass, replace

import numpy as np

from bimix.transfer.factor import Factor, blocks, jacobian_of, levels, logs_of, unpack
from bimix.transfer.signed import Signed, signed

# Penalties in units of the ridge, chosen on known laws and on RegMix's public runs; threefold
# changes have little effect.
SHRINK_LOG_A, SHRINK_LOGIT_G, SHRINK_U = 10.0, 30.0, 10.0
# Prior means of the shared means of log a, logit g, u, and the penalties in units of the ridge. The
# prior of a is strong: a few runs on many domains fit equally well with a large a and equal effects
# of all domains, which predicts badly.
MEAN_LOG_A, MEAN_LOGIT_G, MEAN_U = np.log(0.15), 1.0, -4.0
# With so many domains a mixture moves each loss less (tests/benchmarks/registrations/mean_of_alpha.yaml).
MANY_DOMAINS, MEAN_LOG_A_OF_MANY = 12, np.log(0.075)
HOLD_LOG_A, HOLD_MEANS = 1000.0, 10.0
TOLERANCE = 1e-4  # a fit ends when a step lowers its cost by less than this share
# Parameters per loss domain from which products of Jacobians are in single precision: they decide
# the direction of a step, not the solution.
WIDE = 64
FAR = 1e8  # holds a number which a domain does not have
# glibc returns freed arrays above 128 KiB to the system, which clears the pages of the next one,
# until a larger one was freed (M_MMAP_THRESHOLD in mallopt): a fifth of a fit's time.
np.empty(2**25 - 2**16, dtype=np.uint8)

BY_FIT = ("x", "means", "gaps", "t")  # of `Mixing`, with a row for each fit


@dataclass(frozen=True)
class Mixing:
    """Fitted parameters x (fits, d, p), in the order c (K), log a (K), logit g, u, z (K m)."""

    x: np.ndarray
    means: np.ndarray  # (fits, K + 2): shared means of log a, logit g, u
    terms: int
    own: np.ndarray  # (d,) index of the training domain, -1 where the loss domain is not trained on
    gaps: np.ndarray  # (fits, d, m) what the prior takes off the logs of k, 0 without one
    t: np.ndarray  # (fits, d, m) of the signed term, 0 where it is off
    spread: np.ndarray | None = None  # (m, m) L of groups of domains; None: 1

    def take(self, fits: np.ndarray) -> "Mixing":
        """The fits with these numbers."""
        return replace(self, **{name: getattr(self, name)[fits] for name in BY_FIT})

    def parts(self, fit: int = 0) -> Factor:
        """The factor of one fit."""
        return Factor(*unpack(self.x[fit], self.terms, self.own, self.gaps[fit], self.spread), self.t[fit])


def predict(mixing: Mixing, shares: np.ndarray, fit: int = 0, straight: np.ndarray | None = None) -> np.ndarray:
    """Levels (n, d) of mixtures (n, m); t acts on `straight` (n, m), where given."""
    mixed = levels(mixing.x[fit], mixing.terms, mixing.own, mixing.gaps[fit], logs_of(shares), mixing.spread).T
    return mixed + (shares if straight is None else straight) @ mixing.t[fit].T


def fit(
    shares,
    y,
    own,
    ridge,
    terms=1,
    weights=None,
    start: Mixing | None = None,
    rounds=100,
    tolerance=TOLERANCE,
    gaps=None,
    harm=np.inf,
    straight=None,
    spread=None,
) -> Mixing:
    """Fit run levels y (n, d), NaN where not observed, of mixtures (n, m); `weights` (fits, n) of
    each run in each fit.

    y may be (fits, n, d), with different levels in each fit. `gaps`, (d, m) or (fits, d, m), are
    those of the prior.

    `ridge` may be (d,) or (fits, d): a larger one means noisier levels, so a loss domain has the
    weight of its inverse. `harm`, likewise, is the ridge of t relative to that, inf without a
    signed term; t acts on the shares `straight` (n, m), if not on `shares`.

    `start` is an earlier result with as many fits, or one fit from which all start. A fit ends when
    a step reduces its cost by less than the fraction `tolerance`.
    """
    problem = problem_of(shares, y, own, ridge, terms, weights, gaps, harm, straight, spread)
    m, d, fits = shares.shape[1], y.shape[-1], len(problem.hold)
    if start is None:
        x, means = _start(problem, m), np.tile(problem.anchor, (fits, 1))
    else:
        x = np.broadcast_to(start.x, (fits, *start.x.shape[1:])).reshape(fits * d, -1).copy()
        means = np.broadcast_to(start.means, (fits, terms + 2)).copy()
    damping = np.full(fits, 1e-2)
    now = problem.cost(x, means, levels(x, terms, own, problem.gaps, problem.log_shares, spread), d)
    for together in blocks(fits, d * x.shape[1] * min(x.shape[1], len(shares))):
        active = np.arange(fits)[together]
        for _ in range(rounds):
            of = (active[:, None] * d + np.arange(d)).ravel()
            part = problem if len(active) == fits else problem.take(active, of)
            before = now[active]
            x[of], means[active], damping[active], now[active] = _descend(
                part, x[of], means[active], damping[active], before, d
            )
            # at a cost of 0, such as an exact fit to two runs, there is nothing to gain
            active = active[before - now[active] > tolerance * before]
            if not len(active):
                break
    t = np.zeros((fits * d, m))
    if problem.signed is not None:
        t = problem.signed.numbers(problem.target - levels(x, terms, own, problem.gaps, problem.log_shares, spread))
    gaps, t = (one.reshape(fits, d, m) for one in (problem.gaps, t))
    return Mixing(x.reshape(fits, d, -1), means, terms, problem.own, gaps, t, spread)


def problem_of(
    shares, y, own, ridge, terms=1, weights=None, gaps=None, harm=np.inf, straight=None, spread=None
) -> "Problem":
    """The problem that `fit` solves with the same arguments."""
    n, m = shares.shape
    d = y.shape[-1]
    own = np.asarray(own)
    weights = np.ones((1, n)) if weights is None else np.asarray(weights, dtype=float)
    fits = len(weights)
    each = np.broadcast_to(y, (fits, n, d)).transpose(0, 2, 1)
    seen = np.isfinite(each)
    ridge = np.broadcast_to(np.asarray(ridge, dtype=float), (fits, d))
    base = np.exp(np.log(ridge).mean(axis=1, keepdims=True))
    w = (weights[:, None, :] * seen * (base / ridge)[:, :, None]).reshape(fits * d, n)
    harm = (np.broadcast_to(harm, (fits, d)) * base).ravel()
    strength, pull = penalties(own, m, terms)
    return Problem(
        log_shares=np.asfortranarray(logs_of(shares)),  # its transpose is what powers go through
        target=np.where(seen, each, 0.0).reshape(fits * d, n),
        w=w,
        own=own,
        terms=terms,
        strength=(base[:, :, None] * strength).reshape(fits * d, -1),
        pull=(base[:, :, None] * pull).reshape(fits * d, -1),
        anchor=np.array([*[mean_log_a(m)] * terms, MEAN_LOGIT_G, MEAN_U]),
        hold=base * [*[HOLD_LOG_A] * terms, HOLD_MEANS, HOLD_MEANS],
        gaps=np.broadcast_to(0.0 if gaps is None else gaps, (fits, d, m)).reshape(fits * d, m),
        signed=signed(shares if straight is None else straight, w, harm),
        spread=spread,
    )


@dataclass(frozen=True)
class Problem:
    """State of a step, one row per fit and loss domain (b = fits d)."""

    log_shares: np.ndarray  # (n, m)
    target: np.ndarray  # (b, n)
    w: np.ndarray  # (b, n)
    own: np.ndarray  # (d,)
    terms: int
    strength: np.ndarray  # (b, p) penalties of squared numbers
    pull: np.ndarray  # (b, K + 2) penalties of squared distances from the shared means
    anchor: np.ndarray  # (K + 2,) where the shared means are weakly drawn to
    hold: np.ndarray  # (fits, K + 2) penalties of squared distances from there
    gaps: np.ndarray  # (b, m)
    signed: Signed | None = None
    spread: np.ndarray | None = None  # (m, m)

    def take(self, fits, rows):
        """The problem of these fits; `rows` are those of their loss domains."""
        by_row = {name: getattr(self, name)[rows] for name in ("target", "w", "strength", "pull", "gaps")}
        return replace(self, hold=self.hold[fits], signed=self.signed and self.signed.take(rows), **by_row)

    @property
    def shared(self):
        """Positions of log a, logit g and u, which have shared means, among the parameters."""
        return np.arange(self.terms, 2 * self.terms + 2)

    @property
    def logs(self):
        """Positions of the parameters that are logs: log a, u, and log k where it is one."""
        first = slice(self.terms, 2 * self.terms)
        return first, slice(2 * self.terms + 1, None if self.spread is None else 2 * self.terms + 2)

    def weighed(self, left):
        """Residuals (b, n) times the root of the weights, after the signed term is eliminated."""
        left = np.sqrt(self.w) * left
        return left if self.signed is None else self.signed.without(left[:, None])[:, 0]

    def cost(self, x, means, predicted, d):
        gaps = x[:, self.shared] - np.repeat(means, d, axis=0)
        each = (
            (self.weighed(predicted - self.target) ** 2).sum(1)
            + (self.strength * x**2).sum(1)
            + (self.pull * gaps**2).sum(1)
        )
        return each.reshape(-1, d).sum(1) + (self.hold * (means - self.anchor) ** 2).sum(1)


def _descend(problem, x, means, damping, now, d):
    """An accepted step of each fit: x, means, damping, costs (from `now`), or no change."""
    shared, pull = problem.shared, problem.pull
    gradient, squares, products = _slopes(problem, x)
    gaps = x[:, shared] - np.repeat(means, d, axis=0)
    # Curvature: jacobian jacobian' + diag(penalty). Second derivatives of the levels by log a, u
    # and log k equal the first ones; where they add to the curvature, steps without them are too
    # long. With groups the derivatives by log k are mixed, so they are left out.
    penalty = problem.strength.copy()
    penalty[:, shared] += pull
    for part in problem.logs:
        penalty[:, part] += np.maximum(gradient[:, part], 0.0)
    gradient += problem.strength * x
    gradient[:, shared] += pull * gaps
    scale = np.maximum(squares + penalty, 1e-10)
    mean_gradient = problem.hold * (means - problem.anchor) - (pull * gaps).reshape(len(means), d, -1).sum(1)
    mean_scale = problem.hold + pull.reshape(len(means), d, -1).sum(1)
    edges = np.zeros((*gradient.shape, 1 + len(shared)))
    edges[:, :, 0] = gradient
    edges[:, shared, 1 + np.arange(len(shared))] = -pull
    reached = now.copy()
    pending, of, part = np.arange(len(means)), slice(None), problem
    for attempt in range(12):
        diagonal = penalty[of] + np.repeat(damping[pending], d)[:, None] * scale[of]
        solved = (solve if products.shape[1] == products.shape[2] else _solve_wide)(products[of], diagonal, edges[of])
        mean_damped = mean_scale[pending] * (1 + damping[pending, None])
        # The domains are coupled by the shared means only: these are solved by a Schur complement.
        inner = (-pull[of][:, :, None] * solved[:, shared]).reshape(-1, d, len(shared), 1 + len(shared)).sum(1)
        schur = np.eye(len(shared)) * mean_damped[:, None] - inner[:, :, 1:]
        mean_step = np.linalg.solve(schur, (inner[:, :, 0] - mean_gradient[pending])[:, :, None])[:, :, 0]
        step = -solved[:, :, 0] - (solved[:, :, 1:] @ np.repeat(mean_step, d, axis=0)[:, :, None])[:, :, 0]
        new_x, new_means = x[of] + np.clip(step, -3, 3), means[pending] + np.clip(mean_step, -3, 3)
        guess = levels(new_x, problem.terms, problem.own, part.gaps, problem.log_shares, problem.spread)
        cost = part.cost(new_x, new_means, guess, d)
        better = cost < now[pending]
        take = (pending[better, None] * d + np.arange(d)).ravel()
        x[take], means[pending[better]] = new_x[np.repeat(better, d)], new_means[better]
        reached[pending[better]] = cost[better]
        # the damping is unchanged after a step that helped only with more damping
        eased = 0.3 if attempt == 0 else 1.0
        damping[pending] = np.clip(damping[pending] * np.where(better, eased, 4.0), 1e-10, 1e10)
        pending = pending[~better]
        if not len(pending):
            break
        of = (pending[:, None] * d + np.arange(d)).ravel()
        part = problem.take(pending, of)
    return x, means, damping, reached


def _slopes(problem, x):
    """Half the gradient (b, p) of the squares, the sums of squares (b, p) of the Jacobian, and its
    products (b, p, p), or the Jacobian (b, p, n) itself where runs are fewer.
    """
    (b, p), n = x.shape, len(problem.log_shares)
    gradient, squares, products = (np.empty((b, *of)) for of in ((p,), (p,), (p, min(n, p))))
    own, root = np.tile(problem.own, b // len(problem.own)), np.sqrt(problem.w)
    for rows in blocks(b, n * p):
        predicted, jacobian = jacobian_of(
            x[rows], problem.terms, own[rows], problem.gaps[rows], problem.log_shares, root[rows], problem.spread
        )
        term = problem.signed and problem.signed.take(rows)
        left = (root[rows] * (predicted - problem.target[rows]))[:, None]
        left = left if term is None else term.without(term.without(left))
        gradient[rows] = (jacobian @ left.transpose(0, 2, 1))[:, :, 0]
        if n < p:
            products[rows] = jacobian if term is None else term.without(jacobian)
            squares[rows] = np.einsum("bpn,bpn->bp", products[rows], products[rows])
        else:
            products[rows] = _gram(jacobian, term)
            squares[rows] = np.einsum("bpp->bp", products[rows])
    return gradient, squares, products


def _gram(jacobian, term):
    """jacobian jacobian' (b, p, p), after a signed term is eliminated."""
    jacobian = jacobian.astype(np.float32 if jacobian.shape[1] >= WIDE else float, copy=False)
    gram = jacobian @ jacobian.transpose(0, 2, 1)
    if term is not None:
        sums = term.sums(jacobian)
        share = 1 / (term.values + term.ridge[:, None])
        gram -= (sums * share.astype(sums.dtype)[:, None]) @ sums.transpose(0, 2, 1)
    return gram.astype(float, copy=False)


def solve(gram, diagonal, right):
    """(gram + diag(diagonal))^-1 right."""
    system = gram.copy()
    places = np.arange(system.shape[1])
    system[:, places, places] += diagonal
    return np.linalg.solve(system, right)


def _solve_wide(jacobian, diagonal, right):
    """(jacobian jacobian' + diag(diagonal))^-1 right, by Woodbury where the runs are fewer."""
    thin = jacobian / diagonal[:, :, None]
    right = right / diagonal[:, :, None]
    turned = jacobian.transpose(0, 2, 1)
    system = turned @ thin
    places = np.arange(system.shape[1])
    system[:, places, places] += 1
    return right - thin @ np.linalg.solve(system, turned @ right)


def penalties(own, m, terms):
    """Penalties in units of the ridge: of each parameter's distance from 0 (d, p), and of log a,
    logit g and u from their shared means (d, K + 2). A domain without u has it fixed at 0.
    """
    strengths = np.zeros((len(own), (m + 2) * terms + 2))
    strengths[:, 2 * terms + 1] = np.where(own < 0, FAR, 0.0)
    strengths[:, 2 * terms + 2 :] = 1.0
    pulls = np.tile([*[SHRINK_LOG_A] * terms, SHRINK_LOGIT_G, SHRINK_U], (len(own), 1))
    pulls[own < 0, -1] = 0.0
    return strengths, pulls


def mean_log_a(domains: int) -> float:
    """Prior mean of log a by the number of training domains."""
    return MEAN_LOG_A if domains < MANY_DOMAINS else MEAN_LOG_A_OF_MANY


def _start(problem, m):
    """The start: losses at their mean levels; further terms bend where the first does not."""
    terms = problem.terms
    x = np.zeros((len(problem.target), (m + 2) * terms + 2))
    level = (problem.w * problem.target).sum(1) / np.maximum(problem.w.sum(1), 1e-12)
    x[:, :terms] = level[:, None] - 0.2 - np.log(terms)
    x[:, terms : 2 * terms] = mean_log_a(m)
    x[:, terms + 1 : 2 * terms] = np.log(0.5)
    x[:, 2 * terms] = MEAN_LOGIT_G
    x[:, 2 * terms + 1] = np.tile(np.where(problem.own < 0, 0.0, MEAN_U), len(problem.hold))
    return x
