"""The optimizers that a recipe may name, each over all weights of a model.

AdamW without weight decay on biases and norms is that of the DoReMi code. Muon (Jordan et al. 2024,
"Muon: An optimizer for hidden layers in neural networks", kellerjordan.github.io/posts/muon)
orthogonalises the momentum of each hidden matrix before the step. It updates the matrices of the
blocks only; embedding, head, norms and biases use AdamW, as its authors prescribe. Torch implements
the step of one matrix.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

ATTENTION = ".query_key_value."  # in the name of a matrix that is three, one below the other


def adamw(
    weights: Iterable[Tensor], rate: float, betas: tuple[float, float], epsilon: float, decay: float
) -> torch.optim.AdamW:
    """AdamW without weight decay on biases and norms; fused: one kernel per update."""
    weights = list(weights)
    decayed = [weight for weight in weights if weight.dim() >= 2]
    spared = [weight for weight in weights if weight.dim() < 2]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=epsilon, fused=True)


def hidden_matrices(model: nn.Module) -> dict[str, Tensor]:
    """The matrices of a model's blocks by name, which Muon updates."""
    return {
        name: weight for name, weight in model.named_parameters() if name.startswith("blocks.") and weight.dim() == 2
    }


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for the matrices of a model's blocks and AdamW for all other weights, as one optimizer.

    Both use one learning rate and one weight decay: a step of Muon is scaled by 0.2 sqrt(max(rows,
    columns)) to the size of AdamW's steps (Liu et al. 2025, "Muon is scalable for LLM training",
    arXiv 2502.16982). Momentum 0.95, Nesterov and five iterations are torch's and the authors'
    defaults. Queries, keys and values are three matrices for Muon, though they are stored as one.
    The model must already be on its device.
    """

    def __init__(self, model: nn.Module, rate: float, betas: tuple[float, float], epsilon: float, decay: float) -> None:
        matrices = hidden_matrices(model)
        self.weights = list(model.parameters())
        # each part of a matrix, and the place of its gradient
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
        """Share the parameter groups of both, so that a learning rate set here is set in both."""
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
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
