"""Divide a budget of FLOPs between a model's parameters and its tokens, with the best mixture.

coefficients.json of a law over sizes -> allocation.json (flops, parameters, tokens, objective,
mixture, warnings) and a table of sizes next to the best one

FLOPs are 6 x parameters x tokens, with parameters counted as in the losses that the law was fitted
to. The mixture is optimised again at each size: fewer parameters read more tokens, and repeat
scarce text more often.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from bimix.errors import InputError, run
from bimix.laws.document import checked_law
from bimix.mixtures.mixture import as_mixture
from bimix.optimum.flags import add_flags, note_unlimited
from bimix.optimum.optimum import Sought
from bimix.outputs import write_json
from bimix.search.sizes import FLOPS
from bimix.tables import read_numbers, read_tokens
from bimix.transfer.sizes import FAR_APART

ASKED = 12  # sizes that are tried before the search, evenly by their logarithm
SHOWN = (0.25, 0.5, 1, 2, 4)  # times the best number of parameters, in the table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py, of several sizes")
    parser.add_argument("--flops", type=float, required=True, help="the budget")
    add_flags(parser, "bounds", "objective")
    parser.add_argument("--out", type=Path, required=True, help="allocation.json")
    options = parser.parse_args(argv)
    if not 0 < options.flops < float("inf"):
        raise InputError(f"--flops is {options.flops:g}: it must be a finite number above 0.")
    fitted = checked_law(options.coefficients)
    groups = fitted_groups(fitted, options.coefficients)
    pools = read_tokens(options.tokens) if options.tokens else None
    upper = read_numbers(options.upper) if options.upper else None
    note_unlimited(fitted, pools, options.flops)  # a run of some length, which follows

    def at(log_parameters: float) -> dict:
        """The best mixture for a model of so many parameters, and its value."""
        parameters = float(np.exp(log_parameters))
        tokens = options.flops / (FLOPS * parameters)
        run = {"parameters": parameters, "run_tokens": tokens}
        sought = Sought.of(argparse.Namespace(**vars(options) | run), fitted, fitted["steps"][-1])
        shares = sought.shares()
        value = float(sought.goal.value(shares))
        return {"parameters": parameters, "tokens": tokens, "objective": value, "shares": shares}

    sizes = np.log([one[0] for one in groups])
    low, high = sizes.min() - np.log(FAR_APART), sizes.max() + np.log(FAR_APART)
    if options.max_epochs is not None and pools and all(name in pools for name in fitted["domains"]):
        text = most_tokens(
            options.max_epochs, np.array([pools[name] for name in fitted["domains"]]), upper, fitted["domains"]
        )
        low = max(low, np.log(1.001 * options.flops / (FLOPS * text)))  # fewer parameters read more than there is
        if low >= high:
            raise InputError(
                f"--max-epochs {options.max_epochs:g} leaves {text:.3g} tokens, and {options.flops:.3g} FLOPs on them are a model of"
                f" {np.exp(low):.3g} parameters, more than {FAR_APART} times those fitted."
            )
    tried = np.linspace(low, high, ASKED)
    near = int(np.argmin([at(one)["objective"] for one in tried]))
    ends = tried[max(near - 1, 0)], tried[min(near + 1, ASKED - 1)]
    found = minimize_scalar(lambda one: at(one)["objective"], bounds=ends, method="bounded", options={"xatol": 0.01})
    best = at(found.x)
    warnings = doubts(best, groups, near in (0, ASKED - 1))
    mixture = as_mixture(fitted["domains"], best.pop("shares")).document()
    write_json(options.out, {"flops": options.flops, **best, "mixture": mixture, "warnings": warnings})
    for text in warnings:
        print(f"warning: {text}", file=sys.stderr)
    print(f"{'parameters':>12}  {'tokens':>10}  {'tokens/parameter':>16}  {'objective':>9}  {'% above best':>12}")
    for times in SHOWN:
        log_parameters = float(np.log(best["parameters"] * times))
        if log_parameters < low:
            continue
        one = best if times == 1 else at(log_parameters)
        print(
            f"{one['parameters']:12.4g}  {one['tokens']:10.4g}  {one['tokens'] / one['parameters']:16.3g}"
            f"  {one['objective']:9.4f}  {100 * (one['objective'] / best['objective'] - 1):+12.2f}"
        )


def most_tokens(epochs: float, pools: np.ndarray, upper: dict[str, float] | None, domains: list[str]) -> float:
    """Tokens of the longest run in which all keep to their epochs and their upper shares."""
    caps, whole = np.array([(upper or {}).get(name, 1.0) for name in domains]), epochs * pools.sum()

    def spare(tokens: float) -> float:
        return np.minimum(caps, epochs * pools / tokens).sum() - 1

    low = 1e-9 * whole
    if spare(whole) >= -1e-12 or spare(low) <= 0:  # no cap binds, or none leaves a mixture: run_bounds says so
        return whole
    return brentq(spare, low, whole)


def fitted_groups(fitted: dict, path: Path) -> list[tuple[float, float]]:
    """(parameters, tokens) of the groups fitted. Errors: no law over sizes and tokens."""
    size = next(iter(fitted["coefficients"].values())).get("size")
    if size is None or size["tokens"] is None:
        raise InputError(
            f"{path} is no law over sizes and tokens: fit the law transfer to losses of two sizes or more, with the columns"
            " parameters and tokens."
        )
    return [(one["parameters"], one["tokens"]) for one in size["sizes"]]


def doubts(best: dict, groups: list[tuple[float, float]], at_end: bool) -> list[str]:
    """Warnings about the division."""
    parameters, tokens = np.array(groups).T
    said = []
    ratios = tokens / parameters
    if ratios.max() < 1.5 * ratios.min():
        said.append(
            f"all runs fitted have about {ratios.mean():.3g} tokens a parameter: the gain by more parameters cannot be determined"
            " from what more tokens are, and the division is the prior's; add runs of other lengths."
        )
    for name, own, seen in (("parameters", best["parameters"], parameters), ("tokens", best["tokens"], tokens)):
        times = max(own / seen.max(), seen.min() / own)
        if times > FAR_APART:
            said.append(f"{own:.3g} {name} are {times:.3g} times beyond the runs fitted: a guess.")
        elif times > 1:
            said.append(f"{own:.3g} {name} are {times:.3g} times beyond the runs fitted: extrapolated.")
    if at_end:
        said.append(
            "the best size lies at the end of what was tried: of the sizes that --max-epochs leaves, or"
            f" {FAR_APART} times beyond those fitted."
        )
    return said


if __name__ == "__main__":
    sys.exit(run(main))
