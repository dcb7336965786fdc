"""Decide the mixtures that the law for larger models finds best, from the kept tables.

python resources/observations/proof3/decide_larger.py

../proof2, larger.csv, cross_entropy.csv -> mixtures/{triple}_for_larger_prior.csv: of the law fitted to the
five and the reference's larger runs; and, where the larger run of the triple's rule is kept,
mixtures/{triple}_for_larger.csv: of that run, too. Those that are decided stay.
"""

import json
import sys
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registered import Trainings, script

from bimix.outputs import write_table
from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
PROOF2 = HERE.parent / "proof2"
PROOF = Trainings(HERE, PROOF2 / "larger_pools.csv")
PLAN = PROOF.plan
REFERENCE, LARGER = PLAN["reference"], PLAN["runs"]["larger"]


def main() -> None:
    triples = read_json(HERE / "triples.json")["triples"]
    for triple in list(triples)[:3]:
        weights, rule = PROOF.weights_of(triples[triple], "I"), f"{triple}_rule"
        decide(f"{triple}_for_larger_prior", {PROOF2: [REFERENCE]}, weights)
        if PROOF.kept("larger", rule, PROOF.first):
            decide(f"{triple}_for_larger", {PROOF2: [REFERENCE], HERE: [rule]}, weights)


def decide(mixture: str, large: dict[Path, list[str]], weights: dict[str, float]) -> None:
    """The optimum at the larger model of a law fitted to the five and larger runs {folder: mixtures}."""

    def make(out: Path) -> None:
        runs = [table_of(PROOF2, "tiny", PLAN["five"]), *(table_of(at, "larger", names) for at, names in large.items())]
        losses, mixtures = (out.with_suffix(f".{name}.csv") for name in ("losses", "mixtures"))
        for path, tables in zip((losses, mixtures), zip(*runs, strict=True), strict=True):
            write_table(pl.concat(tables), path)
        coefficients = out.with_suffix(".coefficients.json")
        prior = ["--prior", HERE / "cross_entropy.csv"]
        script(
            "fit_law.py", "--law", "transfer", "--losses", losses, "--mixtures", mixtures, *prior, "--out", coefficients
        )
        asked = ["--max-epochs", PLAN["max_epochs"], "--tokens", PROOF.pools, "--run-tokens", LARGER["tokens"]]
        asked += ["--parameters", parameters("larger"), "--weights", json.dumps(weights)]
        report = out.with_suffix(".optimum.json")
        script("optimize_mixture.py", "--coefficients", coefficients, *asked, "--out", out, "--report", report)

    PROOF.decide(mixture, make)


def table_of(folder: Path, model: str, mixtures: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The ends of some runs, all their seeds of the larger model, and their shares and pools; a larger
    run's mixture has another name, since its pools are others.
    """
    called = pl.concat_str(pl.lit("larger_" if model == "larger" else ""), "mixture").alias("mixture")
    losses, shares = (read_table(folder / f"{model}{ending}.csv") for ending in ("", "_mixtures"))
    losses = losses.filter(pl.col("mixture").is_in(mixtures), step=PLAN["runs"][model]["steps"])
    if model == "tiny":
        losses = losses.filter(seed=PROOF.first)
    losses = losses.with_columns(called, parameters=pl.lit(parameters(model)))
    return losses, shares.filter(pl.col("mixture").is_in(mixtures)).with_columns(called)


def parameters(model: str) -> int:
    return read_table(PROOF2 / "runs.csv").filter(model=model)["parameters"][0]


if __name__ == "__main__":
    main()
