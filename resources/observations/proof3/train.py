"""Train what registration.yaml says, in its order; call it again to go on.

python resources/observations/proof3/train.py --commit HASH [--until primary|proxies|larger]

registration.yaml, ../proof2 -> triples.json, cross_entropy.csv (the text prior), mixtures/{mixture}.csv
beside this file (each mixture once it is decided, and never changed after that), promised.csv (mixture,
promised: the objective that its law foretells), results/proof2/runs/, and the tables of
../proof/collect_runs.py beside this file, after each run

Call it in a clone of the project, with pile22/ there. Runs in the tables beside this file are not
trained again, so a clone without results goes on where these end. HASH is the commit of
registration.yaml alone: it draws the triples.
"""

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registered import Trainings, write_joined

from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
PROOF2 = HERE.parent / "proof2"
PROOF = Trainings(HERE, PROOF2 / "tiny_pools.csv")
PLAN = PROOF.plan
FIRST, FRESH, CAP = PLAN["seeds"]["first"], PLAN["seeds"]["fresh"], PLAN["max_epochs"]
AGREES = 0.0034  # root mean square of log losses of the check: a run's noise in I
SWARM = [f"swarm_{number:04}" for number in range(1, 65)]
RULES = {"rule": "12", "uniform_rule": "8_uniform"}
LARGER = 3  # triples
FOR_LARGER = ("for_larger_prior", "for_larger")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", required=True, help="of the registration")
    parser.add_argument("--until", default="larger", choices=["primary", "proxies", "larger"])
    options = parser.parse_args()
    triples = PROOF.draw_triples(options.commit, "u", PLAN["triples"]["not"])
    read_text()
    five = five_runs()
    decide(triples, five)
    train(triples, "transfer5", "rule")
    if options.until != "primary":
        train(triples, "transfer64")
        train(triples, "transfer5_II", "uniform_rule")
        for triple in triples:
            PROOF.train("tiny", [f"{triple}_transfer5"])
        for triple, wanted in triples.items():
            decide_sixth(triple, wanted, five)
        train(triples, "transfer6")
        train(triples, "bimix5")
        train(triples, "transfer64_II")
        PROOF.train("tiny", [PLAN["reference"]], FRESH)
    if options.until == "larger":
        train_larger(list(triples)[:LARGER])


def train(triples: dict[str, list[str]], *candidates: str) -> None:
    """Train candidates of all triples at the fresh seeds, seed by seed, and keep each run's losses when it ends."""
    for seed in FRESH:
        for triple in triples:
            for name in candidates:
                PROOF.train("tiny", [f"{triple}_{name}"], [seed])


def read_text() -> None:
    """The text prior, kept beside this file, and the reference."""
    PROOF.snakemake(PROOF.reference, PROOF.prior)
    if not (HERE / "cross_entropy.csv").is_file():
        shutil.copyfile(PROOF.prior, HERE / "cross_entropy.csv")


def five_runs() -> dict[Path, list[str]]:
    """{folder: mixtures} of the five runs: proof2's, where a run of the first is the same within the
    noise; else all five are trained here.
    """
    PROOF.train("tiny", PLAN["five"][:1])
    if checked() <= AGREES:
        return {PROOF2: PLAN["five"]}
    for mixture in PLAN["five"]:
        PROOF.train("tiny", [mixture])
    return {HERE: PLAN["five"]}


def checked() -> float:
    """The root mean square, over the domains, of the log of the last loss of the check over the kept one."""
    asked = {"mixture": PLAN["five"][0], "seed": FIRST, "step": PLAN["runs"]["tiny"]["steps"]}
    ran, kept = (read_table(folder / "tiny.csv").filter(**asked) for folder in (HERE, PROOF2))
    both = ran.join(kept, on="domain", validate="1:1")
    return float(np.sqrt(both.select((pl.col("loss") / pl.col("loss_right")).log().pow(2).mean()).item()))


def decide(triples: dict[str, list[str]], five: dict[Path, list[str]]) -> None:
    """All mixtures that need no new run."""
    laws = {
        "bimix5": ("bimix", five, ["I"]),
        "transfer5": ("transfer", five, ["I", "II"]),
        "transfer64": ("transfer", {PROOF2: SWARM}, ["I", "II"]),
    }
    for triple, wanted in triples.items():
        for name, rule in RULES.items():
            PROOF.decide(f"{triple}_{name}", lambda out, rule=rule, wanted=wanted: PROOF.by_hand(rule, wanted, out))
    for name, (law, runs, objectives) in laws.items():
        endings = {objective: "" if objective == "I" else f"_{objective}" for objective in objectives}
        names = [f"{triple}_{name}{ending}" for triple in triples for ending in endings.values()]
        if all((HERE / f"mixtures/{mixture}.csv").is_file() for mixture in names):
            continue
        coefficients = PROOF.fit(name, law, runs)
        for triple, wanted in triples.items():
            for objective, ending in endings.items():
                promise(f"{triple}_{name}{ending}", coefficients, PROOF.weights_of(wanted, objective))


def decide_sixth(triple: str, wanted: list[str], five: dict[Path, list[str]]) -> None:
    """The optimum of six runs, the five and the triple's own."""
    mixture, own = f"{triple}_transfer6", f"{triple}_transfer5"
    if not (HERE / f"mixtures/{mixture}.csv").is_file():
        runs = five | {HERE: [*five.get(HERE, []), own]}
        promise(mixture, PROOF.fit(mixture, "transfer", runs), PROOF.weights_of(wanted, "I"))


def promise(mixture: str, coefficients: Path, weights: dict[str, float]) -> None:
    """Decide a law's optimum, and keep what the law promises of it."""

    def make(out: Path) -> None:
        PROOF.optimum(coefficients, weights, CAP, out)
        said = read_json(out.with_suffix(".optimum.json"))["objective_value"]
        write_joined(pl.DataFrame({"mixture": [mixture], "promised": [said]}), HERE / "promised.csv", "mixture")

    PROOF.decide(mixture, make)


def train_larger(triples: list[str]) -> None:
    """The larger model: the rule and transfer5, and what the law for larger models decided."""
    for name in ("rule", "transfer5", *FOR_LARGER):
        for triple in triples:
            if (HERE / f"mixtures/{triple}_{name}.csv").is_file():
                PROOF.train("larger", [f"{triple}_{name}"])
            else:
                print(f"{triple}_{name} is not decided")


if __name__ == "__main__":
    main()
