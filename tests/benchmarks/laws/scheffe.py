"""Scheffe's second-order polynomial of a mixture with a lasso ("Mixture Experiment", arXiv
2608.23922): L_i(r) = c_i + sum_j b_ij r_j + sum_{j<k} b_ijk r_j r_k, one fit per step and domain.

The penalty of the lasso is chosen by five-fold cross-validation on standardised terms, with
scikit-learn.
"""

import warnings

import numpy as np

FOLDS = 5
WIDTHS = 40  # of the lasso that are tried, a factor 1e4 from the first to the last


def fit_step(shares, losses, weights, domains, begin=None) -> dict:
    """c, linear {domain: b}, pairs [[domain, domain, b]] and the lasso's penalty, kept if given."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso, LassoCV  # costs a second: only these laws pay it
    from sklearn.model_selection import KFold

    x = terms(shares)
    mean = np.average(x, axis=0, weights=weights)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    scale = np.where(scale > 1e-12, scale, np.inf)  # a term that never varies has no coefficient
    z = (x - mean) / scale
    if begin is None:
        folds = KFold(min(FOLDS, len(losses)), shuffle=True, random_state=0)
        model = LassoCV(alphas=WIDTHS, eps=1e-4, cv=folds, max_iter=20_000)
    else:
        model = Lasso(begin["lasso"], max_iter=20_000)
    with warnings.catch_warnings():
        # the smallest penalties do not converge; cross-validation rejects them
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(z, losses, sample_weight=weights)
    b = model.coef_ / scale
    first, second = np.triu_indices(len(domains), 1)
    linear, pairs = b[: len(domains)], b[len(domains) :]
    return {
        "c": float(model.intercept_ - mean @ b),
        "linear": dict(zip(domains, linear.tolist(), strict=True)),
        "pairs": [[domains[first[p]], domains[second[p]], float(pairs[p])] for p in np.flatnonzero(pairs)],
        "lasso": float(model.alpha_) if begin is None else begin["lasso"],
    }


def terms(shares: np.ndarray) -> np.ndarray:
    """Proportions and their pairwise products (n, m + m (m - 1) / 2)."""
    first, second = np.triu_indices(shares.shape[1], 1)
    return np.concatenate([shares, shares[:, first] * shares[:, second]], axis=1)


def predict_step(numbers, domains, shares) -> np.ndarray:
    linear, quadratic = _by_domain(numbers, domains)
    return numbers["c"] + shares @ linear + np.einsum("nj,jk,nk->n", shares, quadratic, shares) / 2


def count_step(numbers) -> int:
    """The number of coefficients: constant, first-order terms, non-zero second-order terms."""
    return 1 + sum(map(bool, numbers["linear"].values())) + len(numbers["pairs"])


def _by_domain(numbers, domains) -> tuple[np.ndarray, np.ndarray]:
    """The linear terms (m,) and the symmetric matrix (m, m) of second-order terms."""
    place = {name: j for j, name in enumerate(domains)}
    quadratic = np.zeros((len(domains), len(domains)))
    for one, other, value in numbers["pairs"]:
        quadratic[place[one], place[other]] = quadratic[place[other], place[one]] = value
    return np.array([numbers["linear"][name] for name in domains]), quadratic
