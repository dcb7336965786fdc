"""The size ladder: parameters are the model's; text, time and published formulas hold."""

import dataclasses
import itertools
import math

import pytest

from bimix.judge.budget import Device, cost
from bimix.model.transformer import Shape
from bimix.plan.budget import PlannedRuns
from bimix.settings import ladder
from bimix.settings.ladder import RUNGS, Bounds, Choice, choose
from bimix.training.costs import Stated

LAPTOP = Bounds(tokens=1e6, least=2e5, domains=3, flops=3.6e13, fitted=5, compared=5)


def spent(choice: Choice, bounds: Bounds, vocabulary: int, length: int) -> float:
    """FLOPs of all runs, without evaluations."""
    each = bounds.compared * choice.larger.flops(vocabulary, length)
    each += bounds.fitted * choice.proxy.flops(vocabulary, length)
    return choice.tokens(length) * each


def test_rungs_count_parameters_and_flops_as_the_model_does() -> None:
    for vocabulary, rung in itertools.product((512, 1000, 32768), RUNGS):
        shape = Shape(layers=rung.layers, width=rung.width, heads=rung.heads, vocabulary=vocabulary)
        assert rung.parameters(vocabulary) == shape.parameters
        assert rung.flops(vocabulary, 128) == shape.flops_per_token(128)
    for smaller, larger in itertools.pairwise(RUNGS):
        assert all(1.2 < larger.parameters(words) / smaller.parameters(words) < 4 for words in (512, 1000, 32768))


def test_a_choice_keeps_to_text_and_time() -> None:
    for tokens, flops, least in itertools.product((0, 1e5, 1e12), (1e12, 1e23), (0.001, 0.3)):
        bounds = dataclasses.replace(LAPTOP, tokens=tokens, least=tokens * least, flops=flops)
        choice = choose(bounds, 1024, 128)
        run, smallest = choice.tokens(128), 10 * 128  # ten steps of a row are the least run there is
        assert run <= max(4 * tokens, smallest)
        assert run <= max(16 * bounds.domains * bounds.least, smallest)
        shortest = dataclasses.replace(choice, steps=10, batch_rows=1)
        assert spent(choice, bounds, 1024, 128) <= max(flops, spent(shortest, bounds, 1024, 128))
        assert run <= 20 * choice.larger.parameters(1024)
        assert choice.steps % 10 == 0 and choice.steps >= 10 and choice.batch_rows >= 1
        assert RUNGS.index(choice.proxy) < RUNGS.index(choice.larger)
        assert 0 < choice.larger_rate <= choice.proxy_rate <= 3e-3
        assert 8 <= choice.validation_rows <= 512


def test_more_text_and_time_never_choose_a_smaller_model() -> None:
    def larger(tokens: float, flops: float) -> int:
        bounds = dataclasses.replace(LAPTOP, tokens=tokens, least=tokens / 5, flops=flops)
        return RUNGS.index(choose(bounds, 1024, 128).larger)

    powers = [10.0**power for power in range(5, 13)]
    by_text = [larger(tokens, 1e22) for tokens in powers]
    by_time = [larger(1e12, 10.0**power) for power in range(12, 24)]
    assert by_text == sorted(by_text) and by_time == sorted(by_time)
    assert by_text[0] == by_time[0] == 1 and by_text[-1] == by_time[-1] == len(RUNGS) - 1


def test_where_there_is_enough_a_run_has_twenty_tokens_a_parameter() -> None:
    choice = choose(dataclasses.replace(LAPTOP, tokens=1e12, least=1e11, flops=1e19), 32768, 1024)
    parameters = choice.larger.parameters(32768)
    assert choice.tokens(1024) == pytest.approx(20 * parameters, rel=0.05)
    assert choice.proxy.parameters(32768) == pytest.approx(parameters / 8, rel=0.5)
    compute = choice.tokens(1024) * choice.larger.flops(32768, 1024)
    assert choice.batch_rows * 1024 == pytest.approx(0.2920 * compute**0.3271, rel=0.42)  # a power of two of rows


def test_rates_are_those_of_the_published_fit() -> None:
    assert ladder.rate(1e20) == pytest.approx(0.3118 / math.sqrt(1e5), rel=0.03)  # 1e20^0.125 = 1e2.5
    assert ladder.rate(1e12) == 3e-3


def test_vocabulary_and_validation_fit_the_text() -> None:
    assert [ladder.vocabulary_size(text, "cpu") for text in (0, 10**5, 2 * 10**6, 10**9)] == [512, 512, 1024, 2048]
    assert ladder.vocabulary_size(10**9, "gpu") == 16384
    assert ladder.validation_share(10**9) == 0.01
    assert ladder.validation_share(2 * 10**6) == 0.03
    assert ladder.validation_share(0) == 0.1
    lengths = {"web": 4 * 10**6, "books": 10**6, "none": 0}
    longest = {"web": 20_000, "books": 6000, "none": 1000}
    assert ladder.longest_held_out(lengths, 3, 0.06) == longest
    assert ladder.longest_held_out({"": 8 * 10**6}, 2, 0.06) == longest["books"]
    assert ladder.smallest({"": 800}, 2) == 100 and ladder.smallest({"a": 3, "b": 2}, 2) == 2


def test_what_is_foreseen_is_what_the_plan_of_costs_says() -> None:
    shape, rate = {"layers": 4, "width": 128, "heads": 4}, {"name": "one", "flops": 2e9, "utilisation": 0.5}
    recipe = {"steps": 40, "batch_rows": 8, "evaluate_every": 10, "validation_rows": 4, "learning_rate": 1e-3}
    recipe |= {"final_learning_rate": 1e-4, "schedule": "exponential", "warmup_share": 0.0, "beta1": 0.9, "beta2": 0.95}
    recipe |= {"epsilon": 1e-8, "weight_decay": 0.1, "max_gradient_norm": 1.0, "precision": "fp32", "seed": 1}
    own = {"tokenizer": {"train": {"vocabulary": 1000}}, "sequence_length": 128, "domains": ["a", "b"], "corpus": {}}
    own |= {"training": dict.fromkeys("mgc", recipe), "reweighting": {"doge": recipe, "doremi": recipe}}
    own |= {"swarm": {"model": "m", "training": {"steps": 20}}, "groups": {"swarm": ["swarm_1"]}}
    models = {"m": {"shape": shape, "launch": {"gpus": 0, "nodes": 1}}}
    models["g"] = {"shape": shape, "launch": {"gpus": 2, "nodes": 1}}
    models["c"] = {"command": "x", "parameters": 1e6, "launch": {"gpus": 2, "nodes": 2}}
    config = {"hardware": {"cpu": rate, "gpu": rate}, "models": models, "datasets": {"d": own}}

    plain = Shape(**shape, vocabulary=1000)

    def hours(what: str, runs: int = 1, size=plain, **changes) -> float:
        return cost(
            PlannedRuns(what, "m", recipe | changes, runs, 0, 0), size, 128, 2, Device(**rate), 1
        ).device_hours_left

    def said(*jobs: tuple[str, str], run="se", others: int = 0, cores: int | None = 2, gpus: int = 0) -> str:
        names = [(rule, {"dataset": "d", "model": model, "run": run}) for rule, model in jobs]
        return ladder.foreseen(config, names, others, cores, gpus)

    runs = [("pretrain_model", "m")] * 3
    minutes = math.ceil((60 * hours("pretraining", 3) + 90 * ladder.JOB_SECONDS / 60) / 2)
    assert minutes > 3 and said(*runs, others=90).startswith(f"about {minutes} min on 2 idle cores, ")
    assert " min on 1 idle core, " in said(*runs, cores=1)
    assert said(*runs, cores=None).startswith(f"{hours('pretraining', 3):.2g} CPU hours, ")
    assert said(*runs, run="swarm_1", cores=None).startswith(f"{hours('pretraining', 3, steps=20):.2g} CPU hours, ")
    searched = hours("doge") + hours("doremi")
    rules = [("train_doge", "m"), ("train_doremi", "m")]
    assert said(*rules, cores=None).startswith(f"{searched:.2g} CPU hours, ")
    on_gpus = hours("pretraining") + hours("pretraining", size=Stated(1e6))
    line = said(("pretrain_model", "g"), ("run_trainer", "c"), others=90)
    assert line.startswith(f"{on_gpus:.2f} GPU hours ({on_gpus / 4:.2g} hours on 4 GPUs), ") and "min" not in line
    assert f"{on_gpus / 8:.2g} hours on 8 GPUs" in said(("pretrain_model", "g"), ("run_trainer", "c"), gpus=8)
    own["tokenizer"], rate["flops"] = {"hub": "EleutherAI/gpt-neox-20b"}, 1e6
    days = hours("pretraining", size=Shape(**shape, vocabulary=50_277)) / 48
    assert f"({days:.3g} days on 2 GPUs)" in said(("pretrain_model", "g"))
