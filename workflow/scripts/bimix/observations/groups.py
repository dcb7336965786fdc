"""Groups of domains: domains of one source, or of one topic, have similar effects on a loss.

log k_ij = u_i + delta_ij, and delta_i = L z_i with L L' = (1 + S S' + T T') / 3, where S and T are
the indicator matrices of sources and topics. z has the ridge. So the effect of a domain is a sum of
effects of its source, its topic and its own, and a run on one domain informs about its relatives.

Source and topic come from a name with `:` or `/`, such as `web:games`, or from a file, {domain:
[source, topic]}. A domain in no group, or a group of all domains, shares nothing.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bimix.errors import InputError
from bimix.tables import read_object

KINDS = 2  # source and topic
Groups = Mapping[str, Sequence[str | None]]


def by_name(domains: Sequence[str]) -> dict[str, Sequence[str | None]]:
    """The source and topic in each domain's name."""
    return {name: [*re.split("[:/]", name), None][:KINDS] for name in domains}


def read_groups(given: str | Path, domains: Sequence[str]) -> Groups:
    """{domain: [source, topic]} from a JSON file or JSON text, null where a domain has none;
    missing domains are grouped by their names.

    Errors: a domain that is not trained on, groups that are no list of one or two names.
    """
    found, file = read_object(given)
    for name, groups in found.items():
        if name not in domains:
            raise InputError(f"{file}: the groups name {name!r}, which no mixture trains on: {', '.join(domains)}.")
        named = isinstance(groups, list) and all(one is None or isinstance(one, str) for one in groups)
        if not named or not 1 <= len(groups) <= KINDS:
            raise InputError(f"{file}: the groups of {name!r} are {groups!r}: it takes [source, topic], names or null.")
    return by_name(domains) | found


def spread_of(groups: Groups, domains: Sequence[str]) -> np.ndarray | None:
    """L (m, m), symmetric; None where no two domains share a group, except one of all domains."""
    m = len(domains)
    shared = np.eye(m)
    for kind in range(KINDS):
        names = [(list(groups.get(name, ())) + [None] * KINDS)[kind] for name in domains]
        alike = np.array([[one is not None and one == other for other in names] for one in names])
        shared += np.eye(m) if alike.all() else alike | np.eye(m, dtype=bool)
    values, vectors = np.linalg.eigh(shared / (1 + KINDS))
    return None if np.ptp(values) < 1e-9 else (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def written(groups: Groups, domains: Sequence[str]) -> dict:
    """The groups for the JSON of a fitted law; empty where no domains share one."""
    shared = spread_of(groups, domains) is not None
    return {"domain_groups": {name: list(one) for name, one in groups.items()}} if shared else {}
