"""Next-token loss from hidden states, in one piece or in chunks of tokens, as a mean or for each
domain.

In chunks, the logits of a chunk over the whole vocabulary exist only while its loss and gradients
are computed, in place. That bounds memory, and on a CPU halves the time at 50,277 ids, since a
chunk stays in the cache; on a GPU it saves memory but no time.

A domain's share is the sum of its tokens' losses over the number of all tokens, so that the shares
sum to the mean. A weighted loss is a weighted sum of shares, so that weights may be computed from
the losses (DoReMi) without a second computation of logits.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def whole_loss(hidden: Tensor, weight: Tensor, padding: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy in nats of `targets` (n,) from `hidden` (n, width) and `weight`
    (padded vocabulary, width).

    The `padding` (padded vocabulary,), 0 or minus infinity, is a bias of the product; to slice off
    the padded columns would copy the logits. With `reduction` none: the loss of each token (n,).
    """
    return F.cross_entropy(F.linear(hidden, weight, padding).float(), targets, reduction=reduction)


def whole_shares(
    hidden: Tensor, weight: Tensor, padding: Tensor, targets: Tensor, owners: Tensor, domains: int
) -> tuple[Tensor, Tensor]:
    """Parts (domains,) of the mean loss by `owners` (rows,), and losses (rows, n / rows)."""
    losses = whole_loss(hidden, weight, padding, targets, reduction="none").view(len(owners), -1)
    return sum_by_domain(losses.sum(1), owners, domains) / losses.numel(), losses.detach()


def sum_by_domain(values: Tensor, owners: Tensor, domains: int) -> Tensor:
    """Sums (domains,) of each domain's `values` (rows,), deterministic, unlike `index_add`."""
    numbers = torch.arange(domains, device=owners.device)[:, None]
    return torch.where(owners == numbers, values, 0.0).sum(1)


def chunked_shares(
    hidden: Tensor, weight: Tensor, vocabulary: int, targets: Tensor, chunk: int, counts: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """As `whole_shares`, `chunk` tokens at a time, for rows sorted by domain; `counts` (domains,)
    are the rows of each, on the host, so that nothing waits for the device. The first `vocabulary`
    rows of `weight` are ids.

    Keeps one gradient of `weight` for each domain that has rows.
    """
    length = len(targets) // sum(counts)
    runs = tuple(count * length for count in counts if count)
    # under no_grad an autograd function still gets inputs that require gradients
    learns = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    shares, losses = _ChunkedLoss.apply(hidden, weight, vocabulary, targets, chunk, runs, learns)
    present, none = iter(shares.unbind()), shares.new_zeros(())
    return torch.stack([next(present) if count else none for count in counts]), losses.view(-1, length)


@torch.compiler.disable
def uncompiled_shares(*given: object) -> tuple[Tensor, Tensor]:
    """`chunked_shares` of several domains, excluded from compilation.

    The borders between domains change in nearly every batch and would be constants of the graph, so
    that nearly every update would compile again.
    """
    return chunked_shares(*given)


class _ChunkedLoss(torch.autograd.Function):
    """Shares of consecutive `runs` of tokens, and every token's loss.

    Gradients are computed in the forward pass, so that logits are neither kept nor computed twice.
    A run's upstream gradient multiplies its tokens' gradients afterwards.
    """

    @staticmethod
    def forward(
        ctx,
        hidden: Tensor,
        weight: Tensor,
        vocabulary: int,
        targets: Tensor,
        chunk: int,
        runs: tuple[int, ...],
        learns: bool,
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        states, rows = hidden.detach().to(precision), weight.detach()[:vocabulary].to(precision)
        hidden_gradient = torch.empty_like(hidden) if learns else None
        weight_gradients = weight.new_zeros(len(runs), *weight.shape) if learns else None
        losses = torch.empty(len(targets), dtype=torch.float32, device=hidden.device)
        shares = torch.zeros(len(runs), dtype=torch.float32, device=hidden.device)
        first = 0
        with torch.autocast(device, enabled=False):
            for run, count in enumerate(runs):
                for start in range(first, first + count, chunk):
                    here = slice(start, min(start + chunk, first + count))
                    part, wanted = states[here], targets[here, None]
                    scores = F.linear(part, rows).float()
                    if not learns:
                        losses[here] = F.cross_entropy(scores, wanted[:, 0], reduction="none")
                        shares[run] += losses[here].sum()
                        continue
                    largest = scores.amax(dim=1, keepdim=True)
                    scores.sub_(largest)
                    right = scores.gather(1, wanted)
                    sums = scores.exp_().sum(dim=1, keepdim=True)
                    own = sums.log() - right
                    losses[here] = own[:, 0]
                    shares[run] += own.sum()
                    scores.div_(sums * len(targets))
                    scores.scatter_add_(1, wanted, torch.full_like(right, -1 / len(targets)))
                    gradient = scores.to(precision)
                    hidden_gradient[here] = F.linear(gradient, rows.T)
                    weight_gradients[run, :vocabulary] += F.linear(gradient.T, part.T)
                first += count
        ctx.runs = runs
        ctx.save_for_backward(hidden_gradient, weight_gradients)
        ctx.mark_non_differentiable(losses)
        return shares / len(targets), losses

    @staticmethod
    def backward(ctx, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, weight_gradients = ctx.saved_tensors
        if len(ctx.runs) == 1:
            return hidden_gradient * upstream, weight_gradients[0] * upstream, None, None, None, None, None
        by_token = torch.cat([factor.expand(count) for factor, count in zip(upstream, ctx.runs, strict=True)])
        by_weight = torch.tensordot(upstream, weight_gradients, dims=1)
        return hidden_gradient * by_token[:, None], by_weight, None, None, None, None, None
