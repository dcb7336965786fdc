"""Losses and shares of domains, whole and in chunks, with gradients, against plain sums."""

import pytest
import torch
from torch import Tensor

from bimix.model import cross_entropy
from bimix.model.cross_entropy import chunked_shares, sum_by_domain, whole_loss, whole_shares

ROWS, LENGTH, WIDTH, VOCABULARY, PADDED = 5, 3, 4, 11, 16
OWNERS = torch.tensor([0, 0, 2, 2, 2])  # domain 1 and 3 have no rows
COUNTS = (2, 0, 3, 0)
UPSTREAM = torch.tensor([0.7, 5.0, -1.3, 9.0])


@pytest.fixture
def given() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden states, weight, padding and targets, in fp64 but for the padding's share."""
    torch.manual_seed(0)
    hidden = torch.randn(ROWS * LENGTH, WIDTH, requires_grad=True)
    weight = torch.randn(PADDED, WIDTH, requires_grad=True)
    padding = torch.zeros(PADDED)
    padding[VOCABULARY:] = -torch.inf
    return hidden, weight, padding, torch.randint(VOCABULARY, (ROWS * LENGTH,))


def by_hand(hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Shares (4,) and losses (rows, length), by logs of sums of exponentials over the real ids."""
    scores = hidden @ weight[:VOCABULARY].T
    losses = torch.stack([row.exp().sum().log() - row[target] for row, target in zip(scores, targets, strict=True)])
    losses = losses.view(ROWS, LENGTH)
    shares = [sum(losses[row].sum() for row in range(ROWS) if OWNERS[row] == domain) for domain in range(4)]
    return torch.stack([torch.as_tensor(share, dtype=losses.dtype) for share in shares]) / (ROWS * LENGTH), losses


def gradients(value: Tensor, hidden: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, (hidden, weight), retain_graph=True)


def chunked_loss(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int) -> Tensor:
    return chunked_shares(hidden, weight, VOCABULARY, targets, chunk, (ROWS,))[0][0]


def test_shares_of_domains_and_their_weighted_gradients(given) -> None:
    for chunk in (None, 1, 4, 100):
        hidden, weight, padding, targets = given
        wanted, each = by_hand(hidden, weight, targets)
        if chunk is None:
            shares, losses = whole_shares(hidden, weight, padding, targets, OWNERS, 4)
        else:
            shares, losses = chunked_shares(hidden, weight, VOCABULARY, targets, chunk, COUNTS)
        torch.testing.assert_close(shares, wanted)
        torch.testing.assert_close(losses, each)
        assert losses.shape == (ROWS, LENGTH) and not losses.requires_grad
        assert shares[1] == shares[3] == 0
        for ours, right in zip(
            gradients(shares @ UPSTREAM, hidden, weight), gradients(wanted @ UPSTREAM, hidden, weight), strict=True
        ):
            torch.testing.assert_close(ours, right)
            assert ours.abs().max() > 1e-3


def test_the_mean_loss_and_its_gradient(given) -> None:
    for chunk in (None, 4):
        hidden, weight, padding, targets = given
        wanted = by_hand(hidden, weight, targets)[1].mean()
        whole = whole_loss(hidden, weight, padding, targets)
        loss = whole if chunk is None else chunked_loss(hidden, weight, targets, chunk)
        torch.testing.assert_close(loss, wanted)
        for ours, right in zip(gradients(3 * loss, hidden, weight), gradients(3 * wanted, hidden, weight), strict=True):
            torch.testing.assert_close(ours, right)
        with torch.no_grad():
            torch.testing.assert_close(chunked_loss(hidden, weight, targets, chunk or 4), wanted)


def test_gradients_are_taken_only_where_something_learns(given, monkeypatch) -> None:
    hidden, weight, _, targets = given
    calls = []

    def counted(*parts: Tensor) -> Tensor:
        calls.append(parts)
        return parts[0] @ parts[1].T

    monkeypatch.setattr(cross_entropy.F, "linear", counted)
    # runs of 6 and 9 tokens are three chunks, of three products where something learns
    for learns, one, other, products in (
        (True, hidden, weight, 9),
        (False, hidden, weight, 3),
        (True, hidden.detach(), weight.detach(), 3),
        (True, hidden.detach(), weight, 9),
    ):
        calls.clear()
        with torch.set_grad_enabled(learns):
            chunked_shares(one, other, VOCABULARY, targets, 6, COUNTS)
        assert len(calls) == products


def test_large_scores_do_not_overflow_and_domains_are_summed(given) -> None:
    hidden, weight, padding, targets = given
    large = 200 * hidden.detach().requires_grad_()
    whole = whole_loss(large, weight, padding, targets)
    chunked = chunked_loss(large, weight, targets, 4)
    assert whole.isfinite()
    torch.testing.assert_close(chunked, whole)
    # sums by domain
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    assert sum_by_domain(values, OWNERS, 4).tolist() == [3, 0, 28, 0]
