"""Every law, fitted to the tables under resources/observations, predicts and proposes the kept
numbers.

The tables are thinned to few runs and loss domains. frozen_laws.json keeps predictions at mixtures
left out, predictions of a refit, and the optimum. A change that is meant is taken in by

    FREEZE=1 pytest -n 0 tests/laws/test_frozen_laws.py

and is in the reason of the commit. Tables on which a law chooses between equals are not here: the
choice would depend on the processor.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

import fit_law
import optimize_mixture
import predict_losses
from bimix.errors import InputError
from bimix.laws.fitted import predict_runs
from bimix.laws.table import LAWS
from bimix.observations.observations import read_observations

KEPT = Path(__file__).parents[2] / "resources/observations"
FROZEN = Path(__file__).with_name("frozen_laws.json")
CLOSE = 1e-6  # relative, of losses
SHARES = 2e-5  # of an optimum, around which the objective is flat


@dataclass(frozen=True)
class Case:
    """A table, thinned: every so many mixtures, of which some are left out of the fit."""

    losses: str
    mixtures: str
    domains: tuple[str, ...]  # loss domains that are kept
    rows: pl.Expr = pl.lit(True)  # noqa: RUF009  of the losses
    every: int = 1
    held_out: int = 3
    prior: bool = False
    pools: str | None = None  # of the run that the optimum is for
    run: tuple[str, ...] = ()  # flags that name that run
    laws: tuple[str, ...] = tuple(LAWS)

    def write(self, folder: Path) -> tuple[list[str], Path]:
        """Flags that name the tables of the fit; the mixtures left out; the losses of all."""
        losses, mixtures = (pl.read_csv(KEPT / f"{name}.csv") for name in (self.losses, self.mixtures))
        losses = losses.filter(self.rows, pl.col("domain").is_in(self.domains))
        names = [name for name in mixtures["mixture"].unique(maintain_order=True) if name in set(losses["mixture"])]
        names = names[:: self.every]
        left = names[:: len(names) // self.held_out][: self.held_out]
        out = pl.col("mixture").is_in(left)
        files = [folder / f"{name}.csv" for name in ("losses", "mixtures", "left_out")]
        used = pl.col("mixture").is_in(names)
        losses.filter(used & ~out).write_csv(files[0])
        mixtures.filter(used & ~out).write_csv(files[1])
        mixtures.filter(out).write_csv(files[2])
        return ["--losses", str(files[0]), "--mixtures", str(files[1])], files[2]


PROOF = ("FreeLaw", "NIH ExPorter", "ArXiv")
CASES = {
    "carry": Case(
        "carry/losses",
        "carry/mixtures",
        ("cpp", "python"),
        (pl.col("setting") == "adamw") & (pl.col("seed") == 1) & (pl.col("step") == 80),
    ),
    "scarce": Case(  # every run is there at the end of its schedule alone: text that repeats counts less
        "scarce/losses",
        "scarce/mixtures",
        ("Github", "C4"),
        every=3,
        run=("--run-tokens", "2048000"),
        laws=("transfer",),
    ),
    "end": Case(
        "scarce/losses",
        "scarce/mixtures",
        ("Github", "C4"),
        pl.col("step") == 1000,
        laws=("bimix", "regmix"),
    ),
    "blind": Case(
        "proof/tiny_first",
        "proof/blind_mixtures",
        PROOF[:2],
        pl.col("step") == 1500,
        laws=("transfer", "exponential"),
    ),
    "seeds": Case(
        "proof/tiny",
        "proof/tiny_mixtures",
        PROOF,
        every=3,
        prior=True,
        pools="proof/tiny_pools",
        run=("--run-tokens", "3072000"),
        laws=("transfer",),
    ),
    "larger": Case("proof/larger", "proof/larger_mixtures", PROOF[:2], prior=True, laws=("transfer",)),
    "sizes": Case(
        "proof/sizes",
        "proof/sizes_mixtures",
        PROOF,
        every=2,
        prior=True,
        run=("--parameters", "2e6", "--run-tokens", "20000000"),
        laws=("transfer",),
    ),
}
PAIRS = [(name, law) for name, case in CASES.items() for law in case.laws]


def call(script: ModuleType, *flags: object) -> bool:
    """Whether a script runs; else it refuses its input."""
    try:
        script.main([str(flag) for flag in flags])
    except InputError:
        return False
    return True


def numbers_of(case: Case, law: str, folder: Path) -> dict:
    """What is kept of a law on a table."""
    tables, left_out = case.write(folder)
    prior = KEPT / "proof/cross_entropy.csv" if case.prior else None
    coefficients, predictions, mixture = (folder / name for name in ("law.json", "predictions.csv", "mixture.json"))
    fit_law.main(["--law", law, *tables, *(["--prior", str(prior)] if prior else []), "--out", str(coefficients)])
    fitted = json.loads(coefficients.read_text())
    kept: dict = {"coefficients_fitted": fitted["coefficients_fitted"], "predicted": None, "optimum": None}
    if call(predict_losses, "--coefficients", coefficients, "--mixtures", left_out, *case.run, "--out", predictions):
        kept["predicted"] = pl.read_csv(predictions)["loss"].to_list()
    if law != "regmix":  # slow to refit
        observed = read_observations(Path(tables[1]), Path(tables[3]), prior)
        weights, first = (
            np.ones(len(observed.mixtures)),
            observed.mixtures.index(str(pl.read_csv(tables[1])["mixture"][0])),
        )
        weights[first] = 0.0
        again = next(LAWS[law].code.refit([(observed, weights)], fitted))
        losses = predict_runs(fitted | {"coefficients": again}, observed.take([first])).ravel()
        kept["refit"] = losses[np.isfinite(losses)].tolist()
    step = ["--step", fitted["steps"][-1]]
    pools = ["--tokens", KEPT / f"{case.pools}.csv", "--max-epochs", "8"] if case.pools else []
    if call(optimize_mixture, "--coefficients", coefficients, *step, *pools, *case.run, "--out", mixture):
        kept["optimum"] = json.loads(mixture.read_text())
    return kept


@pytest.mark.parametrize(("name", "law"), PAIRS)
def test_a_law_says_of_a_kept_table_what_it_said(name: str, law: str, tmp_path: Path) -> None:
    found, key = numbers_of(CASES[name], law, tmp_path), f"{name}/{law}"
    kept = json.loads(FROZEN.read_text()) if FROZEN.is_file() else {}
    if "FREEZE" in os.environ:
        kept = {f"{one}/{other}": kept.get(f"{one}/{other}") for one, other in PAIRS} | {key: found}
        FROZEN.write_text(json.dumps(kept, indent=1) + "\n")
    assert found == {
        part: value if value is None else pytest.approx(value, rel=CLOSE, abs=SHARES if part == "optimum" else 0)
        for part, value in kept[key].items()
    }


def test_every_law_is_frozen() -> None:
    assert set(LAWS) == {law for _, law in PAIRS}
