"""What an update of DoReMi's proxy and of DoGE costs beside one of plain pretraining, in rounds
taken in turn.

workflow/defaults.yaml, rows made in memory -> seconds of an update of each, and their ratios to
plain pretraining

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_reweighting.py --model tiny --batch-rows 8 \
        --context 128 --vocabulary 2048 --domains 8 --cpu
    python tests/benchmarks/bench_reweighting.py --model 280M --batch-rows 64 --context 1024 \
        --vocabulary 50277 --domains 22 --precision bf16 --compile

All three train a model of their own, of one shape, on the same rows. Of a step of plain pretraining
a forward pass is a third, so that the reference makes DoReMi 1.33 at best. DoGE's passes are plain
pretraining's, a domain at a time; what it adds are the gradients of the domains, one model's size
each, and sums and products of them. The mix adds a row of each domain or an average domain's rows,
`--targets` domains elsewhere add theirs. On a CPU the seconds are those that the process computed,
so that what else the machine does counts less.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

import numpy as np
import yaml
from accelerate import Accelerator
from bench_training import make_store, synchronize

from bimix.model.transformer import Shape, Transformer
from bimix.reweighting.doge import MU, Doge, Goal, held_mix, reserve, target_rows
from bimix.reweighting.doremi import Doremi
from bimix.settings.complete import whole_recipes
from bimix.training.loop import Method, Plain
from bimix.training.order import Schedule
from bimix.training.recipe import Recipe
from bimix.training.session import Session
from bimix.training.update import Learner, batches, build_optimizer, compile_whole

ROOT = Path(__file__).parents[2]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="an entry of `models` in workflow/defaults.yaml")
    parser.add_argument("--batch-rows", type=int, required=True, help="rows of one update")
    parser.add_argument("--context", type=int, required=True, help="tokens of a row")
    parser.add_argument("--vocabulary", type=int, required=True, help="token ids")
    parser.add_argument("--domains", type=int, required=True)
    parser.add_argument("--targets", type=int, default=0, help="target domains of DoGE elsewhere")
    parser.add_argument("--micro-batch", type=int, help="rows at once (default: the model's entry)")
    parser.add_argument("--precision", choices=["no", "bf16"], default="no")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU even where there is a GPU")
    parser.add_argument("--steps", type=int, default=4, help="updates of one round")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each side; medians are printed")
    parser.add_argument("--json", type=Path, help="file of the numbers")
    options = parser.parse_args(argv)

    config = yaml.safe_load((ROOT / "workflow/defaults.yaml").read_text(encoding="utf-8"))
    config["training"] = whole_recipes(config["training"])
    entry = config["models"][options.model]
    launch = entry["launch"]
    micro_batch = options.micro_batch or (
        options.batch_rows if launch["micro_batch"] == "auto" else launch["micro_batch"]
    )
    recipe = Recipe(**config["training"]["demo"] | {"batch_rows": options.batch_rows, "precision": options.precision})
    store = make_store(options.vocabulary, options.context, options.domains)
    session = Session(
        accelerator=Accelerator(cpu=options.cpu, mixed_precision=options.precision),
        shape=Shape(**entry["shape"], vocabulary=options.vocabulary),
        recipe=recipe,
        indices={},
        domains=store.domains,
        evaluated=store.domains,
        train=store,
        held=[],
        loss_chunk=None if launch["loss_chunk"] == "all" else launch["loss_chunk"],
        micro_batch=micro_batch,
        compiled=options.compile,
        deadline=None,
        lock_seconds=0,
        tokenizer="",
        origin={},
    )
    reference = build(session).requires_grad_(False)
    elsewhere = make_store(options.vocabulary, options.context, max(options.targets, 1))
    goals = {"DoGE, mix": held_mix(session)}
    if options.targets:
        rows = target_rows(recipe.batch_rows, options.domains, options.targets)
        elsewhere = make_store(options.vocabulary, options.context, options.targets)
        goals["DoGE, targets"] = Goal(elsewhere, rows, together=False)
    methods = {"plain": Plain, "DoReMi": lambda learner: Doremi(learner, reference)}
    for name, goal in goals.items():
        methods[name] = lambda learner, goal=goal: Doge(learner, reserve(session, goal), MU, goal)
    sides = {name: loop(session, method) for name, method in methods.items()}
    seconds = {name: [] for name in sides}
    for advance in sides.values():
        advance(3)
    for _ in range(options.rounds):
        for name, advance in sides.items():
            seconds[name].append(advance(options.steps) / options.steps)
    numbers = {}
    for name, values in seconds.items():
        numbers[f"{name} ms"] = statistics.median(values) * 1000
        ratios = [own / plain for own, plain in zip(values, seconds["plain"], strict=True)]
        print(
            f"{name:13} {statistics.median(values) * 1000:9.1f} ms an update, {statistics.median(ratios):.2f} times plain"
            f" ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    if options.json:
        options.json.write_text(json.dumps(numbers), encoding="utf-8")


def build(session: Session) -> Transformer:
    """A new model on the session's device."""
    model = Transformer(session.shape, loss_chunk=session.loss_chunk).to(session.accelerator.device)
    if session.compiled:
        compile_whole(model)
    return model


def loop(session: Session, method: Callable[[Learner], Method]) -> Callable[[int], float]:
    """A function that makes so many updates of a new model and returns the seconds they took."""
    plain = build(session)
    model, optimizer = session.accelerator.prepare(plain, build_optimizer(plain, session.recipe))
    advance = method(Learner(session, plain, model, optimizer, session.micro_batch))
    domains = len(session.domains)
    clock = time.process_time if session.accelerator.device.type == "cpu" else time.perf_counter
    none = np.zeros(domains, dtype=np.int64)
    shares, steps = np.full(domains, 1 / domains), session.recipe.steps
    feed = batches(
        session.train, Schedule(shares[None]), session.recipe, none, steps, advance.own, False, advance.backwards
    )
    done = 0

    def make(steps: int) -> float:
        nonlocal done
        own = [next(feed) for _ in range(steps)]
        synchronize(session.accelerator.device)
        started = clock()
        for batch in own:
            advance.update(batch, done)
            done += 1
        synchronize(session.accelerator.device)
        return clock() - started

    return make


if __name__ == "__main__":
    main()
