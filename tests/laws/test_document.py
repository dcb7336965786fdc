"""A fitted law is read as it was fitted, or refused in a sentence by all scripts that read one."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused

import fit_law
import optimize_mixture
import predict_losses
from bimix.laws.document import checked_law, digest_law

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
    "a domain twice": (set_in("domains", value=["a", "a", "c"]), r"it must be a list of different names"),
    "one domain": (set_in("domains", value="abc"), r"it must be a list of different names"),
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
