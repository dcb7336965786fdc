"""Families of loss domains and their weights; standard library only, as planning imports it."""

from collections.abc import Mapping, Sequence

from bimix.errors import InputError
from bimix.names import check_weights

Families = Mapping[str, Sequence[str]]


def check_known(families: Families, known: Sequence[str]) -> None:
    """Errors: a family names an unknown loss."""
    for family, members in families.items():
        if strange := [domain for domain in members if domain not in known]:
            raise InputError(f"the family {family!r} names {strange[0]!r}, of no known loss: {', '.join(known)}.")


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
