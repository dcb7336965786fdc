"""The law `transfer` at a run of given size, tokens and pools: its coefficients, its losses, and
the objective of its optimum.

    L_i(r) = exp(level_i) h_i F_i(r)^nu_i + H_i(r)
    F_i    = sum_q A_iq (sum_j k_iqj rho_j(r_j)^gamma_i)^-alpha_iq
             exp(sum_j t_ij r_j - sum_j b_ij sqrt(rho_j(r_j)))

level and nu depend on the run's size, h_i on its step, rho and H on its epochs of each pool
(`repetition`). The sum of F is log-convex in rho and falls with it, and b >= 0. rho is concave in r
and H convex. So every loss is convex in r where nu > 0, with t of any sign, since t acts on r and
not on rho.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from bimix.observations.observations import Observations
from bimix.transfer import repetition
from bimix.transfer.factor import Factor
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
    own: np.ndarray  # (d,) index of each loss domain among the training domains, -1 where it is none


def losses(run: Run, mixed: Factor, shares: np.ndarray, curve: np.ndarray, effects: np.ndarray) -> np.ndarray:
    """Losses (n, k, d) at shares (n, m); `curve` (k, d) is h, `effects` (k, d) multiply nu."""
    rho = repetition.counted(shares, run.per_share, run.R)[0]
    level = np.exp(run.level + run.nu * effects * mixed.levels(rho, shares)[:, None, :])
    return level * curve + _harm(run, shares)[0][:, None, :]


def _harm(run: Run, shares: np.ndarray):
    """H (..., d) and its derivative by each loss domain's own share."""
    own = shares[..., run.own]
    parts = repetition.harm(own, run.per_share[run.own], run.height, run.mu)
    return tuple(np.where(run.own >= 0, part, 0.0) for part in parts)


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
        scale = target * height * np.exp(run.level + run.nu * (t @ r)) * total**run.nu
        gradient = (scale * run.nu) @ log_slope
        harm, by_own = (target * part for part in _harm(run, r))
        trained = run.own >= 0
        np.add.at(gradient, run.own[trained], by_own[trained])
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

    None means the largest fitted size and its schedule, or no repetition.
    """
    table = list(coefficients.values())
    sized = all("size" in values for values in table)
    if sized:
        last = table[0]["size"]["sizes"][-1]
        parameters = last["parameters"] if parameters is None else float(parameters)
        tokens = last["tokens"] if tokens is None else float(tokens)
    result = {}
    for domain, values in coefficients.items():
        level, nu = _level(values["size"], parameters, tokens) if sized else (0.0, 1.0)
        run = {"parameters": parameters, "tokens": tokens, "pools": pools, "level": level, "nu": nu}
        result[domain] = values | {"run": run}
    return result


def _level(levels, parameters, tokens) -> tuple[float, float]:
    """Level and nu of a loss domain at a size and schedule, fitted ones where there are any."""
    curve = Curve(
        levels["b"], levels["g"], np.log([[levels[name] for name in "BDC"]]), levels["parameters"], levels["tokens"]
    )
    level, nu = float(curve.level(np.array(parameters), np.array(tokens or np.nan))[0]), 1.0
    same = [one for one in levels["sizes"] if abs(np.log(one["parameters"] / parameters)) <= np.log(SAME_SIZE)]
    if same:
        near = min(
            same, key=lambda one: 0 if tokens is None or one["tokens"] is None else abs(np.log(one["tokens"] / tokens))
        )
        level, nu = level + near["shift"], near["nu"]
    elif parameters > levels["sizes"][-1]["parameters"]:
        nu = levels["sizes"][-1]["nu"]
    return level + (1 - nu) * levels["centre"], nu


def run_of(coefficients: dict, domains: list[str]) -> Run:
    """The run of the coefficients; without effect in a law without sizes and pools."""
    table = list(coefficients.items())
    run, per_share, zeros = table[0][1].get("run"), np.zeros(len(domains)), np.zeros(len(table))
    if run is None:
        return Run(zeros, zeros + 1, per_share, repetition.PUBLISHED_R, zeros, 1.0, np.full(len(table), -1))
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
        own=own,
    )


def effects_at(coefficients, steps) -> np.ndarray:
    """e (k, d) at steps (k,); 1 for a law of one step or over sizes, and for files without it."""
    tables = [sorted((float(s), e) for s, e in one.get("effects", {"1": 1.0}).items()) for one in coefficients.values()]
    at = [np.interp(np.log(steps), [np.log(s) for s, _ in one], [e for _, e in one]) for one in tables]
    return np.stack(at, axis=1)


def size_read(fitted: dict) -> float | None:
    """Parameters of the run to which a law over several sizes is set; else None."""
    first = next(iter(fitted["coefficients"].values())) if "rows" in fitted else {"size": {"sizes": []}}
    several = len({one["parameters"] for one in first["size"]["sizes"]}) > 1
    return first["run"]["parameters"] if several else None


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
