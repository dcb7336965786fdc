"""FLOPs and bytes of a training, estimated before it and without torch."""

from dataclasses import dataclass

from bimix.model.shape import Shape
from bimix.training.recipe import Recipe

WEIGHT_BYTES = 4  # fp32, as they are trained and written
STATE_BYTES = 3 * WEIGHT_BYTES  # a checkpoint has the weights and AdamW's two moments
CHECKPOINTS = 2  # that a run keeps


@dataclass(frozen=True)
class Stated:
    """A model of which only the parameters are known, as a user's own command trains it."""

    parameters: float

    def flops_per_token(self, row_length: int) -> float:
        """FLOPs of a training token."""
        return 6 * self.parameters


Size = Shape | Stated


@dataclass(frozen=True)
class Device:
    """One accelerator or CPU thread: peak `flops` a second, and the share that trainings reach."""

    name: str
    flops: float
    utilisation: float

    def hours(self, flops: float) -> float:
        """Hours that so many FLOPs take."""
        return flops / (self.flops * self.utilisation) / 3600


def mix_rows(batch_rows: int, domains: int) -> int:
    """Rows of the mix in an update: those of an average domain (DoGE's code), or one of each."""
    return max(domains, -(-batch_rows // domains))


def vector_flops(parameters: int, domains: int) -> int:
    """FLOPs of an update on whole gradients: norms, inner products, the weighted sum."""
    return 2 * parameters * (3 * domains + 2)


def run_flops(shape: Size, recipe: Recipe, sequence_length: int, domains: int) -> float:
    """FLOPs of one run: 6N + 12 L d T per training token, a third of that per evaluated token."""
    evaluated = len(recipe.measured) * domains * recipe.validation_rows
    rows = recipe.steps * recipe.batch_rows + evaluated / 3
    return rows * sequence_length * shape.flops_per_token(sequence_length)


def search_factor(what: str, shape: Size, recipe: Recipe, sequence_length: int, domains: int) -> float:
    """FLOPs of a kind of training relative to plain pretraining.

    doremi: the reference's forward pass in addition to the proxy's; doge: the rows of the mix of
    all domains, and the work on whole gradients.
    """
    if what == "doremi":
        return 4 / 3
    if what == "doge":
        step = recipe.batch_rows * sequence_length * shape.flops_per_token(sequence_length)
        work = vector_flops(shape.parameters, domains)
        return 1 + mix_rows(recipe.batch_rows, domains) / recipe.batch_rows + work / step
    return 1.0


def run_bytes(what: str, shape: Size) -> int:
    """Bytes on disk of a run: kept checkpoints, and weights where its model is an output."""
    return shape.parameters * (CHECKPOINTS * STATE_BYTES + WEIGHT_BYTES * (what == "pretraining"))
