"""The decoder-only transformer of the DoReMi code, which the paper trains (paper
Sec. 4, Model Architecture).

Pre-LayerNorm (eps 1e-5) with biases, tanh-GELU MLP of four times the width, rotary embedding on
a quarter of each head (rotate-half, base 10000), no absolute positions, no dropout, tied
embeddings, a final LayerNorm and a head without bias. The forward pass returns the mean loss and
never the logits, which every wrapper around the model would keep and copy to fp32.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend

from bimix.model.cross_entropy import chunked_shares, uncompiled_shares, whole_loss, whole_shares
from bimix.model.shape import Shape

ROTARY_BASE = 10_000.0
NORM_EPSILON = 1e-5
INIT_DEVIATION = 0.02


def rotary_tables(length: int, width: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding, each (length, width), fp32 (Su et al. 2021)."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
    angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate the first `width` channels of (batch, heads, length, head width) by position."""
    turned, kept = heads.split((cosines.shape[-1], heads.shape[-1] - cosines.shape[-1]), dim=-1)
    left, right = turned.chunk(2, dim=-1)
    turned = turned * cosines + torch.cat((-right, left), dim=-1) * sines
    return torch.cat((turned.to(kept.dtype), kept), dim=-1)


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, hidden: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        projected = self.query_key_value(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # each (batch, heads, length, head width)
        query, key = rotate(query, cosines, sines), rotate(key, cosines, sines)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One decoder block: attention, then the MLP, each with pre-LayerNorm and a residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)
        self.attention = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)
        self.mlp_in = nn.Linear(shape.width, 4 * shape.width)
        self.mlp_out = nn.Linear(4 * shape.width, shape.width)

    def forward(self, hidden: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden), cosines, sines)
        return hidden + self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(hidden)), approximate="tanh"))


class Transformer(nn.Module):
    """The whole model; `Transformer(shape)(rows)` is the mean next-token loss in nats. With
    `loss_chunk`, the logits of that many tokens at a time exist in memory (`cross_entropy`).
    """

    def __init__(self, shape: Shape, loss_chunk: int | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.loss_chunk = loss_chunk
        self.embedding = nn.Embedding(shape.padded_vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.final_norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)
        self.initialize()

    def initialize(self) -> None:
        """Weights from N(0, 0.02), residual outputs from N(0, 0.02 / sqrt(2 layers)), biases 0."""
        for name, weight in self.named_parameters():
            if name.endswith("norm.weight"):
                nn.init.ones_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)
            else:
                residual = name.endswith(("attention.out.weight", "mlp_out.weight"))
                nn.init.normal_(weight, std=INIT_DEVIATION / (math.sqrt(2 * self.shape.layers) if residual else 1))

    def hidden(self, tokens: Tensor) -> Tensor:
        """Final states (batch, length, width) of `tokens` (batch, length)."""
        cosines, sines = rotary_tables(tokens.shape[1], self.shape.rotary_width, tokens.device)
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden, cosines, sines)
        return self.final_norm(hidden)

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocabulary) of the next token."""
        return F.linear(self.hidden(tokens), self.embedding.weight[: self.shape.vocabulary])

    def padding(self) -> Tensor:
        """Bias of the logits: 0 for ids, -inf for padding; no buffer, which wrappers would send."""
        weight = self.embedding.weight
        real, padded = self.shape.vocabulary, self.shape.padded_vocabulary
        return F.pad(weight.new_zeros(real), (0, padded - real), value=-torch.inf)

    def forward(
        self, rows: Tensor, owners: Tensor | None = None, domains: int = 0, counts: tuple[int, ...] = ()
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Mean loss in nats over the length - 1 predictions of each of `rows` (batch, length).

        With `owners` (batch,), the domain of each row as a number below `domains`: each domain's
        share of that mean (domains,), and the loss of every token (batch, length - 1) without
        gradient (`cross_entropy`). In chunks the rows must be sorted by domain, and `counts`
        (domains,), if the host knows them, are the rows of each.
        """
        rows = rows.long()
        hidden, targets = self.hidden(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()
        weight = self.embedding.weight
        if self.loss_chunk is None:
            if owners is None:
                return whole_loss(hidden, weight, self.padding(), targets)
            return whole_shares(hidden, weight, self.padding(), targets, owners, domains)
        real = self.shape.vocabulary
        if owners is None:
            return chunked_shares(hidden, weight, real, targets, self.loss_chunk, (len(rows),))[0][0]
        shares = chunked_shares if domains == 1 else uncompiled_shares
        return shares(hidden, weight, real, targets, self.loss_chunk, counts)


def attention_kernel(shape: Shape, length: int, device: torch.device, precision: str) -> str:
    """The name of the kernel that torch chooses for causal attention in training, with the recipe's precision."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    heads = torch.zeros(1, shape.heads, length, shape.head_width, device=device, dtype=dtype, requires_grad=True)
    return SDPBackend(torch._fused_sdp_choice(heads, heads, heads, is_causal=True)).name.lower()
