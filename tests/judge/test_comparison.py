"""Steps saved: a curve of known form reaches a level where algebra says it does."""

import numpy as np
import polars as pl
import pytest
from refusals import refused

import compare_mixtures
from bimix.errors import InputError
from bimix.judge import comparison
from bimix.judge.comparison import steps_to_reach
from bimix.judge.measured import Criterion, measured
from bimix.observations.averages import average_losses

STEPS = np.arange(100, 1001, 100)


def compare(
    losses: pl.DataFrame, reference: str, factors: dict | None = None, weights: dict | None = None, **criterion
) -> pl.DataFrame:
    found = comparison.compared(measured(losses), Criterion(reference, weights=weights or {}, **criterion))
    return comparison.table(found, factors)


def table(curves: dict[str, dict[str, np.ndarray]]) -> pl.DataFrame:
    rows = [
        (mixture, int(step), domain, float(loss))
        for mixture, domains in curves.items()
        for domain, losses in domains.items()
        for step, loss in zip(STEPS, losses, strict=True)
    ]
    return pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row")


def test_steps_saved_follow_from_a_power_law():
    losses = 9 * STEPS**-0.25
    for step in (150, 333, 999):
        assert steps_to_reach(STEPS, losses, 9 * step**-0.25) == pytest.approx(step, rel=1e-12)
    assert steps_to_reach(STEPS, losses, losses[-1]) == pytest.approx(1000)
    assert steps_to_reach(STEPS, losses, losses[0]) == 100
    assert steps_to_reach(STEPS, losses, losses[-1] - 1e-9) is None
    # the first arrival counts even if the loss rises again
    assert steps_to_reach(np.array([10, 20, 30]), np.array([3.0, 1.0, 2.0]), 1.0) == pytest.approx(20)
    # a mixture that learns twice as fast needs half the steps
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


def test_what_cannot_be_compared_is_refused():
    losses = table({"m": {"a": STEPS**-0.1, "b": STEPS**-0.2}, "n": {"a": STEPS**-0.3, "b": STEPS**-0.4}})
    gone = (pl.col("mixture") == "n") & (pl.col("step") == 1000) & (pl.col("domain") == "b")
    refused("'n' has no loss of 'b' at step 1000", compare, losses.filter(~gone), "m")
    nan = losses.with_columns(pl.when(gone).then(np.nan).otherwise(pl.col("loss")).alias("loss"))
    refused("'n' has no loss of 'b' at step 1000 that is a finite number", compare, nan, "m")
    seeds = pl.concat([one.with_columns(seed=pl.lit(seed)) for seed, one in ((4, losses), (7, nan))])
    refused("'n' with seed 7 has no loss of 'b'", compare, seeds, "m")
    with pytest.raises(InputError, match="'n' at step 500: 1 of 2 domains"):
        average_losses(
            losses.filter(~((pl.col("mixture") == "n") & (pl.col("step") == 500) & (pl.col("domain") == "b")))
        )
    with pytest.raises(InputError, match="'n' ends at step 900, others at step 1000"):
        compare(losses.filter((pl.col("mixture") == "m") | (pl.col("step") < 1000)), "m")
    refused("'baseline'", compare, losses, "baseline")


def test_repeated_runs_are_averaged_and_their_spread_is_told():
    rows = [
        (name, seed, step, "a", loss + 0.1 * seed)
        for name, seeds, loss in (("baseline", (0, 2), 4.0), ("bimix", (0,), 3.0))
        for seed in seeds
        for step in (10, 20)
    ]
    table = compare(pl.DataFrame(rows, ["mixture", "seed", "step", "domain", "loss"], orient="row"), "baseline")
    assert table["runs"].to_list() == [2, 1]
    assert table["average_loss"][0] == pytest.approx(np.sqrt(4.0 * 4.2))
    assert table["deviation_percent"][0] == pytest.approx(100 * np.std([4.0, 4.2], ddof=1) / 4.1)
    assert table["deviation_percent"][1] is None


def test_bits_per_byte_are_the_mean_of_losses_times_their_factors(tmp_path):
    losses = table({"one": {"a": STEPS / 100.0, "b": STEPS / 200.0}, "two": {"a": STEPS / 50.0, "b": STEPS / 400.0}})
    runs = compare(losses, "one", {"a": 0.5, "b": 0.25, "other": None})
    assert runs["bits_per_byte"].to_list() == pytest.approx([(10 * 0.5 + 5 * 0.25) / 2, (20 * 0.5 + 2.5 * 0.25) / 2])
    assert compare(losses, "one", {"a": 0.5, "b": None})["bits_per_byte"].to_list() == [None, None]
    assert runs.drop("bits_per_byte").equals(compare(losses, "one").drop("bits_per_byte"))
    losses.write_csv(tmp_path / "losses.csv")
    (tmp_path / "bytes.csv").write_text("domain,rows,tokens,bytes,bits_per_nat\na,1,9,9,0.5\nb,1,9,9,0.25\n")
    flags = ["--losses", str(tmp_path / "losses.csv"), "--reference", "one", "--out", str(tmp_path / "runs.csv")]
    for given, unknown in ((["--bytes", str(tmp_path / "bytes.csv")], 0), (["--bytes"], 2)):
        compare_mixtures.main([*flags, *given])
        assert pl.read_csv(tmp_path / "runs.csv")["bits_per_byte"].null_count() == unknown


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
    refused("weights name 'c', which is no loss domain: there are a, b", average_losses, losses, {"c": 1})
    refused("all weights are 0", average_losses, losses, {"a": 0})


def test_metrics_are_judged_in_their_unit_and_not_without_weights():
    curve = 8 * STEPS**-0.3
    losses = table({"one": {"a": curve, "b": 2 * curve, "arc": 0 * curve + 0.5}})
    losses = losses.with_columns(metric=pl.col("domain") == "arc")
    rows = compare(losses, "one", weights={"arc": 1.0}).row(0, named=True)
    assert (rows["average_loss"], rows["unit"], rows["worst_domain"], rows["domains"]) == (0.5, "arc", "b", 2)
    only_losses = compare(losses, "one", weights={"b": 2.0}).row(0, named=True)
    assert only_losses["average_loss"] == pytest.approx(2 * curve[-1]) and only_losses["unit"] == "nats per token"
    assert compare(losses, "one", weights={"arc": 1.0, "b": 1.0})["unit"][0] == "units of several metrics"
    refused(r"losses and metrics \(arc\) have no common average", compare, losses, "one")
    refused("weights name 'ark'", compare, losses, "one", weights={"ark": 1.0})


def test_minimax_is_the_worst_ratio_to_what_the_reference_ends_with():
    curve = 8 * STEPS**-0.3
    losses = table({"one": {"a": curve, "b": 2 * curve}, "two": {"a": 0.5 * curve, "b": 2.2 * curve}})
    found = compare(losses, "one", kind="minimax")
    assert found["worst_ratio"].to_list() == pytest.approx([1, 1.1]) and found["difference_percent"][1] > 9
    assert found["average_loss"][1] < found["average_loss"][0]
    families = compare(losses, "one", kind="minimax", families={"both": ["a", "b"]})
    assert families["worst_ratio"][1] == pytest.approx((0.5 + 1.1) / 2)
    alone = compare(losses, "one", kind="minimax", weights={"a": 1.0})
    assert alone["worst_ratio"][1] == pytest.approx(0.5)


def test_no_worse_than_says_by_which_domain_it_is_broken_and_by_how_much():
    one = STEPS / 1e3
    losses = table({"one": {"a": one, "b": one}, "two": {"a": 0.5 * one, "b": 1.1 * one}})
    for margin, broken in ((0.0, "b 10 %"), (0.05, "b 4.8 %"), (0.1, ""), (0.2, "")):
        found = compare(losses, "one", kind="no_worse_than", margin=margin)
        assert found["broken"].to_list() == ["", broken], margin
    assert compare(losses, "one")["broken"].null_count() == 2
    # a domain of weight 0 is compared, too: without its loss nothing says that it is not worse
    lacking = losses.filter((pl.col("mixture") == "one") | (pl.col("domain") == "a"))
    refused("'two' has no loss of 'b'", compare, lacking, "one", kind="no_worse_than", weights={"a": 1.0})


def test_an_infinite_loss_of_weight_0_is_not_in_the_average():
    losses = table({"m": {"a": STEPS**-0.1, "b": np.full(len(STEPS), np.inf)}})
    assert average_losses(losses, {"a": 2.0})["loss"].to_numpy() == pytest.approx(STEPS**-0.1)


def test_sizes_are_never_mixed_and_the_order_of_the_rows_does_not_matter():
    """At 1M `b` is better; only `a` was run at 8M, where all is lower."""
    rows = [
        (name, size, 10, "web", loss)
        for name, size, loss in (("a", 1e6, 4.0), ("b", 1e6, 3.9), ("a", 8e6, 3.0), ("c", 8e6, 3.1))
    ]
    losses = pl.DataFrame(rows, ["mixture", "parameters", "step", "domain", "loss"], orient="row")
    both = losses.filter(pl.col("mixture") != "c")
    assert compare(both, "a")["difference_percent"][1] == pytest.approx(-2.5)
    assert measured(both).parameters == 1e6 and measured(losses.filter(pl.col("mixture") != "b")).parameters == 8e6
    refused(r"models of 1e\+06, 8e\+06 parameters, and no size has all of them", measured, losses)
    # the order of the rows does not matter
    losses = table({"m": {"a": STEPS**-0.1, "b": STEPS**-0.2}, "n": {"a": STEPS**-0.3, "b": STEPS**-0.4}})
    shuffled = losses.sample(fraction=1, shuffle=True, seed=1)
    assert average_losses(shuffled).sort("mixture", "step").equals(average_losses(losses).sort("mixture", "step"))
    assert compare(shuffled, "m").sort("mixture").equals(compare(losses, "m").sort("mixture"))


def test_of_two_runs_of_a_mixture_and_size_the_longest_is_compared() -> None:
    """The same step of the same mixture, with 100 and 200 tokens."""
    rows = [("one", 10, "a", 2.0, 1, 100.0), ("one", 10, "a", 1.0, 1, 200.0), ("two", 10, "a", 3.0, 1, 100.0)]
    schema = ["mixture", "step", "domain", "loss", "seed", "tokens"]
    runs = measured(pl.DataFrame(rows, schema=schema, orient="row"))
    assert runs.last()[:, 0, 0].tolist() == [1.0, 3.0]
