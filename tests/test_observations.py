"""The tidy tables are laid out as arrays, and bad rows are refused by number."""

import numpy as np
import polars as pl
import pytest

from bimix.errors import InputError
from bimix.observations import observations, proportions_of

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
        (changed(LOSSES, 5, domain="a"), MIXTURES, "row 5: mixture 'one', step 20, domain 'a' is there twice"),
        (
            changed(LOSSES, 4, loss=float("nan")),
            MIXTURES,
            "row 4 (mixture 'one', step 20, domain 'a'): the loss is nan",
        ),
        (changed(LOSSES, 4, loss=float("inf")), MIXTURES, "row 4"),
        (changed(LOSSES, 2, loss=0.0), MIXTURES, "row 2"),
        (changed(LOSSES, 2, loss=-1.0), MIXTURES, "row 2"),
        (changed(LOSSES, 1, step=0), MIXTURES, "row 1"),
        (LOSSES.with_columns(step=pl.col("step") + 0.5), MIXTURES, "row 1: step is 20.5: it must be a whole number"),
        (LOSSES.with_columns(loss=pl.lit("much")), MIXTURES, "row 1: loss is 'much'"),
        (LOSSES.drop("loss"), MIXTURES, "no column 'loss'"),
        (LOSSES[:0], MIXTURES, "no rows"),
        (LOSSES, changed(MIXTURES, 3, proportion=0.6), "from row 3: the proportions of mixture 'two' sum to 1.1"),
        (LOSSES, changed(MIXTURES, 2, domain="b"), "row 2: mixture 'one', domain 'b' is there twice"),
        (LOSSES, changed(MIXTURES, 2, proportion=-0.75), "row 2 (mixture 'one', domain 'a'): the proportion is -0.75"),
        (LOSSES, changed(MIXTURES, 2, proportion=float("nan")), "row 2"),
    ],
)
def test_bad_rows_are_refused_by_number(losses, mixtures, words):
    with pytest.raises(InputError) as error:
        observations(losses, mixtures)
    assert words in str(error.value)
