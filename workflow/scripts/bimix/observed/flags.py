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
