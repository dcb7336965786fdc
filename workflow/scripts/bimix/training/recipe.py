"""The training settings of a model, without torch, since planning reads them.

The learning rate is a pure function of the step, so that resuming needs no scheduler state.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property

from bimix.plan.dataset import evaluations

DOREMI_RESIDUE = 1e-10
DECAY_SHARE = 0.1  # of a horizon: that of the authors of WSD-S


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


def wsds(step: int, horizons: Sequence[int], peak: float, final: float, decay_share: float) -> float:
    """Rate of update `step` of WSD-S after its warm-up: `peak`, and a linear decay to `final` at
    the end of each of the `horizons`, the last being the run's end; after it `peak` again at once.

    The decay to a horizon of h steps takes `decay_share` of h. A run goes on from the decayed
    weights, so one run has annealed losses at all of its horizons (Wen et al. 2024, "Understanding
    Warmup-Stable-Decay Learning Rates: A River Valley Loss Landscape Perspective",
    arXiv 2410.05192). Linear, over a tenth, to a tenth and without a second warm-up are the
    settings of its authors' runs (WhenWen/levanter, config/llama2_100M_wsds.yaml).
    """
    end = next((horizon for horizon in horizons if step < horizon), horizons[-1])
    length = decay_steps(end, decay_share)
    done = min(max(step + 1 - (end - length), 0) / length, 1)
    return peak + (final - peak) * done


def decay_steps(horizon: int, share: float) -> int:
    """Updates of the decay that ends at a horizon, one at least."""
    return max(1, round(share * horizon))


def schedule_fault(recipe: dict) -> tuple[str, str] | None:
    """The key of a contradiction in a recipe's schedule and a sentence, or None."""
    steps, horizons = recipe["steps"], recipe.get("horizons", [])
    peak, final = recipe["learning_rate"], recipe["final_learning_rate"]
    if final > peak:
        return "final_learning_rate", f"{final:g} is above the peak, learning_rate {peak:g}: lower it as well."
    if recipe["schedule"] != "wsds":
        sentence = f"only the schedule wsds decays to horizons, and this recipe's is {recipe['schedule']}."
        return ("horizons", sentence) if horizons else None
    every, share = recipe["evaluate_every"], recipe.get("decay_share", DECAY_SHARE)
    if horizons and horizons[-1] >= steps:
        return "horizons", f"{horizons[-1]:,} is not before the end of the run, {steps:,}, which is a horizon anyway."
    for horizon in horizons:
        if horizon % every:
            return "horizons", f"{horizon:,} is not measured, as losses are every {every:,} steps (evaluate_every)."
    stable, what = math.ceil(recipe["warmup_share"] * steps), "the warm-up ends,"
    for horizon in [*horizons, steps]:
        begin = horizon - decay_steps(horizon, share)
        if begin < stable:
            return "horizons", (
                f"the decay to {horizon:,} begins at step {begin:,}, before {what} {stable:,}: set horizons in rising"
                " order and further apart, or decay_share or warmup_share lower."
            )
        stable, what = horizon, "the one before it ends,"
    return None


@dataclass(frozen=True)
class Recipe:
    """The training settings of a model.

    Every field changes the result (units: rows, updates, rates per update). `pool_share`: the share
    of each domain's training rows that this run may read. Below 1 a small run can repeat its
    domains as often as the large one (matched repetition, arXiv 2606.07597). `horizons` and
    `decay_share` are those of the schedule `wsds`; horizons are steps, without the last.
    `optimizer`: adamw or muon.
    """

    steps: int
    batch_rows: int
    evaluate_every: int
    validation_rows: int
    learning_rate: float
    final_learning_rate: float
    schedule: str
    warmup_share: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    max_gradient_norm: float
    precision: str
    seed: int
    pool_share: float = 1.0
    horizons: tuple[int, ...] = ()
    decay_share: float = DECAY_SHARE
    optimizer: str = "adamw"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizons", tuple(self.horizons))  # of JSON a list

    def settings(self) -> dict:
        """The fields for run.json and fingerprints, without defaults, so that a new key does not
        change old fingerprints.
        """
        usual = {field.name: field.default for field in fields(self)}
        said = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return said | {"horizons": list(self.horizons)} if self.horizons else said

    def rate(self, step: int) -> float:
        """Learning rate of update `step`, from 0: a linear warm-up, then the schedule's."""
        peak, final = self.learning_rate, self.final_learning_rate
        warmup = 0 if self.schedule == "exponential" else math.ceil(self.warmup_share * self.steps)
        if step < warmup:
            return peak * (step + 1) / warmup
        if self.schedule == "wsds":
            return wsds(step, (*self.horizons, self.steps), peak, final, self.decay_share)
        return SCHEDULES[self.schedule]((step - warmup) / max(self.steps - warmup, 1), peak, final)

    def evaluates(self, step: int) -> bool:
        """Whether the losses are measured after `step` updates."""
        return step in self.measured

    @cached_property
    def measured(self) -> frozenset[int]:
        """Steps at which the losses are measured."""
        return frozenset(evaluations(asdict(self)))
