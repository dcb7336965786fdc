"""How many mixtures each law needs: with fewer, losses do not determine its numbers."""

from collections.abc import Callable

# Of m training domains. What transfer lacks in runs its ridge decides. Below ten mixtures LightGBM
# splits nothing and predicts their mean.
LEAST_RUNS: dict[str, Callable[[int], int]] = {
    "bimix": lambda m: 2,
    "transfer": lambda m: 2,
    "exponential": lambda m: m + 2,
    "regmix": lambda m: 10,
}
