"""What methods are worth by runs on what they proposed, over seeds: regret, optimism, ties, and
whether a law orders its own proposals rightly.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from bimix.costs.pairs import ends, levels
from bimix.errors import InputError
from bimix.plan.laws import proposal_of

VERDICT = {
    "mixture": pl.String,
    "method": pl.String,
    "proposal": pl.Int64,
    "average_loss": pl.Float64,
    "deviation_percent": pl.Float64,
    "runs": pl.Int64,
    "regret_percent": pl.Float64,
    "ties_with_best": pl.Boolean,
    "gain_percent": pl.Float64,
    "gain_low": pl.Float64,
    "gain_high": pl.Float64,
    "predicted_gain_percent": pl.Float64,
    "optimism_percent": pl.Float64,
    "bits_per_byte": pl.Float64,
    "bits_regret_percent": pl.Float64,
    "bits_ties_with_best": pl.Boolean,
    "bits_gain_percent": pl.Float64,
    "search_runs": pl.Int64,
    "search_flops": pl.Float64,
    "search_percent": pl.Float64,
    "steps_saved_percent": pl.Float64,
}
PROPOSALS = {
    "method": pl.String,
    "proposals": pl.Int64,
    "first_loss": pl.Float64,
    "best_proposal": pl.String,
    "best_loss": pl.Float64,
    "first_behind_percent": pl.Float64,
    "spread_percent": pl.Float64,
    "predicted_spread_percent": pl.Float64,
    "pairs": pl.Int64,
    "pairs_told": pl.Int64,
    "pairs_right": pl.Int64,
}


def verdict(
    losses: pl.DataFrame,
    prices: pl.DataFrame,
    reference: str,
    predicted: Mapping[str, float],
    factors: Mapping[str, float | None] | None = None,
    weights: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """One row for each mixture, the best first, in the columns of VERDICT.

    `losses` (mixture, seed, step, domain, loss) of the compared runs, without seeds where each was
    made once; not all need all seeds. `prices` as of `costs.prices.price`; `predicted` {mixture:
    gain in percent over the reference that its own law predicts}; `factors` {domain: bits per byte
    of a nat per token};
    `weights` of the domains in the averages, all alike without them.
    Regret is the loss over that of the best of all. Gain is what a mixture is below the reference,
    with its 95 % interval. Optimism is predicted less measured gain. A mixture ties where it ends
    behind the best by no more than the best of so many may by chance; see `costs.pairs`. One seed
    tells no spread: deviation, intervals and ties are then null; bits per byte are where the bytes
    of a domain are not known.

    Errors: mixtures that no seeds connect; no losses of the reference.
    """
    names, values = ends(losses, weights=weights)
    if reference not in names:
        raise InputError(
            f"{reference!r}, which the others are measured against, has no losses: {', '.join(names)} have."
        )
    own, (_, from_chance) = _measured(names, values, reference), levels(values)
    base = names.index(reference)
    weighing = [name for name in losses["domain"].unique() if not weights or weights.get(name)]
    known = factors is not None and all(factors.get(name) is not None for name in weighing)
    bits = _measured(*ends(losses, dict(factors), weights), reference) if known else None
    costs = {row["mixture"]: row for row in prices.iter_rows(named=True)}
    rows = []
    for n in np.argsort(own["level"], kind="stable"):
        name, cost = names[n], costs[names[n]]
        method, place = proposal_of(name)
        told, gain = predicted.get(name), own["gain"][n]
        width = None if from_chance is None or name == reference else from_chance.between(n, base)
        runs = values[n][np.isfinite(values[n])]
        rows.append(
            {
                "mixture": name,
                "method": method,
                "proposal": place,
                "average_loss": float(own["level"][n]),
                "deviation_percent": None if len(runs) < 2 else float(100 * runs.std(ddof=1) / runs.mean()),
                "runs": len(runs),
                "regret_percent": _percent(own["regret"][n]),
                "ties_with_best": own["ties"][n],
                "gain_percent": -_percent(-gain),
                "gain_low": None if width is None else -_percent(-(gain - width)),
                "gain_high": None if width is None else -_percent(-(gain + width)),
                "predicted_gain_percent": told,
                "optimism_percent": None if told is None else told + _percent(-gain),
                "bits_per_byte": bits and float(bits["level"][n]),
                "bits_regret_percent": bits and _percent(bits["regret"][n]),
                "bits_ties_with_best": bits and bits["ties"][n],
                "bits_gain_percent": bits and -_percent(-bits["gain"][n]),
                "search_runs": cost["search_runs"],
                "search_flops": cost["search_flops"],
                "search_percent": cost["search_percent"],
                "steps_saved_percent": None if cost["steps_ratio"] is None else 100 * (1 - cost["steps_ratio"]),
            }
        )
    return pl.DataFrame(rows, schema=VERDICT)


def _measured(names: list[str], values: np.ndarray, reference: str) -> dict:
    """Of what runs ended with (n, seeds): geometric means, log regrets and gains (n,), ties."""
    logs, from_chance = levels(values)
    regret, best = logs - logs.min(), int(logs.argmin())
    ties = [
        None if from_chance is None else bool(behind <= from_chance.behind_best(n, best))
        for n, behind in enumerate(regret)
    ]
    return {"level": np.exp(logs), "regret": regret, "gain": logs[names.index(reference)] - logs, "ties": ties}


def proposals(
    losses: pl.DataFrame, predicted: Mapping[str, float], weights: Mapping[str, float] | None = None
) -> pl.DataFrame:
    """One row for each method of which several proposals were trained, in the columns of PROPOSALS.

    `first_behind_percent`: by how much the first ends above the best of them; `spread_percent`: the
    last of them above the best; `predicted_spread_percent`: how far apart the gains are that their
    law predicts, as `predicted` of `verdict` has them; of the `pairs` of proposals those that the
    seeds tell apart, and of these the ones of which the law's better is the better.
    """
    names, values = ends(losses, weights=weights)
    logs, from_chance = levels(values)
    methods: dict[str, list[str]] = {}
    for name in names:
        methods.setdefault(proposal_of(name)[0], []).append(name)
    rows = []
    for method, own in methods.items():
        own.sort(key=lambda name: proposal_of(name)[1])
        if len(own) < 2:
            continue
        places = np.array([names.index(name) for name in own])
        level, gains = logs[places], [predicted[name] for name in own if name in predicted]
        better, worse = np.triu_indices(len(own), k=1)
        leads, told = level[worse] - level[better], None
        if from_chance is not None:
            widths = [from_chance.between(*places[[j, k]]) for j, k in zip(better, worse, strict=True)]
            told = leads[np.abs(leads) > widths]
        rows.append(
            {
                "method": method,
                "proposals": len(own),
                "first_loss": float(np.exp(level[0])),
                "best_proposal": own[int(level.argmin())],
                "best_loss": float(np.exp(level.min())),
                "first_behind_percent": _percent(level[0] - level.min()),
                "spread_percent": _percent(level.max() - level.min()),
                "predicted_spread_percent": max(gains) - min(gains) if len(gains) == len(own) else None,
                "pairs": len(leads),
                "pairs_told": None if told is None else len(told),
                "pairs_right": None if told is None else int((told > 0).sum()),
            }
        )
    return pl.DataFrame(rows, schema=PROPOSALS)


def _percent(log: float) -> float:
    """A difference of logs as percent."""
    return float(100 * np.expm1(log))
