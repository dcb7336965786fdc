"""Updates of many small models on one device: one by one, each as a CUDA graph, and with stacked
weights.

-> milliseconds of an update of one model, each way, and how many times faster than one by one

    python tests/benchmarks/bench_stacked.py --count 16 --rows 8 --cpu
    python tests/benchmarks/bench_stacked.py --count 64 --rows 8 --compile

All models have the demo's shape and start from their own weights. Stacked, each product of the
models is one batched product, attention one over models x rows, and the norms of the gradients are
taken and clipped model by model. Before anything is timed, the ways' losses after three updates are
held against each other. A graph has the whole update in it, AdamW too, and is recorded once
for each model; without CUDA there is none. Ways take turns. Seconds on a CPU are those of its
threads.
"""

import statistics
import sys
import time
from collections.abc import Callable

import bench
import torch
import torch.nn.functional as F
from bench_training import synchronize
from torch import Tensor, nn

from bimix.model.transformer import NORM_EPSILON, Shape, Transformer, rotary_tables, rotate

TOLERANCE = 1e-3  # of losses after three updates, fp32 on both sides
WARM_UP = 3  # updates that a graph has behind it when it is recorded
MAX_NORM = 1.0
CLIP_EPSILON = 1e-6  # that of torch.nn.utils.clip_grad_norm_


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "--cpu", "--json", "--rounds")
    parser.add_argument("--count", type=int, required=True, help="models")
    parser.add_argument("--rows", type=int, required=True, help="rows of an update of one model")
    parser.add_argument("--length", type=int, default=128, help="tokens of a row")
    parser.add_argument("--vocabulary", type=int, default=2048, help="token ids")
    parser.add_argument("--compile", action="store_true", help="compile both forward passes")
    options = parser.parse_args(argv)
    device = torch.device("cpu" if options.cpu else "cuda")
    shape = Shape(layers=2, width=64, heads=2, vocabulary=options.vocabulary)
    torch.manual_seed(0)
    models = [Transformer(shape).to(device) for _ in range(options.count)]
    rows = torch.randint(0, shape.vocabulary, (options.count, options.rows, options.length), device=device)
    ways = {"one by one": one_by_one(models, rows, options.compile)}
    if device.type == "cuda":
        ways["graphs"] = as_graphs(models, rows, options.compile)
    ways["stacked"] = at_once(models, rows, options.compile)
    fourth = {name: after(way, WARM_UP + 1 - (WARM_UP if name == "graphs" else 0)) for name, way in ways.items()}
    for name, losses in fourth.items():
        apart = (losses - fourth["one by one"]).abs().max().item()
        if not apart <= TOLERANCE:
            sys.exit(f"{name}: the losses of the fourth update differ by {apart:.2g} from those of one by one")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    for _ in range(options.rounds):
        for name, way in ways.items():
            synchronize(device)
            begun = clock()
            way()
            synchronize(device)
            seconds[name].append(clock() - begun)
    numbers = {}
    for name, values in seconds.items():
        numbers[f"{name} ms"] = statistics.median(values) / options.count * 1000
        if name != "one by one":
            ratios = [alone / own for alone, own in zip(seconds["one by one"], values, strict=True)]
            numbers[f"{name}, times"] = statistics.median(ratios)
    for name, value in numbers.items():
        print(f"{name:16} {value:9.3f}")
    bench.keep(options.json, numbers)


def after(way: Callable[[], Tensor], updates: int) -> Tensor:
    """The losses that the last of so many updates begins with."""
    return [way().clone() for _ in range(updates)][-1]


def one_by_one(models: list[Transformer], rows: Tensor, compiled: bool) -> Callable[[], Tensor]:
    """A function that makes one update of copies of all models and returns their losses."""
    own = [copy_of(model) for model in models]
    steps = [step_of(model, part, compiled, capturable=False) for model, part in zip(own, rows, strict=True)]
    return lambda: torch.stack([step() for step in steps])


def as_graphs(models: list[Transformer], rows: Tensor, compiled: bool) -> Callable[[], Tensor]:
    """The same, each model's update recorded as a CUDA graph."""
    replays, losses = [], []
    for model, part in zip(models, rows, strict=True):
        step = step_of(copy_of(model), part, compiled, capturable=True)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            losses.append(step())
        replays.append(graph.replay)

    def replay_all() -> Tensor:
        for replay in replays:
            replay()
        return torch.stack(losses)

    return replay_all


def copy_of(model: Transformer) -> Transformer:
    made = Transformer(model.shape).to(model.embedding.weight.device)
    made.load_state_dict(model.state_dict())
    return made


def step_of(model: Transformer, rows: Tensor, compiled: bool, capturable: bool) -> Callable[[], Tensor]:
    """One update of one model on always the same rows; returns its loss before it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=not capturable, capturable=capturable)
    if compiled:
        model.compile(dynamic=False)

    def step() -> Tensor:
        loss = model(rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return step


def at_once(models: list[Transformer], rows: Tensor, compiled: bool) -> Callable[[], Tensor]:
    """The same with the weights of all models stacked, (models, ...)."""
    stacked = StackedTransformer(models)
    optimizer = torch.optim.AdamW(stacked.parameters(), lr=1e-3, fused=True)
    if compiled:
        stacked.compile(dynamic=False)

    def step() -> Tensor:
        losses = stacked(rows)
        losses.sum().backward()
        stacked.clip(MAX_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return losses.detach()

    return step


class StackedTransformer(nn.Module):
    """All of the `models` as one: each of its weights is (models, ...), in their order."""

    def __init__(self, models: list[Transformer]) -> None:
        super().__init__()
        self.shape, self.count = models[0].shape, len(models)
        self.names = [name for name, _ in models[0].named_parameters()]
        own = [dict(model.named_parameters()) for model in models]
        self.weights = nn.ParameterList(torch.stack([one[name].detach() for one in own]) for name in self.names)

    @torch.no_grad()
    def clip(self, largest_norm: float) -> None:
        """Scale the gradients of each model to a norm of `largest_norm` at most."""
        gradients = [weight.grad for weight in self.weights]
        norms = torch.stack([torch.linalg.vector_norm(own.flatten(1), dim=1) for own in gradients])
        norms = torch.linalg.vector_norm(norms, dim=0)
        factors = (largest_norm / (norms + CLIP_EPSILON)).clamp(max=1)
        for own in gradients:
            own.mul_(factors.view(-1, *[1] * (own.dim() - 1)))

    def forward(self, rows: Tensor) -> Tensor:
        """Mean losses (models,) in nats of the models on their `rows` (models, batch, length)."""
        tokens, targets = rows[..., :-1], rows[..., 1:].flatten()
        count, batch, length = tokens.shape
        shape, weights = self.shape, dict(zip(self.names, self.weights, strict=True))

        def norm(name: str, states: Tensor) -> Tensor:
            plain = F.layer_norm(states, (shape.width,), eps=NORM_EPSILON)
            return plain * weights[f"{name}.weight"][:, None] + weights[f"{name}.bias"][:, None]

        def linear(name: str, states: Tensor) -> Tensor:
            return torch.baddbmm(weights[f"{name}.bias"][:, None], states, weights[f"{name}.weight"].transpose(1, 2))

        embedding = weights["embedding.weight"]
        offsets = torch.arange(count, device=tokens.device)[:, None] * shape.padded_vocabulary
        hidden = F.embedding(tokens.flatten(1) + offsets, embedding.flatten(0, 1))
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
        padding = F.pad(
            embedding.new_zeros(shape.vocabulary), (0, embedding.shape[1] - shape.vocabulary), value=-torch.inf
        )
        scores = torch.baddbmm(padding[None, None], norm("final_norm", hidden), embedding.transpose(1, 2))
        losses = F.cross_entropy(scores.flatten(0, 1).float(), targets, reduction="none")
        return losses.view(count, -1).mean(1)


if __name__ == "__main__":
    main()
