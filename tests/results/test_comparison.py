"""Steps saved: a curve of known form reaches a level where algebra says it does."""

import numpy as np
import polars as pl
import pytest

import compare_mixtures
from bimix.errors import InputError
from bimix.results.comparison import average_losses, compare, steps_to_reach

STEPS = np.arange(100, 1001, 100)


def table(curves: dict[str, dict[str, np.ndarray]]) -> pl.DataFrame:
    rows = [
        (mixture, int(step), domain, float(loss))
        for mixture, domains in curves.items()
        for domain, losses in domains.items()
        for step, loss in zip(STEPS, losses, strict=True)
    ]
    return pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")


def test_a_power_law_reaches_a_level_where_its_inverse_says():
    losses = 9 * STEPS**-0.25
    for step in (150, 333, 999):
        assert steps_to_reach(STEPS, losses, 9 * step**-0.25) == pytest.approx(step, rel=1e-12)
    assert steps_to_reach(STEPS, losses, losses[-1]) == pytest.approx(1000)
    assert steps_to_reach(STEPS, losses, losses[0]) == 100
    assert steps_to_reach(STEPS, losses, losses[-1] - 1e-9) is None


def test_the_first_arrival_counts_even_if_the_loss_rises_again():
    assert steps_to_reach(np.array([10, 20, 30]), np.array([3.0, 1.0, 2.0]), 1.0) == pytest.approx(20)


def test_a_mixture_that_learns_twice_as_fast_needs_half_the_steps():
    curve = 8 * STEPS**-0.3
    fast = 8 * (2.0 * STEPS) ** -0.3
    runs = compare(table({"slow": {"a": curve, "b": curve}, "fast": {"a": fast, "b": fast}}), "slow")
    assert runs["mixture"].to_list() == ["slow", "fast"]
    assert runs["steps_ratio"].to_list() == pytest.approx([1, 0.5])
    assert runs["difference_percent"].to_list() == pytest.approx([0, 100 * (0.5**0.3 - 1)], rel=1e-9)
    assert runs["domains_better"].to_list() == [0, 2]


def test_a_mixture_that_never_gets_there_has_an_empty_cell(tmp_path):
    curve = 8 * STEPS**-0.3
    losses = table({"baseline": {"a": curve, "b": curve}, "worse": {"a": 0.9 * curve, "b": 1.3 * curve}})
    losses.write_parquet(tmp_path / "losses.parquet")
    out = tmp_path / "comparison.csv"
    compare_mixtures.main(["--losses", f"{tmp_path}/losses.parquet", "--reference", "baseline", "--out", str(out)])
    worse = pl.read_csv(out).row(1, named=True)
    assert worse["steps_to_reference"] is None
    assert worse["steps_ratio"] is None
    assert (worse["worst_domain"], worse["domains_better"]) == ("b", 1)
    assert worse["average_loss"] == pytest.approx(1.1 * curve[-1])
    assert worse["difference_percent"] == pytest.approx(10)


def test_the_order_of_the_rows_does_not_matter():
    losses = table({"m": {"a": STEPS**-0.1, "b": STEPS**-0.2}, "n": {"a": STEPS**-0.3, "b": STEPS**-0.4}})
    shuffled = losses.sample(fraction=1, shuffle=True, seed=1)
    assert average_losses(shuffled).sort("mixture", "step").equals(average_losses(losses).sort("mixture", "step"))
    assert compare(shuffled, "m").sort("mixture").equals(compare(losses, "m").sort("mixture"))


def test_what_cannot_be_compared_is_refused():
    losses = table({"m": {"a": STEPS**-0.1, "b": STEPS**-0.2}, "n": {"a": STEPS**-0.3, "b": STEPS**-0.4}})
    with pytest.raises(InputError, match="'n' at step 500: 1 of 2 domains"):
        compare(losses.filter(~((pl.col("mixture") == "n") & (pl.col("step") == 500) & (pl.col("domain") == "b"))), "m")
    with pytest.raises(InputError, match="'n' ends at step 900"):
        compare(losses.filter((pl.col("mixture") == "m") | (pl.col("step") < 1000)), "m")
    with pytest.raises(InputError, match="'baseline'"):
        compare(losses, "baseline")


def test_repeated_runs_are_averaged_and_their_spread_is_told():
    rows = [
        (name, seed, step, "a", loss + 0.1 * seed)
        for name, seeds, loss in (("baseline", (0, 2), 4.0), ("bimix", (0,), 3.0))
        for seed in seeds
        for step in (10, 20)
    ]
    table = compare(pl.DataFrame(rows, schema=["mixture", "seed", "step", "domain", "loss"], orient="row"), "baseline")
    assert table["runs"].to_list() == [2, 1]
    assert table["average_loss"][0] == pytest.approx(np.sqrt(4.0 * 4.2))
    assert table["deviation_percent"][0] == pytest.approx(100 * np.std([4.0, 4.2], ddof=1) / 4.1)
    assert table["deviation_percent"][1] is None


def test_bits_per_byte_are_the_mean_of_losses_times_their_factors(tmp_path):
    losses = table({"one": {"a": STEPS / 100.0, "b": STEPS / 200.0}, "two": {"a": STEPS / 50.0, "b": STEPS / 400.0}})
    runs = compare(losses, "one", {"a": 0.5, "b": 0.25, "other": None})
    assert runs["bits_per_byte"].to_list() == [(10 * 0.5 + 5 * 0.25) / 2, (20 * 0.5 + 2.5 * 0.25) / 2]
    assert compare(losses, "one", {"a": 0.5, "b": None})["bits_per_byte"].to_list() == [None, None]
    assert runs.drop("bits_per_byte").equals(compare(losses, "one"))
    losses.write_csv(tmp_path / "losses.csv")
    (tmp_path / "bytes.csv").write_text("domain,rows,tokens,bytes,bits_per_nat\na,1,9,9,0.5\nb,1,9,9,0.25\n")
    flags = ["--losses", str(tmp_path / "losses.csv"), "--reference", "one", "--out", str(tmp_path / "runs.csv")]
    for given, columns in ((["--bytes", str(tmp_path / "bytes.csv")], runs.columns), (["--bytes"], None)):
        compare_mixtures.main([*flags, *given])
        written = pl.read_csv(tmp_path / "runs.csv").columns
        assert written == (columns or [name for name in runs.columns if name != "bits_per_byte"])


def test_averages_weigh_domains_as_the_objective_does(tmp_path):
    curve = 8 * STEPS**-0.3
    losses = table({"one": {"a": curve, "b": curve}, "two": {"a": 0.9 * curve, "b": 1.3 * curve}})
    plain, weighed = compare(losses, "one"), compare(losses, "one", {"a": 1.0, "b": 0.5}, {"a": 3, "b": 1})
    assert plain["difference_percent"][1] == pytest.approx(10)
    assert weighed["average_loss"][1] == pytest.approx(np.average([0.9, 1.3], weights=[3, 1]) * curve[-1])
    assert weighed["difference_percent"][1] == pytest.approx(0, abs=1e-9)
    assert weighed["bits_per_byte"][1] == pytest.approx((3 * 0.9 + 1.3 * 0.5) / 4 * curve[-1])
    alone = compare(losses, "one", {"a": 1.0, "b": None}, {"a": 2.0, "b": 0.0})
    assert alone["average_loss"][1] == alone["bits_per_byte"][1] == pytest.approx(0.9 * curve[-1])
    assert alone["steps_to_reference"][1] == pytest.approx(steps_to_reach(STEPS, 0.9 * curve, curve[-1]))
    assert alone["worst_domain"][1] == "b"
    losses.write_parquet(tmp_path / "losses.parquet")
    flags = ["--losses", str(tmp_path / "losses.parquet"), "--reference", "one", "--out", str(tmp_path / "out.csv")]
    compare_mixtures.main([*flags, "--weights", '{"a": 1}'])
    assert pl.read_csv(tmp_path / "out.csv")["average_loss"][1] == pytest.approx(0.9 * curve[-1])
    with pytest.raises(InputError, match="weights name 'c', which has no losses: a, b have"):
        average_losses(losses, {"c": 1})
    with pytest.raises(InputError, match="all weights are 0"):
        average_losses(losses, {"a": 0})


def test_weights_of_metrics_are_no_weights_of_losses():
    curve = 8 * STEPS**-0.3
    losses = table({"one": {"a": curve, "b": 2 * curve, "arc": 0 * curve + 0.5}})
    losses = losses.with_columns(metric=pl.col("domain") == "arc")
    assert compare(losses, "one", weights={"arc": 1.0})["average_loss"][0] == pytest.approx(1.5 * curve[-1])
    assert compare(losses, "one", weights={"arc": 1.0, "b": 2.0})["average_loss"][0] == pytest.approx(2 * curve[-1])
    with pytest.raises(InputError, match="weights name 'ark'"):
        compare(losses, "one", weights={"ark": 1.0})


def test_a_loss_that_weighs_nothing_may_be_infinite():
    curve = 8 * STEPS**-0.3
    losses = table({"one": {"a": curve, "b": np.inf * curve}})
    assert average_losses(losses, {"a": 1})["loss"].to_list() == pytest.approx(list(curve))
