"""The flags of every script that looks for a best mixture: weights, bounds, tokens."""

import argparse


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add what an optimum is asked for besides its step, to be read by `tables.read_numbers`."""
    parser.add_argument(
        "--weights",
        help="{loss domain: weight}, a JSON file or the JSON itself; one left out weighs 0; without it all weigh the same",
    )
    parser.add_argument("--lower", help="{domain: least proportion}, likewise")
    parser.add_argument("--upper", help="{domain: largest proportion}, likewise")
    parser.add_argument(
        "--max-epochs", type=float, help="no domain is repeated more often than this (inf: any number); needs --tokens"
    )
    parser.add_argument(
        "--tokens",
        nargs="?",
        help="tokens there are, for --max-epochs and for regmix, which simulates around their shares:"
        " {domain: tokens} as JSON, or a table with domain and tokens",
    )


def add_run_tokens(parser: argparse.ArgumentParser) -> None:
    """Add the tokens of the run that --max-epochs counts in."""
    parser.add_argument(
        "--run-tokens",
        type=number_or_none,
        help="tokens the run trains on; without it, or none: the step times the fit's tokens_per_step",
    )


def number_or_none(text: str) -> float | None:
    """A number, or None for the word none."""
    return None if text == "none" else float(text)
