"""Loss domains that are called otherwise than the training domains: matched where one fits one."""

import numpy as np
import polars as pl
import pytest
from refusals import refused

from bimix.laws.fitted import fit, predict_defined
from bimix.mixtures.by_hand import wanted_domains
from bimix.names import paired
from bimix.observations.observations import observations, with_priors

NAMES = ("lake", "moss", "fern", "dune")


@pytest.mark.parametrize(
    ("names", "others", "found"),
    [
        (["lake", "moss"], ["train_lake", "train_moss"], {"lake": "train_lake", "moss": "train_moss"}),
        (["X_val", "Y/val", "Z"], ["X", "Y", "Z"], {"X_val": "X", "Y/val": "Y"}),
        (["pile_cc", "ArXiv"], ["Pile-CC", "arxiv"], {"pile_cc": "Pile-CC", "ArXiv": "arxiv"}),
        (["dolma_books-validation", "dolma_web-validation"], ["books", "web"], None),
        (["eval/web/loss", "eval/code/loss"], ["train_web", "train_code"], None),
        (["suite/news", "web"], ["web", "code"], {}),
        (["code_val", "code_test", "web"], ["web", "code"], {}),  # two for one
        (["web_val", "web"], ["web", "code"], {}),  # web has its loss
        (["code_en", "code_de"], ["web_en", "web_de"], {}),  # of other texts
    ],
)
def test_names_match_where_one_fits_one(names: list[str], others: list[str], found: dict | None) -> None:
    assert paired(names, others) == (dict(zip(names, others, strict=True)) if found is None else found)
    assert paired(others, names) == {other: name for name, other in paired(names, others).items()}


def tables(prefix: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Losses of 16 runs that read small pools again, and mixtures of `prefix` and each name."""
    draw = np.random.default_rng(3)
    shares = draw.dirichlet(np.ones(4), 16)
    losses, mixtures = [], []
    for run, own in enumerate(shares):
        for n, name in enumerate(NAMES):
            again = max(own[n] * 30 - 1, 0) if n == 0 else 0
            loss = (2 + n / 4) * (own[n] + 0.1 * own[n - 1] + 0.02) ** -0.1 * (1 + 0.01 * again)
            losses.append((f"r{run}", 100, name, loss, 3e6))
            mixtures.append((f"r{run}", prefix + name, own[n], 1e5 if n == 0 else 1e8))
    return (
        pl.DataFrame(losses, ["mixture", "step", "domain", "loss", "tokens"], orient="row"),
        pl.DataFrame(mixtures, ["mixture", "domain", "proportion", "pool"], orient="row"),
    )


def test_a_law_of_other_names_predicts_the_same_and_says_what_it_matched(tmp_path) -> None:
    prior = tmp_path / "prior.csv"
    found = []
    for prefix in ("", "train_"):
        rows = [f"{prefix}{one},{prefix}{other},{1 + (one != other)}\n" for one in NAMES for other in NAMES]
        prior.write_text("domain,under,nats\n" + "".join(rows))
        observed = with_priors(observations(*tables(prefix)), prior, None)
        assert len(observed.remarks) == (prefix != "") and np.isfinite(observed.gaps).all()
        law = fit("transfer", observed)
        assert any(one.get("repetition", {}).get("P") for one in law["coefficients"].values())
        mixed = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
        order = [observed.domains.index(prefix + name) for name in NAMES]
        found.append((predict_defined(law, mixed[:, np.argsort(order)], [100]), [observed.gaps[:, order]]))
    assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1])


def test_wide_losses_and_wanted_domains_are_matched_too() -> None:
    losses, mixtures = tables("train_")
    wide = losses.drop("tokens").pivot("domain", index=["mixture", "step"], values="loss")
    observed = observations(wide, mixtures.drop("pool"))
    assert set(observed.loss_domains) == set(NAMES) and set(observed.pairs) == set(NAMES)
    refused("call 'dune' of the losses 'train_dune', too", fit, "bimix", observed)
    assert wanted_domains({"moss": 1.0}, observed.domains, observed.loss_domains).sum() == 1
    assert observed.domains[wanted_domains({"moss": 1}, observed.domains, NAMES).argmax()] == "train_moss"
