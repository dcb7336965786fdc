"""Minimum of a convex function of a mixture under convex constraints, and a bound from below that
certifies it.

    minimise F(r) [+ t]   where g_i(r) <= e_i t, lower <= r <= upper, sum r = 1

with e_i = 1 for the parts whose largest is to be small (the epigraph form) and 0 for constraints.
SciPy's SLSQP finds the mixture and the multipliers; what certifies them does not depend on it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from bimix.optimum.power_sum import closed

STARTS = 3  # descents, each from near the end of the one before, while the gap is above CERTAIN
CERTAIN = 1e-7  # of the value
ROUNDS = 200
FLOOR = 1e-12  # a share of 0 may have an infinite slope: the search stays so far above, the end need not
NUDGES = (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5)  # of the mixture to the centre, where the bound is taken


class Program(NamedTuple):
    """F and the p parts g of a convex program in r (m,)."""

    # r -> F, its gradient (m,), g (p,), their gradients (p, m)
    at: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray, np.ndarray]]
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
    """The minimum, from `start` or from the centre of the bounds; of what the descents end at, the
    best certified.
    """
    move = upper - lower > 1e-14
    rest = 1 - lower[~move].sum()
    inside = (rest - lower[move].sum()) / max((upper - lower)[move].sum(), 1e-300)
    if not move.any() or inside < 1e-12 or inside > 1 - 1e-12:
        only = np.where(move, upper if inside > 0.5 else lower, lower)  # the bounds leave one mixture
        return certified(program, only, np.zeros(len(program.epigraph)), lower, upper)
    centre = np.where(move, lower + inside * (upper - lower), lower)
    point = centre if start is None else 0.999 * start + 0.001 * centre
    best: Solved | None = None
    for _ in range(STARTS):
        for found in _descent(program, lower, upper, point, move, rest):
            better = best is None or found.violation < best.violation - 1e-9
            if better or (found.violation <= best.violation + 1e-9 and found.gap < best.gap):
                best = found
        if best.gap <= CERTAIN * abs(best.value):
            break
        point = 0.999 * best.shares + 0.001 * centre
    return best


def _descent(program, lower, upper, start, move, rest) -> list[Solved]:
    """Where SLSQP ends, in the shares that can move and t: as it stands, and with the shares at
    FLOOR on their bounds.
    """
    e, m = program.epigraph.astype(float), int(move.sum())
    has_t = bool(e.any())
    last: dict[bytes, tuple] = {}

    def full(x):
        r = lower.copy()
        r[move] = x[:m]
        return r

    def at(x):
        key = x[:m].tobytes()
        if key not in last:  # the value, the parts and their slopes are asked for one after the other
            last.clear()
            with np.errstate(all="ignore"):
                last[key] = program.at(full(x))
        return last[key]

    value, gradient, g, jacobian = program.at(start)
    top = float(g[e > 0].max()) if has_t else 0.0
    moves = np.abs(np.vstack([gradient, *jacobian])[:, move]) @ start[move]  # by as much as the whole mixture
    unit = max(abs(value) + abs(top), *moves, 1e-12)

    def objective(x):
        value, gradient, _, _ = at(x)
        slope = np.append(gradient[move], 1.0) if has_t else gradient[move]
        return (value + (x[-1] if has_t else 0.0)) / unit, slope / unit

    def room(x):
        return (e * (x[-1] if has_t else 0.0) - at(x)[2]) / unit

    def slopes(x):
        own = -at(x)[3][:, move]
        return (np.hstack([own, e[:, None]]) if has_t else own) / unit

    ones = np.append(np.ones(m), np.zeros(int(has_t)))
    constraints = [{"type": "eq", "fun": lambda x: ones @ x - rest, "jac": lambda x: ones}]
    constraints += [{"type": "ineq", "fun": room, "jac": slopes}] if len(e) else []
    least = np.minimum(np.maximum(lower[move], FLOOR), upper[move])
    found = minimize(
        objective,
        np.append(start[move], top) if has_t else start[move],
        jac=True,
        method="SLSQP",
        bounds=[*zip(least, upper[move], strict=True), *([(None, None)] if has_t else [])],
        constraints=constraints,
        options={"maxiter": ROUNDS, "ftol": 1e-15},
    )
    if not np.isfinite(found.x).all():
        return [certified(program, start, np.zeros(len(e)), lower, upper)]
    ended = np.clip(full(found.x), lower, upper)
    on_bounds = np.where(move & (ended <= FLOOR), lower, ended)
    multipliers = np.asarray(found.multipliers)[1:]
    return [certified(program, closed(one, lower, upper), multipliers, lower, upper) for one in (ended, on_bounds)]


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
