"""What the data do not determine, in a sentence each: too few runs, domains that none trained on,
losses that rise with their own share, a run with a slip, amounts that no run has.
"""

from dataclasses import replace

import numpy as np
import pytest
from laws.known import mixtures, observe, with_transfer

from bimix.errors import InputError
from bimix.laws import fitted as laws
from bimix.optimum.bounds import feasible_bounds
from bimix.optimum.intervals import left_out


def fitted_to(n: int, m: int = 3, **changes) -> dict:
    return laws.fit("transfer", replace(observe(with_transfer(0, m), mixtures(0, n, m), [1000], 0.002), **changes))


def said(fitted: dict, words: str) -> bool:
    return any(words in sentence for sentence in fitted["warnings"])


@pytest.mark.filterwarnings("error")
def test_two_runs_are_said_to_be_too_few() -> None:
    assert said(fitted_to(2, 4), "2 mixtures are too few to choose the ridge by cross-validation")
    assert not said(fitted_to(4, 4), "too few")


def test_a_domain_that_no_run_trained_on_is_named() -> None:
    shares = mixtures(0, 8, 3)
    shares = np.concatenate([shares, np.zeros((8, 1))], axis=1)
    fitted = fitted_to(8, proportions=shares, domains=("d00", "d01", "d02", "unseen"))
    assert said(fitted, "no fitted mixture trains on unseen") and not said(fitted, "trains on d00")


def test_a_loss_that_rises_with_its_own_share_is_named() -> None:
    observed = observe(with_transfer(0, 3), mixtures(0, 16, 3), [1000], 0.002)
    assert not said(laws.fit("transfer", observed), "rose with its own proportion")
    losses = observed.losses.copy()
    losses[:, 0, 1] = 2 + observed.proportions[:, 1]
    fitted = laws.fit("transfer", replace(observed, losses=losses))
    assert said(fitted, "the loss of d01 rose with its own proportion") and not said(fitted, "loss of d00 rose")


def test_a_run_with_a_slip_is_named() -> None:
    observed = observe(with_transfer(0, 3), mixtures(0, 12, 3), [1000], 0.002)
    assert left_out(laws.fit("transfer", observed), observed, 1000).outlier() == ""
    observed.losses[4, 0, 1] *= 50
    found = left_out(laws.fit("transfer", observed), observed, 1000).outlier()
    assert "left out, mixture 'run4' has a loss on d01 of" in found and "check that run" in found


def test_amounts_that_no_run_has_are_refused() -> None:
    with pytest.raises(InputError, match="the upper bound of a is 1e-300: no run could hold so little"):
        feasible_bounds(["a", "b"], upper={"a": 1e-300})
    assert feasible_bounds(["a", "b"], upper={"a": 0.0})[1].tolist() == [0, 1]
    with pytest.raises(InputError, match="the pool of 'd00' is 1e-300 tokens: it must be 1 or more"):
        laws.at_run(fitted_to(4), tokens=1e6, pools={"d00": 1e-300, "d01": 1e9, "d02": 1e9}, step=1000)
