"""Greedy answers to made-up prompts: items and tokens a second, beside transformers' generate in
the same process.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_generation.py --model larger \
        --vocabulary 2048 --items 200 --cpu
    python tests/benchmarks/bench_generation.py --model 1B --vocabulary 50277 --items 2000 \
        --cache-tokens 131072 --graphs

Both sides have the same random weights (ours exported), the same prompts in the same batches, and
write all new tokens. transformers gets them padded on the left, as it asks for. A token is one that
is read or written. Prompts have lengths as one-shot questions do; OMP_NUM_THREADS sets the threads
on a CPU.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bench
import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from bimix.model.export import neox_config, neox_weights
from bimix.model.generation import generate, plan_batches
from bimix.model.transformer import Shape, Transformer


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "--cpu", "--json", "--model", "--vocabulary", "--precision", "--rounds")
    parser.add_argument("--items", type=int, required=True, help="prompts of one round")
    parser.add_argument("--lengths", type=int, nargs=2, default=[30, 90], help="tokens of a prompt, from and to")
    parser.add_argument("--new-tokens", type=int, default=20)
    parser.add_argument("--cache-tokens", type=int, default=16384, help="tokens whose keys and values exist at once")
    parser.add_argument("--graphs", action="store_true", help="replay our step between two tokens as a CUDA graph")
    options = parser.parse_args(argv)

    config = bench.shipped()
    device = torch.device("cpu" if options.cpu or not torch.cuda.is_available() else "cuda")
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    shape = Shape(**config["models"][options.model]["shape"], vocabulary=options.vocabulary)
    torch.manual_seed(0)
    model = Transformer(shape)
    peer = as_transformers(model, options.lengths[1] + options.new_tokens).to(device, dtype)
    model = model.to(device, dtype)
    draw = np.random.default_rng(0)
    lengths = draw.integers(options.lengths[0], options.lengths[1] + 1, options.items)
    prompts = [draw.integers(0, options.vocabulary, length) for length in lengths]
    batches = plan_batches(lengths.tolist(), options.new_tokens, options.cache_tokens)

    sides: dict[str, Callable[[list[list[int]]], dict[int, list[int]]]] = {
        "bimix": lambda some: dict(generate(model, prompts, some, options.new_tokens, [], options.graphs)),
        "transformers": lambda some: by_transformers(peer, prompts, some, options.new_tokens),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    answers = {}
    for write in sides.values():
        write(batches[:1])
    for _ in range(options.rounds):
        for name, write in sides.items():
            started = time.perf_counter()
            answers[name] = write(batches)  # ends with the answers on the CPU, so the device is done
            seconds[name].append(time.perf_counter() - started)

    tokens = int(lengths.sum()) + options.items * options.new_tokens
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    print(
        f"{shape.layers} x {shape.width}, {shape.vocabulary:,} ids, {options.items} prompts of {lengths.min()} to"
        f" {lengths.max()} tokens, {options.new_tokens} new ones, {len(batches)} batches, precision {options.precision};"
        f" {device.type} ({where}), torch {torch.__version__}"
    )
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(f"{name:13} {options.items / middle:10,.1f} items/s {tokens / middle:12,.0f} tokens/s")
    ratios = [peer / own for own, peer in zip(seconds["bimix"], seconds["transformers"], strict=True)]
    print(f"ratio         {statistics.median(ratios):10.2f}   {min(ratios):.2f} to {max(ratios):.2f}")
    same = sum(answers["bimix"][item] == answers["transformers"][item] for item in range(options.items))
    print(f"same answers  {same} of {options.items}")
    numbers = {f"{name} items/s": options.items / statistics.median(values) for name, values in seconds.items()}
    numbers |= {"times transformers": statistics.median(ratios), "same answers": same / options.items}
    bench.keep(options.json, numbers)


def as_transformers(model: Transformer, context: int) -> PreTrainedModel:
    """The same model as transformers loads it from its export."""
    with tempfile.TemporaryDirectory() as folder:
        weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
        save_file(neox_weights(weights, model.shape), Path(folder, "model.safetensors"), metadata={"format": "pt"})
        Path(folder, "config.json").write_text(json.dumps(neox_config(model.shape, context, 0)))
        return AutoModelForCausalLM.from_pretrained(folder).eval()


def by_transformers(
    model: PreTrainedModel, prompts: list[np.ndarray], batches: list[list[int]], new_tokens: int
) -> dict[int, list[int]]:
    """Continuations by `generate`, batch by batch, padded on the left."""
    written = {}
    for batch in batches:
        longest = max(len(prompts[position]) for position in batch)
        rows = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(rows)
        for row, position in enumerate(batch):
            rows[row, longest - len(prompts[position]) :] = torch.from_numpy(prompts[position])
            mask[row, longest - len(prompts[position]) :] = 1
        out = model.generate(
            rows.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=new_tokens,
            do_sample=False,
            eos_token_id=-1,
            pad_token_id=0,
        )
        written |= dict(zip(batch, out[:, longest:].tolist(), strict=True))
    return written


if __name__ == "__main__":
    main()
