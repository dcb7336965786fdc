"""Families of loss domains and their weights; standard library only, as planning imports it."""

from collections.abc import Mapping, Sequence

from bimix.errors import InputError
from bimix.names import check_weights

Families = Mapping[str, Sequence[str]]


def checked(families: Families, known: Sequence[str]) -> None:
    """Errors: a family without domains, with an unknown loss, or that shares a domain."""
    of: dict[str, str] = {}
    for family, members in families.items():
        if not members:
            raise InputError(f"the family {family!r} has no domains: name some, or take it out.")
        for domain in members:
            if domain not in known:
                raise InputError(f"the family {family!r} names {domain!r}, of no known loss: {', '.join(known)}.")
            if domain in of:
                raise InputError(f"{domain!r} is in the families {of[domain]!r} and {family!r}: leave it in one.")
            of[domain] = family


def by_domain(weights: Mapping[str, float], families: Families) -> dict[str, float]:
    """{domain: weight}: a family's weight divided by its number of domains; without families the
    weights themselves.

    Without weights all families have weight 1, and without both the result is empty. A domain in no
    family is left out and has weight 0. Errors: a weight of no family, no weight above 0.
    """
    if not families:
        return dict(weights)
    check_weights(weights, list(families), "family")
    given = weights or dict.fromkeys(families, 1.0)
    return {domain: given.get(name, 0.0) / len(members) for name, members in families.items() for domain in members}
