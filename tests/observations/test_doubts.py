"""What can hardly be meant in tables is refused or named; names of a series are not."""

import unicodedata

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, observe, with_transfer, write_tables
from refusals import refused

import compare_laws
import estimate_intervals
import fit_law
import import_losses
import plot_fit
import propose_round
import propose_runs
import score_law
import solve_mixture
import tabulate_laws
import take_observations
import trace_learning
from bimix.observations.observations import observations
from bimix.results.verify import verify

RUNS = ("m0", "m1", "m2", "m3", "m4", "m5")


def tables(trained: tuple[str, ...], measured: tuple[str, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Losses at two steps, and mixtures, of runs of some domains."""
    losses = [(run, step, name, 2 + 0.1 * n) for run in RUNS for step in (10, 20) for n, name in enumerate(measured)]
    mixed = [(run, name, 1 / len(trained)) for run in RUNS for name in trained]
    return (
        pl.DataFrame(losses, ["mixture", "step", "domain", "loss"], orient="row"),
        pl.DataFrame(mixed, ["mixture", "domain", "proportion"], orient="row"),
    )


def called(table: pl.DataFrame, name: str, new: str, *, of: str | None = None) -> pl.DataFrame:
    """With another name of a domain, of one mixture or of all."""
    rows = (pl.col("domain") == name) & (pl.lit(True) if of is None else pl.col("mixture") == of)
    return table.with_columns(pl.when(rows).then(pl.lit(new)).otherwise("domain").alias("domain"))


CAFE = unicodedata.normalize("NFC", "café")
NAMES = ("wiki", "web", "code", "books", CAFE)


def test_a_slip_of_a_name_is_refused() -> None:
    for name, slip in (
        ("wiki", "wikki"),
        ("wiki", "wkii"),
        ("books", "book"),
        ("web", "Web"),
        ("web", "web "),
        ("web", "w eb"),
        (CAFE, unicodedata.normalize("NFD", CAFE)),
    ):
        for table in ("losses", "mixtures"):
            for of in (None, "m3"):
                losses, mixed = tables(NAMES, NAMES)
                if table == "losses":
                    losses = called(losses, name, slip, of=of)
                else:
                    mixed = called(mixed, name, slip, of=of)
                said = refused("did you mean", observations, losses, mixed)
                assert repr(slip) in said and repr(name) in said and "--allow-unmeasured" in said
                if of is not None:
                    assert (
                        f"domain {slip!r} {'has losses in' if table == 'losses' else 'is in'} 1 of 6 mixtures" in said
                    )
                    number = next(
                        n for n, row in enumerate((losses if table == "losses" else mixed).rows(), 1) if slip in row
                    )
                    assert said.startswith(f"{table}, row {number}: ")
                assert observations(losses, mixed, allowed=[slip]).mixtures == RUNS
                assert observations(losses, mixed, allowed=None).mixtures == RUNS

    # one run whose two tables have another spelling
    losses, mixed = (called(table, "web", "Web", of="m3") for table in tables(NAMES, NAMES))
    refused("domain 'Web' is in 1 of 6 mixtures; did you mean 'web'", observations, losses, mixed)


def test_names_that_are_two_are_read() -> None:
    for trained, measured in (
        (("c4", "web1"), ("c5", "web2")),
        (("c4", "c5", "web1", "web2"), ("c4", "web1")),
        (("c4", "web1"), ("c4", "c5", "web1", "web2")),
        (("web",), ("web", "held_out", "arc error")),
        (("wiki_en", "books"), ("wiki_fr", "books")),
        (("part_a", "part_b"), ("part_a", "part_c")),
        (("law", "sea"), ("tea", "sea")),
        # evaluated wherever its neighbour is, or in a mixture with it
        (("wiki", "web"), ("wiki", "wikis", "web")),
        (("wiki", "wikis"), ("wiki",)),
        (("web", "Web"), ("web", "Web")),
    ):
        losses, mixed = tables(trained, measured)
        last = losses.filter((pl.col("step") == 20) | pl.col("domain").is_in(trained))  # the others at the end alone
        for table in (losses, last):
            assert set(observations(table, mixed).loss_domains) == set(measured)


def test_perplexities_are_refused_and_metrics_are_not() -> None:
    losses, mixed = tables(NAMES, NAMES)
    large = losses.with_columns(loss=pl.when(pl.int_range(pl.len()) == 7).then(22.0).otherwise("loss"))
    refused("row 8 (mixture 'm0', step 20, domain 'code'): the loss is 22, and losses are", observations, large, mixed)
    assert observations(large, mixed, allowed=None)
    marked = large.with_columns(metric=pl.int_range(pl.len()) == 7)
    assert 22.0 in observations(marked, mixed).losses


def test_a_loss_unlike_all_others_is_named() -> None:
    draw = np.random.default_rng(0)
    losses, mixed = tables(NAMES, NAMES)
    losses = losses.with_columns(loss=pl.col("loss") * np.exp(0.1 * draw.standard_normal(losses.height)))
    assert observations(losses, mixed).remarks == ()
    odd = losses.with_columns(loss=pl.col("loss") * pl.when(pl.int_range(pl.len()) == 7).then(4.5).otherwise(1.0))
    (said,) = observations(odd, mixed).remarks
    assert said.startswith("losses, row 8: the loss of mixture 'm0' on 'code' at step 20 is ")
    assert observations(odd.filter(pl.col("mixture").is_in(RUNS[:4])), mixed).remarks == ()  # too few to say


def test_losses_that_other_evaluations_have_are_named_as_missing() -> None:
    losses, mixed = tables(NAMES, NAMES)
    for gone, words in (
        (
            [7],
            "losses, row 6: mixture 'm0' has no loss on code at step 20, as others have (evaluations that lack one: 1): it",
        ),
        ([7, 8, 13], "on code, books at step 20, as others have (evaluations that lack one: 2): it counts as not"),
    ):
        (said,) = observations(losses.filter(~pl.int_range(pl.len()).is_in(gone)), mixed).remarks
        assert words in said
    early = losses.filter((pl.col("step") == 20) | (pl.col("mixture") != "m3"))
    assert observations(early, mixed).remarks == ()  # a run without a whole evaluation lacks none of its losses
    marked = losses.with_columns(metric=pl.col("domain") == "code").filter((pl.col("step") == 20) | ~pl.col("metric"))
    assert observations(marked, mixed).remarks == ()  # metrics are of the last step
    wide = losses.pivot(on="domain", index=["mixture", "step"], values="loss")
    wide = wide.with_columns(web=pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise("web"))
    (said,) = observations(wide, mixed).remarks
    assert said.startswith("losses, row 3: mixture 'm1' has no loss on web at step 10")


@pytest.fixture
def files(tmp_path) -> list[str]:
    """Flags of two tables of a known law, whose first row of mixtures has a slip."""
    observed = observe(with_transfer(0, 3), mixtures(0, 8, 3), np.array([1000, 2000, 4000, 8000]))
    flags = write_tables(observed, tmp_path / "losses.csv", tmp_path / "mixtures.csv", 512)
    for name in ("losses.csv", "mixtures.csv"):
        text = (tmp_path / name).read_text()
        for n, word in enumerate(("wiki", "code", "books")):
            text = text.replace(f"d0{n}", word)
        (tmp_path / name).write_text(text)
    rows = (tmp_path / "mixtures.csv").read_text().splitlines()
    slip = next(n for n, row in enumerate(rows) if "wiki" in row)
    rows[slip] = rows[slip].replace("wiki", "wikki")
    (tmp_path / "mixtures.csv").write_text("\n".join(rows) + "\n")
    return [str(flag) for flag in flags]


def test_all_scripts_that_read_tables_of_users_refuse_a_slip(files: list[str], tmp_path, capsys) -> None:
    out = [str(tmp_path / name) for name in ("c.json", "l.parquet", "m.parquet", "next.csv", "i.csv")]
    pl.read_csv(files[1]).select(pl.all().exclude("tokens")).pivot(
        on="domain", index=["mixture", "step"], values="loss"
    ).write_csv(tmp_path / "log.csv")
    meant = ["--allow-unmeasured", "wikki"]
    fit = ["--law", "transfer", *files, "--out", out[0]]
    calls = [
        (fit_law.main, fit),
        (take_observations.main, [*files, "--names", "--group-losses", out[1], "--group-mixtures", out[2]]),
        (propose_runs.main, [*files, "--count", "1", "--seed", "0", "--out", out[3]]),
        (propose_round.main, [*files, "--out", out[3]]),
        (solve_mixture.main, [*files, "--laws", "transfer", "--out", str(tmp_path / "solved")]),
        (
            import_losses.main,
            [
                *(str(tmp_path / "log.csv"), "--pattern", "{domain}", "--run", "mixture"),
                *("--out", str(tmp_path / "in"), *files[2:]),
            ],
        ),
    ]
    for main, flags in calls:
        refused(r"mixtures\.csv, line \d+: domain 'wikki' is in 1 of 8 mixtures and has no", main, flags)
        main([*flags, *meant])
    scores = [str(tmp_path / name) for name in ("e.csv", "g.csv", "compared.csv", "learnt.csv", "t.csv", "n.csv")]
    few = ["--laws", "transfer", "--counts", "4", "--draws", "1", "--seed", "0"]
    for main, flags in (
        (estimate_intervals.main, ["--coefficients", out[0], "--step", "8000", "--level", "0.9", "--out", out[4]]),
        (score_law.main, ["--coefficients", out[0], "--extrapolation", scores[0], "--generalization", scores[1]]),
        (compare_laws.main, ["--laws", "transfer", "--out", scores[2]]),
        (tabulate_laws.main, ["--comparison", scores[2], "--laws-table", scores[4], "--complexity-table", scores[5]]),
        (trace_learning.main, [*few, "--out", scores[3]]),
    ):
        refused("domain 'wikki' is in 1 of 8 mixtures", main, [*flags, *files])
        main([*flags, *files, *meant])


def test_a_name_that_was_said_to_be_meant_is_no_fault_of_the_dataset(files: list[str], tmp_path) -> None:
    """The figures read tables of several groups together, and verification fits each law again."""
    home = tmp_path / "results/mine"
    losses, mixtures = home / "losses/observed/all.parquet", home / "mixtures/groups/all.parquet"
    law = home / "laws/observed/transfer/all/coefficients.json"
    for path in (losses, mixtures, law):
        path.parent.mkdir(parents=True)
    taken = ["--names", "--group-losses", str(losses), "--group-mixtures", str(mixtures)]
    take_observations.main([*files, *taken, "--allow-unmeasured", "wikki"])
    own = ["--losses", str(losses), "--mixtures", str(mixtures)]
    fit_law.main(["--law", "transfer", *own, "--out", str(law)])
    figures = ["--steps", str(tmp_path / "steps.svg"), "--proportions", str(tmp_path / "proportions.svg")]
    plot_fit.main(["--coefficients", str(law), *own, *figures])
    assert verify(home).faults == []
