"""The hours that a call says before its first job are those of the plan of costs."""

import math

from bimix.judge.budget import Device, cost
from bimix.model.shape import Shape
from bimix.plan import forecast
from bimix.plan.budget import PlannedRuns
from bimix.training.costs import Stated


def test_what_is_foreseen_is_what_the_plan_of_costs_says() -> None:
    shape, rate = {"layers": 4, "width": 128, "heads": 4}, {"name": "one", "flops": 2e9, "utilisation": 0.5}
    recipe = {"steps": 40, "batch_rows": 8, "evaluate_every": 10, "validation_rows": 4, "learning_rate": 1e-3}
    recipe |= {"final_learning_rate": 1e-4, "schedule": "exponential", "warmup_share": 0.0, "beta1": 0.9, "beta2": 0.95}
    recipe |= {"epsilon": 1e-8, "weight_decay": 0.1, "max_gradient_norm": 1.0, "precision": "no", "seed": 1}
    own = {"tokenizer": {"train": {"vocabulary": 1000}}, "sequence_length": 128, "domains": ["a", "b"], "corpus": {}}
    own |= {"training": dict.fromkeys("mgc", recipe), "reweighting": {"doge": recipe, "doremi": recipe}}
    own |= {"swarm": {"model": "m", "training": recipe | {"steps": 20}}, "groups": {"swarm": ["swarm_1"]}}
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
        return forecast.training_hours(config, names, others, cores, gpus)

    runs = [("pretrain_model", "m")] * 3
    minutes = math.ceil((60 * hours("pretraining", 3) + 90 * forecast.JOB_SECONDS / 60) / 2)
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
