"""The page at the end of a run: it says who wins, and is never wider than a terminal."""

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, of_sizes, write_runs

import summarize_results
from bimix.judge.comparison import compared
from bimix.judge.facts import measured_facts
from bimix.judge.law_scores import LAWS_TABLE
from bimix.judge.measured import Criterion, measured
from bimix.laws.fitted import at_run, fit
from bimix.observations.observations import read_observations
from bimix.optimum.intervals import INTERVALS
from bimix.outputs import write_json
from bimix.results import sections
from bimix.results.layout import labels
from bimix.results.pages import as_list, as_text, table_page

STEPS = (100, 200, 400)
CURVE = {"A": 1.0, "alpha": 0.1, "B": 9.0, "beta": 0.4, "C": 1.0}


def test_labels_of_a_table_differ_and_fit() -> None:
    names = ["train_the_pile_pubmed_abstracts", "train_the_pile_pubmed_central", "web"]
    for given in (
        names,
        ["a" * 40 + "b" + "c" * 40, "a" * 40 + "d" + "c" * 40],
        [f"x{n}_{'y' * 30}_z" for n in range(9)],
    ):
        found = labels(given, 22)
        assert list(found) == given and len(set(found.values())) == len(given)
        assert max(map(len, found.values())) <= 22
    assert labels(names, 22)["web"] == "web"
    even = dict.fromkeys(names, 1 / 3)
    lines = sections.proportions("a", even, "b", even, {})
    assert len({line.split()[0] for line in lines[1:4]}) == 3


def runs(**finals: tuple[float, float]) -> pl.DataFrame:
    """Runs with these final losses in two domains."""
    rows = [
        (name, step, domain, loss * (400 / step) ** 0.2)
        for name, pair in finals.items()
        for domain, loss in zip(("a", "b"), pair, strict=True)
        for step in STEPS
    ]
    return pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row")


def write_inputs(documents: dict[str, dict], losses: pl.DataFrame, shares: dict[str, dict[str, float]]) -> None:
    """Documents as JSON, the losses compared, and the mixtures, in this folder."""
    for name, content in documents.items():
        Path(f"{name}.json").parent.mkdir(exist_ok=True)
        write_json(Path(f"{name}.json"), content)
    losses.write_csv("compare.csv")
    rows = [(name, domain, share) for name, own in shares.items() for domain, share in own.items()]
    pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row").write_csv("mixtures.csv")


def write_intervals(law: str, step: int, mixture: str, ends: tuple[float, ...], over: str, gain: tuple) -> None:
    """What a law predicts for its optimum, and its gain: estimate, low and high of each."""
    rows = [("optimum_average_loss", mixture, ends), ("gain", over, gain)]
    spans = [
        {"law": law, "step": step, "level": 0.9, "kind": "left_out", "quantity": quantity, "mixture": name}
        | dict(zip(("estimate", "low", "high"), own, strict=True))
        for quantity, name, own in rows
    ]
    pl.DataFrame(spans, schema=INTERVALS).write_csv("intervals.csv")


def summarise(**flags: str) -> tuple[str, str]:
    """Write the page in this folder by the flags and what stands here; its text and the details."""
    usual = {"dataset": "mine", "intervals": "intervals.csv", "compared": "compare.csv", "mixtures": "mixtures.csv"}
    usual |= {"figures": "results/mine/figures/mixtures.svg", "coefficients": "law.json"}
    usual |= {"out": "summary.txt", "details": "details.txt", "page": "summary.html", "verdict": "verdict.json"}
    words = [part for flag, value in (usual | flags).items() for part in (f"--{flag.replace('_', '-')}", value)]
    summarize_results.main(words)
    return Path("summary.txt").read_text(), Path("details.txt").read_text()


def facts() -> dict:
    """The facts of the page that was written last."""
    return json.loads(Path("verdict.json").read_text())


def compared_lines(table: pl.DataFrame) -> list[str]:
    """The table of runs compared with the baseline."""
    judged = compared(measured(table), Criterion("baseline"))
    of = SimpleNamespace(shown=judged, shown_model="target", verdict=SimpleNamespace(best="m0"))
    return sections.compared({"names": {}, "take": "m0", "measured": measured_facts(of)})


def test_the_table_has_the_best_five_and_the_reference() -> None:
    table = runs(**{f"m{n}": (3.0 + 0.1 * n,) * 2 for n in range(8)} | {"baseline": (4.0, 4.0)})
    lines = compared_lines(table)
    assert [line.split()[0] for line in lines[3:9]] == ["m0", "m1", "m2", "m3", "m4", "baseline"]
    assert "ratio" in lines[2] and "and 3 more" in " ".join(lines[9:])
    # one evaluated step has no steps that are needed
    once = compared_lines(table.filter(pl.col("step") == 400))
    assert "ratio" not in " ".join(once) and "? the noise of a run is not known" in " ".join(once)


def test_a_table_of_shares_marks_those_outside_and_says_their_epochs():
    # a proportion outside those seen is marked
    seen = {"a": {"min": 0.2, "max": 0.5}, "b": {"min": 0.5, "max": 0.8}}
    lines = sections.proportions("baseline", {"a": 0.3, "b": 0.7}, "bimix", {"a": 0.1, "b": 0.9}, seen)
    assert "0.9000*" in lines[1]
    assert "0.3000 " in lines[2]
    assert lines[-1].strip().startswith("* outside")
    inside = sections.proportions("baseline", {"a": 0.3, "b": 0.7}, "bimix", {"a": 0.4, "b": 0.6}, seen)
    assert not any("*" in line for line in inside)
    # epochs stand beside the shares and whether their bound binds
    shares, seen = {"a": 0.25, "b": 0.75}, {"a": {"min": 0, "max": 1}, "b": {"min": 0, "max": 1}}
    lines = sections.proportions("baseline", shares, "bimix", shares, seen, epochs={"a": 4.0, "b": 0.123})
    assert lines[0].endswith("epochs") and lines[1].endswith("0.123") and lines[2].endswith("    4")
    assert sections.epoch_bound({"a": 4.0, "b": 0.1}, 4) == ["  max_epochs 4 binds for a."]
    assert sections.epoch_bound({"a": 3.0}, 4) == ["  max_epochs 4 does not bind."]
    assert sections.epoch_bound({"a": 8.0}, 4) == ["  max_epochs 4 is exceeded in this run for a."]
    assert sections.epoch_bound({"a": 3.0}, None) == sections.epoch_bound({"a": 3.0}, float("inf")) == []


def test_the_page_fits_a_terminal(tmp_path, monkeypatch):
    for domains in (1, 7, 22):
        monkeypatch.chdir(tmp_path)
        names = [f"{k:02d} A domain with <quite> a long name & more of it" for k in range(domains)]
        mixture = dict(zip(names, np.full(domains, 1 / domains).tolist(), strict=True))
        law = {
            "law": "bimix",
            "mixtures": ["se", "je", "ce", "vne"],
            "steps": [10_000, 20_000],
            "domains": names,
            "loss_domains": names,
            "coefficients": dict.fromkeys(names, CURVE),
            "proportions_seen": {name: {"min": 0.0, "max": 1.0} for name in names},
            "warnings": [f"the proportion of {name} varied only from 0.1 to 0.1: hardly identified." for name in names],
        }
        laws = {
            "law": ["bimix", "exponential", "transfer"],
            "coefficients": [4 * domains, 10**7, None],
            "runs": [4, 4, 4],
            "held_out_percent": [0.1, 1234.5, None],
        }
        none = {name: [None] * 3 for name in LAWS_TABLE if name not in laws}
        pl.DataFrame(
            laws | none | {"note": [None, "needs 24 runs", "mixture 'a' has a proportion of 0. " * 4]}
        ).write_csv(tmp_path / "laws.csv")
        write_intervals("bimix", 200_000, "bimix", (2.5, -0.01, 0.21), "baseline", (0.1, -0.01, 0.21))
        losses = runs(baseline=(4, 4), published_doremi=(4, 4.5), bimix=(3, 3))
        write_inputs({"law": law, "bimix": mixture, "baseline": mixture}, losses, {"baseline": mixture})
        flags = {"fitted_model": "280M", "compared_model": "1B", "step": "200000", "optimised": "bimix.json"}
        flags |= {"reference": "baseline", "reference_mixture": "baseline.json", "laws": "laws.csv"}
        text, details = summarise(**flags)
        wide = [line for line in (text + details).splitlines() if len(line) > 80]
        assert not wide
        first = text.partition("\n\n")[0].splitlines()
        assert text.count("\n") <= 60 and len(first) <= 24, "the five lines are seen on a small terminal"
        labels = [line.split()[0] for line in first[first.index("=" * 78) + 1 :] if line[0] != " "]
        assert labels == ["Take", "Gain", "Risk", "Next", "Page"]
        assert (facts()["take"], facts()["outcome"], facts()["measured"]["model"]) == ("bimix", "wins", "1B")
        assert facts()["optimum"]["predicted"]["percent"] == pytest.approx(100 * 0.1 / 2.6)
        flat, more = " ".join(text.split()), " ".join(details.split())
        assert ("and 12 more domains" in flat) == (domains == 22)
        assert "2.5000 (" in more and "+3.85 % (" in more
        assert "results/mine/figures/mixtures.svg" in more
        for one in (flat, more):
            assert "Step 200,000 is 10 times the last step at which losses were measured, 20,000: the law" in one
        assert "1234.50" in more and "needs 24 runs" in more and "transfer: mixture 'a'" in more
        assert {"commit", "clean", "written"} <= facts()["data"].keys()
        assert (text + details).isascii()
        page = (tmp_path / "summary.html").read_text()
        assert "&lt;quite&gt;" in page and "details of the summary" in page


def law_of(count: int) -> dict:
    """A law of so many runs."""
    law = {"law": "bimix", "mixtures": [f"m{n}" for n in range(count)], "steps": list(STEPS), "warnings": []}
    law |= {"domains": ["a", "b"], "loss_domains": ["a", "b"], "coefficients": {"a": CURVE, "b": CURVE}}
    return law | {"proportions_seen": {"a": {"min": 0.1, "max": 0.7}, "b": {"min": 0.1, "max": 0.9}}}


@pytest.mark.parametrize(
    ("step", "model", "at", "outcome"),
    [
        ("200", "small", 200, "crossing"),
        ("400", "small", 400, "m0"),
        ("300", "small", 400, "m0"),
        ("200", "large", 400, "m0"),
    ],
)
def test_runs_are_judged_at_the_step_of_the_optima_if_all_were_evaluated_at_it(
    tmp_path, monkeypatch, step, model, at, outcome
):
    monkeypatch.chdir(tmp_path)
    documents = {"crossing": {"a": 0.6, "b": 0.4}, "m0": {"a": 0.5, "b": 0.5}}
    write_intervals("bimix", int(step), "transfer", (2.4, 2.3, 2.5), "m0", (0.1, 2.3, 2.5))
    losses = {"m0": (4.0, 3.0, 2.0), "crossing": (3.5, 2.5, 2.25)}  # which is lower until the last evaluation
    rows = [
        (name, one, domain, loss)
        for name, own in losses.items()
        for domain in "ab"
        for one, loss in zip(STEPS, own, strict=True)
    ]
    table = pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row")
    write_inputs(documents | {"law": law_of(2)}, table, documents)
    flags = {"fitted_model": model, "compared_model": "small", "step": step, "optimised": "crossing.json"}
    flags |= {"reference": "m0", "reference_mixture": "m0.json", "ranks": '{"crossing": 4}'}
    summarise(**flags)
    assert (facts()["take"], facts()["outcome"], facts()["measured"]["step"]) == (outcome, "wins", at)


@pytest.mark.parametrize("off", [0.0004, 0.08])
def test_a_run_called_like_an_optimum_counts_as_its_run_only_where_its_proportions_are_the_same(
    tmp_path, monkeypatch, capsys, off
):
    monkeypatch.chdir(tmp_path)
    even, found = {"a": 0.5, "b": 0.5}, {"a": 0.6, "b": 0.4}
    write_intervals("bimix", 400, "transfer", (2.4, 2.3, 2.5), "m0", (0.1, 2.3, 2.5))
    documents = {"mixtures/transfer": found, "mixtures/m0": even, "law": law_of(4)}
    ran = {"m0": even, "transfer": {"a": 0.6 + off, "b": 0.4 - off}}
    write_inputs(documents, runs(m0=(2.6, 2.6), transfer=(2.42, 2.42)), ran)
    flags = {"fitted_model": "observed", "compared_model": "observed", "step": "400", "proxies": "compare.csv"}
    flags |= {"optimised": "mixtures/transfer.json", "reference": "m0", "reference_mixture": "mixtures/m0.json"}
    flags |= {"ranks": '{"m0": 2, "transfer": 4}'}
    flat, more = (" ".join(text.split()) for text in summarise(**flags))
    log = capsys.readouterr().err
    assert "of observed" not in flat and "2.4000 (2.3000 to 2.5000, 90 %)" in more
    rows = facts()["measured"]["mixtures"]
    if off < 0.01:
        assert facts()["optimum"]["measured"]["percent"] == pytest.approx(100 * (1 - 2.42 / 2.6))
        assert not log and "transfer" in rows and "Renamed" not in flat
        return
    assert "0.0800 off" in log and "0.0800 off" in flat and "Renamed" in flat
    assert rows["transfer (measured)"]["value"] == pytest.approx(2.42) and "transfer" not in rows
    assert facts()["optimum"]["measured"] is None
    assert "transfer" in [name for step in facts()["next"] for name in step["mixtures"] if step["do"] == "train"]


def sized(parameters: float, tokens: float) -> dict:
    """A law over two sizes, read at a run."""
    sizes = [{"parameters": one, "tokens": 20 * one, "runs": 4} for one in (1e6, 6e7)]
    values = {"size": {"sizes": sizes}, "run": {"parameters": parameters, "tokens": tokens}}
    return {"rows": "last", "coefficients": {"web": values, "code": values}}


def test_of_one_size_nothing_is_said_and_a_size_far_beyond_is_a_guess():
    one = sized(6e7, 1e9)
    for values in one["coefficients"].values():
        values["size"]["sizes"] = [{"parameters": 1.0, "tokens": tokens, "runs": 3} for tokens in (1e8, 1e9)]
    assert (
        sections.size_sentence(one, "proxy", "large")
        == sections.size_sentence({"coefficients": {"web": {}}}, "proxy", "large")
        == ""
    )
    said = sections.size_sentence(sized(1.2e9, 2.5e10), "proxy+small", "large")
    assert "20 times the largest size fitted" in said
    assert "8 runs are of models at least 20 times smaller than 1.2e+09 parameters" in said


def test_the_page_is_made_without_the_tables_of_one_size(tmp_path, monkeypatch):
    """The prediction for a model stands next to its measured loss."""
    monkeypatch.chdir(tmp_path)
    truth, shares, domains = of_sizes(3), mixtures(1, 4, 4), ("a", "b", "c", "d")
    small = [
        (f"m{n}", at, {"parameters": at[0], "tokens": at[1]}) for at in ((1e6, 2e7), (6e7, 1.2e9)) for n in range(4)
    ]
    small = [(name, shares[int(name[1])], truth(shares, *at)[int(name[1])], run, None) for name, at, run in small]
    tables = write_runs(small, domains, tmp_path / "l.csv", tmp_path / "m.csv")
    fitted = at_run(fit("transfer", read_observations(tables[1], tables[3])), 1.2e8, 6e9)
    even, other = dict.fromkeys(domains, 0.25), dict(zip(domains, (0.1, 0.2, 0.3, 0.4), strict=True))
    rows = [
        (name, step, domain, end + (step == 60))
        for name, end in (("se", 3.0), ("transfer", 2.9))
        for step in (60, 90, 120)
        for domain in domains
    ]
    losses = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    write_inputs({"law": fitted, "transfer": other, "se": even}, losses, {"se": even})
    write_intervals("transfer", 120, "transfer", (2.95, 2.9, 3.0), "se", (0.1, 0.05, 0.15))
    flags = {"fitted_model": "proxy+small", "asked_model": "large", "compared_model": "large", "step": "120"}
    flags |= {"optimised": "transfer.json", "reference": "se", "reference_mixture": "se.json", "tables": "sizes.csv"}
    text, details = (" ".join(one.split()) for one in summarise(**flags))
    assert "by transfer for large at step 120: 2.9500 (2.9000 to 3.0000, 90 %)" in details
    assert (facts()["law"]["model"], facts()["optimum"]["predicted"]["model"]) == ("proxy+small", "large")
    assert "fitted on proxy+small of 1M (4 runs), 60M (4 runs) parameters, read at large of 120M" in text
    assert "for step 120 of large" in details
    assert "The laws on the same rows" not in text and "the law extrapolates" not in text + details
    assert "(proxy+small)." in details and "figures sizes.csv results/mine/figures/mixtures.svg" in details


def test_html_quotes_names_and_draws_bars() -> None:
    quoted = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", as_list([("Mixture", '<b> & "c", 3 % `x`')]))
    assert quoted == [("Mixture", "&lt;b&gt; &amp; &quot;c&quot;, 3\N{NO-BREAK SPACE}% <code>x</code>")]
    text = as_text(["  <b>  0.2118  ####        0.2399* ##", "  Spearman's rho is 1"])
    assert text.count("<span") == 2 and "width: 4ch" in text and {"&lt;b&gt;", "0.2118", "0.2399*"} <= set(text.split())
    assert "Spearman&#x27;s" in text, "no bar inside of a quoted sign"
    # cells of a table are quoted and keep all digits
    table = pl.DataFrame({"a & b": ["<script>alert(1)</script>", '"'], "loss": [0.123456789, None]})
    page = table_page(table, "x < y", "t.csv", table.write_csv())
    assert "<script" not in page and "x &lt; y" in page
    rows = ElementTree.fromstring(page[page.index("<table>") : page.index("</table>") + len("</table>")])
    shown = [[cell.text for cell in row] for row in rows]
    assert shown == [["a & b", "loss"], ["<script>alert(1)</script>", "0.12346"], ['"', None]]
    assert table.write_csv() == base64.b64decode(re.search(r"base64,([^\"]+)", page)[1]).decode()
    assert "nothing to put into this table" in table_page(table.head(0), "empty", "t.csv", "")
    assert "nothing to put into this table" not in page
