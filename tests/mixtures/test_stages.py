"""Mixtures in stages as documents: what is one, what is refused, where stages begin."""

import json

import pytest

from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.plan.runs import first_updates

FIRST, SECOND = {"ants": 0.7, "bees": 0.3}, {"ants": 0.2, "bees": 0.8}
STAGED = {"stages": [{"share": 0.8, "mixture": FIRST}, {"share": 0.2, "mixture": SECOND}]}


def changed(change) -> dict:
    document = json.loads(json.dumps(STAGED))
    change(document)
    return document


def test_a_plain_mixture_is_one_stage_and_back() -> None:
    plain = Mixture.parse(FIRST, "m.json", ["ants", "bees"])
    assert plain.stages == ((1.0, FIRST),) and plain.document() == FIRST
    assert Mixture.parse(STAGED, "m.json").document() == STAGED
    assert Mixture.parse(STAGED, "m.json").over(["bees", "cats"]).tolist() == [[0.3, 0.0], [0.8, 0.0]]


def test_a_domain_may_be_called_stages() -> None:
    mixture = {"stages": 0.5, "bees": 0.5}
    read = Mixture.parse(mixture, "m.json", ["stages", "bees"])
    assert read.stages == ((1.0, mixture),) and read.flat() == mixture


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d["stages"][1].update(share=0.3), "the shares of the stages sum to 1.1, not to 1"),
        (lambda d: d["stages"][1].update(share=0.1), "the shares of the stages sum to 0.9, not to 1"),
        (lambda d: d["stages"][1].update(share=0), "stage 2: its share is 0, not a number above 0"),
        (lambda d: d["stages"][1].update(share=True), "stage 2: its share is True"),
        (lambda d: d["stages"][0]["mixture"].update(ants=0.6), "stage 1: the proportions sum to 0.9"),
        (lambda d: d["stages"][0]["mixture"].update(wasps=0.0), "stage 1: unknown domain 'wasps'"),
        (lambda d: d["stages"][0].update(tokens=5), "stage 1 must have the keys 'share' and 'mixture', and no other"),
        (lambda d: d["stages"][0].update(mixture=STAGED), "stage 1: its mixture has stages itself"),
        (lambda d: d["stages"][0].update(mixture=None), "stage 1: a mixture is an object"),
        (lambda d: d["stages"].clear(), "with a list of one stage or more"),
        (lambda d: d.update(ants=1.0), "has the key 'stages' alone"),
    ],
)
def test_what_is_no_mixture_in_stages_is_refused(change, sentence: str) -> None:
    with pytest.raises(InputError, match=f"m.json.*{sentence}"):
        Mixture.parse(changed(change), "m.json", ["ants", "bees"])


def test_what_takes_one_mixture_says_so() -> None:
    assert Mixture.parse(FIRST, "m.json").only("m.json") == FIRST
    sentence = r"^m.json is a mixture in 2 stages; one mixture for the whole run is needed here\.$"
    with pytest.raises(InputError, match=sentence):
        Mixture.parse(STAGED, "m.json").only("m.json")


@pytest.mark.parametrize(
    ("shares", "steps", "starts"),
    [
        ((1.0,), 7, (0,)),
        ((0.8, 0.2), 1000, (0, 800)),
        ((0.8, 0.2), 7, (0, 6)),
        ((0.1, 0.2, 0.7), 10, (0, 1, 3)),
        ((1 / 3, 1 / 3, 1 / 3), 100, (0, 33, 67)),
    ],
)
def test_a_stage_begins_at_the_nearest_whole_update(shares: tuple, steps: int, starts: tuple) -> None:
    assert first_updates(shares, steps, "m.json") == starts


@pytest.mark.parametrize(("shares", "number"), [((0.99, 0.01), 2), ((0.01, 0.99), 1), ((0.5, 0.01, 0.49), 2)])
def test_a_stage_without_an_update_is_refused(shares: tuple, number: int) -> None:
    with pytest.raises(InputError, match=f"m.json: stage {number} has a share of 0.01, which of 10 updates is none"):
        first_updates(shares, 10, "m.json")


def test_what_defines_a_run_tells_stages_apart() -> None:
    other = changed(lambda d: d["stages"][0].update(share=0.7) or d["stages"][1].update(share=0.3))
    swapped = {"stages": STAGED["stages"][::-1]}
    usual, *others = (Mixture.parse(one, "m.json").flat() for one in (STAGED, other, swapped))
    assert usual["stage_2.mixture.bees"] == 0.8 and len(usual) == 6
    assert usual not in others


def test_the_mixtures_of_stages_are_rounded_and_a_single_one_is_no_stages() -> None:
    third = {"ants": 1 / 3, "bees": 2 / 3}
    rounded = {"ants": 0.333333, "bees": 0.666667}
    one = Mixture.parse({"stages": [{"share": 1, "mixture": third}]}, "m.json")
    assert one.document() == rounded
    two = Mixture.parse(changed(lambda d: d["stages"][0].update(mixture=third)), "m.json")
    assert two.document()["stages"][0] == {"share": 0.8, "mixture": rounded}
