"""The laws' own figures and tables: comparison, learning curve, optimum."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import polars as pl
import pytest
from laws.known import observe, of_three, write_tables
from refusals import refused

import compare_laws
import estimate_intervals
import fit_law
import plot_fit
import plot_learning
import plot_optimum
import plot_predictions
import predict_losses
import tabulate_laws
import trace_learning
from bimix.errors import InputError
from bimix.judge.comparison import compared
from bimix.judge.comparison import table as comparison_table
from bimix.judge.law_scores import complexity
from bimix.judge.measured import Criterion, measured
from bimix.laws import fitted as laws
from bimix.observations import averages
from bimix.observations.observations import Observations, observations

DOMAINS = ["code & co", "law", "web"]
STEPS = [500, 1000, 2000, 4000]
BASELINE = '{"code & co": 0.2, "law": 0.3, "web": 0.5}'


def texts(path) -> str:
    return " | ".join(text for element in ElementTree.parse(path).iter() for text in element.itertext())


def pair(folder, name, runs, seed, steps=STEPS, noise=0.002):
    draw = np.random.default_rng(seed)
    observed = observe(of_three(False), draw.dirichlet(np.ones(3) * 3, runs), steps, noise, draw, DOMAINS, name)
    return write_tables(observed, folder / f"{name}_l.parquet", folder / f"{name}_m.parquet", 100)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """All that four runs and two held out give, under bimix, exponential and regmix."""
    folder = tmp_path_factory.mktemp("laws")
    fitted, new = pair(folder, "run", 4, 1), pair(folder, "new", 2, 2)
    held_out = ["--held-out-losses", new[1], "--held-out-mixtures", new[3]]
    names = ["bimix", "exponential", "regmix"]
    compare_laws.main(["--laws", *names, *fitted, *held_out, "--out", f"{folder}/comparison.csv"])
    law = ["--coefficients", f"{folder}/bimix.json"]
    fit_law.main(["--law", "bimix", *fitted, "--out", f"{folder}/bimix.json"])
    predict_losses.main([*law, "--mixtures", new[3], "--out", f"{folder}/predictions.parquet"])
    resample = ["--resamples", "30", "--level", "0.9", "--seed", "0"]
    baseline = ["--baseline", "mine", "--baseline-mixture", BASELINE]
    spans = [*law, *fitted, "--predict", new[3], "--step", "4000", *resample, *baseline]
    estimate_intervals.main([*spans, "--out", f"{folder}/intervals.csv"])
    return folder


def test_tables_of_the_laws(results, tmp_path):
    tables = ["--laws-table", f"{tmp_path}/laws.csv", "--complexity-table", f"{tmp_path}/complexity.csv"]
    fitted = ["--losses", f"{results}/run_l.parquet", "--mixtures", f"{results}/run_m.parquet"]
    tabulate_laws.main(["--comparison", f"{results}/comparison.csv", *fitted, *tables])
    rows = {row["law"]: row for row in pl.read_csv(tmp_path / "laws.csv").iter_rows(named=True)}
    assert rows["bimix"]["coefficients"] == 12 and rows["bimix"]["held_out_percent"] < 1
    assert rows["exponential"]["extrapolation_percent"] is None and rows["exponential"]["note"] == "needs 5 runs"
    sizes = {row["law"]: row for row in pl.read_csv(tmp_path / "complexity.csv").iter_rows(named=True)}
    assert sizes["bimix"]["all_domains_all_steps_here"] == 12
    assert sizes["exponential"]["all_domains_all_steps_here"] == (3**2 + 2 * 3) * 4  # the paper's m^2 n + 2 m n


def test_numbers_in_the_complexity_table_are_those_that_the_laws_fit(tmp_path):
    for steps in (STEPS, STEPS[-1:]):
        flags = pair(tmp_path, "run", 40, 1, steps)
        table = complexity(list(laws.LAWS), 3, 3, len(steps))
        known = table.filter(pl.col("all_domains_all_steps_here").is_not_null())
        assert {"bimix", "transfer", "exponential", "olmix"} <= set(known["law"]) and "regmix" not in set(known["law"])
        for law, size in known.select("law", "all_domains_all_steps_here").iter_rows():
            fit_law.main(["--law", law, *flags, "--out", str(tmp_path / "c.json")])
            fitted = json.loads((tmp_path / "c.json").read_text())
            choice = fitted.get("choice", {"terms": 1})
            # transfer may find that nothing is transferred, or that a share hurts
            if choice["terms"] == 1 and not any(choice.get("harms", [])):
                assert fitted["coefficients_fitted"] == size


def test_learning_curve(tmp_path):
    flags = pair(tmp_path, "run", 12, 1)
    counts = ["--counts", "4", "6", "64", "--draws", "2", "--seed", "0"]
    trace_learning.main(["--laws", "bimix", "regmix", *flags, *counts, "--out", f"{tmp_path}/l.csv"])
    plot_learning.main(["--learning", f"{tmp_path}/l.csv", "--out", f"{tmp_path}/figure.svg"])
    shown = texts(tmp_path / "figure.svg")
    assert "bimix" in shown and "2 draws" in shown
    assert set(pl.read_csv(tmp_path / "l.csv")["runs"]) == {4, 6}  # three at least are left to predict
    none = pl.read_csv(tmp_path / "l.csv").with_columns(mre=None, mre_worst=None, spearman=None, note=pl.lit("why."))
    none.write_csv(tmp_path / "none.csv")
    with pytest.raises(InputError, match="no law could be fitted"):
        plot_learning.main(["--learning", f"{tmp_path}/none.csv", "--out", f"{tmp_path}/none.svg"])
    assert not (tmp_path / "none.svg").exists()


def test_the_optimum_with_its_intervals(results, tmp_path):
    flags = ["--coefficients", f"{results}/bimix.json", "--baseline", "mine", "--baseline-mixture", BASELINE]
    flags += ["--compared-losses", f"{results}/run_l.parquet", "--compared-mixtures", f"{results}/run_m.parquet"]
    plot_optimum.main([*flags, "--intervals", f"{results}/intervals.csv", "--out", f"{tmp_path}/figure.svg"])
    shown = texts(tmp_path / "figure.svg")
    gain = pl.read_csv(results / "intervals.csv").filter(pl.col("quantity") == "gain").row(0, named=True)
    best = pl.read_csv(results / "intervals.csv").filter(pl.col("quantity") == "optimum_average_loss")["estimate"][0]
    low, estimate, high = (-100 * gain[name] / (best + gain["estimate"]) for name in ("high", "estimate", "low"))
    said = f"against mine: predicted {estimate:+.2f} % ({low:+.2f} to {high:+.2f} %), not measured."
    assert said in " ".join(shown.replace("|", "").split())  # of a title in lines
    assert "90 % interval" in shown and "code & co" in shown
    pl.read_csv(results / "intervals.csv").filter(pl.col("quantity") == "loss").write_csv(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"estimate_intervals\.py --resamples"):
        plot_optimum.main([*flags, "--intervals", f"{tmp_path}/none.csv", "--out", f"{tmp_path}/none.svg"])


def test_the_measured_change_stands_beside_the_predicted_one(results, tmp_path):
    table = pl.read_csv(results / "intervals.csv")
    best = table.filter(pl.col("quantity") == "proportion")
    shares = dict(best.select("domain", "estimate").iter_rows())
    mixtures = [("mine", domain, share) for domain, share in json.loads(BASELINE).items()]
    mixtures += [("found", domain, share) for domain, share in shares.items()]
    mixtures = pl.DataFrame(mixtures, ["mixture", "domain", "proportion"], orient="row")
    rows = [
        (name, step, domain, loss)
        for name, last in (("mine", [2.0, 3.0, 4.0]), ("found", [2.2, 2.7, 3.2]))
        for domain, loss in zip(DOMAINS, last, strict=True)
        for step in (10, 20)
    ]
    losses = pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row")
    law = json.loads((results / "bimix.json").read_text())
    equal, first, pair_of = np.ones(3), np.array([1.0, 0.0, 0.0]), ("mine", "found")
    changes = plot_optimum.measured_changes(law, losses, pair_of, equal)
    assert changes == pytest.approx({"code & co": 10, "law": -10, "web": -20, "": 100 * (8.1 / 9 - 1)})
    assert plot_optimum.measured_changes(law, losses, pair_of, first)[""] == pytest.approx(10)
    assert plot_optimum.measured_changes(law, losses, ("mine",), equal) == {}  # no run was trained on the optimum
    losses.write_csv(tmp_path / "losses.csv")
    mixtures.write_csv(tmp_path / "mixtures.csv")
    flags = ["--coefficients", f"{results}/bimix.json", "--baseline", "mine", "--baseline-mixture", BASELINE]
    flags += ["--intervals", f"{results}/intervals.csv", "--weights", "{}", "--compared-model", "large"]
    compared = ["--compared-losses", f"{tmp_path}/losses.csv", "--compared-mixtures", f"{tmp_path}/mixtures.csv"]
    plot_optimum.main([*flags, *compared, "--out", f"{tmp_path}/figure.svg"])
    shown = texts(tmp_path / "figure.svg").replace("\n", " ").replace("| ", "")
    assert "measured -10.00 %" in " ".join(shown.split()) and "measured, large, step 20" in shown


def test_predicted_changes_are_those_at_the_run_of_the_optimum(tmp_path):
    """At a step before the last one, with text that the run repeats and the fitted runs did not."""
    flags, out = pair(tmp_path, "run", 8, 1), f"{tmp_path}/figure.svg"
    fit_law.main(["--law", "transfer", *flags, "--out", f"{tmp_path}/law.json"])
    law = ["--coefficients", f"{tmp_path}/law.json", "--baseline", "mine", "--baseline-mixture", BASELINE]
    at = ["--step", "2000", "--run-tokens", "1e9", "--tokens", '{"code & co": 1e6, "law": 1e9, "web": 1e9}']
    spans = [*law, *flags, *at, "--weights", '{"web": 1, "code & co": 1}', "--resamples", "2", "--level", "0.9"]
    estimate_intervals.main([*spans, "--out", f"{tmp_path}/intervals.csv"])
    table = pl.read_csv(tmp_path / "intervals.csv")
    drawn = plot_optimum.predicted_losses(json.loads((tmp_path / "law.json").read_text()), table, "mine")
    (gain,) = table.filter(pl.col("quantity") == "gain")["estimate"]
    assert drawn[0, [0, 2]].mean() - drawn[1, [0, 2]].mean() == pytest.approx(gain)
    losses = pl.read_parquet(flags[1]).with_columns(pl.col("mixture").replace({"run0": "mine", "run1": "found"}))
    losses.write_csv(tmp_path / "losses.csv")
    best = dict(table.filter(pl.col("quantity") == "proportion").select("domain", "estimate").iter_rows())
    rows = [(name, *row) for name, own in (("mine", json.loads(BASELINE)), ("found", best)) for row in own.items()]
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_csv(tmp_path / "mixtures.csv")
    compared = ["--compared-losses", f"{tmp_path}/losses.csv", "--compared-mixtures", f"{tmp_path}/mixtures.csv"]
    drawing = [*law, *compared, "--intervals", f"{tmp_path}/intervals.csv", "--weights", '{"web": 1, "code & co": 1}']
    for model, step in (("small", "2,000"), ("large", "4,000")):
        plot_optimum.main([*drawing, "--compared-model", "small", "--model", model, "--out", out])
        shown = " ".join(texts(tmp_path / "figure.svg").replace("|", "").split())
        assert f"measured, small, step {step}" in shown and "predicted, step 2,000" in shown
        assert f"against mine: predicted {-100 * gain / drawn[0, [0, 2]].mean():+.2f} %" in shown
    table.filter(pl.col("quantity") != "optimum_loss").write_csv(tmp_path / "intervals.csv")
    refused("no losses at the optimum and at mine: write it", plot_optimum.main, [*drawing, "--out", out])


def test_a_law_of_one_step_is_drawn_at_that_step(results, tmp_path):
    flags = pair(tmp_path, "last", 4, 1, STEPS[-1:])
    fit_law.main(["--law", "bimix", *flags, "--out", f"{tmp_path}/law.json"])
    observed = ["--losses", f"{results}/run_l.parquet", "--mixtures", f"{results}/run_m.parquet"]
    drawn = ["--steps", f"{tmp_path}/steps.svg", "--proportions", f"{tmp_path}/proportions.svg"]
    plot_fit.main(["--coefficients", f"{tmp_path}/law.json", *observed, *drawn])
    law = json.loads((tmp_path / "law.json").read_text())
    seen = observations(pl.read_parquet(observed[1]), pl.read_parquet(observed[3]))
    assert {line.get_marker() for line in plot_fit.draw_steps(law, seen).axes[0].lines[::2]} == {"_"}
    assert "step 4,000" in texts(tmp_path / "proportions.svg") and "step 2,000" not in texts(
        tmp_path / "proportions.svg"
    )


def test_predictions_are_of_mixtures_that_were_not_fitted_with_their_intervals(results, tmp_path):
    flags = ["--coefficients", f"{results}/bimix.json", "--predictions", f"{results}/predictions.parquet"]
    losses, strokes = [f"{results}/run_l.parquet", f"{results}/new_l.parquet"], []
    for spans in ([], ["--intervals", f"{results}/intervals.csv"]):
        plot_predictions.main([*flags, "--losses", *losses, *spans, "--out", f"{tmp_path}/figure.svg"])
        shown = texts(tmp_path / "figure.svg")
        assert "new0: " in shown and "code & co" in shown and "run0" not in shown
        strokes.append((tmp_path / "figure.svg").read_text().count("stroke-width: 1.2"))
    assert strokes[1] - strokes[0] == 2 * 4
    refused("held_out", plot_predictions.main, [*flags, "--losses", losses[0], "--out", f"{tmp_path}/none.svg"])
    assert not (tmp_path / "none.svg").exists()


def test_losses_of_no_domain_that_is_trained_on_give_a_sentence_in_the_place_of_panels(tmp_path) -> None:
    names, share = tuple("uvwxyz"), np.linspace(0.1, 0.6, 6)
    shares = np.stack([share, 1 - share], axis=1)
    runs = Observations(names, ("a", "b"), np.array([100]), ("exam",), shares, (2.1 - share)[:, None, None])
    tables = write_tables(runs, tmp_path / "losses.csv", tmp_path / "mixtures.csv")
    fit_law.main(["--law", "transfer", *tables, "--out", str(tmp_path / "law.json")])
    drawn = ["--steps", str(tmp_path / "s.svg"), "--proportions", str(tmp_path / "f.svg")]
    plot_fit.main(["--coefficients", str(tmp_path / "law.json"), *tables, *drawn])
    assert "No loss is of a domain that is trained on" in (tmp_path / "f.svg").read_text()


def test_figures_of_two_seeds_have_the_numbers_of_the_comparison() -> None:
    draw, domains = np.random.default_rng(5), ["a", "b", "c"]
    rows = [
        (name, seed, step, domain, float(draw.uniform(2, 6)))
        for name in ("mine", "found")
        for seed in (1, 2)
        for step in (10, 20)
        for domain in domains
    ]
    losses = pl.DataFrame(rows, ["mixture", "seed", "step", "domain", "loss"], orient="row")
    table = comparison_table(compared(measured(losses), Criterion("mine")))
    row = table.row(by_predicate=pl.col("mixture") == "found", named=True)
    changes = plot_optimum.measured_changes({"loss_domains": domains}, losses, ("mine", "found"), np.ones(3) / 3)
    assert changes[""] == pytest.approx(row["difference_percent"], rel=1e-9)
    ends = averages.over_seeds(losses).filter((pl.col("step") == 20) & (pl.col("mixture") == "found"))["loss"][0]
    assert ends == pytest.approx(row["average_loss"], rel=1e-9)
