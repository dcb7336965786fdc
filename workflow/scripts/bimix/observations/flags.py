"""Flags of scripts that read a user's tables."""

import argparse
from pathlib import Path

from bimix.errors import InputError
from bimix.observations.observations import Observations, joined, read_observations


def add_tables(parser: argparse.ArgumentParser, held_out: bool = False, prior: bool = True) -> None:
    """Add the two tables, held-out tables and the prior, for `read_tables` and `read_held_out`."""
    parser.add_argument("--losses", type=Path, required=True, help="mixture, step, domain, loss (nats): csv, parquet")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixture, domain, proportion: csv, parquet")
    if prior:
        add_priors(parser)
    if held_out:
        parser.add_argument("--held-out-losses", type=Path, nargs="*", default=[], help="tidy losses held out")
        parser.add_argument("--held-out-mixtures", type=Path, nargs="*", default=[], help="of the same groups")


def read_tables(options: argparse.Namespace) -> Observations:
    """The observations of the two tables, with the prior."""
    return read_observations(
        options.losses,
        options.mixtures,
        getattr(options, "prior", None),
        getattr(options, "domain_groups", None),
    )


def held_out_pairs(options: argparse.Namespace) -> list[tuple[Path, Path]]:
    """Losses and mixtures of each held-out group. Errors: one of the two is missing."""
    losses, mixtures = options.held_out_losses, options.held_out_mixtures
    if len(losses) != len(mixtures):
        raise InputError(
            f"{len(losses)} tables of held-out losses and {len(mixtures)} of mixtures were named: each group has one of both."
        )
    return list(zip(losses, mixtures, strict=True))


def read_held_out(options: argparse.Namespace, like: Observations) -> Observations | None:
    """The held-out mixtures that are not in `like`; None without any."""
    pairs = held_out_pairs(options)
    return joined(like, [read_observations(*pair) for pair in pairs])


def add_priors(parser: argparse.ArgumentParser) -> None:
    """Add the priors of the law transfer, for `with_priors`."""
    parser.add_argument(
        "--prior",
        type=Path,
        nargs="?",
        help="cross-entropies between domains (domain, under, nats), for the law transfer; none: without",
    )
    parser.add_argument(
        "--domain-groups",
        nargs="?",
        help="{domain: [source, topic]}, a JSON file or the JSON itself, for the law transfer: domains of a group help"
        " alike; without it as their names say that are split at : or /",
    )


def add_lower(parser: argparse.ArgumentParser) -> None:
    """Add the list of metrics of which lower is better, whatever their names suggest."""
    parser.add_argument(
        "--lower-is-better",
        nargs="*",
        default=[],
        metavar="NAME",
        help="metrics of which less is better, whatever their names say",
    )
