"""Solvers of convex problems over mixtures: proportions r (m,) that sum to 1, within bounds.

`power_sum_optimum`   sums of negative powers, by a root find in one number
`solve`               all else, with or without constraints and minimax parts, by SciPy's SLSQP

`certified` gives a lower bound on the optimal value, whatever the solver.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

# Descents, each from near the best so far, while the gap is above CERTAIN; the last ones in units of each share, as the
# slope changes fastest in shares near 0, and ever nearer.
PLAIN, SCALED = 3, 4
CERTAIN = 1e-7  # of the value
ROUNDS = 200
FLOOR = 1e-12  # a share of 0 may have an infinite slope: the search stays so far above, the end need not
NUDGES = (0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5)  # of the mixture to the centre, where the bound is taken


def power_sum_optimum(gains: np.ndarray, exponents: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """argmin of sum_i K_i r_i^-a_i over lower <= r <= upper, sum r = 1; all arrays (m,), K_i >= 0,
    a_i >= 0.

    Convex; stationary at r_i = (a_i K_i / mu)^(1/(1 + a_i)), clipped to its bounds (water-filling).
    sum r(mu) falls with mu, so mu is the root of sum r(mu) = 1, found in log mu by Newton steps
    within a bracket. Domains with a_i K_i = 0 stay at their lower bound unless the others are at
    their upper bounds, and then share the remainder in proportion to their ranges.
    """
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    slope = gains * exponents
    useful = (slope > 0) & (upper > 0)
    if not useful.any() or upper[useful].sum() + lower[~useful].sum() <= 1:
        filled = np.where(useful, upper, lower)
        room = upper - filled
        rest = 1 - filled.sum()
        return filled + (room * (rest / room.sum()) if rest > 0 and room.sum() > 0 else 0.0)
    target = 1 - lower[~useful].sum()
    low, high = lower[useful], upper[useful]
    room = target - low.sum()
    if room <= 1e-15:
        return lower
    power = 1 / (1 + exponents[useful])
    shift = np.log(slope[useful]) * power
    with np.errstate(divide="ignore"):
        low_log, high_log = np.log(low), np.log(high)
    # At `left` all are at their upper bound or the sum is above the target; at `right` all are at
    # their lower bound or the sum is below it.
    left = np.min((shift - np.minimum(high_log, 0)) / power)
    right = np.max((shift - np.log(low + room / (2 * len(low)))) / power)
    mu = 0.5 * (left + right)
    for _ in range(200):
        raw = shift - power * mu
        shares = np.exp(np.clip(raw, low_log, high_log))
        excess = shares.sum() - target
        if excess > 0:
            left = mu
        else:
            right = mu
        if abs(excess) <= 1e-15 * len(shares) or right - left <= 1e-15 * max(1.0, abs(mu)):
            break
        free = (raw > low_log) & (raw < high_log)
        descent = (shares * power)[free].sum()
        # Newton steps on log(sum of the free shares), which is nearly linear in log mu.
        moving = shares[free].sum()
        wanted = moving - excess
        step = np.log(moving / wanted) * moving / descent if descent > 0 and wanted > 0 else np.inf
        mu = mu + step if left < mu + step < right else 0.5 * (left + right)
    shares = np.exp(np.clip(shift - power * mu, low_log, high_log))
    result = lower.copy()
    result[useful] = shares
    return closed(result, lower, upper)


def closed(shares: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Correct the rounding error of the sum in shares that are not at bounds; what they cannot hold
    goes to the share with the most room.
    """
    gap = 1 - shares.sum()
    free = (shares > lower) & (shares < upper)
    if free.any():
        moved = shares + np.where(free, shares, 0.0) * (gap / shares[free].sum())
        shares = np.clip(moved, lower, upper)
    gap = 1 - shares.sum()
    room = upper - shares if gap > 0 else shares - lower
    most = np.arange(len(shares)) == np.argmax(room)
    return np.clip(np.where(most, shares + gap, shares), lower, upper)


class Program(NamedTuple):
    """F and the p parts g of a convex program in r (m,)."""

    # r -> F, its gradient (m,), g (p,), their gradients (p, m)
    at: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray, np.ndarray]]
    worst: bool  # the largest of the parts is minimised with F; else each is a constraint, g <= 0


def without_parts(objective: Callable) -> Program:
    """The program of a convex function of r alone; `objective` gives its value and gradient (m,)."""

    def at(r):
        return *objective(r), np.zeros(0), np.zeros((0, len(r)))

    return Program(at, worst=False)


class Solved(NamedTuple):
    """A mixture (m,), the multipliers (p,) of the parts, and F + t there."""

    shares: np.ndarray
    multipliers: np.ndarray
    value: float
    # the duality gap: no feasible mixture is better by more than this
    gap: float
    violation: float  # the largest g of the constraints, 0 where all hold


def solve(program: Program, lower: np.ndarray, upper: np.ndarray, start: np.ndarray | None = None) -> Solved:
    """The minimum from `start` or the centre of the bounds: the best certified of all descents."""
    move = upper - lower > 1e-14
    rest = 1 - lower[~move].sum()
    inside = (rest - lower[move].sum()) / max((upper - lower)[move].sum(), 1e-300)
    if not move.any() or inside < 1e-12 or inside > 1 - 1e-12:
        only = np.where(move, upper if inside > 0.5 else lower, lower)  # the bounds leave one mixture
        return certified(program, only, None, lower, upper)
    centre = np.where(move, lower + inside * (upper - lower), lower)
    point = centre if start is None else 0.999 * start + 0.001 * centre
    best: Solved | None = None
    for count in range(PLAIN + SCALED):
        scale = point if count >= PLAIN else np.ones(len(point))
        for found in _descent(program, lower, upper, point, move, scale[move]):
            better = best is None or found.violation < best.violation - 1e-9
            if better or (found.violation <= best.violation + 1e-9 and found.gap < best.gap):
                best = found
        if best.gap <= CERTAIN * abs(best.value):
            break
        aside = 10.0 ** -max(3, count - PLAIN + 4)
        point = (1 - aside) * best.shares + aside * centre
    return best


def _descent(program, lower, upper, start, move, scale) -> list[Solved]:
    """The end of SLSQP over free shares and t, with shares near bounds at them: all, and all but those near 0."""
    m, has_t = int(move.sum()), program.worst
    last: dict[bytes, tuple] = {}

    def full(x):
        r = lower.copy()
        r[move] = scale * x[:m]
        return r

    def at(x):
        key = x[:m].tobytes()
        if key not in last:  # the value, the parts and their slopes are requested one after the other
            last.clear()
            with np.errstate(all="ignore"):
                last[key] = program.at(full(x))
        return last[key]

    value, gradient, g, jacobian = program.at(start)
    top = float(g.max()) if has_t else 0.0
    moves = np.abs(np.vstack([gradient, *jacobian])[:, move]) @ start[move]  # by as much as the whole mixture
    unit = max(abs(value) + abs(top), *moves, 1e-12)

    def objective(x):
        value, gradient, _, _ = at(x)
        slope = scale * gradient[move]
        return (value + (x[-1] if has_t else 0.0)) / unit, (np.append(slope, 1.0) if has_t else slope) / unit

    def room(x):
        return ((x[-1] if has_t else 0.0) - at(x)[2]) / unit

    def slopes(x):
        own = -at(x)[3][:, move] * scale
        return (np.hstack([own, np.ones((len(g), 1))]) if has_t else own) / unit

    row, rest = np.append(scale, np.zeros(int(has_t))), 1 - lower[~move].sum()
    constraints = [{"type": "eq", "fun": lambda x: row @ x - rest, "jac": lambda x: row}]
    constraints += [{"type": "ineq", "fun": room, "jac": slopes}] if len(g) else []
    least, most = np.minimum(np.maximum(lower[move], FLOOR), upper[move]) / scale, upper[move] / scale
    found = minimize(
        objective,
        np.append(start[move] / scale, top) if has_t else start[move] / scale,
        jac=True,
        method="SLSQP",
        bounds=[*zip(least, most, strict=True), *([(None, None)] if has_t else [])],
        constraints=constraints,
        options={"maxiter": ROUNDS, "ftol": 1e-14},
    )
    if not np.isfinite(found.x).all():
        return [certified(program, start, None, lower, upper)]
    ended = np.clip(full(found.x), lower, upper)
    low = ended <= lower + FLOOR
    ended = np.where(ended >= upper - FLOOR, upper, np.where(low & (lower > 0), lower, ended))
    on_bounds = np.where(low, lower, ended)
    multipliers = np.asarray(found.multipliers)[1:]
    return [certified(program, closed(one, lower, upper), multipliers, lower, upper) for one in (ended, on_bounds)]


def certified(
    program: Program, shares: np.ndarray, multipliers: np.ndarray | None, lower: np.ndarray, upper: np.ndarray
) -> Solved:
    """A mixture with the value F + t, and a bound on how much better any other can be.

    With any multipliers v >= 0 (None: 0), which sum to 1 where the worst part is minimised, and any
    point p, F(x) + v.g(x) >= F(p) + v.g(p) + rho.(x - p) for all x. Stationarity holds exactly. The
    gap is the complementary slackness sum_j rho_j+ (p_j - lower_j) + rho_j- (upper_j - p_j), where
    rho is the gradient minus its best constant. The bound is computed at the mixture and at points
    towards the centre, as gradients at a share of 0 may be infinite.
    """
    value, _, g, _ = program.at(shares)
    v = np.zeros(len(g)) if multipliers is None else np.maximum(multipliers, 0.0)
    if program.worst:
        v = v / v.sum() if v.sum() > 0 else np.full(len(g), 1 / len(g))
        value = value + float(g.max())
    span = upper - lower
    inside = (1 - lower.sum()) / max(span.sum(), 1e-300)
    bound = -np.inf
    for nudge in NUDGES:
        p = (1 - nudge) * shares + nudge * (lower + inside * span)
        at, gradient, parts, jacobian = program.at(p)
        slope = gradient + v @ jacobian
        if not np.isfinite(slope).all():
            continue
        rho = slope[None, :] - slope[:, None]  # of each share's slope as the constant
        lost = np.maximum(rho, 0) @ (p - lower) + np.maximum(-rho, 0) @ (upper - p)
        bound = max(bound, at + v @ parts - lost.min())
    violation = 0.0 if program.worst else float(g.max(initial=0.0))
    return Solved(shares, v, float(value), float(value - bound), violation)
