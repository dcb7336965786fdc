"""Marginals: sums of the shares of groups of domains that the best mixture keeps."""

import itertools
import json

import numpy as np
import pytest
import yaml
from checkout import ROOT
from laws.known import bivariate, mixtures, observe, with_transfer, write_tables
from refusals import refused
from scipy.optimize import minimize

import fit_law
import optimize_mixture
import propose_round
import sample_mixtures
import solve_mixture
from bimix.errors import InputError
from bimix.laws.fitted import fit, predict
from bimix.mixtures.marginals import raked, rows_of
from bimix.optimum.objective import Objective, objective_of
from bimix.optimum.optimum import best
from bimix.tables import read_table

TOPICS, TIERS = ("games", "law", "science"), ("low", "mid", "high")
CELLS = tuple(f"{topic}:{tier}" for topic, tier in itertools.product(TOPICS, TIERS))
OF_TOPICS = {"games:*": 0.2, "law:*": 0.5, "science:*": 0.3}
OF_BOTH = OF_TOPICS | {"*:low": 0.5, "*:mid": 0.4, "*:high": 0.1}


@pytest.fixture(scope="module", params=["transfer", "bimix"])
def law(request) -> dict:
    truth = {"transfer": with_transfer, "bimix": bivariate}[request.param](4, 9)
    return fit(request.param, observe(truth, mixtures(0, 30, 9), [1000, 2000, 4000, 8000], 0.001, domains=CELLS))


def sums_of(shares: np.ndarray, marginals: dict) -> np.ndarray:
    return rows_of(marginals, CELLS)[0] @ shares


@pytest.mark.parametrize("marginals", [OF_TOPICS, OF_BOTH, {"law:*": 0.7}, {"games:*": 0.01, "*:high": 0.6}])
def test_the_best_mixture_keeps_them_and_no_other_that_does_is_better(law, marginals) -> None:
    lower, upper = np.zeros(9), np.ones(9)
    found = best(law, 8000, Objective(marginals=marginals), lower, upper)
    assert sums_of(found.shares, marginals) == pytest.approx(list(marginals.values()), abs=1e-9)
    assert found.shares.sum() == pytest.approx(1, abs=1e-9) and 0 <= found.gap < 1e-6

    rows, sums = rows_of(marginals, CELLS)
    left, sizes, right = np.linalg.svd(np.vstack([rows, np.ones(9)]), full_matrices=False)
    whole = sizes > 1e-9  # without rows that follow from others, which SLSQP cannot take
    wanted = (left.T @ np.append(sums, 1.0))[whole] / sizes[whole]

    def loss(r):
        return predict(law, r[None], [8000])[0, 0].mean()

    others = raked(mixtures(7, 50, 9), rows, sums)
    assert min(map(loss, np.maximum(others, 1e-9))) >= found.value - found.gap
    other = minimize(  # an independent solver, without gradients
        lambda r: loss(np.maximum(r, 1e-6)), others[0], method="SLSQP", bounds=[(1e-6, 1)] * 9,
        constraints={"type": "eq", "fun": lambda r: right[whole] @ r - wanted},
        options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert found.value <= other.fun + 1e-6 and other.fun <= found.value + 2e-3


def test_a_marginal_of_0_leaves_its_domains_out() -> None:
    truth = with_transfer(4, 9)
    law = fit("transfer", observe(truth, mixtures(0, 30, 9), [1000], 0.001, domains=CELLS))
    found = best(law, 1000, Objective(marginals={"games:*": 0.0, "*:high": 0.6}), np.zeros(9), np.ones(9))
    assert found.shares[:3].sum() == 0 and found.gap < 1e-6
    assert sums_of(found.shares, {"*:high": 0.6}) == pytest.approx([0.6])


def test_the_gap_bounds_how_much_better_a_mixture_that_keeps_them_can_be(law) -> None:
    from bimix.optimum.goal import Goal
    from bimix.optimum.solve import certified

    goal = Goal(law, 8000, Objective(marginals=OF_TOPICS))
    optimum = best(law, 8000, goal.objective, np.zeros(9), np.ones(9))
    for one in np.maximum(raked(mixtures(3, 10, 9), *goal.kept), 1e-6):
        judged = certified(goal.program(), one, np.zeros(0), np.zeros(9), np.ones(9))
        assert judged.value - judged.gap <= optimum.value + 1e-9


@pytest.mark.parametrize("kind", ["minimax", "no_worse_than"])
def test_they_are_kept_with_constraints_and_bounds(law, kind) -> None:
    reference = dict(zip(CELLS, raked(np.full((1, 9), 1 / 9), *rows_of(OF_BOTH, CELLS))[0], strict=True))
    more = {"margin": 0.02} if kind == "no_worse_than" else {}
    objective = Objective(kind=kind, reference=reference, marginals=OF_BOTH, **more)
    upper = np.where(np.arange(9) == 0, 0.12, 1.0)
    found = best(law, 8000, objective, np.zeros(9), upper)
    assert sums_of(found.shares, OF_BOTH) == pytest.approx(list(OF_BOTH.values()), abs=1e-6)
    assert found.shares[0] <= 0.12 + 1e-9 and found.gap < 1e-5 * found.value


def test_what_no_mixture_keeps_is_refused(law) -> None:
    upper = np.where([name.startswith("law") for name in CELLS], 0.1, 1.0)
    with pytest.raises(InputError, match="no mixture within the bounds keeps the marginals"):
        best(law, 8000, Objective(marginals=OF_TOPICS), np.zeros(9), upper)
    with pytest.raises(InputError, match="'sports:\\*', and no domain is called so"):
        best(law, 8000, Objective(marginals={"sports:*": 0.5}), np.zeros(9), np.ones(9))
    with pytest.raises(InputError, match=r"the marginal of '\*:low' is 1\.5: it must be a share"):
        best(law, 8000, objective_of(json.dumps({"marginals": {"*:low": 1.5}})), np.zeros(9), np.ones(9))
    held = Objective("no_worse_than", reference=dict.fromkeys(CELLS, 1 / 9), marginals={"law:*": 0.999})
    with pytest.raises(InputError, match=r"widen the bounds \(lower, upper, max_epochs\) or the marginals"):
        best(law, 8000, held, np.zeros(9), np.ones(9))
    trees = law | {"law": "regmix"}
    with pytest.raises(InputError, match="the law regmix simulates mixtures, of which none keeps marginals"):
        best(trees, 8000, Objective(marginals=OF_TOPICS), np.zeros(9), np.ones(9))


@pytest.mark.parametrize("kind", ["weighted", "no_worse_than"])
def test_sums_that_contradict_are_refused_by_their_names(law, kind) -> None:
    def found(marginals: dict):
        held = {"kind": kind, "reference": dict.fromkeys(CELLS, 1 / 9), "margin": 0.1} if kind != "weighted" else {}
        return best(law, 8000, Objective(marginals=marginals, **held), np.zeros(9), np.ones(9))

    said = "the marginals contradict the sum 1 of all shares: *:low 0.5, *:mid 0.4, *:high 0.12, which sum to 1.02."
    assert refused(said, found, OF_BOTH | {"*:high": 0.12}) == said
    tiers = {"law:low": 0.2, "law:mid": 0.2, "law:high": 0.2}
    refused("contradict each other: law:* 0.5, law:low 0.2, law:mid 0.2, law:high 0.2", found, {"law:*": 0.5} | tiers)
    refused("leave some domain one share: give that as its bounds", found, {"law:*": 1.0})
    if kind == "weighted":
        assert found(OF_TOPICS | {"games:*": 0.2 + 4e-7}).gap < 1e-5


def test_a_round_proposes_and_a_swarm_draws_mixtures_that_keep_them(tmp_path) -> None:
    runs = observe(with_transfer(4, 9), mixtures(0, 12, 9), [1000], 0.001, domains=CELLS)
    tables = write_tables(runs, tmp_path / "losses.csv", tmp_path / "mixtures.csv")
    objective = json.dumps({"marginals": OF_BOTH})
    propose_round.main([*tables, "--objective", objective, "--count", "2", "--out", str(tmp_path / "next.csv")])
    kept = list(OF_BOTH.values())
    for _, own in read_table(tmp_path / "next.csv").group_by("mixture"):
        shares = dict(own.select("domain", "proportion").iter_rows())
        assert sums_of(np.array([shares.get(cell, 0.0) for cell in CELLS]), OF_BOTH) == pytest.approx(kept, abs=1e-5)

    (tmp_path / "tokens.json").write_text(json.dumps(dict.fromkeys(CELLS, 1 / 9)))
    flags = ["--baseline", str(tmp_path / "tokens.json"), "--seed", "1", "--names", *"abcdefgh"]
    sample_mixtures.main([*flags, "--objective", objective, "--out", str(tmp_path / "swarm.parquet")])
    drawn = read_table(tmp_path / "swarm.parquet")["proportion"].to_numpy().reshape(8, 9)
    order = [CELLS.index(name) for name in sorted(CELLS)]
    for own in drawn:
        shares = np.zeros(9)
        shares[order] = own
        assert sums_of(shares, OF_BOTH) == pytest.approx(kept, abs=1e-5)


def test_a_run_that_misses_them_is_not_recommended_and_a_rounded_one_is(tmp_path, capsys) -> None:
    """Run m02 ends far below all others; m03 keeps the marginals but for its four decimals."""
    runs = observe(with_transfer(4, 9), mixtures(0, 12, 9), [1000], 0.001, domains=CELLS, name="m0")
    near = runs.proportions[3] = raked(runs.proportions, *rows_of(OF_BOTH, CELLS))[3].round(4)
    runs.losses[2] *= 0.5
    runs.losses[3] *= 0.7
    tables = write_tables(runs, tmp_path / "losses.csv", tmp_path / "mixtures.csv")
    asked = [*tables, "--objective", json.dumps({"marginals": OF_BOTH})]
    solve_mixture.main([*asked, "--laws", "transfer", "--out", str(tmp_path / "out")])
    assert json.loads((tmp_path / "out/mixture.json").read_text()) == pytest.approx(
        dict(zip(CELLS, near, strict=True)), abs=1e-4
    )
    capsys.readouterr()
    propose_round.main([*asked, "--out", str(tmp_path / "next.csv")])
    assert capsys.readouterr().out.startswith("best of the runs: m03, ")

    none = [*tables, "--objective", json.dumps({"marginals": {"games:*": 0.0}})]
    propose_round.main([*none, "--out", str(tmp_path / "next.csv")])
    said = capsys.readouterr().out
    assert "no run keeps all constraints" in said and "expected gain" not in said


def test_the_example_of_24_topics_in_8_tiers_takes_the_better_tiers_of_each(tmp_path) -> None:
    folder = ROOT / "resources/examples/grid"
    block = yaml.safe_load((folder / "tiers.yaml").read_text())["datasets"]["tiers"]["optimum"]
    tables = ["--losses", str(folder / "losses.csv"), "--mixtures", str(folder / "mixtures.csv")]
    fit_law.main(["--law", "transfer", *tables, "--out", str(tmp_path / "law.json")])
    asked = ["--step", str(block["step"]), "--max-epochs", "4", "--objective", json.dumps(block["objective"])]
    optimize_mixture.main(["--coefficients", str(tmp_path / "law.json"), *asked,
        "--tokens", str(folder / "tokens.csv"), "--out", str(tmp_path / "best.json")])  # fmt: skip
    shares = json.loads((tmp_path / "best.json").read_text())
    rows, sums = rows_of(block["objective"]["marginals"], list(shares))
    assert rows @ list(shares.values()) == pytest.approx(sums, abs=1e-5) and len(shares) == 192
    of_tier = [sum(share for cell, share in shares.items() if cell.endswith(f":{tier}")) for tier in range(8)]
    assert of_tier[0] + of_tier[1] < 0.1 and of_tier[6] > 0.15  # 40 % and 5 % of the text
