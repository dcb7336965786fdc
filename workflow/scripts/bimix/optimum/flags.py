"""The flags of every script that looks for a best mixture: weights, bounds, tokens."""

import argparse
import sys
from collections.abc import Sequence

from bimix.errors import InputError
from bimix.mixtures.draws import STRENGTHS
from bimix.mixtures.mixture import read_proportions
from bimix.tables import read_tokens


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add what an optimum is asked for besides its step, to be read by `tables.read_numbers`."""
    parser.add_argument(
        "--weights",
        help="{loss domain: weight}, a JSON file or the JSON itself; one left out weighs 0; without it all weigh the same",
    )
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the bounds and the tokens alone."""
    parser.add_argument("--lower", help="{domain: least proportion}, a JSON file or the JSON itself")
    parser.add_argument("--upper", help="{domain: largest proportion}, likewise")
    parser.add_argument(
        "--max-epochs",
        type=number_or_none,
        help="no domain is repeated more often than this; needs --tokens. inf: any number; none, or without it: any number too,"
        " or what the law itself allows (olmix: 4)",
    )
    add_tokens(parser)


def add_centre(parser: argparse.ArgumentParser) -> None:
    """Add the mixture in the place of token shares, to be read by `centre_of`."""
    parser.add_argument(
        "--centre",
        nargs="?",
        help="mixture.json that stands for the shares of --tokens, in penalties and simulated mixtures",
    )
    add_strengths(parser)


def add_strengths(parser: argparse.ArgumentParser) -> None:
    """Add how near draws are to their centre, for `simulating` or for `draws.mixture`."""
    parser.add_argument(
        "--strengths",
        nargs="*",
        type=float,
        default=(),
        metavar="STRENGTH",
        help="the least and the greatest of Dirichlet draws: the stronger, the nearer to the centre (without: RegMix's, 0.1 5)",
    )


def strengths_of(options: argparse.Namespace) -> Sequence[float]:
    """Both strengths. Errors: not two, not above 0, or not in order."""
    between = options.strengths or STRENGTHS
    if len(between) != 2 or not 0 < between[0] <= between[1]:
        raise InputError(
            f"--strengths is {' '.join(f'{one:g}' for one in between)}: it must be the least and the greatest, both above 0."
        )
    return between


def simulating(fitted: dict, options: argparse.Namespace) -> dict:
    """The fitted law, whose simulated mixtures have the strengths of --strengths."""
    return fitted | {"strengths": strengths_of(options)}


def centre_of(options: argparse.Namespace, tokens: dict[str, float] | None) -> dict[str, float] | None:
    """What penalties and simulated mixtures are around: the mixture of --centre, else the shares of
    the tokens.
    """
    return read_proportions(options.centre) if options.centre else tokens


def add_run_tokens(parser: argparse.ArgumentParser) -> None:
    """Add the tokens of the run, by which epochs are counted."""
    parser.add_argument(
        "--run-tokens",
        type=number_or_none,
        help="tokens the run trains on; without it, or none: the step times the fit's tokens_per_step",
    )


def add_tokens(parser: argparse.ArgumentParser) -> None:
    """Add the pools of the run, to be read by `tables.read_tokens`."""
    parser.add_argument(
        "--tokens",
        nargs="?",
        help="unique tokens there are of each domain, for --max-epochs, for the law transfer, to which repeated text counts less,"
        " and for regmix, which simulates around their shares: {domain: tokens} as JSON, or a table with domain and tokens",
    )


def add_pool_share(parser: argparse.ArgumentParser) -> None:
    """Add the share of the tokens there are that the runs have whose steps are asked for."""
    parser.add_argument(
        "--pool-share",
        type=float,
        default=1.0,
        help="of --tokens, the share that runs of so many steps have; without it all",
    )


def shared_pools(options: argparse.Namespace) -> dict[str, float] | None:
    """{domain: unique tokens} that those runs have; None where they are not known."""
    if not options.tokens:
        return None
    return {domain: options.pool_share * there for domain, there in read_tokens(options.tokens).items()}


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add the size of the run."""
    parser.add_argument(
        "--parameters",
        type=number_or_none,
        help="of the run's model, for a law fitted to several sizes; without it, or none: the largest size fitted",
    )


def note_unlimited(fitted: dict, tokens: dict[str, float] | None, run_tokens: float | None) -> None:
    """Say on standard error which domains the token counts do not name, and that they are taken to
    have no end.
    """
    missing = [domain for domain in fitted["domains"] if tokens and run_tokens and domain not in tokens]
    if missing:
        print(f"--tokens does not name {', '.join(missing)}: taken to be never repeated.", file=sys.stderr)


def run_tokens_of(fitted: dict, run_tokens: float | None, step: int | None) -> float | None:
    """Tokens of the run: as given, or the step times the tokens per step of the fitted runs; None
    where not known.
    """
    if run_tokens is not None or step is None or fitted.get("tokens_per_step") is None:
        return run_tokens
    return step * fitted["tokens_per_step"]


def asked_tokens(fitted: dict, run_tokens: float | None, step: int | None, parameters: float | None) -> float | None:
    """Tokens of the run that a law is asked for. A law over sizes has no tokens of a step: without
    others, and without other `parameters`, they are those of the run that it is read at.
    """
    if "rows" not in fitted:
        return run_tokens_of(fitted, run_tokens, step)
    if run_tokens is None and parameters is None:
        return next(iter(fitted["coefficients"].values()))["run"]["tokens"]
    return run_tokens


def number_or_none(text: str) -> float | None:
    """A number, or None for the word none."""
    return None if text == "none" else float(text)
