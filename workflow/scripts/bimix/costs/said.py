"""What the verdict says, for a person, in a paragraph that spares nobody."""

import polars as pl


def paragraph(table: pl.DataFrame, proposals: pl.DataFrame, reference: str, simple: set[str]) -> str:
    """The paragraph of tables of `costs.worth`; `simple` are mixtures that took no search here."""
    rows = {row["mixture"]: row for row in table.iter_rows(named=True)}
    best = table["mixture"][0]
    if table["ties_with_best"].null_count():
        unpaired = "with one run of each mixture" if table["runs"].max() == 1 else "and no two share two seeds"
        return f"{best} ends lowest, {unpaired}: that is no verdict. Set further seeds."
    same = [names for names in twins(rows) if len(names) > 1]
    parts = [f"{best} ends lowest of {len(twins(rows))} mixtures, {trained(table['runs'].to_list())}."]
    parts += [f"{listed(names)} are one mixture, and their runs the same." for names in same]
    ties = [name for name, row in rows.items() if row["ties_with_best"] and name != best]
    if ties:
        parts.append(f"{listed(ties)} cannot be told from it.")
        parts += known_to(rows[best])
    parts += [
        *worth_of_search(rows, best, ties, simple),
        *against(rows, reference, simple),
        *of_proposals(proposals),
        *by_bytes(table, best),
        *furthest_off(rows, reference),
    ]
    return " ".join(parts)


def twins(rows: dict[str, dict]) -> list[list[str]]:
    """Names by the runs that are behind them: mixtures that are the same have the same runs."""
    groups: dict[tuple, list[str]] = {}
    for name, row in rows.items():
        scatter = row["deviation_percent"]
        key = (round(row["average_loss"], 6), row["runs"], None if scatter is None else round(scatter, 4))
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def trained(runs: list[int]) -> str:
    """With how many seeds each was trained; where they differ, what that means."""
    if min(runs) == max(runs):
        return f"each trained with {runs[0]} seeds"
    return f"trained with {min(runs)} to {max(runs)} seeds each: what a seed does to all is taken off"


def known_to(best: dict) -> list[str]:
    """How well the seeds know the gain of the best: what cannot be told may only lack seeds."""
    if best["gain_low"] is None:
        return []
    half = (best["gain_high"] - best["gain_low"]) / 2
    return [f"Its gain is known to within {half:.2f} points."]


def worth_of_search(rows: dict[str, dict], best: str, ties: list[str], simple: set[str]) -> list[str]:
    """Whether any search earned its cost; nothing where all that is compared was searched."""
    if best in simple:
        return ["It took no search: no method earned its cost here."]
    without = [name for name in ties if name in simple]
    if without:
        gives = verb(without, "does", "do")
        return [f"So a search paid for nothing here that {listed(without)} {gives} not give without one."]
    others = [name for name in rows if name in simple]
    if not others:
        return []
    rival = min(others, key=lambda name: rows[name]["regret_percent"])
    return [f"The best rule without a search, {rival}, is {rows[rival]['regret_percent']:.2f} % behind."]


def against(rows: dict[str, dict], reference: str, simple: set[str]) -> list[str]:
    """Searches that lost against the reference, and those that are not told from it."""
    searched = [row for name, row in rows.items() if name not in simple and name != reference]
    lost = [row["mixture"] for row in searched if row["gain_high"] < 0]
    same = [row["mixture"] for row in searched if row["gain_low"] <= 0 <= row["gain_high"]]
    than = ": worse than no search" if reference in simple else ""
    said = [f"{listed(lost)} {verb(lost, 'ends', 'end')} above {reference}{than}."] if lost else []
    return said + ([f"{listed(same)} {verb(same, 'is', 'are')} not told from {reference}."] if same else [])


def of_proposals(proposals: pl.DataFrame) -> list[str]:
    """Whether laws order their own best rightly."""
    said = []
    for row in proposals.iter_rows(named=True):
        first, told = row["best_proposal"] == row["method"], row["pairs_told"]
        behind = f"{row['best_proposal']} ends lowest, the first {row['first_behind_percent']:.2f} % behind"
        text = f"Of the {row['proposals']} proposals of {row['method']}, {'the first ends lowest' if first else behind}"
        if row["predicted_spread_percent"] is not None:
            points = f"{row['predicted_spread_percent']:.2f} points between them"
            text += f" (the law has {points if row['predicted_spread_percent'] else 'nothing between them'})"
        if not told:
            text += f"; seeds tell none of them apart, {row['spread_percent']:.2f} % in all."
        elif row["predicted_spread_percent"] == 0:
            text += ", and seeds do."
        elif row["pairs"] == 1:
            text += f"; the law has them in the {'right' if row['pairs_right'] else 'wrong'} order."
        else:
            text += f"; of {told} pairs that seeds tell apart the law has {row['pairs_right']} in the right order."
        said.append(text)
    return said


def by_bytes(table: pl.DataFrame, best: str) -> list[str]:
    """Whether the mean over domains of bits per byte has another winner."""
    if table["bits_per_byte"].null_count():
        return []
    rows = table.sort("bits_per_byte", maintain_order=True)
    lowest = rows["mixture"][0]
    if lowest == best:
        return ["By bits per byte it is the lowest, too."]
    tied = rows.filter(pl.col("mixture") == best)["bits_ties_with_best"][0]
    return [f"By bits per byte {lowest} is lowest, and {best} {'cannot be told from it' if tied else 'loses'}."]


def furthest_off(rows: dict[str, dict], reference: str) -> list[str]:
    """The predicted gain that is furthest from the measured one."""
    told = [(row["optimism_percent"], name) for name, row in rows.items() if row["optimism_percent"] is not None]
    if not told:
        return []
    miss, name = max(told, key=lambda pair: abs(pair[0]))
    kind = "too much" if miss > 0 else "too little"
    return [f"Of the predicted gains over {reference} that of {name} is furthest off: {abs(miss):.2f} points {kind}."]


def listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def verb(names: list[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several
