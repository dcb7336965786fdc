"""Mean next-token loss from hidden states, either in one piece or chunk by chunk.

In chunks, the scores of a chunk of tokens over the whole vocabulary exist only while its loss and its gradients are
taken, in place. That bounds memory, and on a CPU halves the time at 50,277 ids, since a chunk stays in the cache; on a
GPU it saves memory but no time.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from bimix.products import linear, product


def whole_loss(hidden: Tensor, weight: Tensor, padding: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats of `targets` (n,) from `hidden` (n, width) and `weight` (padded vocabulary, width).

    The `padding` (padded vocabulary,), 0 or minus infinity, enters as a bias of the product, which costs no copy of the
    scores, as cutting the padded columns off would.
    """
    return F.cross_entropy(linear(hidden, weight, padding).float(), targets)


def chunked_loss(hidden: Tensor, weight: Tensor, vocabulary: int, targets: Tensor, chunk: int) -> Tensor:
    """The same loss, `chunk` tokens at a time; the first `vocabulary` rows of `weight` are real ids."""
    return _ChunkedLoss.apply(hidden, weight, vocabulary, targets, chunk)


class _ChunkedLoss(torch.autograd.Function):
    """Takes the gradients on the way forward, so that no score is computed twice or kept."""

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, vocabulary: int, targets: Tensor, chunk: int) -> Tensor:
        device = hidden.device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        states, rows = hidden.detach().to(precision), weight.detach()[:vocabulary].to(precision)
        learns = any(ctx.needs_input_grad)
        hidden_gradient = torch.empty_like(hidden) if learns else None
        weight_gradient = torch.zeros_like(weight) if learns else None
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        with torch.autocast(device, enabled=False):
            for start in range(0, len(targets), chunk):
                part, wanted = states[start : start + chunk], targets[start : start + chunk, None]
                scores = product(part, rows).float()
                largest = scores.amax(dim=1, keepdim=True)
                scores.sub_(largest)
                right = scores.gather(1, wanted)
                sums = scores.exp_().sum(dim=1, keepdim=True)
                total += (sums.log() - right).sum()
                if learns:
                    scores.div_(sums * len(targets))
                    scores.scatter_add_(1, wanted, torch.full_like(right, -1 / len(targets)))
                    gradient = scores.to(precision)
                    hidden_gradient[start : start + chunk] = product(gradient, rows.T)
                    weight_gradient[:vocabulary] += product(gradient.T, part.T)
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        return total / len(targets)

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return hidden_gradient * upstream, weight_gradient * upstream, None, None, None
