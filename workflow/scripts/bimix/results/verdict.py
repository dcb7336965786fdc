"""Whether an optimised mixture wins, ties or loses against the others, by differences that are told
from chance.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
from scipy.stats import t

SURE = 2  # spreads of a difference from which on it counts
ALIKE = 5e-5  # proportions that differ by less print the same four digits


@dataclass(frozen=True)
class Spread:
    """How far two runs of one mixture differ: the standard deviation of their last average losses.

    `percent` of the loss, None where nothing tells it; `source` says where it comes from.
    """

    percent: float | None
    source: str

    def of_difference(self, one: dict, other: dict) -> float | None:
        """Standard deviation, in percent, of the difference between two rows of
        `comparison.compare`.
        """
        if self.percent is None:
            return None
        return self.percent * math.sqrt(1 / one["runs"] + 1 / other["runs"])

    def runs_to_tell(self, one: dict, other: dict) -> int | None:
        """How many runs of each of two mixtures would tell a difference as large as that of their
        rows; None where no spread is known or nothing differs.
        """
        percent = abs(100 * (one["average_loss"] / other["average_loss"] - 1))
        return math.ceil(2 * (SURE * self.percent / percent) ** 2 - 1e-9) if self.percent and percent else None

    def tells(self, one: dict, other: dict) -> bool:
        """Whether two rows differ by SURE spreads or more; by anything at all where no spread is
        known.
        """
        percent = abs(100 * (one["average_loss"] / other["average_loss"] - 1))
        known = self.of_difference(one, other)
        return percent > 0 if known is None else percent > 0 and percent >= SURE * known


@dataclass(frozen=True)
class Verdict:
    """What became of the best optimised mixture `own` against the best of the others, `rival`.

    `outcome`: wins, ties, loses, or untested where no optimised mixture or no other was trained on.
    `best` is the mixture to take: the better of the two, and on a tie the optimised one. Where all
    were optimised the rival is the second of them.
    """

    outcome: str
    best: str
    own: str
    rival: str | None


def spread(runs: pl.DataFrame, left_out: float | None = None) -> Spread:
    """The spread over all mixtures of a comparison together: over seeds where a mixture has
    several.

    Without seeds it is the larger of two: `left_out`, the law's error on runs left out in percent,
    which knows the noise of a run and the law's misfit, and the scatter of the evaluations about
    each curve. The scatter alone is too small by a factor of five or so: two runs differ in more
    than their last evaluations.
    """
    several = runs.filter(pl.col("deviation_percent").is_not_null())
    if several.height:
        freedom = (several["runs"] - 1).to_numpy()
        pooled = math.sqrt((freedom * several["deviation_percent"].to_numpy() ** 2).sum() / freedom.sum())
        return Spread(pooled, f"from {several['runs'].sum()} runs of {several.height} mixtures")
    scattered = runs["scatter_percent"].drop_nulls()
    scatter = math.sqrt((scattered**2).mean()) if len(scattered) else None
    if left_out is not None and left_out >= (scatter or 0.0):
        return Spread(left_out, "one seed: from the law's errors on runs left out")
    source = "" if scatter is None else "one seed: from the scatter of the evaluations, rather too small"
    return Spread(scatter, source)


def left_out_percent(spans: pl.DataFrame, runs: Mapping[str, int]) -> float | None:
    """The least error of any law on the average loss of a run left out, as a standard deviation in
    percent.

    `spans` in the columns of INTERVALS, whose t-intervals have a degree of freedom less than the
    `runs` {law: number} that each was fitted to. None where no interval comes from runs left out.
    """
    own = (pl.col("quantity") == "optimum_average_loss") & (pl.col("kind") == "left_out")
    found = [
        100 * math.log(row["high"] / row["estimate"]) / t.ppf((1 + row["level"]) / 2, runs[row["law"]] - 1)
        for row in spans.filter(own & pl.col("high").is_not_null()).iter_rows(named=True)
    ]
    return min(found, default=None)


def judge(runs: pl.DataFrame, optimised: list[str], spread: Spread) -> Verdict:
    """The verdict on a comparison; `optimised` are the mixtures that laws found, the one to speak
    of first.
    """
    rows = {row["mixture"]: row for row in runs.sort("average_loss").iter_rows(named=True)}
    own = next((name for name in rows if name in optimised), None)
    others = [name for name in rows if name not in optimised] or [name for name in rows if name != own]
    rival = others[0] if others else None
    if own is None or rival is None:
        return Verdict("untested", own or optimised[0], own or optimised[0], rival)
    if not spread.tells(rows[own], rows[rival]):
        return Verdict("ties", own, own, rival)
    wins = rows[own]["average_loss"] < rows[rival]["average_loss"]
    return Verdict("wins" if wins else "loses", own if wins else rival, own, rival)


def found_twice(mixtures: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """{mixture: one before it with the same proportions to four digits}, of {mixture: {domain:
    proportion}}.
    """
    same: dict[str, str] = {}
    for name, shares in mixtures.items():
        for other, theirs in mixtures.items():
            if other == name:
                break
            domains = shares.keys() | theirs.keys()
            if other not in same and all(abs(shares.get(key, 0) - theirs.get(key, 0)) < ALIKE for key in domains):
                same[name] = other
                break
    return same
