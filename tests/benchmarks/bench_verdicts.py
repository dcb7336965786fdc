"""Measure how sure a verdict may be: whether its intervals hold the truth, how often a mixture that
"wins" is not the lowest, and what the choice between runs and a law's optimum costs (no test: run it
by hand).

Registered on 2026-11-27, before its first run. Question: the posterior's deviation of a gain takes the
law as known (`narrow`); with the jackknife over runs (`wide`) the interval of the gain over the rules by
hand held the truth as often as it said. Should the two decisions of a verdict use `wide`, too?
Decision rule: "wins" does if, of the searches that win by `narrow`, more than 5 % name a mixture that is
not the lowest of those run, and by `wide` a smaller share; the choice of the optimum does unless the
mean regret of the mixture taken rises by more than a standard error of the paired differences.
No seed below 1,000 was used for it; 1,000 to 1,119 decide.
Registered after that, before 1,120 to 1,239: a mixture may also win over another that was run where the runs
themselves differ significantly (`either`: Dunnett's quantile of the noise of a run, which is known here), since
the jackknife leaves out the very run that is better. It does if at most 5 % of the wins are false.

python tests/benchmarks/bench_verdicts.py 1000 1120 (or 1120 1240) -> a line for each start, and for both together

The truth is a made law of bench_rounds.py (five domains, three wanted losses, noise of a run 0.3 %).
Starts: `random`, 12 random mixtures; `rounds`, seven random ones, the rule without runs, four rounds.
Coverage is that of the gain over the best rule by hand, of the runs' best mixture, nominal 80, 90, 95 %.
"""

import warnings
from collections import defaultdict

import bench
import numpy as np
from bench_rounds import made_case, rule_of, search_of, start_of
from scipy.special import stdtrit

from bimix.judge.noise import best_quantile
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best_shares
from bimix.search.weighing import LEVEL

LEVELS = (0.8, 0.9, 0.95)
UPPER = 0.8  # one-sided, of the optimum taken before
RUNS, ROUNDS = 12, 4


def searched(case, start: str, draw) -> tuple[np.ndarray, object]:
    """Mixtures that were run (n, 5), and the posterior of their losses."""
    shares = start_of(case, "random" if start == "random" else "hand", RUNS - ROUNDS * (start == "rounds"), draw)
    losses = case.measured(shares, draw)
    for turn in range(RUNS - len(shares)):
        pick = search_of(case, shares, losses, corrected=True).next(turn).shares
        shares = np.concatenate([shares, pick[None]])
        losses = np.concatenate([losses, case.measured(pick[None], draw)])
    return shares, search_of(case, shares, losses, corrected=True)


def one(number: int, start: str) -> dict[str, float]:
    """What both deviations decide on one made law."""
    draw = np.random.default_rng([20261127, number])
    case = made_case(0.003)(None, draw, number)
    shares, posterior = searched(case, start, draw)
    apart = best_quantile(len(shares) - 1, 1000) * 2**0.5 * case.noise
    fitted, zeros = posterior.goal.fitted, np.zeros(len(case.domains))
    optimum = best_shares(fitted, 1, Objective(weights=case.weights), zeros, zeros + 1)
    hand = [rule_of(case), np.full(len(case.domains), 0.2)]
    candidates = np.concatenate([shares, hand])
    best = candidates[int(posterior.posterior(candidates)[0].argmin())]
    said = {}

    def wide(before: np.ndarray, after: np.ndarray) -> float:
        return posterior.refitted_gain(before, after)[1]

    def narrow(before: np.ndarray, after: np.ndarray) -> float:
        return posterior.gain(before, after)[1]

    rule = min(hand, key=lambda one: float(posterior.posterior(one[None])[0][0]))
    run = shares[int(posterior.posterior(shares)[0].argmin())]
    others = [row for row in shares if np.abs(row - run).max() > 1e-9]
    lowest = case.level(shares).min()

    def level_of(row: np.ndarray) -> float:
        return float(posterior.seen.levels[int(np.abs(shares - row).sum(axis=1).argmin())])

    def count(name: str, wins: bool) -> None:
        said[f"{name} wins"] = float(wins)
        said[f"{name} false"] = float(wins and case.level(run[None])[0] > lowest + 1e-12)

    for name, deviation in (("narrow", narrow), ("wide", wide)):
        t = max(len(set(posterior.seen.names)) - 1, 1)
        surely = posterior.gain(best, optimum)[0] - stdtrit(t, UPPER) * deviation(best, optimum)
        taken = optimum if surely > 0 else best
        said[f"{name} regret"] = case.regret(taken[None])
        said[f"{name} optima"] = float(surely > 0)
        sure = [posterior.gain(row, run)[0] > stdtrit(t, (1 + LEVEL) / 2) * deviation(row, run) for row in others]
        count(name, all(sure))
        if name == "wide":
            measured = [level_of(row) - level_of(run) > apart for row in others]
            count("either", all(np.logical_or(sure, measured)))
        true = 1 - case.level(run[None])[0] / case.level(rule[None])[0]
        for level in LEVELS:
            width = stdtrit(t, (1 + level) / 2) * deviation(rule, run)
            said[f"{name} {level}"] = float(abs(posterior.gain(rule, run)[0] - true) <= width)
        said[f"{name} width"] = 100 * stdtrit(t, 0.95) * deviation(rule, run)
    said["regret of the best run"] = case.regret(run[None])
    return said


def report(start: str, rows: list[dict[str, float]]) -> None:
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    print(f"{start}, {len(rows)} searches; regret of the best run {mean['regret of the best run']:.3f} %")
    for name in ("narrow", "wide"):
        wins = sum(row[f"{name} wins"] for row in rows)
        false = sum(row[f"{name} false"] for row in rows)
        held = ", ".join(f"{100 * mean[f'{name} {level}']:.0f}" for level in LEVELS)
        print(
            f"  {name:6} wins {wins:.0f}, of them false {false:.0f}; optimum taken {100 * mean[f'{name} optima']:.0f} %, regret"
            f" {mean[f'{name} regret']:.3f} %; held {held} %, half width at 90 % {mean[f'{name} width']:.2f} %"
        )
    print(
        f"  either wins {sum(row['either wins'] for row in rows):.0f}, false {sum(row['either false'] for row in rows):.0f}"
    )
    rise = np.array([row["wide regret"] - row["narrow regret"] for row in rows])
    print(f"  wide less narrow, regret {rise.mean():+.4f} +- {rise.std(ddof=1) / len(rise) ** 0.5:.4f} %", flush=True)


def main(argv=None) -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("numbers", nargs=2, type=int, help="of the made laws: from, and up to")
    warnings.simplefilter("ignore")
    found = defaultdict(list)
    for number in range(*parser.parse_args(argv).numbers):
        for start in ("random", "rounds"):
            found[start].append(one(number, start))
    for start, rows in found.items():
        report(start, rows)
    report("both", [row for rows in found.values() for row in rows])


if __name__ == "__main__":
    main()
