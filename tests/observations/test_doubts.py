"""What can hardly be meant in tables is refused or named; names of a series are not."""

import unicodedata

import numpy as np
import polars as pl
from laws.known import mixtures, observe, with_transfer, write_tables
from refusals import refused

import solve_mixture
from bimix.observations.observations import observations

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


def slips(losses: pl.DataFrame, mixed: pl.DataFrame) -> list[str]:
    return [
        remark for remark in observations(losses, mixed).remarks if "did you mean" in remark or "names match" in remark
    ]


def test_a_name_of_one_table_that_resembles_another_is_named() -> None:
    nfd = unicodedata.normalize("NFD", CAFE)
    for name, slip in (("wiki", "wikki"), ("books", "book"), ("web", "Web"), ("web", "w eb"), (CAFE, nfd)):
        for table in ("losses", "mixtures"):
            for of in (None, "m3"):
                losses, mixed = tables(NAMES, NAMES)
                if table == "losses":
                    losses = called(losses, name, slip, of=of)
                else:
                    mixed = called(mixed, name, slip, of=of)
                (said,) = slips(losses, mixed)
                assert repr(slip) in said and repr(name) in said
                rows = (losses if table == "losses" else mixed).rows()
                number = next(n for n, row in enumerate(rows, 1) if slip in row)
                assert of is None or said.startswith(f"{table}, row {number}: ")
                assert observations(losses, mixed, checked=True).remarks == ()


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
            assert slips(table, mixed) == []


def test_perplexities_are_refused_and_metrics_are_not() -> None:
    losses, mixed = tables(NAMES, NAMES)
    large = losses.with_columns(loss=pl.when(pl.int_range(pl.len()) == 7).then(22.0).otherwise("loss"))
    refused("row 8 (mixture 'm0', step 20, domain 'code'): the loss is 22, and losses are", observations, large, mixed)
    assert observations(large, mixed, checked=True)
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


def test_runs_that_may_be_in_bits_are_named() -> None:
    losses, mixed = tables(NAMES, NAMES)
    for runs, said in ((("m1", "m4"), 1), (("m5",), 1), ((), 0)):
        bits = pl.when(pl.col("mixture").is_in(runs)).then(1 / np.log(2)).otherwise(1.0)
        remarks = observations(losses.with_columns(pl.col("loss") * bits), mixed).remarks
        assert len(remarks) == said and all(f"losses of {', '.join(runs)} are 1.44 times" in one for one in remarks)
    half = losses.with_columns(pl.col("loss") * pl.when(pl.col("mixture") < "m3").then(1.2).otherwise(1.0))
    assert observations(half, mixed).remarks == ()


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


def test_remarks_are_printed(tmp_path, capsys) -> None:
    """Of two tables of a known law, whose first row of mixtures has a slip."""
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
    solve_mixture.main([*map(str, flags), "--laws", "transfer", "--out", str(tmp_path / "solved")])
    assert "domain 'wikki' has no losses; did you mean 'wiki'?" in capsys.readouterr().err
