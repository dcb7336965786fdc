"""Minimum of a convex function of a mixture under convex constraints, and a bound from below that
certifies it.

    minimise F(r) [+ t]   where g_i(r) <= e_i t, lower <= r <= upper, sum r = 1

with e_i = 1 for the parts whose largest is to be small (the epigraph form) and 0 for constraints.
A barrier, then primal-dual steps on the KKT conditions, as `convex` takes without constraints.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

ROUNDS = 60
SHRINK = 0.1  # the barrier falls to this share of the present complementarity at every step
TO_BOUNDARY = 0.99  # a step goes at most this part of the way to where a slack ends
NEAR = 1e-5  # of the first barrier: where the KKT conditions take over
STEPS = 60  # Newton's at one barrier, at most
CLOSE = 1e-12  # complementarity at which the barrier has done its work
NUDGES = (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5)  # of the mixture to the centre, where the bound is taken


class Program(NamedTuple):
    """F and the p parts g of a convex program in r (m,)."""

    # r -> F, its gradient (m,), g (p,), their gradients (p, m)
    at: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray, np.ndarray]]
    # r, multipliers (p,) -> Hessian (m, m) of F + sum_i multiplier_i g_i
    bend: Callable[[np.ndarray, np.ndarray], np.ndarray]
    # (p,) 1: the largest of these parts is minimised beside F; 0: a constraint
    epigraph: np.ndarray


class Solved(NamedTuple):
    """A mixture (m,), the multipliers (p,) of the parts, and F + t there."""

    shares: np.ndarray
    multipliers: np.ndarray
    value: float
    # by how much no mixture within the constraints is better, at most: the duality gap
    gap: float
    violation: float  # the largest g of the constraints, 0 where all hold


def solve(program: Program, lower: np.ndarray, upper: np.ndarray, start: np.ndarray | None = None) -> Solved:
    """The minimum, from `start`, at which all constraints hold with room, or from the centre of the
    bounds.

    A barrier comes near from any start, its steps taken where the barrier falls; steps on the KKT
    conditions then give the last digits. What is better certified counts.
    """
    move = upper - lower > 1e-14
    rest = 1 - lower[~move].sum()
    inside = (rest - lower[move].sum()) / max((upper - lower)[move].sum(), 1e-300)
    if not move.any() or inside < 1e-12 or inside > 1 - 1e-12:
        only = np.where(move, upper if inside > 0.5 else lower, lower)  # the bounds leave one mixture
        return certified(program, only, np.zeros(len(program.epigraph)), lower, upper)
    centre = np.where(move, lower + inside * (upper - lower), lower)
    point = _begin(program, lower, upper, centre, start, move)
    near = _near(program, lower, upper, point, move)
    tried = [near, _exact(program, lower, upper, near, move)]
    found = [certified(program, one.r / one.r.sum(), one.v, lower, upper) for one in tried]
    allowed = [one for one in found if one.violation <= found[0].violation + 1e-9]
    return min(allowed, key=lambda one: one.gap)


class Point(NamedTuple):
    """Where a descent is: the mixture, t, the multipliers of the parts, and the barrier."""

    r: np.ndarray
    t: float
    v: np.ndarray
    barrier: float


def _begin(program, lower, upper, centre, start, move) -> Point:
    """A point inside the bounds at which all constraints hold with room."""
    e = program.epigraph.astype(float)
    r = centre
    for share in (0.1, 0.01, 1e-3, 1e-5, 1e-7, 1e-9) if start is not None else ():
        r = (1 - share) * start + share * centre
        if (program.at(r)[2][e == 0] < 0).all() and (r > lower)[move].all() and (r < upper)[move].all():
            break
    g = program.at(r)[2]
    top = float(g[e > 0].max()) if (e > 0).any() else 0.0
    return Point(r, top + 0.1 * (1 + abs(top)) if (e > 0).any() else 0.0, np.zeros(len(g)), 0.0)


def _near(program, lower, upper, point, move) -> Point:
    """The minimum of F + t - barrier sum log (slacks, distances to bounds), as the barrier falls to
    NEAR: Newton steps, each shortened until the sum falls.
    """
    e, m = program.epigraph.astype(float), int(move.sum())
    has_t = bool(e.any())
    full, t = point.r.copy(), point.t

    def total(value, g, r, t, barrier):
        parts = np.concatenate([e * t - g, (r - lower)[move], (upper - r)[move]])
        return value + t - barrier * np.log(parts).sum() if (parts > 0).all() else np.inf

    value, gradient, g, jacobian = program.at(full)
    scale = max(abs(value) + abs(t), 1e-3)
    barrier = scale / (len(g) + 2 * m)
    last = NEAR * barrier
    while barrier > last:
        barrier *= SHRINK
        for _ in range(STEPS):
            slack, below, above = e * t - g, (full - lower)[move], (upper - full)[move]
            v, own = barrier / slack, jacobian[:, move]
            weight = v / slack
            size = m + has_t + 1
            matrix, right = np.zeros((size, size)), np.zeros(size)
            matrix[:m, :m] = program.bend(full, v)[np.ix_(move, move)] + (own * weight[:, None]).T @ own
            matrix[:m, :m] += np.diag(barrier / below**2 + barrier / above**2)
            slope = gradient[move] + own.T @ v - barrier / below + barrier / above
            right[:m] = -slope
            if has_t:
                matrix[:m, m] = matrix[m, :m] = -own.T @ (weight * e)
                matrix[m, m] = weight @ e
                right[m] = v @ e - 1
            matrix[:m, -1] = matrix[-1, :m] = -1
            # in the units of the distances to the bounds, of which some are tiny
            unit = np.ones(size)
            unit[:m] = np.minimum(below, above)
            step = unit * _solved(matrix * unit * unit[:, None], right * unit)
            dr, dt = step[:m], step[m] if has_t else 0.0
            fall = -(slope @ dr - (right[m] * dt if has_t else 0.0))
            if fall <= 1e-3 * barrier:
                break
            before, length, new = total(value, g, full, t, barrier), 1.0, full.copy()
            for _ in range(60):
                new[move] = full[move] + length * dr
                if ((new > lower) & (new < upper))[move].all():
                    moved = program.at(new)
                    if total(moved[0], moved[2], new, t + length * dt, barrier) <= before - 0.1 * length * fall:
                        break
                length /= 2
            else:
                break  # rounding: the sum falls no more
            full, t = new, t + length * dt
            value, gradient, g, jacobian = moved
    return Point(full, t, barrier / (e * t - g), barrier)


def _exact(program, lower, upper, point, move) -> Point:
    """From near the minimum to where the KKT conditions hold: primal-dual steps."""
    m, e = int(move.sum()), program.epigraph.astype(float)
    has_t = bool(e.any())
    r, t, v, barrier = point
    _, gradient, g, jacobian = program.at(r)
    below, above, slack = (r - lower)[move], (upper - r)[move], e * t - g
    y, z = barrier / below, barrier / above
    mu = float(np.median((gradient + v @ jacobian)[move] - y + z))
    full = r.copy()

    def residual(gradient, g, jacobian, t, slack, v, y, z, below, above, mu, total):
        """What the KKT conditions lack, at complementarity `barrier`."""
        flat = (gradient + v @ jacobian)[move] - mu - y + z
        return np.concatenate(
            [
                flat * np.minimum(below, above),
                [v @ e - 1] if has_t else [],
                g - e * t + slack,
                v * slack - barrier,
                y * below - barrier,
                z * above - barrier,
                [total - 1],
            ]
        )

    for _ in range(ROUNDS):
        complementarity = (v @ slack + y @ below + z @ above) / (len(v) + 2 * m)
        barrier = 0.0
        lacks = residual(gradient, g, jacobian, t, slack, v, y, z, below, above, mu, r.sum())
        scale = max(float(np.abs(gradient + v @ jacobian) @ r), 1e-12)
        if np.abs(lacks).max() <= CLOSE * 10 * scale and complementarity <= CLOSE * scale:
            break
        barrier = SHRINK * complementarity
        # Newton: the slack and the multipliers of the bounds are put in, r, t and mu are solved for
        own = jacobian[:, move]
        weight = v / slack
        lack = g - e * t + slack
        push = (barrier - v * slack) / slack + weight * lack  # v's step is push + weight (J dr - e dt)
        hessian = program.bend(r, v)[np.ix_(move, move)] + np.diag(y / below + z / above)
        size = m + has_t + 1
        matrix, right = np.zeros((size, size)), np.zeros(size)
        matrix[:m, :m] = hessian + (own * weight[:, None]).T @ own
        flat = (gradient + v @ jacobian)[move] - mu
        right[:m] = -(flat - barrier / below + barrier / above) - own.T @ push
        if has_t:
            matrix[:m, m] = matrix[m, :m] = -own.T @ (weight * e)
            matrix[m, m] = weight @ e
            right[m] = -(1 - v @ e) + e @ push
        matrix[:m, -1] = matrix[-1, :m] = -1
        right[-1] = r.sum() - 1
        step = _solved(matrix, right)
        dr, dt, dmu = step[:m], step[m] if has_t else 0.0, step[-1]
        dslack = -lack - own @ dr + e * dt
        dv = (barrier - v * slack - v * dslack) / slack
        dy, dz = (barrier - y * dr) / below - y, (barrier + z * dr) / above - z
        length = 1.0
        for value, change in ((below, dr), (above, -dr), (slack, dslack), (v, dv), (y, dy), (z, dz)):
            falling = change < 0
            if falling.any():
                length = min(length, TO_BOUNDARY * (-value[falling] / change[falling]).min())
        before = np.linalg.norm(residual(gradient, g, jacobian, t, slack, v, y, z, below, above, mu, r.sum()))
        for _ in range(25):
            new = slack + length * dslack, v + length * dv, y + length * dy, z + length * dz
            low, high = below + length * dr, above - length * dr
            full[move] = np.where(low < high, lower[move] + low, upper[move] - high)
            moved = program.at(full)[1:]
            lacks = residual(*moved, t + length * dt, *new, low, high, mu + length * dmu, full.sum())
            if np.linalg.norm(lacks) <= (1 - 1e-4 * length) * before:
                break
            length /= 2
        (slack, v, y, z), below, above = new, low, high
        t, mu, r = t + length * dt, mu + length * dmu, full.copy()
        gradient, g, jacobian = moved
    return Point(r, t, v, barrier)


def _solved(matrix, right):
    """A Newton step; where the matrix is singular, the shortest of its steps."""
    try:
        step = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(matrix, right, rcond=None)[0]
    return step if np.isfinite(step).all() else np.linalg.lstsq(matrix, right, rcond=None)[0]


def certified(
    program: Program, shares: np.ndarray, multipliers: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> Solved:
    """A mixture with the value F + t, and how much better any other can be.

    With any multipliers v >= 0, those of the epigraph summing to 1, and any point p,
    F(x) + v.g(x) >= F(p) + v.g(p) + rho.(x - p) for all x. Stationarity holds exactly. What is left
    is the complementary slackness sum_j rho_j+ (p_j - lower_j) + rho_j- (upper_j - p_j), rho being
    the gradient less its best constant. The bound is taken at the mixture and at points
    towards the centre, as gradients at a share of 0 may be infinite.
    """
    on = program.epigraph > 0
    v = np.maximum(multipliers, 0.0)
    if on.any():
        v[on] = v[on] / v[on].sum() if v[on].sum() > 0 else 1 / on.sum()
    value, _, g, _ = program.at(shares)
    value = value + (float(g[on].max()) if on.any() else 0.0)
    room = upper - lower
    inside = (1 - lower.sum()) / max(room.sum(), 1e-300)
    bound = -np.inf
    for nudge in NUDGES:
        p = (1 - nudge) * shares + nudge * (lower + inside * room)
        at, gradient, parts, jacobian = program.at(p)
        slope = gradient + v @ jacobian
        if not np.isfinite(slope).all():
            continue
        rho = slope[None, :] - slope[:, None]  # of each share's slope as the constant
        lost = np.maximum(rho, 0) @ (p - lower) + np.maximum(-rho, 0) @ (upper - p)
        bound = max(bound, at + v @ parts - lost.min())
    violation = max(0.0, float(g[~on].max())) if (~on).any() else 0.0
    return Solved(shares, v, float(value), float(value - bound), violation)
