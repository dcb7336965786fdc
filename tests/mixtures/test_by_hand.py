"""Mixtures by a rule: each against its definition, bounds, and where names are known."""

import copy
import json

import numpy as np
import polars as pl
import pytest
from refusals import refused
from tokenised import call

import mix_tokens
import mix_wanted
from bimix.errors import InputError
from bimix.mixtures.by_hand import kin, mix_by_epochs, temperature, unimax, wanted_domains
from bimix.mixtures.names import has_wanted, wanted_names
from bimix.plan.dataset import Dataset
from bimix.plan.inputs import hand_reference, hand_weights

TOKENS = np.array([10.0, 20.0, 300.0, 670.0])
OWN = np.array([True, True, False, False])
CONFIG = {
    "datasets": {
        "d": {
            "corpus": {},
            "domains": ["law", "patents", "web"],
            "groups": {},
            "compare": {"model": "large", "mixtures": ["uniform"]},
            "optimum": {"weights": {"law": 1}},
        }
    }
}


def test_wanted_domains_are_read_so_often_and_the_rest_keeps_its_shares() -> None:
    shares = mix_by_epochs(TOKENS, 1000, OWN, 4, TOKENS)
    assert shares == pytest.approx([0.04, 0.08, 0.88 * 300 / 970, 0.88 * 670 / 970])
    assert mix_by_epochs(TOKENS, 1000, OWN, 4, np.ones(4))[2:] == pytest.approx([0.44, 0.44])
    # the others are read no more often than the wanted ones where that is possible
    shares = mix_by_epochs(TOKENS, 1800, OWN, 2, np.ones(4))
    assert shares == pytest.approx([20 / 1800, 40 / 1800, 600 / 1800, 1140 / 1800])
    # the run is longer than two epochs of all: the rest reads what is left
    assert mix_by_epochs(TOKENS, 4000, OWN, 2, np.ones(4))[2:] == pytest.approx([0.4925, 0.4925])
    # wanted domains have four fifths of a run at most
    shares = mix_by_epochs(TOKENS, 100, OWN, 16, TOKENS)
    assert shares[:2] == pytest.approx([0.4, 0.4]) and shares.sum() == pytest.approx(1)
    # 6 epochs of 10 tokens are 60 of 100: what the small domain cannot take the large one has
    assert mix_by_epochs(TOKENS, 100, OWN[[0, 2, 1, 3]], 6, TOKENS)[[0, 2]] == pytest.approx([0.4, 0.4])
    assert mix_by_epochs(TOKENS, 100, OWN[[0, 2, 1, 3]], 3, TOKENS)[[0, 2]] == pytest.approx([0.3, 0.5])
    # a cut domain keeps its lower bound, and what an upper one takes from it goes to the other
    lower, upper = np.array([0.5, 0, 0, 0]), np.array([1, 0.25, 1, 1])
    assert mix_by_epochs(TOKENS, 100, OWN, 16, TOKENS, lower)[:2] == pytest.approx([0.5, 0.3])
    assert mix_by_epochs(TOKENS, 100, OWN, 16, TOKENS, upper=upper)[:2] == pytest.approx([0.55, 0.25])
    # the least of the others is a part of their fifth, unless it is more
    for least, both in ((0.1, 0.8), (0.2, 0.8), (0.5, 0.5)):
        shares = mix_by_epochs(TOKENS, 100, OWN, 16, TOKENS, np.array([0, 0, 0, least]))
        assert shares[:2] == pytest.approx([both / 2] * 2) and shares[3] >= least - 1e-9


def test_wanted_domains_that_are_cut_share_alike_within_the_bounds() -> None:
    draw = np.random.default_rng(1)
    own = np.arange(6) < 4
    for _ in range(20):
        tokens = draw.exponential(1.0, 6) ** 3
        caps = 2 * tokens / tokens[own].sum()  # 8 epochs of the wanted domains are twice the run
        shares = mix_by_epochs(tokens, 4 * tokens[own].sum(), own, 8, tokens)
        cut = own & (shares < caps - 1e-9)
        assert shares[own].sum() == pytest.approx(0.8)
        assert np.ptp(shares[cut]) < 1e-9 and (shares[own] >= np.minimum(caps[own], 0.2) - 1e-9).all()
    # bounds hold for the wanted and for the rest
    lower, upper = np.array([0, 0, 0.5, 0]), np.array([0.02, 1, 1, 0.25])
    shares = mix_by_epochs(TOKENS, 1000, OWN, 4, TOKENS, lower, upper)
    assert shares == pytest.approx([0.02, 0.08, 0.65, 0.25])
    # the others cannot take the rest, so that the wanted domains are read more often
    assert mix_by_epochs(TOKENS, 1000, OWN, 4, TOKENS, upper=np.array([1, 1, 0.3, 0.3]))[:2].sum() == pytest.approx(0.4)
    with pytest.raises(InputError, match="reads the wanted domains 4 times within the bounds"):
        mix_by_epochs(TOKENS, 1000, OWN, 4, TOKENS, upper=np.full(4, 0.2))


def test_kin_have_more_by_their_text_and_the_rest_is_in_the_shares_of_a_reference() -> None:
    nats = np.array([[3.0, 3.5, 4.0]])
    assert kin(nats, np.array([0])) == pytest.approx(np.exp([0, -1, -2]))
    # of a wanted loss that nothing trains on, the gap is to the best
    assert kin(nats[:, 1:], np.array([-1])) == pytest.approx(np.exp([0, -1]))
    two = kin(np.array([[3.0, 3.5, 4.0], [4.0, 3.0, 3.5]]), np.array([0, 1]))
    assert two == pytest.approx((np.exp([0, -1, -2]) + np.exp([-2, 0, -1])) / 2)
    # the rest is in the shares of a reference that needs no search
    for first, expected in (("uniform", "uniform"), ("transfer", "baseline"), ("wanted_4", "baseline")):
        config = copy.deepcopy(CONFIG)
        config["datasets"]["d"]["compare"]["mixtures"] = [first]
        assert hand_reference(Dataset(config, "d"), "wanted_8") == [f"results/d/mixtures/{expected}.json"]
        assert hand_reference(Dataset(config, "d"), "wanted_8_uniform") == []


def test_an_objective_wants_what_weighs_more_than_others() -> None:
    for weights, measured, expected in (
        ({}, [], ""),
        ({"a": 1, "b": 1, "c": 1}, [], ""),
        ({"a": 1}, [], "a"),
        ({"a": 3, "b": 1}, [], "ab"),
        ({"a": 2, "b": 1, "c": 1}, [], "a"),
        ({"task": 1}, ["task"], ""),
        ({"a": 2, "b": 1, "c": 1}, ["task"], "abc"),
        ({"a": 1, "b": 1, "c": 1, "task": 2}, ["task"], ""),
        ({"a": 1, "b": 1, "c": 1, "task": 0}, ["task"], "abc"),
        ({"a": 2, "b": 2, "c": 2, "task": 1}, ["task"], "abc"),
        ({"a": 3, "b": 1, "c": 1, "task": 1}, ["task"], "a"),
    ):
        block = {"domains": list("abc"), "optimum": {"weights": weights}, "corpus": {"validation_only": measured}}
        found = wanted_domains(weights, "abc", ["a", "b", "c", *measured])
        assert "".join(name for name, one in zip("abc", found, strict=True) if one) == expected
        assert has_wanted(block) == (expected in ("a", "ab")), weights
        # the script of the rule sees the same losses
        given = json.loads(hand_weights(Dataset({"datasets": {"d": block}}, "d")))
        assert (wanted_domains(given, "abc", sorted({*"abc", *given})) == found).all(), weights


def test_the_script_writes_each_of_the_three_rules(tmp_path) -> None:
    index, kin_file, reference = (tmp_path / name for name in ("train.parquet", "cross_entropy.csv", "uniform.json"))
    pl.DataFrame({"domain": ["b", "a", "c", "b"], "tokens": [100, 50, 700, 150]}).write_parquet(index)
    reference.write_text(json.dumps({"a": 0.2, "b": 0.2, "c": 0.6}))
    nats = [("a", "a", 3.0), ("a", "b", 3.5), ("a", "c", 3.5 + 0.5 * np.log(3))]
    rows = nats + [(name, under, 4.0) for name in "bc" for under in "abc"]
    pl.DataFrame(rows, ["domain", "under", "nats"], orient="row").write_csv(kin_file)

    def made(name: str, weights: str = '{"a": 1}', **more: object) -> list[float]:
        out = tmp_path / "out.json"
        call(mix_wanted, tokens=index, run_tokens=1000, weights=weights, name=name, out=out, **more)
        return [json.loads(out.read_text())[domain] for domain in "abc"]

    assert made("wanted_8", reference=reference) == pytest.approx([0.4, 0.15, 0.45])
    # a rule of the workflow gives an empty --reference where none is read
    assert made("wanted_8_uniform", reference=[]) == pytest.approx([0.4, 0.3, 0.3])
    assert made("wanted_8_kin", cross_entropy=kin_file) == pytest.approx([0.4, 0.45, 0.15])
    assert made("wanted_8_uniform", max_epochs=2) == pytest.approx([0.1, 0.45, 0.45])
    refused("needs --cross-entropy", made, "wanted_8_kin")
    refused("needs --reference", made, "wanted_8")
    refused("wanted_{epochs}", made, "wanted_0")
    refused("rules by hand need weights of some domains", made, "wanted_8_uniform", '{"a": 1, "b": 1, "c": 1}')


def test_names_are_known_where_the_objective_wants_domains() -> None:
    config = copy.deepcopy(CONFIG)
    block = config["datasets"]["d"]
    assert wanted_names(Dataset(config, "d"))[::5] == ["wanted_2", "wanted_2_uniform", "wanted_2_kin"]
    rules = {"wanted_8_kin": "mix_wanted", "unimax": "mix_tokens"}
    assert {name: Dataset(config, "d").source(name).rule for name in rules} == rules
    del block["optimum"]["weights"]
    assert wanted_names(Dataset(config, "d")) == []
    refused("no mixture 'wanted_8'", Dataset(config, "d").source, "wanted_8")


def test_temperature_goes_from_token_shares_to_uniform() -> None:
    tokens = np.array([1.0, 3.0, 16.0])
    assert temperature(tokens, 1) == pytest.approx(tokens / 20)
    assert temperature(tokens, 0) == pytest.approx(np.full(3, 1 / 3))
    assert temperature(tokens, 0.5) == pytest.approx(np.sqrt(tokens) / np.sqrt(tokens).sum())


def test_unimax_gives_what_small_domains_cannot_take_to_the_others() -> None:
    assert unimax(np.array([50.0, 60.0, 70.0]), 90, 1) == pytest.approx(np.full(3, 1 / 3))
    # 2 epochs of 10 are 20; the other two share the remaining 80, of which 30 is the cap of the
    # second
    assert unimax(np.array([100.0, 10.0, 15.0]), 100, 2) == pytest.approx([0.5, 0.2, 0.3])
    # all text is read more than four times: a verdict always has this rule, and cannot do without
    assert unimax(np.array([10.0, 30.0]), 400, 4) == pytest.approx([0.25, 0.75])
    # it is the most even mixture under the cap
    draw = np.random.default_rng(0)
    tokens, epochs = draw.exponential(1.0, 6), 3.0
    run = 0.7 * epochs * tokens.sum()
    shares = unimax(tokens, run, epochs)
    caps = epochs * tokens / run
    assert shares.sum() == pytest.approx(1) and (shares <= caps + 1e-12).all()
    free = shares < caps - 1e-12
    assert np.ptp(shares[free]) < 1e-12 and (shares[~free] <= shares[free].max() + 1e-12).all()


def test_the_scripts_write_mixtures(tmp_path) -> None:
    index, out = tmp_path / "train.parquet", tmp_path / "m.json"
    pl.DataFrame({"domain": ["b", "a", "b"], "tokens": [30, 10, 60]}).write_parquet(index)
    for rule, expected in (("temperature", {"a": 0.25, "b": 0.75}), ("unimax", {"a": 0.4, "b": 0.6})):
        call(mix_tokens, rule=rule, index=index, exponent=0.5, run_tokens=50, most_epochs=2, out=out)
        assert json.loads(out.read_text()) == pytest.approx(expected, abs=1e-9)
