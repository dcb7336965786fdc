"""Refit laws to other runs than the five: the ablation of registration.yaml, which trains nothing.

python resources/observations/proof3/refit_designs.py

../proof2, triples.json, cross_entropy.csv -> ablation.csv: design, prior (whether the law has it), error
(root mean square of log losses over the reference's, of proof2's proxies outside the design, all
domains), u1, ... (the judge's log of objective I over the reference's, at the optimum for that triple)

Rows that are there are not made again.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registered import Trainings, write_joined

from bimix.laws.fitted import at_run, fit, predict, predict_runs
from bimix.mixtures.draws import STRENGTHS
from bimix.observations.observations import Observations, observations, with_priors
from bimix.optimum.bounds import run_bounds
from bimix.optimum.objective import Objective, average, target_weights
from bimix.optimum.optimum import Sought
from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
PROOF2 = HERE.parent / "proof2"
PROOF = Trainings(HERE, PROOF2 / "tiny_pools.csv")
FIVE, REFERENCE = PROOF.plan["five"], PROOF.plan["reference"]
STEP = int(PROOF.step)


def main() -> None:
    drawn, seen = read_json(HERE / "triples.json"), proof2_runs()
    weights = {triple: PROOF.weights_of(wanted, "I") for triple, wanted in drawn["triples"].items()}
    judge, path = asked(fit("transfer", with_priors(seen, HERE / "cross_entropy.csv", None))), HERE / "ablation.csv"
    for name, mixtures in designs(drawn["commit"]).items():
        for prior in (True, False):
            kept = path.is_file() and len(read_table(path).filter(design=name, prior=prior))
            if not kept:
                row = {"design": name, "prior": prior} | values(seen, mixtures, prior, weights, judge)
                write_joined(pl.DataFrame([row]), path, "design", "prior")


def designs(commit: str) -> dict[str, list[str]]:
    """{name: mixtures} of the five, of these without one, and of four draws from proof2's swarm."""
    found = {"five": FIVE} | {f"without_{one}": [name for name in FIVE if name != one] for one in FIVE}
    swarm = [f"swarm_{number:04}" for number in range(1, 65)]
    for number in range(1, 5):
        draw = np.random.default_rng([int(commit[:8], 16), number])
        found[f"random_{number}"] = sorted(draw.choice(swarm, 5, replace=False).tolist())
    return found


def proof2_runs() -> Observations:
    """The first seeds of proof2's proxies."""
    losses = read_table(PROOF2 / "tiny.csv").filter(seed=PROOF.first).drop("seed")
    return observations(losses, read_table(PROOF2 / "tiny_mixtures.csv"))


def values(seen: Observations, mixtures: list[str], prior: bool, weights: dict, judge: dict) -> dict[str, float]:
    """The error of a law fitted to some mixtures, and what the judge gives its optimum for each triple."""
    own = seen.take([seen.mixtures.index(name) for name in mixtures])
    fitted = fit("transfer", with_priors(own, HERE / "cross_entropy.csv", None) if prior else own)
    others = [at for at, name in enumerate(seen.mixtures) if name not in mixtures and name != REFERENCE]
    rows = seen.take([seen.mixtures.index(REFERENCE), *others])
    foretold = np.log(predict_runs(fitted, rows, np.array([STEP]))[:, 0])
    measured = np.log(rows.losses[:, list(rows.steps).index(STEP)])
    missed = (foretold[1:] - foretold[0]) - (measured[1:] - measured[0])
    law, found = asked(fitted), {"error": float(np.sqrt((missed**2).mean()))}
    limits = (PROOF.plan["max_epochs"], PROOF.tokens(), PROOF.run_tokens)
    for triple, weight in weights.items():
        bounds = run_bounds(law, STEP, None, None, *limits, weight)
        best = Sought(law, STEP, Objective(weights=weight), *bounds, *limits[1:]).best()
        both = np.array([rows.proportions[0], best.shares])
        losses = predict(judge, both, np.array([STEP]))[:, 0]
        reference, own = average(losses, target_weights(judge, weight))
        found[triple] = float(np.log(own / reference))
    return found


def asked(fitted: dict) -> dict:
    """A law at a proxy's run."""
    return at_run(fitted | {"strengths": STRENGTHS}, None, PROOF.run_tokens, PROOF.tokens(), STEP)


if __name__ == "__main__":
    main()
