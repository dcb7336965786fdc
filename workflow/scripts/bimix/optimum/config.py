"""The kinds of objectives: as a config and `--objective` have them, and their value. Without numpy, as
planning reads it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from bimix.blocks import Block, Faults, NoneEmpty, NotNegative, Some, described, key

NO_WEIGHT = "all weights are 0: one at least must be above 0."
# {kind: what a report calls it}
KINDS = {
    "weighted": "weighted average",
    "minimax": "worst loss over the reference's",
    "no_worse_than": "weighted average with no loss above the reference's by more than {margin:.3g}",
}
if TYPE_CHECKING:
    import numpy as np

LEAST_GROWTH = 0.05  # below it the effects of mixtures are all but gone, and nothing certifies a bound


def combined(
    kind: str, losses: "np.ndarray", weights: "np.ndarray", parts: Sequence[Sequence[int]], before: "np.ndarray | None"
) -> "np.ndarray":
    """The objective (...) of losses (..., d), predicted or measured, by weights (d,) of sum 1; minimax by the
    means of `parts`, positions of loss domains, over the reference's losses `before` (d,).
    """
    import numpy as np  # here only, for planning

    if kind == "minimax":
        return np.stack([(losses[..., part] / before[part]).mean(axis=-1) for part in parts]).max(axis=0)
    return np.where(weights > 0, losses, 0.0) @ weights


class ObjectiveKeys(Block):
    """What a mixture is best at; the reference is a mixture's name, of `--objective` also its file."""

    kind: Literal[tuple(KINDS)] = key(
        "The least average; the least worst loss over the reference's; or the average, no loss above the reference's.",
        default="weighted",
    )
    weights: described(dict[str, NotNegative], "a block of domains and their numbers") = key(
        "Of the families, or of loss domains where there are none.", "all alike", default={}
    )
    families: NoneEmpty[str, described(Some[str], "a list of domains")] = key(
        "Loss domains that count as one; others weigh 0.", "each by itself", default={}
    )
    reference: described(str, "the name of a mixture") = key(
        "The mixture that losses are compared with.", "the first of `compare`"
    )
    margin: NotNegative = key("Of `no_worse_than`: how far a loss may be above the reference's, relative.", default=0.0)
    effect_growth: described(float, f"a number, {LEAST_GROWTH} or more", ge=LEAST_GROWTH) = key(
        "Of `no_worse_than`: how many times larger log effects are at the model of the bound.", default=1.0
    )

    def faults(self) -> Faults:
        of: dict[str, str] = {}
        for family, members in self.families.items():
            for number, domain in enumerate(members):
                if of.setdefault(domain, family) != family:
                    sentence = f"{domain} is in {of[domain]} as well; leave it in one family."
                    yield ("families", family, number), sentence
        if self.weights and not any(self.weights.values()):
            yield "weights", NO_WEIGHT
        for name in ("margin", "effect_growth") if self.kind != "no_worse_than" else ():
            if name in self.model_fields_set:
                yield name, f"it is of the kind no_worse_than; {self.kind} has none."
