"""The page to play with, in a browser: it computes and saves what Python does."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from browser import Browser, obstacle
from made_laws import DOMAINS, STEPS, law, tables
from refusals import refused

import estimate_intervals
import explore_mixtures
import export_mixture
import solve_mixture
from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.exports.write import SHARES_ALONE
from bimix.laws.fitted import at_run, fit, predict_defined
from bimix.mixtures.mixture import as_mixture
from bimix.observations.observations import read_observations
from bimix.optimum.goal import Goal
from bimix.optimum.intervals import left_out
from bimix.optimum.objective import Objective
from bimix.outputs import write_json
from bimix.results.explore import DRAWN, page

KEPT = Path(__file__).parents[2] / "resources/observations"
LOSSES = "return arguments[1].map(one => Laws.losses(state.law.fitted, arguments[0], one));"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    why = obstacle()
    if why is not None:
        assert not os.environ.get("REQUIRE_BROWSER"), why
        pytest.skip(why)
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


def write_page(folder: Path, losses: pl.DataFrame, mixtures: pl.DataFrame, laws: list[str], *flags: str) -> Path:
    """The page of laws fitted to two tables, with equal proportions as the reference."""
    folder.mkdir(parents=True, exist_ok=True)
    losses.write_csv(folder / "losses.csv")
    mixtures.write_csv(folder / "mixtures.csv")
    observed = read_observations(folder / "losses.csv", folder / "mixtures.csv")
    for name in laws:
        write_json(folder / f"{name}.json", fit(name, observed))
    write_json(folder / "even.json", dict.fromkeys(observed.domains, 1 / len(observed.domains)))
    files = [str(folder / f"{name}.json") for name in laws]
    explore_mixtures.main(
        ["--coefficients", *files, "--runs", str(folder / "mixtures.csv"), "--reference-mixture", str(folder / "even.json"),
         *flags, "--out", str(folder / "explore.html")]
    )  # fmt: skip
    return folder / "explore.html"


def equal(browser: Browser, fitted: dict, run: dict, shares: np.ndarray) -> None:
    """The page's losses of mixtures (n, m) at a run are Python's, to 1e-9."""
    asked = at_run(fitted, run["parameters"], run["tokens"], run["pools"], run["step"])
    expected = predict_defined(asked, shares, np.array([run["step"]], dtype=float))[:, 0]
    rows = [dict(zip(fitted["domains"], one, strict=True)) for one in shares.tolist()]
    found = [[row[name] for name in fitted["loss_domains"]] for row in browser.run(LOSSES, run, rows)]
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-9)


def draws(m: int, seed: int = 0) -> np.ndarray:
    """Mixtures (n, m), one of them of one domain alone but for a trace."""
    return np.concatenate(
        [np.random.default_rng(seed).dirichlet(np.full(m, 0.7), 20), np.eye(m)[:1] * (1 - 1e-6) + 1e-6 / m]
    )


@pytest.fixture(scope="module")
def made(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of all laws that are formulas, fitted to runs of a made law; opened."""
    path = write_page(tmp_path_factory.mktemp("made"), *tables(law(3), 3), list(DRAWN))
    browser.open(path)
    return path


def test_the_page_computes_what_python_computes(browser: Browser, made: Path) -> None:
    for name in DRAWN:
        fitted = json.loads((made.parent / f"{name}.json").read_text())
        browser.run(f"state.law = DATA.laws[{DRAWN.index(name)}];")
        steps = (1, STEPS[0], STEPS[0] + 1, 2 * STEPS[-1] + 1) if name in ("bimix", "transfer") else ()
        for step in (STEPS[-1], *steps):
            run = {"step": step, "parameters": None, "tokens": None, "pools": None}
            equal(browser, fitted, run, draws(len(DOMAINS)))


def test_repeated_text_and_sizes_count_as_in_python(browser: Browser, tmp_path: Path) -> None:
    kept = ["FreeLaw", "NIH ExPorter", "Pile-CC"]
    tiny, mixtures = (pl.read_csv(KEPT / f"proof/{name}.csv") for name in ("tiny_first", "tiny_mixtures"))
    tiny = tiny.filter(
        pl.col("domain").is_in(kept), pl.col("mixture").is_in(tiny["mixture"].unique().sort()[::3].implode())
    )
    pools = dict(pl.read_csv(KEPT / "proof/tiny_pools.csv").iter_rows())
    write_json(tmp_path / "pools.json", pools)
    flags = ("--tokens", str(tmp_path / "pools.json"), "--run-tokens", "3e6")
    browser.open(write_page(tmp_path / "pools", tiny, mixtures, ["transfer"], *flags))
    fitted = json.loads((tmp_path / "pools/transfer.json").read_text())
    for tokens in (3e6, 2e7):
        run = {"step": fitted["steps"][-1], "parameters": None, "tokens": tokens, "pools": pools}
        equal(browser, fitted, run, draws(len(fitted["domains"]), 1))
    assert browser.run("return state.run.pools['FreeLaw']") == pools["FreeLaw"]
    browser.open(write_page(tmp_path / "pools", tiny, mixtures, ["transfer"], *flags, "--parameters", "1e7"))
    run = {"step": fitted["steps"][-1], "parameters": 1e7, "tokens": 3e6, "pools": pools}
    equal(browser, fitted, run, draws(len(fitted["domains"]), 1))

    sizes, mixtures = (pl.read_csv(KEPT / f"proof/{name}.csv") for name in ("sizes", "sizes_mixtures"))
    names = sizes["mixture"].unique().sort()
    large = sizes.filter(pl.col("parameters") == pl.col("parameters").max())["mixture"].unique().sort()
    used = [*names[::3].to_list(), *large[:4].to_list()]
    sizes = sizes.filter(pl.col("domain").is_in(kept), pl.col("mixture").is_in(used))
    browser.open(write_page(tmp_path / "sizes", sizes, mixtures, ["transfer"], *flags[:2]))
    fitted = json.loads((tmp_path / "sizes/transfer.json").read_text())
    largest = float(sizes["parameters"].max())
    for parameters in (largest, largest / 2, 8 * largest):
        run = {"step": fitted["steps"][-1], "parameters": parameters, "tokens": 1.3e7, "pools": pools}
        equal(browser, fitted, run, draws(len(fitted["domains"]), 2))


def test_the_objective_is_that_of_the_optimum(browser: Browser, tmp_path: Path) -> None:
    for kind in ("weighted", "minimax", "no_worse_than"):
        even = dict.fromkeys(DOMAINS, 0.2)
        weights = {"web": 3.0, "code": 1.0}
        objective = {"kind": kind} | ({} if kind == "weighted" else {"reference": str(tmp_path / "even.json")})
        write_json(tmp_path / "even.json", even)
        flags = ("--weights", json.dumps(weights), "--objective", json.dumps(objective))
        browser.open(write_page(tmp_path / "made", *tables(law(5), 5), ["transfer"], *flags))
        fitted = json.loads((tmp_path / "made/transfer.json").read_text())
        shares = draws(len(DOMAINS), 3)
        reference = None if kind == "weighted" else even
        goal = Goal(fitted, STEPS[-1], Objective(kind=kind, weights=weights, reference=reference))
        rows = [dict(zip(fitted["domains"], one, strict=True)) for one in shares.tolist()]
        found = browser.run("return arguments[0].map(one => objective(losses(one), compared()));", rows)
        np.testing.assert_allclose(found, goal.value(shares), rtol=1e-9)


def test_intervals_widen_beyond_the_last_step_as_in_python(browser: Browser, tmp_path: Path) -> None:
    write_page(tmp_path, *tables(law(5), 5), ["bimix"])
    observed = read_observations(tmp_path / "losses.csv", tmp_path / "mixtures.csv")
    fitted = json.loads((tmp_path / "bimix.json").read_text())
    errors = left_out(fitted, observed, STEPS[-1], ahead=True)
    files = ["--losses", str(tmp_path / "losses.csv"), "--mixtures", str(tmp_path / "mixtures.csv")]
    law_file = ["--coefficients", str(tmp_path / "bimix.json")]
    estimate_intervals.main(
        [*law_file, *files, "--step", str(STEPS[-1]), "--level", "0.9",
         "--out", str(tmp_path / "intervals.csv")]
    )  # fmt: skip
    browser.open(write_page(tmp_path, *tables(law(5), 5), ["bimix"], "--intervals", str(tmp_path / "intervals.csv")))
    first = DOMAINS[0]
    near, far = (
        browser.run("state.run.step = arguments[0]; return spread(arguments[1]);", step, first)
        for step in (STEPS[-1], 4 * STEPS[-1])
    )
    index = fitted["loss_domains"].index(first)
    added = errors.ahead(4 * STEPS[-1], None, 0.9)[index]
    assert added > 0
    assert np.log(far[1]) == pytest.approx(np.hypot(np.log(near[1]), added), rel=1e-9)
    assert np.log(far[0]) == pytest.approx(-np.log(far[1]), rel=1e-9)


@pytest.mark.parametrize(("kind", "quantity"), [("weighted", "optimum_average_loss"), ("minimax", "worst_ratio")])
def test_the_interval_of_the_objective_is_not_that_of_the_plain_mean(browser, tmp_path, kind, quantity) -> None:
    tables_of = tables(law(5), 5)
    even = str(write_page(tmp_path, *tables_of, ["bimix"]).parent / "even.json")
    asked = ["--weights", '{"web": 5, "code": 1}', "--objective", kind, "--reference", even]
    asked = asked[: 2 if kind == "weighted" else None]
    files = [f"--{name}={tmp_path / name}.csv" for name in ("losses", "mixtures")]
    out = ["--step", str(STEPS[-1]), "--level", "0.9", "--out", str(tmp_path / "intervals.csv")]
    estimate_intervals.main(["--coefficients", str(tmp_path / "bimix.json"), *files, *asked, *out])
    spans = pl.read_csv(tmp_path / "intervals.csv")
    (estimate, *ends) = spans.filter(quantity=quantity).select("estimate", "low", "high").row(0)
    browser.open(write_page(tmp_path, *tables_of, ["bimix"], *asked, "--intervals", str(tmp_path / "intervals.csv")))
    assert browser.run("return state.law.average") == pytest.approx([end / estimate for end in ends], rel=1e-9)


def test_two_tables_alone_make_a_page(browser: Browser, tmp_path: Path) -> None:
    losses, mixtures = tables(law(3), 3)
    losses.write_csv(tmp_path / "losses.csv")
    mixtures.write_csv(tmp_path / "mixtures.csv")
    files = ["--losses", str(tmp_path / "losses.csv"), "--mixtures", str(tmp_path / "mixtures.csv")]
    solve_mixture.main([*files, "--out", str(tmp_path / "out")])
    browser.open(tmp_path / "out/explore.html")
    taken = json.loads((tmp_path / "out/mixture.json").read_text())
    assert browser.run("return rounded(state.mixture)") == taken
    names = browser.run("return [...at('mixtures').children].map(one => one.dataset.name)")
    assert {"transfer", "bimix", "uniform"} <= set(names)
    assert "%" in browser.run("return at('interval').textContent") and browser.errors() == []


def test_epochs_bound_shares_at_the_run_that_is_set(browser: Browser, tmp_path: Path) -> None:
    losses, mixtures = tables(law(3), 3)
    losses.with_columns(tokens=pl.col("step") * 1000.0).write_csv(tmp_path / "losses.csv")
    mixtures.write_csv(tmp_path / "mixtures.csv")
    tokens = dict.fromkeys(mixtures["domain"].unique().to_list(), 4e6)  # half of a run of 8,000 steps
    files = ["--losses", str(tmp_path / "losses.csv"), "--mixtures", str(tmp_path / "mixtures.csv"), "--laws", "bimix"]
    more = ["--tokens", json.dumps(tokens), "--max-epochs", "1", "--out", str(tmp_path / "out")]
    solve_mixture.main([*files, *more])
    browser.open(tmp_path / "out/explore.html")
    browser.run(
        "domains.forEach((name, i) => { state.mixture[name] = i ? 0.6 / (domains.length - 1) : 0.4; }); show();"
    )
    missed = "return broken(state.mixture, losses(state.mixture)).length"
    assert browser.run(missed) == 0
    browser.run("const s = at('run-steps'); s.value = 2 * s.value; s.dispatchEvent(new Event('change'));")
    assert browser.run(missed) == 1 and browser.errors() == []


def test_a_person_moves_a_share(browser: Browser, made: Path) -> None:
    browser.open(made)
    before = browser.run("return state.mixture")
    browser.run(
        "at('l1').click(); const s = at('s0'); s.value = 1000 * Math.cbrt(0.5); s.dispatchEvent(new Event('input'));"
    )
    after, names = browser.run("return state.mixture"), browser.run("return domains")
    assert after[names[0]] == pytest.approx(0.5, abs=2e-3) and sum(after.values()) == pytest.approx(1, abs=1e-12)
    assert after[names[1]] == before[names[1]]
    assert after[names[2]] / after[names[3]] == pytest.approx(before[names[2]] / before[names[3]])
    browser.run("const n = at('n2'); n.value = 100; n.dispatchEvent(new Event('change'));")
    after = browser.run("return state.mixture")
    assert after[names[2]] == pytest.approx(1 - before[names[1]]) and min(after.values()) == 0
    browser.run("for (const button of at('mixtures').children) if (button.textContent === 'even') button.click();")
    assert browser.run("return at('gain').textContent") == "as even"
    assert browser.errors() == []


def test_what_is_saved_is_what_the_workflow_writes(browser: Browser, made: Path) -> None:
    browser.open(made)
    for shares in draws(len(DOMAINS), 4)[:-1]:
        names = browser.run("return domains")
        saved = browser.run("return rounded(arguments[0])", dict(zip(names, shares.tolist(), strict=True)))
        assert saved == as_mixture(names, shares).document()


def test_a_domain_that_no_run_trains_on_is_named_where_a_mixture_has_it(browser: Browser, tmp_path: Path) -> None:
    losses, mixtures = tables(law(3), 3)
    rest = pl.when(pl.col("domain") == "wiki").then(0.0).otherwise(pl.col("proportion"))
    mixtures = mixtures.with_columns((rest / rest.sum().over("mixture")).alias("proportion"))
    browser.open(write_page(tmp_path / "made", losses, mixtures, ["transfer"]))
    said = "No fitted run trains on wiki: what it is worth is taken from the other domains alone"
    assert said in browser.run("return at('unseen').textContent")
    browser.run("set('wiki', 0); show();")
    assert browser.run("return at('unseen').textContent") == "" and browser.errors() == []


def test_its_exports_are_those_of_the_command(browser: Browser, made: Path, tmp_path: Path) -> None:
    browser.open(made)
    names, pattern = browser.run("return domains"), "/d-1/{domain}.x"
    data = {"domains": {name: {"train": [pattern.format(domain=name)]} for name in names}}
    write_json(tmp_path / "data.json", data)
    ends = [[1.0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0.999, 0.00002, 0.00001, 0.00097, 0], [0, 0, 1 / 3, 1 / 3, 1 / 3]]
    for shares in np.concatenate([draws(len(names), 4)[:6], ends]):
        mixture = as_mixture(names, shares)
        mixture.write(tmp_path / "mixture.json")
        for name in SHARES_ALONE:
            out = tmp_path / f"out{FORMATS[name].ending}"
            files = ["--mixture", str(tmp_path / "mixture.json"), "--data", str(tmp_path / "data.json")]
            export_mixture.main([*files, "--format", name, "--out", str(out)])
            found = browser.run("return exported(...arguments)", name, pattern, mixture.document())
            assert found == [out.read_text(), ""], (name, mixture)
    for wrong in ("/data/{domain}'", "/data/all", "{domain}"):
        found, why = browser.run("return exported(...arguments)", "megatron", wrong, mixture.document())
        assert found is None and "{domain}" in why


def test_a_page_fits_a_phone_and_says_what_it_shows(browser: Browser, made: Path) -> None:
    browser.open(made)
    for width in (360, 1400):
        browser.resize(width, 800)
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth + 1")
    unnamed = browser.run(
        "return [...document.querySelectorAll('input, select, button')]"
        ".filter(one => !one.labels?.length && !one.ariaLabel && !one.textContent.trim()).length"
    )
    assert unnamed == 0


def test_without_a_law_that_is_a_formula_the_page_has_shares_and_no_predictions(browser: Browser, tmp_path) -> None:
    mixtures = {
        "even": dict.fromkeys(DOMAINS, 0.2),
        "found": dict(zip(DOMAINS, (0.4, 0.3, 0.1, 0.1, 0.1), strict=True)),
    }
    flags = {"lower": '{"web": 0.1}', "upper": None, "tokens": json.dumps(dict.fromkeys(DOMAINS, 1e3))}
    asked = SimpleNamespace(**flags, run_tokens=1e4, max_epochs=None)
    text = page(asked, "made", {}, pl.DataFrame(), mixtures, {}, "even", "found", 100, said=[("Why", "<")])
    (tmp_path / "explore.html").write_text(text)
    browser.open(tmp_path / "explore.html")
    assert browser.run("return rounded(state.mixture)") == pytest.approx(mixtures["found"])
    assert browser.run("return [at('epochs').textContent, at('losses'), at('held').textContent]") == [
        "web, 4.0 times",
        None,
        "all hold",
    ]
    browser.run("const n = at('n0'); n.value = 5; n.dispatchEvent(new Event('change'));")
    assert "below its least share" in browser.run("return at('faults').textContent") and browser.errors() == []


def test_a_name_from_outside_is_text(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><script>window.stolen = 1</script>"
    losses, mixtures = (table.with_columns(pl.col("domain").replace("web", evil)) for table in tables(law(3), 3))
    browser.open(write_page(tmp_path / "made", losses, mixtures, ["transfer"]))
    assert browser.run("return window.stolen") is None
    assert evil in browser.run("return [...document.querySelectorAll('th')].map(one => one.textContent)")


def test_wrong_flags_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--start is 'nothing': it must be one of even"):
        write_page(tmp_path / "made", *tables(law(3), 3), ["bimix"], "--start", "nothing")
    refused("none of the laws is a formula", write_page, tmp_path / "trees", *tables(law(12), 12), ["regmix"])
