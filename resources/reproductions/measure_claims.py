"""Measure the paper's claims on kept and on public runs, and write the tables of docs/paper.md.

python resources/reproductions/measure_claims.py [--folder F] [--page docs/paper.md] -> the tables on standard
output, or between the page's marks. Those of the proof are made from resources/observations/proof2,
those of Ye et al.'s runs from F/mixinglaws, and left out without it.
"""

import argparse
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1] / "observations" / "proof2"))

import answer_proof
from answer_proof import FIRST, REFERENCE
from answered import MARK, markdown
from public_tables import mixing_curves

from bimix.judge import errors
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations, observations

ENTROPIES = ["se", "je", "ce", "vne"]
COUNTS, DRAWS = (4, 5, 6), 32
# of objective I: what it is called in the page, its mixture behind the triple's name, the runs it was found from
PRICED = {
    "rule of 12 readings": ("12", 0),
    "`bimix`, cap of 4 epochs": ("bimix_4", 4),
    "`bimix`, cap of 16 epochs": ("bimix_16", 4),
    "RegMix": ("regmix", 64),
    "Olmix": ("olmix", 64),
    "MARINER": ("mariner", 64),
    "`transfer`": ("transfer", 64),
    "search, first round": ("I_round1", 7),
    "search, its answer": ("I", 12),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the public runs")
    parser.add_argument("--page", type=Path, help="written again between its marks")
    options = parser.parse_args(argv)
    tables = of_proof() | (of_public(options.folder) if options.folder else {})
    if options.page:
        options.page.write_text(filled(options.page.read_text(encoding="utf-8"), tables), encoding="utf-8")
        return
    for name, table in tables.items():
        print(f"{name}\n\n{table}")


def of_proof() -> dict[str, str]:
    """{mark: table} of the kept runs."""
    return {"generalisation": generalisation(), "entropies": entropies(), "prices": prices()}


def of_public(folder: Path) -> dict[str, str]:
    """{mark: table} of Ye et al.'s runs."""
    return {"extrapolation": extrapolation(folder), "few": few_runs(folder)}


def filled(page: str, tables: dict[str, str]) -> str:
    """The page with these tables between their marks; other marks stay as they are."""
    return MARK.sub(lambda found: f"{found[1]}{tables[found[2]]}{found[3]}" if found[2] in tables else found[0], page)


@cache
def proof() -> answer_proof.Proof:
    """The kept tables of the proof."""
    return answer_proof.read_proof(answer_proof.HERE)


def generalisation() -> str:
    """Table 3: `bimix` fitted to the four entropies, and to the token shares too."""
    kept = proof()
    losses = kept.curves.filter(pl.col("seed") == FIRST).select("mixture", "step", "domain", "loss")
    runs = observations(losses, kept.shares.drop("pool"))
    place = {name: n for n, name in enumerate(runs.mixtures)}
    drawn = [n for name, n in place.items() if name.startswith("swarm_") and runs.proportions[n].all()]
    predicted = {
        "`uniform`": [place["uniform"]],
        "token shares": [place[REFERENCE]],
        f"{len(drawn)} random draws": drawn,
    }
    rows = []
    for said, names in (("entropies", ENTROPIES), ("entropies, token shares", [*ENTROPIES, REFERENCE])):
        own = runs.take([place[name] for name in names])
        fitted = laws.fit("bimix", own)
        for called, chosen in predicted.items():
            if not set(chosen) & {place[name] for name in names}:
                rows.append([said, called, *_predicted(fitted, own, runs.take(chosen))])
    heads = ["fitted to", "predicted", "shares outside", "R2, mean (worst)", "error %, mean (worst)", "Spearman"]
    return markdown(heads, rows)


def _predicted(fitted: dict, own: Observations, asked: Observations) -> list[str]:
    """How many shares of a mixture lie outside the fitted ones, R2 over the steps, the error at the
    last, and Spearman's correlation of the plain mean where there are several.
    """
    low, high = own.proportions.min(axis=0), own.proportions.max(axis=0)
    outside = ((asked.proportions < low) | (asked.proportions > high)).sum(axis=1).mean()
    scores = errors.generalization(fitted, asked, asked.proportions)["r2_log"]
    truth, guess = asked.losses[:, -1], laws.predict(fitted, asked.proportions, asked.steps[-1:])[:, 0]
    error = 100 * errors.relative_error(truth, guess)
    means = (one.mean(axis=1, keepdims=True) for one in (truth, guess))
    order = f"{errors.rank_correlation(*means)[0]:.2f}" if len(truth) > 1 else ""
    r2 = f"{scores.mean():.3f} ({scores.min():.2f})"
    return [f"{outside:.0f} of {len(low)}", r2, f"{error.mean():.2f} ({error.max():.1f})", order]


def entropies() -> str:
    """Fig. 5: the plain mean of all losses, log % over the token shares, of block C."""
    names, levels, noise = proof().noise(None)
    base, rows = names.index(REFERENCE), []
    called = {"c_transfer": "`transfer`, 64 runs", "c_bimix_16": "`bimix`, the 4 runs above"}
    for name in (*ENTROPIES, "c_bimix_16", "uniform", "c_transfer"):
        at = names.index(name)
        half = 100 * noise.between(at, base)
        value = 100 * np.expm1(levels[at] - levels[base])
        rows.append([called.get(name, f"`{name}`"), f"{value:.2f} %", f"{half:.2f}"])
    return markdown(["mixture", "to the token shares", "+-, 95 %"], rows)


def prices() -> str:
    """Objective I of the proof, 100 times the log over the reference, by triple and in the mean, and
    the mean of the other 19 losses.
    """
    kept, rows = proof(), []
    for called, (name, runs) in PRICED.items():
        gains, others = [], []
        for triple, wanted in kept.triples.items():
            mixture = kept.chosen[triple].get(name, f"{triple}_{name}")
            rest = {domain: 1.0 for domain in kept.domains if domain not in wanted}
            gains += kept.effects("tiny", kept.weights(triple, "I"), [mixture])
            others += kept.effects("tiny", rest, [mixture])
        cells = [f"{100 * value:.2f}" for value in (*gains, np.mean(gains))]
        rows.append([called, str(runs), *cells, f"{100 * np.mean(others):+.0f}"])
    return markdown(["method", "runs", *kept.triples, "mean", "the others"], rows)


@cache
def without_zeros(folder: Path, name: str, size: str) -> Observations:
    """Ye et al.'s runs whose shares are all above 0, at all steps."""
    runs = mixing_curves(folder / "mixinglaws", name, size)
    return runs.take(np.flatnonzero((runs.proportions > 0).all(axis=1)))


def extrapolation(folder: Path) -> str:
    """Table 2: each run's last losses predicted from its losses before."""
    rows = []
    for called, name in (("SlimPajama", "RedPajama"), ("3Mix", "3Mix")):
        for size in ("70M", "160M"):
            runs = without_zeros(folder, name, size)
            table = errors.extrapolation_table(errors.extrapolation("bimix", runs))
            mean, worst = table["mean_percent"].mean(), table["worst_percent"].max()
            first, last = runs.steps[[0, -1]]
            cells = [str(len(table)), f"{len(runs.steps)}, {first:,} to {last:,}", f"{mean:.2f}", f"{worst:.2f}"]
            rows.append([f"{called}, {size}", *cells])
    return markdown(["runs of", "mixtures", "evaluations, steps", "error %, mean", "worst domain"], rows)


def few_runs(folder: Path) -> str:
    """Mean error at the last step of the runs that a draw leaves over, of `bimix` and `transfer`
    without a prior, and in how many draws `bimix` has the smaller one.
    """
    rows = []
    for size in ("70M", "160M"):
        runs = without_zeros(folder, "RedPajama", size)
        runs = replace(runs, steps=runs.steps[-1:], losses=runs.losses[:, -1:])
        for count in COUNTS:
            found = np.array([_errors(runs, count, draw) for draw in range(DRAWS)])
            means = [f"{mean:.2f} ({worst:.2f})" for mean, worst in zip(found.mean(0), found.max(0), strict=True)]
            rows.append([size, str(count), *means, f"{(found[:, 0] < found[:, 1]).sum()} of {DRAWS}"])
    return markdown(["SlimPajama", "runs", "`bimix`", "`transfer`", "`bimix` below"], rows)


def _errors(runs: Observations, count: int, draw: int) -> list[float]:
    order = np.random.default_rng([draw, count]).permutation(len(runs.mixtures))
    own, asked = runs.take(order[:count]), runs.take(order[count:])
    guesses = (laws.predict(laws.fit(law, own), asked.proportions, asked.steps) for law in ("bimix", "transfer"))
    return [100 * float(errors.relative_error(asked.losses, guess).mean()) for guess in guesses]


if __name__ == "__main__":
    main()
