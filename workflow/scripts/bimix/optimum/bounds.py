"""The bounds of an optimum: given ones, epochs, and domains that the runs do not determine."""

from collections.abc import Sequence

import numpy as np

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.optimum.flags import run_tokens_of
from bimix.optimum.objective import target_weights

LEAST_SHARE = 1e-15  # one token of a thousand million million
# Epochs of a domain at most, by default: of runs of up to 1e10 tokens, and from 1e11 on; between them straight in the
# log of tokens. In a proof of 1e7 tokens the choice among mixtures of 5 to 7.5 epochs is right at a larger model and
# beyond 9 it is not; in runs of 1e11 of others 16 epochs cost nothing and 32 do.
TOKENS, EPOCHS = (1e10, 1e11), (6.0, 16.0)
MEANS = 2.0  # times the epochs of all text, where a run reads that often
# A number for each domain.
Numbers = dict[str, float]


def feasible_bounds(
    domains: Sequence[str],
    lower: Numbers | None = None,
    upper: Numbers | None = None,
    max_epochs: float | None = None,
    tokens: Numbers | None = None,
    run_tokens: float | None = None,
    whose: str = "",
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (m,) in the order of `domains` from dicts per domain; max_epochs gives
    r_i * run_tokens <= max_epochs * tokens_i for domains in `tokens`; others are unlimited
    (`note_unlimited` reports them). `whose` names the source of max_epochs in errors.

    Errors (InputError with the numbers): an unknown domain, a lower bound above its upper, lower
    bounds that sum above 1, upper bounds that sum below 1.
    """
    low, high = np.zeros(len(domains)), np.ones(len(domains))
    for bounds, array, what in ((lower or {}, low, "lower"), (upper or {}, high, "upper")):
        for domain, value in bounds.items():
            if domain not in domains:
                raise InputError(f"the {what} bounds name {domain!r}, unknown to the law: it has {', '.join(domains)}.")
            if what == "upper" and 0 < value < LEAST_SHARE:
                raise InputError(
                    f"the upper bound of {domain} is {value:g}: no run could hold so little of it; give 0, or"
                    f" {LEAST_SHARE:g} and more."
                )
            array[domains.index(domain)] = min(value, 1.0) if what == "upper" else value
    reason = ""
    if max_epochs not in (None, float("inf")):
        high = np.minimum(high, [max_epochs * tokens.get(domain, np.inf) / run_tokens for domain in domains])
        reason = f" (with max_epochs {max_epochs:g}{whose} of a run of {run_tokens:g} tokens)"
    crossed = np.nonzero(low > high)[0]
    if len(crossed):
        j = crossed[0]
        raise InputError(
            f"the lower bound of {domains[j]} is {low[j]:.6g} and its upper bound {high[j]:.6g}{reason}: the lower one must not be above."
        )
    if low.sum() > 1 + 1e-12:
        raise InputError(f"the lower bounds sum to {low.sum():.6g}: no mixture holds more than 1; lower some of them.")
    if high.sum() < 1 - 1e-12:
        raise InputError(f"the upper bounds sum to {high.sum():.6g}{reason}: no mixture reaches 1; raise some of them.")
    return low, high


def usual_epochs(run_tokens: float) -> float:
    """The default limit on the epochs of a domain in a run of so many tokens."""
    return float(np.interp(np.log(run_tokens), np.log(TOKENS), EPOCHS))


def with_usual_epochs(low: np.ndarray, high: np.ndarray, rooms: np.ndarray, most: float) -> np.ndarray:
    """Upper bounds (m,) at which no domain is read more than `most` times, or MEANS times as often as
    all text; `rooms` (m,) are the shares that read it once. Never below the lower bounds, and doubled
    where the other bounds leave no mixture.
    """
    most = max(most, MEANS / rooms.sum())
    while (limited := np.minimum(high, np.maximum(low, most * rooms))).sum() < min(1.0, high.sum()):
        most *= 2
    return limited


def run_bounds(
    fitted: dict,
    step: int,
    lower: Numbers | None = None,
    upper: Numbers | None = None,
    max_epochs: float | None = None,
    tokens: Numbers | None = None,
    run_tokens: float | None = None,
    weights: Numbers | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of `feasible_bounds` for a run of `step` steps; max_epochs infinite: no limit;
    None: the law's default (Olmix: 4) or that of a run of this length, if the tokens are known.

    A domain whose loss did not respond to its share (`unanswered`) keeps the least fitted
    proportion, or what upper bounds, epochs and the others' lower bounds leave of it, unless `lower`
    names it or `weights` leave it out: the data do not determine its share, which is no reason to
    drop it.

    `run_tokens`: of the run; by default the step times the tokens per step of the fitted runs.
    Errors: max_epochs without the domains' tokens or the tokens of the run.
    """
    seen = fitted["proportions_seen"]
    target = dict(zip(fitted["loss_domains"], target_weights(fitted, weights), strict=True))
    kept = {domain for domain in unanswered(fitted) if target[domain] > 0} - set(lower or {})
    run_tokens = run_tokens_of(fitted, run_tokens, step)
    own, whose, usual = LAWS[fitted["law"]].most_epochs, "", None
    if max_epochs is None and tokens and run_tokens:
        if own < float("inf"):
            max_epochs, whose = own, f", the law {fitted['law']}'s own, which --max-epochs inf lifts,"
        else:
            usual = usual_epochs(run_tokens)
    if max_epochs not in (None, float("inf")):
        if not tokens:
            raise InputError("--max-epochs needs --tokens: the number of tokens there are of each domain.")
        if run_tokens is None:
            raise InputError(
                "--max-epochs needs --run-tokens: the losses that the law was fitted to had no column tokens, so it is not known "
                f"how many tokens a run of {step} steps trains on."
            )
    low, high = feasible_bounds(fitted["domains"], lower, upper, max_epochs, tokens, run_tokens, whose)
    if usual is not None:
        rooms = np.array([tokens.get(domain, np.inf) / run_tokens for domain in fitted["domains"]])
        high = with_usual_epochs(low, high, rooms, usual)
    floors = np.minimum([seen[domain]["min"] if domain in kept else 0.0 for domain in fitted["domains"]], high)
    return low + floors * min(1.0, max(1 - low.sum(), 0.0) / max(floors.sum(), 1e-300)), high


def with_least(
    lower: np.ndarray,
    upper: np.ndarray,
    domains: Sequence[str],
    least: float,
    tokens: Numbers | None,
    named: Numbers | None = None,
) -> np.ndarray:
    """Lower bounds (m,) raised to the fraction `least` of each domain's token share, except for
    domains `named` with bounds of their own; unchanged where tokens are not known, or where only
    one mixture would be left.
    """
    if not tokens or not least:
        return lower
    shares = np.array([tokens.get(name, 0.0) for name in domains]) / sum(tokens.get(name, 0.0) for name in domains)
    free = np.array([name not in (named or {}) for name in domains])
    raised = np.where(free, np.maximum(lower, np.minimum(least * shares, upper)), lower)
    return raised if raised.sum() < 1 else lower


def unanswered(fitted: dict) -> list[str]:
    """Domains whose loss did not respond to their share: alpha of `bimix` at its bound 0."""
    return [domain for domain, values in fitted["coefficients"].items() if values.get("alpha") == 0]
