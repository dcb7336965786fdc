"""The harm that a larger model adds to text that it reads again: c from its runs, or by its prior."""

import json
from pathlib import Path

import bench
import bench_growth
import numpy as np
import pytest
from laws.known import mixtures, with_transfer, write_runs

import fit_law
import optimize_mixture
from bimix.laws import fitted as laws
from bimix.observations.observations import read_observations
from bimix.optimum.intervals import left_out
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best
from bimix.transfer import run as runs
from bimix.transfer import sizes
from bimix.transfer.repetition import LARGER, LARGER_SPREAD, harm

DOMAINS = ("a", "b", "c", "d")
SMALL, LARGE = (5e7, 1e9), (3e8, 6e9)  # parameters, tokens
POOLS = np.array([3e7, 1e12, 1e12, 1e8])  # of the small model; matched at the large one
GROWTH, C = 1.3, 0.08
RARE = np.array([[0.02, 0.5, 0.4, 0.08], [0.3, 0.3, 0.1, 0.3]])  # the reference, and a rule by hand


def truth(shares: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Losses (n, 4): effects grow at the large model, and so does harm."""
    effects = np.log(with_transfer(3, 4)(shares, [1e12])[:, 0])
    bend = harm(shares, SMALL[1] / POOLS, np.ones(4), 1.0)[0]
    return np.exp(effects if size == SMALL else GROWTH * effects - 0.4 + C * bend)


def table(folder: Path, at_large: np.ndarray, pooled: bool = True) -> list[str]:
    """Flags of 24 runs of the small model, and runs of the large one of mixtures (n, 4)."""
    draw, found = np.random.default_rng(0), []
    for size, shares in ((SMALL, np.concatenate([mixtures(1, 22, 4), RARE])), (LARGE, at_large)):
        losses = truth(shares, size) * np.exp(0.001 * draw.standard_normal(shares.shape))
        pools = POOLS * size[1] / SMALL[1] if pooled else None
        further = {"tokens": size[1]} | ({"parameters": size[0]} if len(at_large) else {})
        for n, (share, loss) in enumerate(zip(shares, losses, strict=True)):
            found.append((f"m{n}_{size[0]:g}", share, loss, further, pools))
    return write_runs(found, DOMAINS, folder / "l.csv", folder / "m.csv")


def fitted_to(folder: Path, at_large: np.ndarray, pooled: bool = True) -> tuple[dict, object]:
    flags = table(folder, at_large, pooled)
    observed = read_observations(flags[1], flags[3])
    return laws.fit("transfer", observed), observed


def at_large(fitted: dict) -> dict:
    return laws.at_run(fitted, *LARGE, dict(zip(DOMAINS, POOLS * 6, strict=True)), 100)


def test_a_c_of_one_proof_foretells_the_other() -> None:
    """Errors on domains that are read often, and the order of mixtures by objective I."""
    tables = {name: bench_growth.effects(bench.ROOT / "resources/observations" / name) for name in bench_growth.WANTED}
    for one, other in (("proof", "proof2"), ("proof2", "proof")):
        before, after = (
            bench_growth.carried(tables[one], tables[other], bench_growth.WANTED[other], harmed)
            for harmed in (False, True)
        )
        assert after["error"] <= 0.45 * before["error"]
        assert after["rank"] >= 0.85 and before["rank"] < 0.7


def test_one_larger_run_of_a_rule_measures_c(tmp_path: Path) -> None:
    fitted, observed = fitted_to(tmp_path, RARE)
    there = at_large(fitted)
    found = there["coefficients"]["a"]["run"]
    assert 0.6 * C < found["c"] < 1.4 * C and found["c_spread"] < 0.5 * LARGER_SPREAD
    new = mixtures(5, 40, 4)
    errors = {}
    for c in (0.0, found["c"]):
        guess = np.log(laws.predict(runs.with_harm(there, c), np.concatenate([RARE[:1], new]), [100])[:, 0])
        measured = np.log(truth(np.concatenate([RARE[:1], new]), LARGE))
        errors[c] = np.abs((guess - guess[0] - measured + measured[0])[:, [0, 3]]).mean()
    assert errors[found["c"]] < 0.4 * errors[0.0]
    small = laws.at_run(fitted, *SMALL, dict(zip(DOMAINS, POOLS, strict=True)), 100)
    assert "c" not in small["coefficients"]["a"]["run"]
    # The error of c is in the intervals, more where text is read more often.
    left, often = left_out(there, observed, 100), np.array([[0.3, 0.3, 0.1, 0.3]])
    widths = []
    for spread in (0.0, found["c_spread"]):
        left.fitted["coefficients"] = {
            name: one | {"run": one["run"] | {"c_spread": spread}} for name, one in there["coefficients"].items()
        }
        widths.append(left.excess(often, 100, None)[0, 0])
    deviation = found["c"] * found["c_spread"] * harm(0.3, SMALL[1] / POOLS[0], 1.0, 1.0)[0]
    assert widths[1] - widths[0] == pytest.approx(deviation**2)


def test_without_pools_there_is_no_c(tmp_path: Path) -> None:
    fitted, _ = fitted_to(tmp_path, RARE, pooled=False)
    assert not any("c" in one for values in fitted["coefficients"].values() for one in values["size"]["sizes"])
    draw = np.random.default_rng(0)
    factor, y = draw.normal(size=(2, 6, 3))
    nu, c, spread = sizes.slopes(factor, y, np.ones(6), np.zeros((6, 3)))
    assert (c, spread) == pytest.approx((LARGER, LARGER_SPREAD)) and (nu >= sizes.LEAST_NU).all()


def test_losses_with_c_are_convex_and_the_optimum_is_certified(tmp_path: Path) -> None:
    there = at_large(fitted_to(tmp_path, RARE)[0])
    function = laws.LAWS["transfer"].code.objective(there, 100, np.array([1.0, 2.0, 0.0, 1.0]))
    for r in mixtures(6, 10, 4):
        _, gradient = function(r)
        for j, move in enumerate(1e-6 * np.eye(4)):
            slope = (function(r + move)[0] - function(r - move)[0]) / 2e-6
            assert gradient[j] == pytest.approx(slope, rel=1e-4, abs=1e-6)
        for other in mixtures(9, 20, 4):
            assert (gradient - function(other)[1]) @ (r - other) > 0
    found = best(there, 100, Objective(weights={"a": 1.0, "d": 1.0}), np.zeros(4), np.ones(4))
    assert found.gap < 1e-6 * found.value


def test_without_a_larger_run_both_optima_are_said(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags, law = table(tmp_path, RARE[:0]), tmp_path / "law.json"
    fit_law.main(["--law", "transfer", *flags, "--out", str(law)])
    pools = json.dumps(dict(zip(DOMAINS, POOLS * 6, strict=True)))
    asked = ["--coefficients", str(law), "--tokens", pools, "--run-tokens", str(LARGE[1]), "--weights", '{"a": 1}']
    found = {}
    for name, more in (("same", []), ("larger", ["--parameters", str(LARGE[0])])):
        out, report = tmp_path / f"{name}.json", tmp_path / "report.json"
        optimize_mixture.main([*asked, *more, "--out", str(out), "--report", str(report)])
        by_harm, found[name] = json.loads(report.read_text())["by_harm"], json.loads(out.read_text())
        assert list(by_harm) == ["0", "0.03"]
        assert by_harm["0.03"]["a"]["epochs"] < 0.9 * by_harm["0"]["a"]["epochs"]
        assert "0.03" in capsys.readouterr().out
    assert found["same"]["a"] == pytest.approx(by_harm["0"]["a"]["proportion"], abs=1e-5)
    assert found["larger"]["a"] == pytest.approx(by_harm["0.03"]["a"]["proportion"], abs=1e-5)
    # Where the optimum reads nothing again, and where a larger run measured c, there is one optimum.
    asked[3] = json.dumps(dict.fromkeys(DOMAINS, 1e12))
    optimize_mixture.main([*asked, "--out", str(out), "--report", str(report)])
    assert json.loads(report.read_text())["by_harm"] == {}
    fit_law.main(["--law", "transfer", *table(tmp_path, RARE), "--out", str(law)])
    asked[3] = pools
    more = ["--parameters", str(LARGE[0]), "--out", str(out), "--report", str(report)]
    optimize_mixture.main([*asked, *more])
    assert json.loads(report.read_text())["by_harm"] == {}
