"""The training settings of a model, without torch, since planning reads them.

The learning rate is a pure function of the step, so that resuming needs no scheduler state.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from bimix.blocks import Block, Count, Natural, NotNegative, Positive, Share, need
from bimix.errors import InputError

DOREMI_RESIDUE = 1e-10


def exponential(done: float, peak: float, final: float) -> float:
    """peak * (final/peak)^done (paper Sec. 4, Training Details)."""
    return peak * (final / peak) ** done


def doremi(done: float, peak: float, final: float) -> float:
    """The DoReMi code's final + (peak - final) g^t, with g such that (peak - final) g^T = 1e-10.

    It is nearly constant at `final` after two fifths of the run. With `final` equal to `peak` it is
    constant.
    """
    span = peak - final
    return final + span * (DOREMI_RESIDUE / span) ** done if span else final


def cosine(done: float, peak: float, final: float) -> float:
    """Half a cosine from `peak` to `final` (the DoGE code)."""
    return final + (peak - final) * (1 + math.cos(math.pi * done)) / 2


# Rates after the warm-up by the fraction `done` of the remaining updates. `exponential` has no
# warm-up, as the paper names none.
SCHEDULES: dict[str, Callable[[float, float, float], float]] = {
    "exponential": exponential,
    "warm_exponential": exponential,
    "doremi": doremi,
    "cosine": cosine,
}


def rate_fault(recipe: dict) -> str | None:
    """A sentence where the final rate of a recipe is above its peak, or None."""
    peak, final = recipe["learning_rate"], recipe["final_learning_rate"]
    return f"{final:g} is above the peak, learning_rate {peak:g}: lower it as well." if final > peak else None


class RecipeKeys(Block):
    """The training settings of a model in a config."""

    steps: Annotated[int, Field(ge=1, le=10**8)] = need("Updates.")
    batch_rows: Count = need("Rows of an update.")
    evaluate_every: Count = need("Steps between two evaluations of the losses.")
    validation_rows: Count = need("Validation rows of each domain, at most.")
    learning_rate: Positive = need("Peak rate.")
    final_learning_rate: Positive = need("Rate at the end, at most the peak.")
    schedule: Literal["exponential", "warm_exponential", "doremi", "cosine"] = need(
        "`exponential`, the paper's; `warm_exponential`, after a warm-up; `doremi`, after it all but flat; `cosine`, "
        "after it."
    )
    warmup_share: Share = need("Share of the steps; `exponential` has none.")
    beta1: Share = need("Of AdamW.")
    beta2: Share = need("Of AdamW.")
    epsilon: Positive = need("Of AdamW.")
    weight_decay: NotNegative = need("Of AdamW.")
    max_gradient_norm: Positive = need("Norm to which larger gradients are clipped.")
    precision: Literal["no", "bf16"] = need('`"no"` is fp32.')
    seed: Natural = need("Seed of the initial weights and the order of rows.")


class Recipe(RecipeKeys):
    """The training settings of a run: each changes its result (units: rows, updates, rates per update).

    `pool_share`: the share of each domain's training rows that this run may read. Below 1 a small run
    can repeat its domains as often as the large one (matched repetition, arXiv 2606.07597).
    """

    pool_share: Annotated[float, Field(gt=0, le=1)] = 1.0

    def settings(self) -> dict:
        """The fields for run.json and fingerprints, without defaults, so that a new key does not
        change old fingerprints.
        """
        return {
            name: value for name, value in self.model_dump().items() if value != type(self).model_fields[name].default
        }

    def rate(self, step: int) -> float:
        """Learning rate of update `step`, from 0: a linear warm-up, then the schedule's."""
        peak, final = self.learning_rate, self.final_learning_rate
        warmup = 0 if self.schedule == "exponential" else math.ceil(self.warmup_share * self.steps)
        if step < warmup:
            return peak * (step + 1) / warmup
        return SCHEDULES[self.schedule]((step - warmup) / max(self.steps - warmup, 1), peak, final)

    def evaluates(self, step: int) -> bool:
        """Whether the losses are measured after `step` updates."""
        return step in self.measured

    @cached_property
    def measured(self) -> frozenset[int]:
        """Steps at which the losses are measured."""
        return frozenset(evaluations(self))


def evaluations(recipe: Mapping) -> list[int]:
    """Steps at which a training measures its losses: every `evaluate_every` and the last."""
    every, last = recipe["evaluate_every"], recipe["steps"]
    return [*range(every, last, every), last]


def first_updates(shares: Sequence[float], steps: int, source: str) -> tuple[int, ...]:
    """The first update, from 0, of each stage of a run of `steps`. Errors: a stage has none."""
    starts = [round(math.fsum(shares[:number]) * steps) for number in range(len(shares))]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], steps], strict=True), start=1):
        if end <= start:
            share = f"stage {number} has a share of {shares[number - 1]:g}"
            raise InputError(f"{source}: {share}, which of {steps} updates is none.")
    return tuple(starts)
