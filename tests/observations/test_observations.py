"""The tidy tables are laid out as arrays, and bad rows are refused by number."""

import numpy as np
import polars as pl
import pytest

from bimix.errors import InputError
from bimix.observations.observations import observations, proportions_of
from bimix.tables import read_table

MIXTURES = pl.DataFrame(
    {
        "mixture": ["one", "one", "two", "two"],
        "domain": ["b", "a", "a", "b"],
        "proportion": [0.25, 0.75, 0.5, 0.5],
    }
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
        observed.mixtures == ("two", "one") and observed.domains == ("a", "b") and observed.loss_domains == ("a", "x")
    )
    assert observed.steps.tolist() == [10, 20]
    assert observed.proportions.tolist() == [[0.5, 0.5], [0.75, 0.25]]
    expected = [[[np.nan, np.nan], [2, 3]], [[5, np.nan], [4, 6]]]
    assert np.array_equal(observed.losses, np.array(expected), equal_nan=True)
    assert observed.take([1]).mixtures == ("one",) and observed.tokens_per_step is None


def test_tokens_per_step_is_read_where_it_is_there():
    observed = observations(LOSSES.with_columns(tokens=pl.col("step") * 4096), MIXTURES)
    assert observed.tokens_per_step == 4096


def test_tokens_that_are_no_numbers_matter_only_where_epochs_or_sizes_do():
    losses = LOSSES.with_columns(tokens=pl.lit("many"))
    assert observations(losses, MIXTURES).tokens is None
    with pytest.raises(InputError, match="row 1: tokens is 'many': it must be a finite number above 0"):
        observations(losses, MIXTURES.with_columns(pool=pl.lit(10.0)))


def test_a_pair_that_is_not_listed_is_zero_and_rounding_is_rescaled():
    mixtures = pl.DataFrame(
        {"mixture": ["one", "two", "two"], "domain": ["a", "a", "b"], "proportion": [0.998, 0.5, 0.5]}
    )
    assert observations(LOSSES, mixtures).proportions.tolist() == [[0.5, 0.5], [1, 0]]


def test_proportions_in_another_order_of_domains():
    names, shares = proportions_of(MIXTURES, ("b", "c", "a"))
    assert names == ("one", "two") and shares.tolist() == [[0.25, 0, 0.75], [0.5, 0, 0.5]]
    with pytest.raises(InputError, match="row 2: mixture 'one' trains on 'a'"):
        proportions_of(MIXTURES, ("b",))


def changed(table, row, **values):
    lines = table.to_dicts()
    lines[row - 1] |= values
    return pl.DataFrame(lines, schema=table.schema)


@pytest.mark.parametrize(
    ("losses", "mixtures", "words"),
    [
        (changed(LOSSES, 3, mixture="three"), MIXTURES, "row 3: mixture 'three' has losses but no proportions"),
        (changed(LOSSES, 5, domain="a"), MIXTURES, "row 5: mixture 'one', step 20, domain 'a', seed 1 is there twice"),
        (
            changed(LOSSES, 4, loss=float("nan")),
            MIXTURES,
            "row 4 (mixture 'one', step 20, domain 'a'): the loss is nan",
        ),
        (changed(LOSSES, 4, loss=float("inf")), MIXTURES, "row 4"),
        (changed(LOSSES, 2, loss=0.0), MIXTURES, "row 2"),
        (changed(LOSSES, 2, loss=1e-300), MIXTURES, "the loss is 1e-300: it must be finite and above 1e-12"),
        (
            LOSSES.with_columns(parameters=float("inf")),
            MIXTURES,
            "row 1: parameters is inf: it must be a finite number",
        ),
        (changed(LOSSES, 2, loss=-1.0), MIXTURES, "row 2"),
        (changed(LOSSES, 1, step=0), MIXTURES, "row 1"),
        (LOSSES.with_columns(step=pl.col("step") + 0.5), MIXTURES, "row 1: step is 20.5: it must be a whole number"),
        (LOSSES.with_columns(loss=pl.lit("much")), MIXTURES, "row 1: loss is 'much'"),
        (LOSSES.drop("loss"), MIXTURES, "no column 'loss'"),
        (LOSSES[:0], MIXTURES, "no rows"),
        (LOSSES, changed(MIXTURES, 3, proportion=0.6), "row 3 and on: the proportions of mixture 'two' sum to 1.1"),
        (LOSSES, changed(MIXTURES, 2, domain="b"), "row 2: mixture 'one', domain 'b' is there twice"),
        (LOSSES, changed(MIXTURES, 2, proportion=-0.75), "row 2 (mixture 'one', domain 'a'): the proportion is -0.75"),
        (LOSSES, changed(MIXTURES, 2, proportion=float("nan")), "row 2"),
    ],
)
def test_bad_rows_are_refused_by_number(losses, mixtures, words):
    with pytest.raises(InputError) as error:
        observations(losses, mixtures)
    assert words in str(error.value)


def test_repeated_runs_are_averaged_and_their_spread_is_told():
    draw = np.random.default_rng(0)
    rows = [
        (name, seed, step, domain, float(np.exp(base + 0.01 * draw.standard_normal())))
        for name, seeds, base in (("one", range(40), 1.0), ("two", range(1), 1.2))
        for seed in seeds
        for step in (10, 20, 30)
        for domain in ("a", "b")
    ]
    losses = pl.DataFrame(rows, schema=["mixture", "seed", "step", "domain", "loss"], orient="row")
    observed = observations(losses, MIXTURES)
    assert observed.mixtures == ("one", "two")
    assert observed.runs.tolist() == [40, 1]
    assert observed.noise == pytest.approx(0.01, rel=0.1)
    assert np.allclose(np.log(observed.losses[0]), 1.0, atol=0.006)
    assert observed.take([1]).runs.tolist() == [1]
    with pytest.raises(InputError, match="is there twice"):
        observations(pl.concat([losses, losses[:1]]), MIXTURES)
    assert observations(losses.filter(pl.col("seed") == 0), MIXTURES).runs is None


def test_names_that_are_numbers_stay_names(tmp_path):
    losses = "mixture,step,domain,loss\n" + "".join(f"00{n},10,{d},{3 + n}\n" for n in (1, 2) for d in (7, 8))
    mixtures = "mixture,domain,proportion\n" + "".join(f"00{n},{d},0.5\n" for n in (1, 2) for d in (7, 8))
    (tmp_path / "l.csv").write_text(losses)
    (tmp_path / "m.csv").write_text(mixtures)
    observed = observations(read_table(tmp_path / "l.csv"), read_table(tmp_path / "m.csv"))
    assert observed.mixtures == ("001", "002") and observed.domains == ("7", "8")
