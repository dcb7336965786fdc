"""Give the answer of a search by rounds: the best measured mixture, and what it gains over the best
rule by hand.

losses and mixtures of all runs, the reports of the rounds -> found.json (mixture), rounds.csv
(round, mixture, voice, promised, measured, deviation_percent, expected_gain_percent, noise_percent,
stopped) and answer.txt
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture
from bimix.outputs import replacing, write_table
from bimix.plan.search import round_of
from bimix.search.kriging import USUAL_NOISE
from bimix.tables import read_json
from propose_round import add_search, read_search

NORMAL = 1.645  # half the width of a central 90 %, in standard deviations
SCHEMA = {
    "round": pl.Int64,
    "mixture": pl.String,
    "voice": pl.String,
    "promised": pl.Float64,
    "measured": pl.Float64,
    "deviation_percent": pl.Float64,
    "expected_gain_percent": pl.Float64,
    "noise_percent": pl.Float64,
    "stopped": pl.String,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_search(parser)
    parser.add_argument("--reports", type=Path, nargs="+", required=True, help="of the rounds, in order")
    parser.add_argument("--by-hand", nargs="+", required=True, help="mixtures of the runs that need no search")
    parser.add_argument("--out", type=Path, required=True, help="mixture.json")
    parser.add_argument("--rounds", type=Path, required=True, help="rounds.csv")
    parser.add_argument("--answer", type=Path, required=True, help="answer.txt")
    options = parser.parse_args(argv)

    search, noise = read_search(options)
    reports = [read_json(path) for path in options.reports]
    write_table(rounds(search, reports, options.by_hand), options.rounds)
    best = search.seen.names[search.best]
    as_mixture(search.observed.domains, search.shares_of(best)).write(options.out)
    said = sentences(search, noise, reports, options.by_hand)
    with replacing(options.answer) as temporary:
        temporary.write_text("\n".join(said) + "\n", encoding="utf-8")
    print("\n".join(said))


def rounds(search, reports: list[dict], by_hand: list[str]) -> pl.DataFrame:
    """A row for each mixture that was run, in round 0 those of the start, and one for the round
    before which the search ended.
    """
    levels = dict(zip(search.seen.names, np.exp(search.seen.levels).tolist(), strict=True))
    proposed = {one["mixture"] for report in reports for one in report["proposals"]}
    rows = [
        (0, name, "by hand" if name in by_hand else "start", None, level, None, None, None, None)
        for name, level in levels.items()
        if name not in proposed and round_of(name) is None
    ]
    for number, report in enumerate(reports, start=1):
        percent = (100 * report["expected_gain"], 100 * (report["noise"] or USUAL_NOISE))
        if report["stopped"]:
            rows.append((number, None, None, None, None, None, *percent, report["stopped"]))
            break
        rows += [
            (
                *(number, one["mixture"], one["voice"], one["promised"], levels.get(one["mixture"])),
                *(100 * one["deviation"], *percent, None),
            )
            for one in report["proposals"]
        ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def sentences(search, noise: float | None, reports: list[dict], by_hand: list[str]) -> list[str]:
    """The answer for a person."""
    names, levels = search.seen.names, np.exp(search.seen.levels)
    best = search.best
    posterior = float(np.exp(search.posterior(search.seen.shares[[best]])[0][0]))
    said = [f"Answer: {names[best]}, measured {levels[best]:.4f}, {posterior:.4f} by the law and all runs together."]
    rules = [name for name in dict.fromkeys(by_hand) if name in names]
    if not rules:
        raise InputError(f"no run is on any of {', '.join(by_hand)}: a search is judged against a rule by hand.")
    hand = min(rules, key=lambda name: float(search.posterior(search.shares_of(name)[None])[0][0]))
    if names[best] == hand:
        said.append(f"No searched mixture is better than {hand}, a rule that needs no search.")
    else:
        gain, deviation = search.gain(search.shares_of(hand), search.seen.shares[best])
        low, high = gain - NORMAL * deviation, gain + NORMAL * deviation
        ends = f"{100 * gain:.2f} % ({100 * low:.2f} to {100 * high:.2f}, 90 %)"
        said.append(
            f"It is {ends} below {hand}, the best rule by hand."
            if low > 0
            else f"Not better than {hand}, the best rule by hand: {ends} below it."
        )
    run_rounds = sum(not report["stopped"] for report in reports)
    ended = next((report["stopped"] for report in reports if report["stopped"]), None)
    left = reports[-1]["expected_gain"]
    known = "" if noise is not None else " (taken: no run was repeated)"
    said.append(
        f"{len(set(names))} mixtures in {run_rounds} rounds; noise of a run {100 * (noise or USUAL_NOISE):.2g} %{known}. "
        + (f"It ended since {ended}" if ended else f"All rounds were run; the last expected {100 * left:.2g} % more.")
    )
    return said


if __name__ == "__main__":
    sys.exit(run(main))
