"""Observations from tidy tables: their layout, sizes, seeds, pools."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from refusals import refused

from bimix.errors import InputError
from bimix.observations.observations import (
    Observations,
    joined,
    mean_over_seeds,
    observations,
    pools_of,
    proportions_of,
)
from bimix.tables import read_table, read_tokens

MIXTURES = pl.DataFrame(
    {"mixture": ["one", "one", "two", "two"], "domain": ["b", "a", "a", "b"], "proportion": [0.25, 0.75, 0.5, 0.5]}
)
LOSSES = pl.DataFrame(
    {
        "mixture": ["two", "two", "one", "one", "one"],
        "step": [20, 20, 10, 20, 20],
        "domain": ["a", "x", "a", "a", "x"],
        "loss": [2.0, 3.0, 5.0, 4.0, 6.0],
        "seed": [1, 1, 1, 1, 1],
    }
)


def test_layout():
    observed = observations(LOSSES, MIXTURES)
    assert (
        observed.mixtures == ("one", "two") and observed.domains == ("a", "b") and observed.loss_domains == ("a", "x")
    )
    assert observed.steps.tolist() == [10, 20]
    assert observed.proportions.tolist() == [[0.75, 0.25], [0.5, 0.5]]
    expected = [[[5, np.nan], [4, 6]], [[np.nan, np.nan], [2, 3]]]
    assert np.array_equal(observed.losses, np.array(expected), equal_nan=True)
    assert observed.take([1]).mixtures == ("two",) and observed.tokens_per_step is None
    # a pair that is not listed is zero, and rounding is rescaled
    mixtures = pl.DataFrame(
        {"mixture": ["one", "two", "two"], "domain": ["a", "a", "b"], "proportion": [0.998, 0.5, 0.5]}
    )
    assert observations(LOSSES, mixtures).proportions.tolist() == [[1, 0], [0.5, 0.5]]


def test_the_order_of_rows_changes_nothing_and_irregular_tokens_are_named():
    losses = LOSSES.with_columns(tokens=pl.Series([20.0, 20, 10, 60, 60]))
    found = observations(losses, MIXTURES)
    turned = observations(losses.reverse(), MIXTURES.reverse())
    assert np.array_equal(found.losses, turned.losses, equal_nan=True) and found.mixtures == turned.mixtures
    assert found.tokens_per_step is None and "1 (two) to 3 (one) tokens a step" in found.remarks[-1]
    even = observations(losses.with_columns(tokens=pl.col("step") * 7.0), MIXTURES)
    assert even.tokens_per_step == 7 and not [one for one in even.remarks if "tokens" in one]


def test_proportions_may_stand_in_another_order_and_tokens_lack_where_nothing_reads_them():
    losses = LOSSES.with_columns(tokens=pl.lit("many"))
    assert observations(losses, MIXTURES).tokens is None
    with pytest.raises(InputError, match="row 1: tokens is 'many': it must be a finite number above 0"):
        observations(losses, MIXTURES.with_columns(pool=pl.lit(10.0)))
    # proportions in another order of domains
    names, shares = proportions_of(MIXTURES, ("b", "c", "a"))
    assert names == ("one", "two") and shares.tolist() == [[0.25, 0, 0.75], [0.5, 0, 0.5]]
    refused("row 2: mixture 'one' trains on 'a'", proportions_of, MIXTURES, ("b",))


def test_names_that_are_numbers_stay_names(tmp_path):
    losses = "mixture,step,domain,loss\n" + "".join(f"00{n},10,{d},{3 + n}\n" for n in (1, 2) for d in (7, 8))
    mixtures = "mixture,domain,proportion\n" + "".join(f"00{n},{d},0.5\n" for n in (1, 2) for d in (7, 8))
    (tmp_path / "l.csv").write_text(losses)
    (tmp_path / "m.csv").write_text(mixtures)
    observed = observations(read_table(tmp_path / "l.csv"), read_table(tmp_path / "m.csv"))
    assert observed.mixtures == ("001", "002") and observed.domains == ("7", "8")


def test_token_counts_are_summed_over_shards_and_are_numbers(tmp_path):
    table = tmp_path / "tokens.csv"
    table.write_text("Domain,tokens\nweb,10\ncode,5\nweb,20\n")
    assert read_tokens(table) == {"web": 30, "code": 5}
    for cell, shown in (("many", "'many'"), ("", "None"), ("-1", "-1"), ("nan", "'nan'"), ("1e400", "inf")):
        table.write_text(f"domain,tokens\nweb,10\ncode,{cell}\n")
        refused(f"tokens.csv: the tokens of 'code' are {shown}: name a domain and a finite number", read_tokens, table)


PAIR = pl.DataFrame(
    {"mixture": ["one", "one", "two", "two"], "domain": ["a", "b"] * 2, "proportion": [0.75, 0.25, 0.5, 0.5]}
)


def losses(*rows: tuple, further: tuple[str, ...] = ()) -> pl.DataFrame:
    return pl.DataFrame(rows, ["mixture", "step", "domain", "loss", *further], orient="row")


def test_tokens_of_a_run_are_those_of_its_last_step_and_a_step_has_one_number_or_none() -> None:
    # in any order of rows
    rows = [("one", 20, "a", 3.0, 80), ("one", 10, "a", 4.0, 40), ("two", 30, "a", 3.0, 121)]
    assert observations(losses(*rows, further=("tokens",)), PAIR).tokens.tolist() == [80, 121]
    rows = [("one", 10, "a", 4.0, 40), ("one", 20, "a", 3.0, 80), ("two", 30, "a", 3.0, 120)]
    assert observations(losses(*rows, further=("tokens",)), PAIR).tokens_per_step == 4
    rows[2] = ("two", 30, "a", 3.0, 121)
    assert observations(losses(*rows, further=("tokens",)), PAIR).tokens_per_step is None
    for off, known in ((5e-7, True), (2e-6, False)):  # counts that were rounded
        rows[2] = ("two", 30, "a", 3.0, 120 * (1 + off))
        found = observations(losses(*[(*row[:4], float(row[4])) for row in rows], further=("tokens",)), PAIR)
        assert (found.tokens_per_step == pytest.approx(4)) if known else found.tokens_per_step is None
    rows = [(*row[:4], 0) for row in rows]
    found = observations(losses(*rows, further=("tokens",)), PAIR)
    assert found.tokens_per_step is None and found.tokens is None


def test_seeds_are_averaged_in_logs_and_their_spread_is_pooled() -> None:
    rows = [("one", 10, "a", np.exp(one), seed) for seed, one in enumerate((1.0, 1.2, 1.4))]
    rows += [("one", 20, "a", np.exp(one), seed) for seed, one in enumerate((0.5, 0.5, 0.5))]
    rows += [("two", 10, "a", np.exp(one), seed) for seed, one in enumerate((2.0, 2.1))]
    table = losses(*rows, further=("seed",))
    found = observations(table, PAIR)
    assert np.allclose(np.log(found.losses[:, :, 0]), [[1.2, 0.5], [2.05, np.nan]], equal_nan=True)
    assert found.runs.tolist() == [3, 2]
    assert found.noise == pytest.approx(np.sqrt((0.04 + 0 + 0.005) / 3))
    means = mean_over_seeds(table)
    assert np.allclose(np.log(means["loss"]), [1.2, 0.5, 2.05]) and means["step"].to_list() == [10, 20, 10]
    assert found.take([1]).runs.tolist() == [2]
    refused("is there twice", observations, pl.concat([table, table[:1]]), PAIR)
    single = observations(table.filter(pl.col("seed") == 2), PAIR)
    assert single.runs is None and single.noise is None
    assert mean_over_seeds(table.drop("seed")).height == 8
    # each seed of a run of its own step: counted, and no spread to tell
    apart = losses(("one", 10, "a", 2.0, 1), ("one", 20, "a", 1.0, 2), further=("seed",))
    assert observations(apart, PAIR).runs.tolist() == [2] and observations(apart, PAIR).noise is None


def test_gaps_up_to_rounding_are_rescaled() -> None:
    for total, good in ((0.9951, True), (0.9949, False), (1.0049, True), (1.0051, False)):
        mixtures = PAIR.with_columns(
            pl.col("proportion") * pl.when(pl.col("mixture") == "two").then(total).otherwise(1)
        )
        table = losses(("two", 10, "a", 4.0))
        if good:
            assert observations(table, mixtures).proportions[0].tolist() == pytest.approx([0.5, 0.5])
        else:
            refused("row 3 and on: the proportions of mixture 'two' sum to", observations, table, mixtures)


def test_pools_are_limits_of_domains_that_are_trained_on() -> None:
    table = losses(("one", 10, "a", 4.0, 100), ("two", 10, "a", 4.0, 100), further=("tokens",))
    pools = PAIR.with_columns(pool=pl.Series([50.0, None, 70.0, 80.0]))
    assert observations(table, pools).pools.tolist() == [[50, np.inf], [70, 80]]
    assert observations(table, PAIR).pools is None
    assert pools_of(pools, ("b", "c", "a")) == [
        {"b": np.inf, "c": np.inf, "a": 50.0},
        {"b": 80.0, "c": np.inf, "a": 70.0},
    ]
    assert pools_of(PAIR, ("a", "b")) is None
    with pytest.raises(InputError, match=r"row 1: pool is 0\.0: it must be a finite number above 0"):
        observations(table, PAIR.with_columns(pool=pl.Series([0.0, 1, 1, 1])))
    none = PAIR.with_columns(proportion=pl.Series([1.0, 0, 0.5, 0.5]), pool=pl.Series([50.0, 0, 70, 80]))
    assert observations(table, none).pools.tolist() == [[50, np.inf], [70, 80]]
    with pytest.raises(InputError, match="row 2: pool is 'much'"):
        observations(table, PAIR.with_columns(pool=pl.Series(["1", "much", "2", "3"])))
    refused("a column pool, and losses no column tokens", observations, table.drop("tokens"), pools)


def test_sizes_and_tokens_are_numbers_above_0() -> None:
    rows = [("one", 10, "a", 4.0, 100, 7.0), ("one", 10, "b", 4.0, 100, 9.0)]
    table = losses(*rows, further=("tokens", "parameters"))
    found = observations(table, PAIR)
    assert found.parameters.tolist() == [7, 9] and found.mixtures == ("one", "one")
    assert found.proportions.tolist() == [[0.75, 0.25]] * 2
    assert observations(table.with_columns(parameters=pl.lit(7.0)), PAIR).parameters is None
    for column in ("tokens", "parameters"):
        for bad in (0.0, -1.0, None, float("nan")):
            with pytest.raises(InputError, match=f"row 1: {column} is"):
                observations(table.with_columns(pl.lit(bad, dtype=pl.Float64).alias(column)), PAIR)


def test_a_schedule_is_told_from_checkpoints_by_its_tokens() -> None:
    """Rows of one schedule have its tokens at every step; checkpoints have more each time."""
    fixed = [("one", 10, "a", 4.0, 80.0), ("one", 20, "a", 3.0, 80.0), ("one", 40, "a", 2.0, 160.0)]
    more = {"further": ("tokens", "parameters")}
    two = [(*row, size) for row in fixed for size in (1e6, 2e6)]
    found = observations(losses(*two, **more), PAIR)
    assert sorted(found.tokens.tolist()) == [80, 80, 160, 160] and len(found.mixtures) == 4
    assert sorted(found.last()[:, 0].tolist()) == [2, 2, 3, 3]
    grown = [(*row[:4], row[1] * 4.0, size) for row in fixed for size in (1e6, 2e6)]
    found = observations(losses(*grown, **more), PAIR)
    assert found.tokens.tolist() == [160, 160] and found.last()[:, 0].tolist() == [2, 2]
    # they need not grow in proportion: counts are rounded, and a batch may grow
    for tokens in ((0.52e9, 1.05e9, 1.57e9), (1000, 3000, 6000)):
        grown = [(*row[:4], own, size) for row, own in zip(fixed, tokens, strict=True) for size in (1e6, 2e6)]
        found = observations(losses(*grown, **more), PAIR)
        assert found.tokens.tolist() == [tokens[-1]] * 2 and found.last()[:, 0].tolist() == [2, 2]
    one = [(*row[:4], 80.0, size) for row in fixed for size in (1e6, 2e6)]
    assert observations(losses(*one, **more), PAIR).tokens.tolist() == [80, 80]


def group(names: str, domains: str, steps: list[int], loss_domains: str, first: float, **further) -> Observations:
    n, k, d = len(names), len(steps), len(loss_domains)
    shares = np.zeros((n, len(domains)))
    shares[:, :2] = [0.25, 0.75]
    numbers = first + np.arange(n * k * d, dtype=float).reshape(n, k, d)
    return Observations(tuple(names), tuple(domains), np.array(steps), tuple(loss_domains), shares, numbers, **further)


def test_groups_are_joined_in_the_domains_of_those_that_were_fitted() -> None:
    like = group("pq", "abc", [10], "xy", 0, tokens=np.array([1.0, 2]))
    one = group("pr", "bad", [10, 30], "yz", 100, tokens=np.array([5.0, 6]))
    other = group("rs", "ab", [20], "yx", 200, tokens=np.array([7.0, 8]))
    found = joined(like, [one, other])
    assert found.mixtures == ("r", "s") and found.domains == like.domains and found.loss_domains == ("x", "y")
    assert found.steps.tolist() == [10, 20, 30] and found.tokens.tolist() == [6, 8]
    assert found.proportions.tolist() == [[0.75, 0.25, 0], [0.25, 0.75, 0]]
    wanted = np.full((2, 3, 2), np.nan)
    wanted[0, 0, 1], wanted[0, 2, 1] = one.losses[1, 0, 0], one.losses[1, 1, 0]
    wanted[1, 1] = other.losses[1, 0, ::-1]
    assert np.array_equal(found.losses, wanted, equal_nan=True)
    assert found.parameters is None and found.pools is None and found.runs is None
    assert joined(like, [replace(one, runs=np.array([2, 3])), other]).runs.tolist() == [3, 1], (
        "a seed each where unknown"
    )
    assert joined(like, [like]) is None and joined(like, []) is None
    assert joined(like, [replace(other, tokens=None), one]).tokens is None
    with pytest.raises(InputError, match="held-out mixtures train on 'z', which no fitted mixture does"):
        joined(like, [group("t", "az", [10], "x", 0)])
    # a mixture of several sizes keeps a run of each
    like = group("", "ab", [10], "x", 0)
    both = group("rrs", "ab", [10], "x", 0, parameters=np.array([1e6, 4e6, 1e6]))
    large = group("rt", "ab", [10], "x", 100, parameters=np.array([4e6, 4e6]))
    found = joined(like, [large, both])
    assert found.mixtures == ("r", "t", "r", "s") and found.parameters.tolist() == [4e6, 4e6, 1e6, 1e6]
    assert found.losses.ravel().tolist() == [100, 101, 0, 2]
    assert joined(like, [replace(large, parameters=None), both]).mixtures == ("r", "t", "s")
    # pools go by name
    like = group("p", "ab", [10], "x", 0)
    one = group("r", "ba", [10], "x", 0, pools=np.array([[5.0, 7]]))
    other = group("s", "ab", [10], "x", 0, pools=np.array([[3.0, np.inf]]))
    assert joined(like, [one, other]).pools.tolist() == [[7, 5], [3, np.inf]]
    found = joined(like, [one, group("s", "ab", [10], "x", 0)])  # runs without pools repeat nothing
    assert found.pools.tolist() == [[7, 5], [np.inf, np.inf]]
