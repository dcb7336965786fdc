"""Entropies of counts in nats: the plug-in value that the paper uses, and two
corrections of its bias.

A plug-in entropy is biased low, the more the fewer observations there are, so domains of
unequal size are compared unequally; the corrections and the coverage show by how much.
All sums are in float64.
"""

import numpy as np


def plug_in(counts: np.ndarray) -> float:
    """Plug-in entropy H = log N - (1/N) sum n log n of positive counts n with
    sum N (paper App. A).
    """
    n = counts.astype(np.float64)
    total = n.sum()
    return max(0.0, float(np.log(total) - (n * np.log(n)).sum() / total))


def miller_madow(counts: np.ndarray) -> float:
    """Plug-in entropy plus (K - 1) / (2 N), the first term of its bias, with K
    distinct values (Miller 1955).
    """
    return plug_in(counts) + (len(counts) - 1) / (2 * float(counts.sum()))


def coverage(counts: np.ndarray) -> float:
    """Good's estimate 1 - f1/N of the probability of all values seen, f1 of them seen once.

    Where every value was seen once, f1 = N - 1 is taken instead, as usual, so
    that something is covered.
    """
    total, singletons = int(counts.sum()), int((counts == 1).sum())
    return 1 - min(singletons, total - 1) / total


def chao_shen(counts: np.ndarray) -> float:
    """Coverage-adjusted entropy -sum q log q / (1 - (1 - q)^N) with q = coverage
    n/N (Chao and Shen 2003).
    """
    total = float(counts.sum())
    q = coverage(counts) * (counts / total)
    seen = -np.expm1(total * np.log1p(-np.minimum(q, 1 - 2**-53)))
    return float(-(q * np.log(q) / seen).sum())


ESTIMATORS = {"nats": plug_in, "miller_madow": miller_madow, "chao_shen": chao_shen}


def measure_counts(tokens: np.ndarray, first: np.ndarray, pairs: np.ndarray) -> list[dict[str, object]]:
    """SE, JE and CE = JE - H(first), each by every estimator, with what
    tells how far to trust them.

    Counts of tokens, of pairs of neighbours and of the first tokens of those pairs.
    """
    shannon = {name: estimate(tokens) for name, estimate in ESTIMATORS.items()}
    joint = {name: estimate(pairs) for name, estimate in ESTIMATORS.items()}
    conditional = {name: max(0.0, joint[name] - estimate(first)) for name, estimate in ESTIMATORS.items()}
    seen = {"tokens": int(tokens.sum()), "pairs": int(pairs.sum())}
    return [
        {"measure": "SE", **shannon, "tokens": seen["tokens"], **diagnostics(tokens)},
        {"measure": "JE", **joint, **seen, **diagnostics(pairs)},
        {"measure": "CE", **conditional, **seen, **diagnostics(pairs)},
    ]


def diagnostics(counts: np.ndarray) -> dict[str, object]:
    """Distinct values, those seen once, and the share of the probability that
    the distinct ones cover.
    """
    return {"distinct": len(counts), "singletons": int((counts == 1).sum()), "coverage": coverage(counts)}


def von_neumann(gram: np.ndarray, documents: int) -> float:
    """Von Neumann entropy -sum l log l over the eigenvalues l of V'V/N, for unit rows
    V (N, d) (paper App. A).

    The non-zero eigenvalues of the paper's (N, N) matrix VV'/N are those of this (d, d) one.
    """
    values = np.linalg.eigvalsh(np.asarray(gram, dtype=np.float64) / documents)
    values = values[values > 0]
    return max(0.0, float(-(values * np.log(values)).sum()))
