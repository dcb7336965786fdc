"""Flags of scripts that read tables of the user's."""

import argparse


def add_allowed(parser: argparse.ArgumentParser) -> None:
    """Add the domains whose names are no slips of others'."""
    parser.add_argument(
        "--allow-unmeasured",
        nargs="*",
        default=[],
        metavar="NAME",
        help="domains without losses, or without proportions, that are meant though another has nearly the same name",
    )


def add_lower(parser: argparse.ArgumentParser) -> None:
    """Add the metrics of which less is better though they are called as those of which more is."""
    parser.add_argument(
        "--lower-is-better",
        nargs="*",
        default=[],
        metavar="NAME",
        help="metrics of which less is better, whatever their names say",
    )
