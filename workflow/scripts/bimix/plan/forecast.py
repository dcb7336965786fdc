"""What the trainings of a call will take: the hours of their devices and the disk that they fill."""

import math
from collections.abc import Iterable, Mapping

from bimix.model.shape import UNKNOWN_VOCABULARY, Shape
from bimix.plan.budget import known_ids
from bimix.plan.dataset import Dataset
from bimix.plan.inputs import kept_steps
from bimix.training.costs import WEIGHT_BYTES, Stated, run_bytes, run_flops, search_factor
from bimix.training.recipe import Recipe

JOB_SECONDS = 2  # CPU seconds of a job that trains nothing, measured on the demo
TRAINED = {"train_doremi": "doremi", "train_doge": "doge"}  # kinds of training by rule


def training_hours(
    config: Mapping, jobs: Iterable[tuple[str, Mapping[str, str]]], others: int, cores: int | None, gpus: int
) -> str:
    """What trainings (rule and wildcards) take by `hardware`, as the plan of costs has it: GPU hours,
    with the days that these are on `gpus`, or (0) on those of the largest run; without any the minutes of
    the `others`, too, on idle `cores`, or CPU hours where jobs run elsewhere; disk.
    """
    hours, stored, largest = {"cpu": others * JOB_SECONDS / 3600, "gpu": 0.0}, 0.0, 1
    for rule, names in jobs:
        dataset, model = Dataset(config, names["dataset"]), names["model"]
        own, length = config["models"][model], dataset.block["sequence_length"]
        launch, size = own["launch"], Stated(own.get("parameters", 0))
        if "shape" in own:
            size = Shape(**own["shape"], vocabulary=known_ids(dataset) or UNKNOWN_VOCABULARY)
        what, kept = TRAINED.get(rule, "pretraining"), 0
        if what == "pretraining":
            recipe, steps = dataset.recipe(model, names["run"]), kept_steps(dataset, model, names["run"])
            kept = sum(step != "none" and int(step) < recipe["steps"] for step in steps.split(","))
        else:
            recipe = dataset.block["reweighting"][what]
        given = (size, Recipe(**recipe), length, len(dataset.block["domains"]) + len(dataset.only_measured))
        kind = "gpu" if launch["gpus"] else "cpu"
        flops = run_flops(*given) * search_factor(what, *given)
        hours[kind] += flops / config["hardware"][kind]["flops"] / config["hardware"][kind]["utilisation"] / 3600
        stored += run_bytes(what, size) + kept * WEIGHT_BYTES * size.parameters
        largest = max(largest, launch["gpus"] * launch["nodes"])
    disk = f"{stored / 1e9:.2g} GB" if stored < 1e11 else f"{stored / 1e9:,.0f} GB"
    return ", ".join([*_device_hours(hours, cores, gpus or largest), f"{disk} of weights and checkpoints"])


def _device_hours(hours: Mapping[str, float], cores: int | None, gpus: int) -> list[str]:
    """The hours of each kind of device in words, those of idle cores where no GPU takes longer."""
    said = []
    if hours["gpu"]:
        each = hours["gpu"] / gpus
        time = f"{each / 24:.3g} days" if each > 48 else f"{each:.2g} hours"
        said = [
            f"{hours['gpu']:,.{0 if hours['gpu'] >= 10 else 2}f} GPU hours ({time} on {gpus} GPU{'s' * (gpus > 1)})"
        ]
    if cores and not said:
        said = [f"about {max(1, math.ceil(60 * hours['cpu'] / cores))} min on {cores} idle core{'s' * (cores > 1)}"]
    return said or [f"{hours['cpu']:.2g} CPU hours"]
