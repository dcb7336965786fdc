"""Several models of one shape as one: their weights lie stacked, and a product of all of them is
one batched product.

Attention is one over models x rows, and the embedding one look-up with an offset for each model.
No model sees anything of another, so each has the losses and gradients of the model alone, but for
rounding.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bimix.model.cross_entropy import chunked_loss, chunked_shares
from bimix.model.transformer import NORM_EPSILON, Transformer, rotary_tables, rotate

CLIP_EPSILON = 1e-6  # that of torch.nn.utils.clip_grad_norm_


class StackedTransformer(nn.Module):
    """All of the `models` as one; each of its weights is (models, ...), in the order of a model's.

    With their `loss_chunk` the scores of so many tokens exist at once, and heads are taken model by
    model.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.shape, self.loss_chunk, self.count = models[0].shape, models[0].loss_chunk, len(models)
        self.names = [name for name, _ in models[0].named_parameters()]
        own = [dict(model.named_parameters()) for model in models]
        self.weights = nn.ParameterList(torch.stack([one[name].detach() for one in own]) for name in self.names)

    def part(self, number: int) -> dict[str, Tensor]:
        """The state of one of the models, by the names that it has alone."""
        return {name: weight[number].detach().clone() for name, weight in zip(self.names, self.weights, strict=True)}

    @torch.no_grad()
    def clip(self, largest_norm: float) -> Tensor:
        """Scale the gradients of each model to a norm of `largest_norm` at most; gives the norms
        (models,) before.
        """
        gradients = [weight.grad for weight in self.weights]
        norms = torch.stack([torch.linalg.vector_norm(own.flatten(1), dim=1) for own in gradients])
        norms = torch.linalg.vector_norm(norms, dim=0)
        factors = (largest_norm / (norms + CLIP_EPSILON)).clamp(max=1)
        for own in gradients:
            own.mul_(factors.view(-1, *[1] * (own.dim() - 1)))
        return norms

    def hidden(self, tokens: Tensor) -> Tensor:
        """Final states (models, batch x length, width) of `tokens` (models, batch, length)."""
        count, batch, length = tokens.shape
        shape, weights = self.shape, dict(zip(self.names, self.weights, strict=True))

        def norm(name: str, states: Tensor) -> Tensor:
            plain = F.layer_norm(states, (shape.width,), eps=NORM_EPSILON)
            return plain * weights[f"{name}.weight"][:, None] + weights[f"{name}.bias"][:, None]

        def linear(name: str, states: Tensor) -> Tensor:
            return torch.baddbmm(weights[f"{name}.bias"][:, None], states, weights[f"{name}.weight"].transpose(1, 2))

        offsets = torch.arange(count, device=tokens.device)[:, None] * shape.padded_vocabulary
        hidden = F.embedding(tokens.flatten(1) + offsets, weights["embedding.weight"].flatten(0, 1))
        cosines, sines = rotary_tables(length, shape.rotary_width, tokens.device)
        for layer in range(shape.layers):
            block = f"blocks.{layer}"
            projected = linear(f"{block}.attention.query_key_value", norm(f"{block}.attention_norm", hidden))
            heads = projected.view(count * batch, length, 3, shape.heads, shape.head_width).permute(2, 0, 3, 1, 4)
            query, key, value = heads
            query, key = rotate(query, cosines, sines), rotate(key, cosines, sines)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            merged = mixed.transpose(1, 2).reshape(count, batch * length, shape.width)
            hidden = hidden + linear(f"{block}.attention.out", merged)
            inner = F.gelu(linear(f"{block}.mlp_in", norm(f"{block}.mlp_norm", hidden)), approximate="tanh")
            hidden = hidden + linear(f"{block}.mlp_out", inner)
        return norm("final_norm", hidden)

    def forward(self, rows: Tensor, by_token: bool = False) -> Tensor:
        """Mean losses (models,) in nats of the models, each on its own `rows` (models, batch,
        length), or all on the same (batch, length).

        `by_token`: the loss of every token (models, batch, length - 1), which has no gradient in
        chunks.
        """
        rows = rows.long().expand(self.count, *rows.shape[-2:])
        hidden, targets = self.hidden(rows[..., :-1]), rows[..., 1:].flatten(1)
        embedding, real = self.weights[self.names.index("embedding.weight")], self.shape.vocabulary
        if self.loss_chunk is None:
            padding = F.pad(embedding.new_zeros(real), (0, self.shape.padded_vocabulary - real), value=-torch.inf)
            scores = torch.baddbmm(padding[None, None], hidden, embedding.transpose(1, 2)).flatten(0, 1).float()
            losses = F.cross_entropy(scores, targets.flatten(), reduction="none").view(self.count, rows.shape[1], -1)
            return losses if by_token else losses.mean((1, 2))
        heads = list(zip(hidden, embedding, targets, strict=True))
        if by_token:
            batch = (rows.shape[1],)
            return torch.stack([chunked_shares(h, e, real, t, self.loss_chunk, batch)[1] for h, e, t in heads])
        return torch.stack([chunked_loss(h, e, real, t, self.loss_chunk) for h, e, t in heads])


def models_in(model: nn.Module) -> int:
    """How many models a module is."""
    return model.count if isinstance(model, StackedTransformer) else 1


def stack_moments(states: Sequence[dict]) -> dict:
    """The state of AdamW over stacked weights, of the states of the models' own, which stand at one
    step.
    """
    first, own = states[0], [state["state"] for state in states]
    stacked = {
        number: {
            name: value if name == "step" else torch.stack([state[number][name] for state in own])
            for name, value in moments.items()
        }
        for number, moments in first["state"].items()
    }
    return {"state": stacked, "param_groups": first["param_groups"]}


def part_moments(state: dict, part: int) -> dict:
    """The state of AdamW over one of the models, of that over stacked weights."""
    own = {
        number: {name: (value if name == "step" else value[part]).clone() for name, value in moments.items()}
        for number, moments in state["state"].items()
    }
    return {"state": own, "param_groups": state["param_groups"]}
