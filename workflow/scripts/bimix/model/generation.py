"""Greedy generation from prompts by a trained model, and the likelihood of given continuations, in
batches.

Prompts are padded on the right: attention is causal, so padding is never read, and new tokens
overwrite it. So a prompt in a batch gives the same result as alone, up to rounding. Where rounding
could decide between two tokens, the prompt is computed again, alone, so that its answer does not
depend on its batch. Keys and values of earlier tokens are cached.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bimix.model.transformer import Transformer, rotary_tables

# Two logits closer than this fraction of the largest one are a tie in fp32, whose sums depend on
# the batch size. In bf16 half of all choices would be ties; there the batch may decide.
TIE = 64 * torch.finfo(torch.float32).eps
SCORED_AT_ONCE = 1024  # tokens whose scores over the vocabulary exist at once: 200 MB of fp32 at 50,277 ids

Pair = tuple[np.ndarray, np.ndarray]  # ids of a prompt, one at least, and of its continuation


def plan_batches(lengths: Sequence[int], new_tokens: int, cache_tokens: int) -> list[list[int]]:
    """Positions of prompts of these `lengths` in batches, longest first, so that memory runs out in
    the first batch or never.

    The longest prompt of a batch plus its answer, times the number of prompts, is at most
    `cache_tokens`; a single prompt is always allowed.
    """
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    batches: list[list[int]] = []
    while order:
        count = max(cache_tokens // (lengths[order[0]] + new_tokens), 1)
        batches.append(order[:count])
        order = order[count:]
    return batches


def stop_ids(decode: Callable[[list[int]], str], vocabulary: int, end_of_text: int) -> list[int]:
    """Ids that end an answer: the end of text, and ids whose text has a line end."""
    return sorted({end_of_text} | {token for token in range(vocabulary) if "\n" in decode([token])})


def generate(
    model: Transformer,
    prompts: Sequence[np.ndarray],
    batches: Iterable[Sequence[int]],
    new_tokens: int,
    stops: Iterable[int],
    graphs: bool = False,
) -> Iterator[tuple[int, list[int]]]:
    """Yield (position, ids) of the continuation of each of the `prompts` whose positions are in
    `batches`.

    It has at most `new_tokens` ids, up to and including the first of the `stops`. `graphs`: as in
    `continue_batch`.
    """
    stopping = torch.tensor(sorted(stops), device=model.embedding.weight.device)
    for batch in batches:
        written = continue_batch(model, [prompts[position] for position in batch], new_tokens, stopping, graphs)
        for position, (ids, tied) in zip(batch, written, strict=True):
            if tied and len(batch) > 1:
                ((ids, _),) = continue_batch(model, [prompts[position]], new_tokens, stopping, graphs)
            yield position, ids


@torch.inference_mode()
def continue_batch(
    model: Transformer, prompts: Sequence[np.ndarray], new_tokens: int, stops: Tensor, graphs: bool
) -> list[tuple[list[int], bool]]:
    """Continuation of each prompt, and whether rounding may have decided one of its tokens. With
    `graphs` (CUDA) the generation of one token is recorded once and replayed.
    """
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    rows = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long)
    for row, prompt in zip(rows, prompts, strict=True):
        row[: len(prompt)] = torch.from_numpy(prompt.astype(np.int64))
    device = model.embedding.weight.device
    state, scores = begin(model, rows.to(device), lengths.to(device), new_tokens)
    chosen = torch.empty(len(prompts), new_tokens, dtype=torch.long, device=device)
    over = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    tied = torch.zeros_like(over)
    fp32 = scores.dtype == torch.float32
    step = state.advance
    for count in range(new_tokens):
        (first, second), (token, _) = (part.unbind(-1) for part in scores.topk(2))
        if fp32:
            tied |= ~over & (first - second < TIE * torch.maximum(first.abs(), second.abs()))
        chosen[:, count] = token
        over |= torch.isin(token, stops)
        if count + 1 == new_tokens or over.all():
            break
        state.tokens.copy_(token)
        if graphs and count == 1:
            step = record(state.advance)
        scores = step()
        state.positions += 1
    ends = torch.isin(chosen[:, : count + 1], stops).int()
    counts = torch.where(ends.any(1), ends.argmax(1) + 1, count + 1)
    return [
        (ids[:length], was_tied)
        for ids, length, was_tied in zip(chosen.tolist(), counts.tolist(), tied.tolist(), strict=True)
    ]


@dataclass
class State:
    """A batch: `keys`, `values` (batch, heads, room, width), `tokens` and `positions` (batch,)."""

    model: Transformer
    keys: list[Tensor]
    values: list[Tensor]
    tokens: Tensor
    positions: Tensor

    def __post_init__(self) -> None:
        room, device = self.keys[0].shape[2], self.tokens.device
        self.rows = torch.arange(len(self.tokens), device=device)
        self.places = torch.arange(room, device=device)
        self.tables = rotary_tables(room, self.model.shape.rotary_width, device)

    def advance(self) -> Tensor:
        """Logits (batch, vocabulary) of the token after `tokens`, with constant shapes."""
        cosines, sines = (table[self.positions, None, None] for table in self.tables)
        unseen = (self.places > self.positions[:, None])[:, None, None]
        hidden = self.model.embedding(self.tokens)[:, None]
        for block, keys, values in zip(self.model.blocks, self.keys, self.values, strict=True):
            query, key, value = block.attention.project(block.attention_norm(hidden), cosines, sines)
            keys[self.rows, :, self.positions] = key[:, :, 0]
            values[self.rows, :, self.positions] = value[:, :, 0]
            hidden = block.feed_forward(hidden + block.attention.merge(attend(query, keys, values, unseen)))
        return score(self.model, hidden[:, 0])


def attend(query: Tensor, keys: Tensor, values: Tensor, unseen: Tensor) -> Tensor:
    """Attention of one token per row, query (batch, heads, 1, head width), without `unseen`
    positions. With a mask and a single query torch's own takes twice as long on a CPU.
    """
    weights = (query * query.shape[-1] ** -0.5) @ keys.transpose(-1, -2)
    return weights.masked_fill(unseen, -torch.inf).softmax(-1) @ values


def begin(model: Transformer, rows: Tensor, lengths: Tensor, new_tokens: int) -> tuple[State, Tensor]:
    """The state and the next logits of prompts (batch, length), padded on the right."""
    batch, length = rows.shape
    cosines, sines = rotary_tables(length, model.shape.rotary_width, rows.device)
    hidden = model.embedding(rows)
    room = (batch, model.shape.heads, length + new_tokens, model.shape.head_width)
    kept: tuple[list[Tensor], list[Tensor]] = ([], [])
    for block in model.blocks:
        query, key, value = block.attention.project(block.attention_norm(hidden), cosines, sines)
        for part, cache in zip((key, value), kept, strict=True):
            cache.append(part.new_zeros(room))
            cache[-1][:, :, :length] = part
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = block.feed_forward(hidden + block.attention.merge(mixed))
    last = hidden[torch.arange(batch, device=rows.device), lengths - 1]
    return State(model, *kept, tokens=rows[:, 0].clone(), positions=lengths.clone()), score(model, last)


def score(model: Transformer, states: Tensor) -> Tensor:
    """Logits (batch, vocabulary) of the last block's states (batch, width), without padded ids."""
    return F.linear(model.final_norm(states), model.embedding.weight[: model.shape.vocabulary])


def record(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The step as a CUDA graph, one launch instead of hundreds. It must have run once before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = step()

    def replay() -> Tensor:
        graph.replay()
        return scores

    return replay


def negative_log_likelihoods(
    model: Transformer, pairs: Sequence[Pair], batches: Iterable[Sequence[int]]
) -> Iterator[tuple[int, float]]:
    """Yield (position, nats) of `pairs` in `batches`: -log p of the continuation, summed."""
    for batch in batches:
        sums = score_batch(model, [pairs[position] for position in batch])
        yield from zip(batch, sums, strict=True)


@torch.inference_mode()
def score_batch(model: Transformer, pairs: Sequence[Pair]) -> list[float]:
    """-log p in nats of each pair's continuation, summed over its tokens in fp64."""
    device = model.embedding.weight.device
    lengths = [len(prompt) + len(continuation) - 1 for prompt, continuation in pairs]
    rows = torch.zeros(len(pairs), max(lengths), dtype=torch.long)
    owners, places, targets = [], [], []
    for number, (row, (prompt, continuation), length) in enumerate(zip(rows, pairs, lengths, strict=True)):
        ids = torch.from_numpy(np.concatenate([prompt, continuation]).astype(np.int64))
        row[:length] = ids[:-1]
        owners += [number] * len(continuation)
        places += range(len(prompt) - 1, length)
        targets.append(ids[len(prompt) :])
    states = model.hidden(rows.to(device))[torch.tensor(owners, device=device), torch.tensor(places, device=device)]
    losses = token_losses(model, states, torch.cat(targets).to(device))
    sums = torch.zeros(len(pairs), dtype=torch.float64)
    return sums.index_add_(0, torch.tensor(owners), losses).tolist()


def token_losses(model: Transformer, states: Tensor, targets: Tensor) -> Tensor:
    """-log p (n,) in nats, fp64 on the CPU, of `targets` (n,) from final `states` (n, width)."""
    weight = model.embedding.weight[: model.shape.vocabulary]
    parts = zip(states.split(SCORED_AT_ONCE), targets.split(SCORED_AT_ONCE), strict=True)
    losses = [F.cross_entropy(F.linear(part, weight).float(), own, reduction="none") for part, own in parts]
    return torch.cat(losses).double().cpu()
