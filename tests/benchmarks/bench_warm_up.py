"""How the recipes with and without a warm-up begin: a short run of one of them on real text.

Python's standard library -> held-out loss at quarters of the run, largest norm of the gradient

    python tests/benchmarks/bench_warm_up.py --recipe paper --model 280M --context 1024 \
        --vocabulary 50277 --precision bf16 --compile
    python tests/benchmarks/bench_warm_up.py --recipe paper --model proxy --context 128 \
        --vocabulary 2048 --steps 200 --batch-rows 8 --micro-batch 8 --megabytes 4 --cpu

The recipe's whole schedule, warm-up included, is shrunk to `--steps` updates. The text is cut into
rows, of which every 64th is held out; both runs see the same rows in the same order and begin with
the same weights. A loss or a gradient that is not finite ends it with an error.
"""

import math
import sys
import sysconfig
from pathlib import Path

import bench
import numpy as np
import torch
from accelerate import Accelerator
from bench_training import own_model
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bimix.model.transformer import Shape
from bimix.settings.complete import whole_recipes
from bimix.training.recipe import Recipe
from bimix.training.session import wrapping
from bimix.training.update import evaluate, update

HELD = 64  # of so many rows one is held out


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "--cpu", "--json", "--model", "--vocabulary", "--precision", "--compile")
    parser.add_argument("--recipe", choices=["paper", "paper_warm"], required=True, help="of workflow/defaults.yaml")
    parser.add_argument("--context", type=int, required=True, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=2000, help="updates")
    parser.add_argument("--batch-rows", type=int, default=32, help="rows of one update")
    parser.add_argument("--micro-batch", type=int, default=32, help="rows at once")
    parser.add_argument("--megabytes", type=float, default=1000, help="of text at most")
    options = parser.parse_args(argv)
    config = bench.shipped()
    config["training"] = whole_recipes(config["training"])
    settings = {"steps": options.steps, "batch_rows": options.batch_rows, "precision": options.precision}
    recipe = Recipe(**config["training"][options.recipe] | settings)
    rows, vocabulary = read_rows(options.megabytes, options.vocabulary, options.context)
    held = np.arange(len(rows)) % HELD == 0
    validation, rows = [rows[held][: 4 * options.batch_rows]], rows[~held]

    accelerator = Accelerator(cpu=options.cpu, mixed_precision=recipe.precision, kwargs_handlers=wrapping())
    torch.manual_seed(recipe.seed)
    shape = Shape(**config["models"][options.model]["shape"], vocabulary=vocabulary)
    model, optimizer = own_model(accelerator, shape, recipe, None, options.compile)
    draw = np.random.default_rng(recipe.seed)
    numbers: dict[str, float] = {"rows": len(rows)}
    largest = torch.zeros((), device=accelerator.device)
    quarters = {math.ceil(options.steps * share / 4): f"loss at {share}/4" for share in range(1, 5)}
    for step in range(options.steps):
        part = torch.from_numpy(rows[draw.integers(0, len(rows), recipe.batch_rows)])
        loss, norm = update(accelerator, model, optimizer, part, recipe, step, options.micro_batch)
        largest = torch.maximum(largest, norm)
        if step + 1 in quarters:
            if not (torch.isfinite(loss) and torch.isfinite(norm)):
                sys.exit(f"update {step + 1}: the loss is {loss.item()} and the gradient's norm {norm.item()}")
            own = quarters[step + 1]
            (numbers[own],) = evaluate(accelerator, model, validation, options.micro_batch)
            print(f"{own}: {numbers[own]:.4f}", flush=True)
    numbers["largest norm"] = largest.item()
    print(f"largest norm of the gradient: {numbers['largest norm']:.3f}, {len(rows)} rows, {vocabulary} ids")
    bench.keep(options.json, numbers)


def read_rows(megabytes: float, vocabulary: int, context: int) -> tuple[np.ndarray, int]:
    """Rows (n, context) of the standard library's Python files, and how many ids there are."""
    texts, size = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if size >= megabytes * 1e6 or "site-packages" in path.parts:
            continue
        texts.append(path.read_text(encoding="utf-8", errors="replace"))
        size += len(texts[-1])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    ids = np.concatenate([np.array(one.ids, dtype=np.int32) for one in tokenizer.encode_batch(texts)])
    return ids[: len(ids) // context * context].reshape(-1, context), tokenizer.get_vocab_size()


if __name__ == "__main__":
    main()
