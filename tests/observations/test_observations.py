"""The tidy tables are laid out as arrays, and bad rows are refused by number."""

import numpy as np
import polars as pl
import pytest
from refusals import refused

from bimix.errors import InputError
from bimix.observations.observations import observations, proportions_of
from bimix.tables import read_table

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
        observed.mixtures == ("two", "one") and observed.domains == ("a", "b") and observed.loss_domains == ("a", "x")
    )
    assert observed.steps.tolist() == [10, 20]
    assert observed.proportions.tolist() == [[0.5, 0.5], [0.75, 0.25]]
    expected = [[[np.nan, np.nan], [2, 3]], [[5, np.nan], [4, 6]]]
    assert np.array_equal(observed.losses, np.array(expected), equal_nan=True)
    assert observed.take([1]).mixtures == ("one",) and observed.tokens_per_step is None
    # a pair that is not listed is zero, and rounding is rescaled
    mixtures = pl.DataFrame(
        {"mixture": ["one", "two", "two"], "domain": ["a", "a", "b"], "proportion": [0.998, 0.5, 0.5]}
    )
    assert observations(LOSSES, mixtures).proportions.tolist() == [[0.5, 0.5], [1, 0]]


def test_tokens_that_are_no_numbers_matter_only_where_epochs_or_sizes_do():
    losses = LOSSES.with_columns(tokens=pl.lit("many"))
    assert observations(losses, MIXTURES).tokens is None
    with pytest.raises(InputError, match="row 1: tokens is 'many': it must be a finite number above 0"):
        observations(losses, MIXTURES.with_columns(pool=pl.lit(10.0)))


def test_proportions_in_another_order_of_domains():
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
