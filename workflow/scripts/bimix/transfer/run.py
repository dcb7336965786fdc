"""The law `transfer` at a run of given size, tokens and pools: its coefficients, its losses, and
the objective of its optimum.

    L_i(r) = exp(level_i) h_i F_i(r)^nu_i exp(c b_i(r)) + H_i(r)
    F_i    = sum_q A_iq (sum_j k_iqj rho_j(r_j)^gamma_i)^-alpha_iq exp(sum_j t_ij r_j)
    b_i    = r_i x_i^2 / (1 + x_i)

level, nu and c depend on the run's size, h_i on its step, rho, x and H on its epochs of each pool
(`repetition`). The sum of F is log-convex in rho and falls with it. rho is concave in r, b and H
are convex, and c >= 0. So every loss is convex in r where nu > 0, with t of any sign, since t acts
on r and not on rho.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from bimix.observations.observations import Observations
from bimix.transfer import repetition
from bimix.transfer.factor import Factor
from bimix.transfer.repetition import LARGER, LARGER_SPREAD
from bimix.transfer.sizes import ENOUGH_NEAR, FAR_APART, LEAST_NU, SAME_SIZE, Curve

# Replaces a share of 0 where its power has no derivative.
TINY = 1e-30


@dataclass(frozen=True)
class Run:
    """Effects of a run's size and pools, of d loss domains and m training domains."""

    level: np.ndarray  # (d,)
    nu: np.ndarray  # (d,)
    per_share: np.ndarray  # (m,) epochs of a whole share, tokens of the run over the pool; 0 where it has no limit
    R: float
    height: np.ndarray  # (d,) of the harm
    mu: float
    c: float  # of the harm that only a larger model shows; 0 at the fitted size
    c_spread: float  # standard deviation of log c
    own: np.ndarray  # (d,) index of each loss domain among the training domains, -1 where it is none


def losses(run: Run, mixed: Factor, shares: np.ndarray, curve: np.ndarray, effects: np.ndarray) -> np.ndarray:
    """Losses (n, k, d) at shares (n, m); `curve` (k, d) is h, `effects` (k, d) multiply nu."""
    rho = repetition.counted(shares, run.per_share, run.R)[0]
    bend = _harm(run, shares, run.c, 1.0)[0]
    level = np.exp(run.level + run.nu * effects * mixed.levels(rho, shares)[:, None, :] + bend[:, None, :])
    return level * curve + _harm(run, shares, run.height, run.mu)[0][:, None, :]


def _harm(run: Run, shares: np.ndarray, height: np.ndarray | float, mu: float):
    """height r^mu x^2 / (1 + x) (..., d) and its derivative by each loss domain's own share."""
    own = shares[..., run.own]
    parts = repetition.harm(own, run.per_share[run.own], height, mu)
    return tuple(np.where(run.own >= 0, part, 0.0) for part in parts)


def with_harm(fitted: dict, c: float) -> dict:
    """The fitted law with another c in its run."""
    own = fitted["coefficients"].items()
    return fitted | {"coefficients": {name: values | {"run": values["run"] | {"c": c}} for name, values in own}}


def unmeasured(fitted: dict) -> bool:
    """Whether a run with pools may be of a larger model, of which no fitted run measures c."""
    first = next(iter(fitted["coefficients"].values()))
    run = first.get("run", {}) if "repetition" in first else {}
    return bool(run.get("pools")) and (size_read(fitted) is None or run.get("c_spread") == LARGER_SPREAD)


def deviations_by_size(fitted: dict, shares: np.ndarray) -> np.ndarray:
    """Deviations (n, d) of log losses at shares (n, m), as c of a larger model is not sure."""
    run = run_of(fitted["coefficients"], fitted["domains"])
    return _harm(run, shares, run.c * run.c_spread, 1.0)[0]


def objective(run: Run, mixed: Factor, height: np.ndarray, target: np.ndarray) -> Callable:
    """sum_i w_i L_i(r) with its gradient; `height` (d,) is h, `target` w."""
    c, a, g, k, t = mixed

    def at(r):
        r = np.maximum(r, TINY)
        rho, by_r = repetition.counted(r, run.per_share, run.R)
        rho = np.maximum(rho, TINY)
        powers = rho ** g[:, None]
        sums = np.einsum("dqj,dj->dq", k, powers)
        terms = np.exp(c) * sums**-a
        total = terms.sum(axis=1)
        by_power = np.einsum("dq,dqj->dj", -a * terms / sums, k)
        log_slope = by_power * (g[:, None] * powers / rho) * by_r / total[:, None] + t  # of F
        bend, log_by_own = _harm(run, r, run.c, 1.0)
        scale = target * height * np.exp(run.level + run.nu * (t @ r) + bend) * total**run.nu
        gradient = (scale * run.nu) @ log_slope
        harm, by_own = (target * part for part in _harm(run, r, run.height, run.mu))
        trained = run.own >= 0
        np.add.at(gradient, run.own[trained], (by_own + scale * log_by_own)[trained])
        return scale.sum() + harm.sum(), gradient

    return at


def at_reference(coefficients: dict, observed: Observations, form: repetition.Repetition | None) -> dict:
    """Coefficients with the effect of repetition, at the largest size and longest schedule; `own`
    is the training domain of a loss domain with another name.
    """
    for name in observed.pairs.keys() & coefficients.keys():
        coefficients[name]["own"] = observed.pairs[name]
    if form is not None:
        for domain, values in coefficients.items():
            values["repetition"] = asdict(form)
            if values.get("own", domain) not in observed.domains:
                values["repetition"] |= {"P": 0.0}
    if any("size" in values for values in coefficients.values()):
        last = next(iter(coefficients.values()))["size"]["sizes"][-1]
        return at_run(coefficients, list(observed.domains), last["parameters"], last["tokens"], None)
    return coefficients


def as_asked(coefficients: dict, fitted: dict) -> dict:
    """Coefficients at the run to which a fitted law is set."""
    run = next(iter(fitted["coefficients"].values())).get("run")
    if run is None:
        return coefficients
    return at_run(coefficients, fitted["domains"], run["parameters"], run["tokens"], run["pools"])


def form_of(coefficients: dict) -> repetition.Repetition | None:
    """The effect of repetition in a fitted law; None where no run repeated text."""
    forms = [values["repetition"] for values in coefficients.values() if "repetition" in values]
    return repetition.Repetition(**max(forms, key=lambda one: one["P"])) if forms else None


def at_run(
    coefficients: dict,
    domains: list[str],
    parameters: float | None,
    tokens: float | None,
    pools: dict[str, float] | None,
) -> dict:
    """The coefficients at a run of a model with `parameters` on `tokens` with pools {domain: unique
    tokens}.

    None means the largest fitted size and its schedule, or no repetition. Of a law of one size
    `parameters` are of a larger model: of that it knows c, by its prior.
    """
    table = list(coefficients.values())
    sized = all("size" in values for values in table)
    if sized:
        last = table[0]["size"]["sizes"][-1]
        parameters = last["parameters"] if parameters is None else float(parameters)
        tokens = last["tokens"] if tokens is None else float(tokens)
    result = {}
    for domain, values in coefficients.items():
        level, nu, c = 0.0, 1.0, (0.0, 0.0) if parameters is None else (LARGER, LARGER_SPREAD)
        if sized:
            level, nu, c = _level(values["size"], parameters, tokens)
        run = {"parameters": parameters, "tokens": tokens, "pools": pools, "level": level, "nu": nu}
        if "repetition" in values and c[0]:
            run |= {"c": c[0], "c_spread": c[1]}
        result[domain] = values | {"run": run}
    return result


def _level(levels, parameters, tokens) -> tuple[float, float, tuple[float, float]]:
    """Level, nu and c, with the deviation of its log, of a loss domain at a size and schedule,
    fitted ones where there are any.
    """
    last = levels["sizes"][-1]
    unmeasured = has_one_size(levels) and parameters > SAME_SIZE * last["parameters"]
    parameters = last["parameters"] if unmeasured else parameters
    curve = Curve(
        levels["b"], levels["g"], np.log([[levels[name] for name in "BDC"]]), levels["parameters"], levels["tokens"]
    )
    level, nu, c = float(curve.level(np.array(parameters), np.array(tokens or np.nan))[0]), 1.0, (0.0, 0.0)
    same = [one for one in levels["sizes"] if abs(np.log(one["parameters"] / parameters)) <= np.log(SAME_SIZE)]
    if same:
        near = min(
            same, key=lambda one: 0 if tokens is None or one["tokens"] is None else abs(np.log(one["tokens"] / tokens))
        )
        level += near["shift"]
    elif parameters > last["parameters"]:
        near = last
    else:
        return level, nu, c
    nu, c = near["nu"], (near.get("c", 0.0), near.get("c_spread", 0.0))
    return level + (1 - nu) * levels["centre"], nu, (LARGER, LARGER_SPREAD) if unmeasured else c


def has_one_size(levels: dict) -> bool:
    """Whether the levels of a law by runs are of one size; over schedules alone that stands for none."""
    return len({one["parameters"] for one in levels["sizes"]}) < 2


def run_of(coefficients: dict, domains: list[str]) -> Run:
    """The run of the coefficients; without effect in a law without sizes and pools."""
    table = list(coefficients.items())
    run, per_share, zeros = table[0][1].get("run"), np.zeros(len(domains)), np.zeros(len(table))
    if run is None:
        return Run(zeros, zeros + 1, per_share, repetition.PUBLISHED_R, zeros, 1.0, 0.0, 0.0, np.full(len(table), -1))
    pools = np.array([(run["pools"] or {}).get(name) or np.inf for name in domains], dtype=float)
    if run["pools"] is not None:
        per_share = run["tokens"] / pools
    form = form_of(coefficients) or repetition.Repetition()
    names = [values.get("own", name) for name, values in table]
    own = np.array([domains.index(name) if name in domains else -1 for name in names])
    scale = form.scale or run["parameters"] or 1.0
    if form.pools:
        fitted = np.array([form.pools.get(name, np.inf) for name in domains])
        both = np.isfinite(pools) & np.isfinite(fitted)
        scale *= np.exp(np.log(pools[both] / fitted[both]).mean()) if both.any() else 1.0
    harms = np.array([values.get("repetition", {"P": 0.0})["P"] for _, values in table])
    return Run(
        level=np.array([values["run"]["level"] for _, values in table]),
        nu=np.array([values["run"]["nu"] for _, values in table]),
        per_share=per_share,
        R=form.R,
        height=harms * (scale / pools[own]) ** form.kappa,
        mu=form.mu,
        c=run.get("c", 0.0),
        c_spread=run.get("c_spread", 0.0),
        own=own,
    )


def effects_at(coefficients, steps) -> np.ndarray:
    """e (k, d) at steps (k,); 1 for a law of one step or over sizes, and for files without it."""
    tables = [sorted((float(s), e) for s, e in one.get("effects", {"1": 1.0}).items()) for one in coefficients.values()]
    at = [np.interp(np.log(steps), [np.log(s) for s, _ in one], [e for _, e in one]) for one in tables]
    return np.stack(at, axis=1)


def size_read(fitted: dict) -> float | None:
    """Parameters of the run to which a law over several sizes is set; else None."""
    if "rows" not in fitted:
        return None
    first = next(iter(fitted["coefficients"].values()))
    return None if has_one_size(first["size"]) else first["run"]["parameters"]


def reversed_order(coefficients: dict) -> list[str]:
    """The loss domains in which runs of the largest size reverse the order of smaller ones."""
    return [
        domain
        for domain, values in coefficients.items()
        if "size" in values and min(one["nu"] for one in values["size"]["sizes"]) <= LEAST_NU
    ]


def far_apart(coefficients: dict, parameters: float | None) -> str:
    """A warning if a model is so much larger than the fitted ones that the law is a guess."""
    table = next(iter(coefficients.values()))
    if parameters is None or "size" not in table:
        return ""
    sizes = table["size"]["sizes"]
    small = [one for one in sizes if one["parameters"] * FAR_APART < parameters]
    near = sum(one["runs"] for one in sizes) - sum(one["runs"] for one in small)
    if not small or near >= ENOUGH_NEAR:
        return ""
    times = parameters / max(one["parameters"] for one in small)
    return (
        f"{sum(one['runs'] for one in small)} runs are of models at least {times:.3g} times smaller than {parameters:.3g} parameters, "
        f"and {near} of larger ones: beyond {FAR_APART} times the effect of a mixture is no longer the same, "
        f"and the level is uncertain by several per cent; add {ENOUGH_NEAR} or more runs nearer to that size."
    )
