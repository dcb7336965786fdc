"""The optimizers that a recipe may name, each over all weights of a model.

AdamW whose weight decay spares biases and norms is that of the DoReMi code. Muon (Jordan et al.
2024, "Muon: An optimizer for hidden layers in neural networks", kellerjordan.github.io/posts/muon)
makes the momentum of each hidden matrix orthogonal before it is a step. It is for the matrices of
the blocks alone: embedding, head, norms and biases keep AdamW, as its authors prescribe. Torch has
the step of one matrix.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

ATTENTION = ".query_key_value."  # in the name of a matrix that is three, one below the other


def adamw(
    weights: Iterable[Tensor], rate: float, betas: tuple[float, float], epsilon: float, decay: float
) -> torch.optim.AdamW:
    """AdamW whose weight decay spares biases and norms; fused: one kernel per update."""
    weights = list(weights)
    decayed = [weight for weight in weights if weight.dim() >= 2]
    spared = [weight for weight in weights if weight.dim() < 2]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=epsilon, fused=True)


def hidden_matrices(model: nn.Module) -> dict[str, Tensor]:
    """The matrices of a model's blocks by name: what Muon is for."""
    return {
        name: weight for name, weight in model.named_parameters() if name.startswith("blocks.") and weight.dim() == 2
    }


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for the matrices of a model's blocks and AdamW for all other weights, as one optimizer.

    One learning rate and one weight decay serve both: a step of Muon is scaled to the size that
    AdamW's steps have, 0.2 sqrt(max(rows, columns)) (Liu et al. 2025, "Muon is scalable for LLM
    training", arXiv 2502.16982). Momentum 0.95, Nesterov and five iterations are torch's and the
    authors'. Queries, keys and values are three matrices for Muon, though they are stored as one.
    The model is on its device already.
    """

    def __init__(self, model: nn.Module, rate: float, betas: tuple[float, float], epsilon: float, decay: float) -> None:
        matrices = hidden_matrices(model)
        self.weights = list(model.parameters())
        # each part of a matrix, and where its gradient will lie
        self.parts: list[tuple[Tensor, Tensor, slice]] = []
        for name, weight in matrices.items():
            rows = len(weight) // 3 if ATTENTION in name else len(weight)
            for start in range(0, len(weight), rows):
                own = slice(start, start + rows)
                self.parts.append((weight.detach()[own], weight, own))
        self.muon = torch.optim.Muon(
            [part for part, _, _ in self.parts], lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"
        )
        others = (weight for name, weight in model.named_parameters() if name not in matrices)
        self.adamw = adamw(others, rate, betas, epsilon, decay)
        super().__init__([*self.muon.param_groups, *self.adamw.param_groups], {})
        self.link()

    def link(self) -> None:
        """Show the groups of both as one's own: who sets a rate there sets it for both."""
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One step of both along the gradients of the weights."""
        for part, weight, own in self.parts:
            part.data = weight.detach()[own]  # Accelerate moves weights of several processes elsewhere
            part.grad = None if weight.grad is None else weight.grad[own]
        self.muon.step()
        self.adamw.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all weights, and of the parts of matrices."""
        for part, _, _ in self.parts:
            part.grad = None
        for weight in self.weights:
            if set_to_none:
                weight.grad = None
            elif weight.grad is not None:
                weight.grad.zero_()

    def state_dict(self) -> dict:
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict) -> None:
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        self.link()
