"""The flags of every script that computes an optimum."""

import argparse
import sys
from collections.abc import Sequence

from bimix.errors import InputError, finite
from bimix.laws.table import LAWS
from bimix.mixtures.draws import STRENGTHS
from bimix.optimum.objective import Objective, objective_of
from bimix.tables import read_numbers, read_tokens


def number_or_none(text: str) -> float | None:
    """A finite number, or None for the word none."""
    return None if text == "none" else finite(text)


def epochs_or_none(text: str) -> float | None:
    """A number above 0, which may be infinite, or None for the word none."""
    if text == "none":
        return None
    if not (epochs := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return epochs


FLAGS = {
    "weights": {
        "help": "{loss domain: weight}, a JSON file or the JSON itself; one left out weighs 0; without it all weigh the same"
    },
    "lower": {"help": "{domain: least proportion}, a JSON file or the JSON itself"},
    "upper": {"help": "{domain: largest proportion}, likewise"},
    "max-epochs": {
        "type": epochs_or_none,
        "help": "no domain is repeated more often than this; needs --tokens. inf: any number; none, or without it: what the"
        " law itself allows (olmix: 4), else 6 in a run of up to 1e10 tokens, 16 from 1e11 on",
    },
    "tokens": {
        "nargs": "?",
        "help": "unique tokens there are of each domain, for --max-epochs, for the law transfer, to which repeated text counts"
        " less, and for regmix, which simulates around their shares: {domain: tokens} as JSON, or a table with domain and tokens",
    },
    "run-tokens": {
        "type": number_or_none,
        "help": "tokens the run trains on; without it, or none: the step times the fit's tokens_per_step",
    },
    "parameters": {
        "type": number_or_none,
        "help": "of the run's model, if it is another than the largest fitted; a law of one size knows of a larger model that it"
        " loses more by text that it reads again",
    },
    "centre": {
        "nargs": "?",
        "help": "mixture.json that stands for the shares of --tokens, in Olmix' penalty and in simulated mixtures",
    },
    "strengths": {
        "nargs": "*",
        "type": finite,
        "default": (),
        "metavar": "STRENGTH",
        "help": "the least and the greatest of Dirichlet draws: the stronger, the nearer to the centre (without: RegMix's, 0.1 5)",
    },
    "objective": {
        "help": "weighted (the weighted average, which is the default), minimax (the least worst loss over the reference's) or"
        " no_worse_than (weighted, with no loss above the reference's by more than a margin); or JSON of kind, weights, families"
        " {family: [loss domain]}, reference, margin, effect_growth, which are those of a config's"
        " optimum/objective (docs/objectives.md)"
    },
    "reference": {"nargs": "?", "help": "mixture.json of minimax and no_worse_than, or the JSON itself"},
}
LIMITS = ("lower", "upper", "max-epochs", "tokens")
GROUPS = {
    "limits": LIMITS,
    "bounds": ("weights", *LIMITS),
    "centre": ("centre", "strengths"),
    "objective": ("objective", "reference"),
}


def add_flags(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add flags of FLAGS, or all flags of one of GROUPS."""
    for name in names:
        for flag in GROUPS.get(name, (name,)):
            parser.add_argument(f"--{flag}", **FLAGS[flag])


def limits_of(options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """{domain: bound} of --lower and of --upper."""
    lower, upper = (read_numbers(given) if given else {} for given in (options.lower, options.upper))
    return lower, upper


def asked_objective(options: argparse.Namespace) -> Objective:
    """The objective from the flags; a script may lack some of them."""
    given = vars(options).get
    return objective_of(
        given("objective"),
        given("weights") and read_numbers(given("weights")),
        given("reference"),
    )


def strengths_of(options: argparse.Namespace) -> Sequence[float]:
    """The range of concentrations. Errors: not two numbers, not above 0, or not in order."""
    between = getattr(options, "strengths", ()) or STRENGTHS
    if len(between) != 2 or not 0 < between[0] <= between[1]:
        raise InputError(
            f"--strengths is {' '.join(f'{one:g}' for one in between)}: it must be the least and the greatest, both above 0."
        )
    return between


def pools_of(options: argparse.Namespace) -> dict[str, float] | None:
    """{domain: unique tokens} of the runs; None where they are not known."""
    return read_tokens(options.tokens) if options.tokens else None


def note_unlimited(fitted: dict, tokens: dict[str, float] | None, run_tokens: float | None) -> None:
    """Report on stderr domains without token counts, counts of no domain, or that the run's length is
    not known. Errors: a domain has 0 tokens.
    """
    if empty := [domain for domain in fitted["domains"] if tokens and tokens.get(domain) == 0]:
        raise InputError(f"--tokens has 0 of {empty[0]!r}: no run can read it; take it out of tokens and mixtures.")
    missing = [domain for domain in fitted["domains"] if tokens and run_tokens and domain not in tokens]
    if missing:
        print(f"--tokens does not name {', '.join(missing)}: taken to be never repeated.", file=sys.stderr)
    if strange := [domain for domain in tokens or () if domain not in fitted["domains"]]:
        print(f"--tokens names {', '.join(strange)}, which no mixture trains on: not read.", file=sys.stderr)
    if tokens and not run_tokens and LAWS[fitted["law"]].reads_pools:
        print("how long the run is is not known (--run-tokens): no text is taken to be repeated.", file=sys.stderr)


def run_tokens_of(fitted: dict, run_tokens: float | None, step: int | None) -> float | None:
    """Tokens of the run: given, or the step times the fitted tokens per step; None if unknown."""
    if run_tokens is not None or step is None or fitted.get("tokens_per_step") is None:
        return run_tokens
    return step * fitted["tokens_per_step"]


def asked_tokens(fitted: dict, run_tokens: float | None, step: int | None, parameters: float | None) -> float | None:
    """Tokens of the run that a law predicts: given; by default, and without other `parameters`,
    those of the run that it is set to, or the step times the fitted tokens per step.
    """
    if run_tokens is not None or parameters is not None:
        return run_tokens
    run = next(iter(fitted["coefficients"].values())).get("run") or {}
    return run["tokens"] if "rows" in fitted or run.get("parameters") else run_tokens_of(fitted, None, step)
