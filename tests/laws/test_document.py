"""A law's document: refused where no fit gives it, read at a run, with its warnings."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from laws.known import mixtures, observe, with_transfer
from refusals import refused

import fit_law
import optimize_mixture
import predict_losses
from bimix.errors import InputError
from bimix.laws import fitted as laws
from bimix.laws.document import checked_law, digest_law
from bimix.laws.fitted import fit, predict_runs
from bimix.observations.observations import joined
from bimix.optimum.bounds import feasible_bounds
from bimix.optimum.intervals import left_out
from bimix.transfer import run, sizes

DOMAINS = ("a", "b", "c")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables of six mixtures, and the laws bimix and transfer fitted to them."""
    folder = tmp_path_factory.mktemp("laws")
    mixtures, losses = ["mixture,domain,proportion"], ["mixture,step,domain,loss"]
    for number in range(6):
        shares = [1 + (number * (place + 2)) % 5 for place in range(3)]
        for domain, share in zip(DOMAINS, shares, strict=True):
            share /= sum(shares)
            mixtures.append(f"m{number},{domain},{share}")
            for step in (100, 200, 400):
                loss = (2 + DOMAINS.index(domain) / 4) * share**-0.1 * (1 + (step / 100) ** -0.4)
                losses.append(f"m{number},{step},{domain},{loss}")
    (folder / "mixtures.csv").write_text("\n".join(mixtures))
    (folder / "losses.csv").write_text("\n".join(losses))
    for law in ("bimix", "transfer"):
        flags = ["--losses", f"{folder}/losses.csv", "--mixtures", f"{folder}/mixtures.csv"]
        fit_law.main(["--law", law, *flags, "--out", f"{folder}/{law}.json"])
    return folder


def reverse(law: dict) -> None:
    law["domains"].reverse()
    law["proportions_seen"] = dict(reversed(law["proportions_seen"].items()))


def set_in(*keys: str, value: object) -> Callable[[dict], None]:
    def change(law: dict) -> None:
        for key in keys[:-1]:
            law = law[key]
        law[keys[-1]] = value

    return change


WRONG = {
    "another law": (set_in("law", value="../../evil"), r"there is no law '../../evil'; there are bimix"),
    "no name": (set_in("law", value=["bimix"]), r"there is no law \['bimix'\]"),
    "no steps": (set_in("steps", value=[]), r"steps is \[\]"),
    "steps of text": (set_in("steps", value=["100"]), r"steps is \['100'\]"),
    "a domain twice": (set_in("domains", value=["a", "a", "c"]), r"proportions_seen is of a, b, c"),
    "one domain": (set_in("domains", value="abc"), r"proportions_seen is of a, b, c"),
    "a loss less": (lambda law: law["coefficients"].pop("b"), r"coefficients is of a, c, but loss_domains are a, b, c"),
    "domains the other way": (set_in("domains", value=["c", "b", "a"]), r"proportions_seen is of a, b, c"),
    "no coefficients": (set_in("coefficients", value=None), r"coefficients is of , but"),
    "alpha": (set_in("coefficients", "a", "alpha", value=-5), r"coefficients/a/alpha is -5: it must be 0 or more"),
    "an effect": (
        set_in("coefficients", "a", "effects", value={"100": 0.0}),
        r"coefficients/a/effects/100 is 0.0: it must be above 0",
    ),
    "alpha is huge": (set_in("coefficients", "a", "alpha", value=1e308), r"predicts no finite loss"),
    "not a number": (set_in("coefficients", "b", "C", value=math.nan), r"coefficients/b/C is nan: .* finite"),
    "a coefficient less": (lambda law: law["coefficients"]["c"].pop("beta"), r"no fitted law bimix \(KeyError: 'beta'"),
    "a key less": (lambda law: law.pop("warnings"), r"it has no key 'warnings'"),
}


def test_what_no_fit_gives_is_refused_in_a_sentence(tables: Path, tmp_path: Path) -> None:
    for change, sentence in WRONG.values():
        law = json.loads((tables / "bimix.json").read_text())
        change(law)
        law["provenance"]["digest"] = digest_law(law)  # as a law of one's own, whose digest says nothing
        path = tmp_path / "law.json"
        path.write_text(json.dumps(law))
        asked = ["--coefficients", str(path), "--out"]
        words = f"law.json.*{sentence}"
        refused(words, optimize_mixture.main, [*asked, f"{tmp_path}/m.json", "--step", "400"])
        refused(words, predict_losses.main, [*asked, f"{tmp_path}/p.csv", "--mixtures", f"{tables}/mixtures.csv"])
        assert sorted(tmp_path.iterdir()) == [path]


def test_a_law_that_was_changed_after_its_fit_is_refused(tables: Path, tmp_path: Path) -> None:
    for name in ("bimix", "transfer"):
        assert checked_law(tables / f"{name}.json")["law"] == name
    for change in (reverse, set_in("coefficients", "a", "C", value=2.0), lambda law: law.pop("noise_between_runs")):
        law = json.loads((tables / "bimix.json").read_text())
        change(law)
        path = tmp_path / "law.json"
        path.write_text(json.dumps(law))
        refused(r"law\.json is not the law that was fitted: its digest is", checked_law, path)
        del law["provenance"]  # the owner says that the change is his
        path.write_text(json.dumps(law))
        checked_law(path)


def test_a_law_of_single_steps_is_read_at_those_that_two_runs_reach(tmp_path: Path) -> None:
    observed = observe(with_transfer(1, 3), mixtures(1, 6, 3), [100, 200, 400], domains=DOMAINS)
    observed.losses[1:, 2] = np.nan
    observed.losses[:, 1, 2] = np.nan  # c at the first step alone
    fitted = fit("exponential", observed)
    (tmp_path / "law.json").write_text(json.dumps(fitted))
    assert checked_law(tmp_path / "law.json") == fitted
    asked = ["--coefficients", f"{tmp_path}/law.json", "--out", f"{tmp_path}/m.json", "--step"]
    optimize_mixture.main([*asked, "100"])
    for step, where in (("200", "fitted to c at the steps 100 one"), ("400", "fitted to a at the steps 100, 200 one")):
        refused(f"{where} by one: it says nothing about step {step}", optimize_mixture.main, [*asked, step])
    refused("fewer than two runs have a loss of c at step 200", laws.predict, fitted, observed.proportions, [200])
    for values in fitted["coefficients"].values():
        values["steps"].clear()
    (tmp_path / "law.json").write_text(json.dumps(fitted))
    refused("predicts no finite loss", checked_law, tmp_path / "law.json")


SIZES = [
    {"parameters": 1e8, "tokens": 1e9, "shift": 0.1, "nu": 1.0},
    {"parameters": 1e8, "tokens": 4e9, "shift": 0.2, "nu": 0.9},
    {"parameters": 1e9, "tokens": 9e9, "shift": 0.4, "nu": 0.8},
]
LEVELS = {"b": 0.3, "g": 0.2, "B": 1.5, "D": 0.7, "C": 1.2, "parameters": 2e8, "tokens": 2e9, "centre": 0.5}
COEFFICIENTS = {"web": {"size": LEVELS | {"sizes": SIZES}}}


def curve(parameters: float, tokens: float) -> float:
    logs = np.log([[LEVELS["B"], LEVELS["D"], LEVELS["C"]]])
    fitted = sizes.Curve(LEVELS["b"], LEVELS["g"], logs, LEVELS["parameters"], LEVELS["tokens"])
    return float(fitted.level(np.array(parameters), np.array(tokens))[0])


def test_level_and_effects_at_a_run() -> None:
    for asked, at, shift, nu in (
        ((1e8, 1.1e9), (1e8, 1.1e9), 0.1, 1.0),
        ((1.04e8, 3e9), (1.04e8, 3e9), 0.2, 0.9),  # the schedule is nearer to the longer one
        ((1e8, None), (1e8, 9e9), 0.2, 0.9),
        ((1.2e8, 1e9), (1.2e8, 1e9), 0.0, 1.0),  # no size that was fitted
        ((None, None), (1e9, 9e9), 0.4, 0.8),
        ((7e9, 5e10), (7e9, 5e10), 0.0, 0.8),  # above all: the effects of the largest
    ):
        pools = {"web": 3e9}
        there = run.at_run(COEFFICIENTS, ["web"], *asked, pools)["web"]["run"]
        assert there["level"] == pytest.approx(curve(*at) + shift + (1 - nu) * LEVELS["centre"], abs=1e-12)
        assert (there["parameters"], there["tokens"], there["nu"], there["pools"]) == (*at, nu, pools)


def test_refits_are_at_the_run_of_the_law() -> None:
    bare = {"domains": ["web"], "coefficients": COEFFICIENTS}
    assert run.as_asked(COEFFICIENTS, bare) == COEFFICIENTS
    there = run.at_run(COEFFICIENTS, ["web"], 3e8, 2e9, {"web": 3})
    assert run.as_asked(COEFFICIENTS, bare | {"coefficients": there}) == there
    fitted = run.run_of(COEFFICIENTS, ["web"])  # the run that it was fitted at, without repetition
    assert fitted.per_share.tolist() == fitted.level.tolist() == [0.0] and fitted.nu.tolist() == [1.0]
    found = run.run_of(there, ["code", "web"])
    assert found.per_share.tolist() == [0.0, 2e9 / 3]
    assert found.level.tolist() == [there["web"]["run"]["level"]] and found.nu.tolist() == [1.0]


def test_runs_whose_pools_are_not_known_repeat_nothing_next_to_others() -> None:
    made = observe(with_transfer(0, 3), mixtures(0, 9, 3), [100], 0.0)
    known = replace(made, tokens=np.full(9, 1e6), pools=np.tile([1e5, 1e5, 1e9], (9, 1)))
    fitted = fit("transfer", known.take(range(6)))
    with_pools, without = known.take([6, 7]), made.take([8])
    both = predict_runs(fitted, joined(known.take([]), [with_pools, without]))
    assert both[:2] == pytest.approx(predict_runs(fitted, with_pools))
    assert both[2] == pytest.approx(predict_runs(fitted, without)[0])
    assert (np.abs(both[:2] / predict_runs(fitted, made.take([6, 7])) - 1) > 1e-3).any()


def test_a_law_set_to_a_run_that_repeats_text_leaves_runs_out_at_their_own_epochs() -> None:
    """Runs without pools repeat nothing: their errors were 8 % where the law is right to 0.5 %."""
    made, far = observe(with_transfer(0, 3), mixtures(0, 9, 3), [100], 0.002), {"d00": 1e5, "d01": 1e5, "d02": 1e9}
    known = replace(made, tokens=np.full(9, 1e6), pools=np.tile([1e5, 1e5, 1e9], (9, 1)))
    for law, observed in (("transfer", made), ("transfer", known)):
        fitted = fit(law, observed)
        there = laws.at_run(fitted, None, 4e6, far, 100)
        own, asked = left_out(fitted, observed, 100), left_out(there, observed, 100)
        assert asked.predicted == pytest.approx(own.predicted, rel=1e-9)
        assert predict_runs(there, made) == pytest.approx(predict_runs(fitted, made), rel=1e-9)
        # the refits, which say how sure a prediction is, are at the requested run
        predicted = [laws.predict(one, made.proportions, np.array([100])) for one in (fitted, there)]
        refitted = [laws.predict(one.refitted[0], made.proportions, np.array([100])) for one in (own, asked)]
        moved = np.abs(predicted[1] / predicted[0] - 1).max()
        assert moved > 0.01
        assert np.abs(refitted[1] / refitted[0] - 1).max() >= moved / 2


def fitted_to(n: int, m: int = 3, **changes) -> dict:
    return laws.fit("transfer", replace(observe(with_transfer(0, m), mixtures(0, n, m), [1000], 0.002), **changes))


def said(fitted: dict, words: str) -> bool:
    return any(words in sentence for sentence in fitted["warnings"])


@pytest.mark.filterwarnings("error")
def test_two_runs_are_said_to_be_too_few() -> None:
    assert said(fitted_to(2, 4), "2 mixtures are too few to choose the ridge by cross-validation")
    assert not said(fitted_to(4, 4), "too few")


def test_amounts_that_no_run_has_are_refused_and_slips_and_untrained_domains_are_named() -> None:
    shares = mixtures(0, 8, 3)
    shares = np.concatenate([shares, np.zeros((8, 1))], axis=1)
    fitted = fitted_to(8, proportions=shares, domains=("d00", "d01", "d02", "unseen"))
    assert said(fitted, "no fitted mixture trains on unseen") and not said(fitted, "trains on d00")
    # a run with a slip is named
    observed = observe(with_transfer(0, 3), mixtures(0, 12, 3), [1000], 0.002)
    assert left_out(laws.fit("transfer", observed), observed, 1000).outlier() == ""
    observed.losses[4, 0, 1] *= 50
    found = left_out(laws.fit("transfer", observed), observed, 1000).outlier()
    assert "left out, mixture 'run4' has a loss on d01 of" in found and "check that run" in found
    # amounts that no run has are refused
    with pytest.raises(InputError, match="the upper bound of a is 1e-300: no run could hold so little"):
        feasible_bounds(["a", "b"], upper={"a": 1e-300})
    assert feasible_bounds(["a", "b"], upper={"a": 0.0})[1].tolist() == [0, 1]
    with pytest.raises(InputError, match="the pool of 'd00' is 1e-300 tokens: it must be 1 or more"):
        laws.at_run(fitted_to(4), tokens=1e6, pools={"d00": 1e-300, "d01": 1e9, "d02": 1e9}, step=1000)


def test_a_loss_that_rises_with_its_own_share_is_named() -> None:
    observed = observe(with_transfer(0, 3), mixtures(0, 16, 3), [1000], 0.002)
    assert not said(laws.fit("transfer", observed), "rose with its own proportion")
    losses = observed.losses.copy()
    losses[:, 0, 1] = 2 + observed.proportions[:, 1]
    fitted = laws.fit("transfer", replace(observed, losses=losses))
    assert said(fitted, "the loss of d01 rose with its own proportion") and not said(fitted, "loss of d00 rose")
    # shares that tie have one rank, whatever the order of the runs
    shares = np.array([[0.1, 0.6, 0.3]] + 4 * [[0.2, 0.5, 0.3]] + 3 * [[0.3, 0.3, 0.4]] + 4 * [[0.2, 0.5, 0.3]])
    losses = np.stack([2 + 0.001 * np.arange(12), *2 + 0.001 * np.random.default_rng(0).random((2, 12))], axis=1)
    tied = replace(observed.take(range(12)), proportions=shares, losses=losses[:, None])
    assert not said(laws.fit("transfer", tied), "loss of d00 rose")
