"""Runs that settle what repetition costs: their slopes, what they teach a law, what is refused."""

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, with_transfer, write_runs
from refusals import refused

import propose_runs
from bimix.laws import fitted as laws
from bimix.observations.observations import read_observations
from bimix.search.harm import slopes_of
from bimix.transfer import repetition

DOMAINS, TOKENS, SCALE = ("a", "b", "c", "d"), 1e9, 1e8
FORM = repetition.Repetition(R=8.0, P=0.2, mu=1.2, kappa=0.5, scale=SCALE)
FLAGS = ("--harm", "a", "--seed", "0")


def losses_of(shares: np.ndarray, pools: np.ndarray) -> np.ndarray:
    """Losses (4,) of a made law whose domains are harmed four times as much as is usual."""
    per_share = TOKENS / pools
    mixed = with_transfer(3, 4)(repetition.counted(shares, per_share, FORM.R)[0][None], [1e12])[0, 0]
    return mixed + repetition.own_harm(FORM, shares[None], per_share[None], pools[None], SCALE, np.arange(4))[0]


def runs_of(shares, pools, name="m"):
    noise = np.random.default_rng(len(shares)).normal(0, 0.002, (len(shares), 4))
    further = {"tokens": TOKENS, "parameters": SCALE}
    return [
        (f"{name}{n}", one, losses_of(one, own) * np.exp(noise[n]), further, own)
        for n, (one, own) in enumerate(zip(shares, pools, strict=True))
    ]


def propose(folder, *flags: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    (folder / "models.csv").write_text(f"name,parameters,tokens\nsmall,{SCALE},{TOKENS}\n")
    out = folder / "next.csv", folder / "runs.csv"
    models = ("--models", str(folder / "models.csv"), "--runs", str(out[1]))
    propose_runs.main([*FLAGS, *models, "--out", str(out[0]), *flags])
    return pl.read_csv(out[0]), pl.read_csv(out[1])


def test_slopes_are_those_of_the_law() -> None:
    shares, epochs = np.array([0.1, 0.3, 0.3]), np.array([1.0, 4.0, 16.0])
    found = slopes_of(shares, epochs, TOKENS, SCALE, FORM)
    assert (found[:, 0] == pytest.approx(1)) and not found[0, 2:].any()  # read once: no harm
    assert found[2, 3] > found[1, 3] > 0 and (found[1:, 2] < 0).all()
    height = FORM.P * (SCALE / (0.3 * TOKENS / 16)) ** FORM.kappa * 0.3**FORM.mu * 15**2 / 16
    assert found[2, 3] == pytest.approx(height / (3 + height), rel=1e-5)


def test_three_runs_teach_a_law_what_a_swarm_does_not(tmp_path, capsys) -> None:
    """What a scarce domain loses at 24 epochs, by a swarm of 16 that repeats it little, with three
    more of its kind and with the three that are proposed.
    """
    shares = mixtures(1, 16, 4)
    plenty = np.full(4, 1e10)
    pools = np.where(np.arange(4) == 0, 2e8, plenty)[None].repeat(16, axis=0)
    write_runs(runs_of(shares, pools), DOMAINS, tmp_path / "l.csv", tmp_path / "m.csv")
    table, runs = propose(tmp_path, "--mixtures", str(tmp_path / "m.csv"), "--losses", str(tmp_path / "l.csv"))
    said = capsys.readouterr().out
    assert runs["mixture"].to_list() == ["proposed_001", "proposed_002", "proposed_003"] and "read 32 times" in said
    assert runs["information"].is_sorted()
    own = table.filter(domain="a")
    assert (own["proportion"] * TOKENS / own["pool"]).to_list() == pytest.approx([32, 1, 16], rel=0.05)
    assert table.filter(pl.col("domain") != "a")["pool"].null_count() == 9
    mixed = table.pivot(on="domain", index="mixture", values="proportion").select(DOMAINS).to_numpy()
    assert mixed.sum(axis=1) == pytest.approx(1)
    cut = table.pivot(on="domain", index="mixture", values="pool").select(DOMAINS).fill_null(1e10).to_numpy()
    others = runs_of(mixtures(2, 3, 4), pools[:3], "more")
    errors = []
    asked, pool = np.array([0.3, 0.3, 0.2, 0.2]), 0.3 * TOKENS / 24
    truth = losses_of(asked, np.array([pool, *plenty[1:]]))[0]
    for added in (others, runs_of(mixed, cut, "proposed")):
        flags = write_runs([*runs_of(shares, pools), *added], DOMAINS, tmp_path / "both_l.csv", tmp_path / "both_m.csv")
        at = laws.at_run(laws.fit("transfer", read_observations(flags[1], flags[3])), tokens=TOKENS, pools={"a": pool})
        errors.append(abs(laws.predict(at, asked[None], at["steps"])[0, 0, 0] / truth - 1))
    assert errors[1] < 0.03 and errors[1] < 0.3 * errors[0]


def test_a_pool_is_not_made_larger_than_it_is(tmp_path) -> None:
    table, _ = propose(tmp_path, "--tokens", '{"a": 3e7, "b": 1e10}', "--count", "4")
    own = table.filter(domain="a")
    assert own.height == 4 and own["pool"].max() <= 3e7


def test_the_other_domains_keep_to_their_bounds_and_share_what_no_run_gave_them(tmp_path) -> None:
    tokens = ("--tokens", '{"a": 1e7, "b": 1e9, "c": 1e9, "d": 1e9}')
    table, _ = propose(tmp_path, *tokens, "--upper", '{"b": 0.2}', "--lower", '{"c": 0.4}')
    first = dict(table.filter(mixture="proposed_001").select("domain", "proportion").iter_rows())
    assert first["b"] <= 0.2 and first["c"] == 0.4 and sum(first.values()) == pytest.approx(1)
    (tmp_path / "m.csv").write_text("mixture,domain,proportion\nm,a,1\nm,b,0\nm,c,0\n")
    table, _ = propose(tmp_path, "--mixtures", str(tmp_path / "m.csv"))
    first = dict(table.filter(mixture="proposed_001").select("domain", "proportion").iter_rows())
    assert first["a"] <= 0.5 and first["b"] == pytest.approx(first["c"], abs=2e-4)


def test_what_is_refused(tmp_path) -> None:
    for flags, said in (
        (("--tokens", '{"b": 1e9, "c": 1e9}'), "--harm names 'a', which no mixture trains on: b, c"),
        (("--tokens", '{"a": 1e9}'), "--harm varies the share of a domain: it needs two domains"),
        (("--tokens", '{"a": 1e3, "b": 1e9}'), "no run of small reads a within the bounds and its pool"),
        (("--tokens", '{"a": 1e9, "b": 1e9}', "--upper", '{"b": 0.4}'), "no run of small reads a within the bounds"),
        (("--tokens", '{"a": 1e9, "b": 1e9}', "--budget", "1e20"), "--harm proposes --count runs and has no --budget"),
    ):
        refused(said, propose, tmp_path, *flags)
    # one model says how often a pool is read
    flags = [*FLAGS, "--tokens", '{"a": 1e9, "b": 1e9}', "--out", str(tmp_path / "next.csv")]
    refused("--harm needs --models", propose_runs.main, flags)
    (tmp_path / "two.csv").write_text("name,parameters,tokens\nsmall,1e8,1e9\nlarge,1e9,1e10\n")
    more = ["--models", str(tmp_path / "two.csv"), "--runs", str(tmp_path / "runs.csv")]
    refused("--harm needs --models with one model", propose_runs.main, [*flags, *more])
