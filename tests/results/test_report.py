"""Two tables of measured losses lead to all results, and to a report whose entries open and whose images show
in a wide and a narrow window, without an error in the console.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
import yaml
from browser import Browser, obstacle
from checkout import call, link_checkout, said

ROOT = Path(__file__).parents[2]
DOMAINS, STEPS = ["code & co", "web"], [500, 1000, 2000, 4000, 8000]
WIDTHS = [1400, 800]
HEADS = {  # columns of the entries of each chapter
    "1 Summary": ["figure"],
    "2 Findings": ["figure", "model", "group", "law"],
    "Appendix, law": ["figure", "model", "group", "law"],
    "Appendix, mixtures": ["figure"],
    "Appendix, training": ["figure"],
}

# The share of an image's pixels that are not white; the image is drawn anew on 400 pixels.
INKED = """
const image = arguments[0], height = Math.round(400 * image.naturalHeight / image.naturalWidth);
const canvas = Object.assign(document.createElement("canvas"), {width: 400, height});
const pen = canvas.getContext("2d");
pen.fillStyle = "white";
pen.fillRect(0, 0, 400, height);
pen.drawImage(image, 0, 0, 400, height);
const pixels = pen.getImageData(0, 0, 400, height).data;
let inked = 0;
for (let k = 0; k < pixels.length; k += 4) inked += pixels[k] + pixels[k + 1] + pixels[k + 2] < 600;
return inked / (400 * height);
"""
# The rules' calls that mark what the report shows, with the name of the caption.
SHOWN_BY_RULES = re.compile(
    r"\b(?P<kind>figure|table|shown)\(\s*f?\"(?P<name>[^\"]+)\"(?P<more>(?:[^()]|\([^()]*\))*)\)", flags=re.DOTALL
)
IMAGES = "const images = [...document.querySelectorAll('.prose img, .p-3 > img')];"
# The kind of what is shown, once that is another than before.
SHOWN = """
const found = document.querySelector("iframe, .p-3 > img"), path = app.state.contentPath;
return path !== arguments[0] && found && found.getAttribute("src") === path && found.tagName;
"""
ROWS = "[...document.querySelectorAll('tbody tr')]"


class Measured(NamedTuple):
    folder: Path
    printed: str
    errors: str


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """The results of five measured mixtures of two domains, behind a link; nothing is trained."""
    folder = tmp_path_factory.mktemp("report")
    link_checkout(folder)
    (folder / "disk").mkdir()
    (folder / "results").symlink_to("disk")
    shares = {f"m{k}": (share, 1 - share) for k, share in enumerate((0.2, 0.35, 0.5, 0.65, 0.8))}
    random = np.random.default_rng(0)
    mixtures = [(name, domain, p) for name, own in shares.items() for domain, p in zip(DOMAINS, own, strict=True)]
    losses = [
        (name, step, domain, p ** -(0.2 - d / 10) * (20 / step**0.4 + 1 + d) * random.normal(1, 0.001))
        for name, own in shares.items()
        for step in STEPS
        for d, (domain, p) in enumerate(zip(DOMAINS, own, strict=True))
    ]
    for file, columns, rows in (
        ("mixtures.csv", ["mixture", "domain", "proportion"], mixtures),
        ("losses.csv", ["mixture", "step", "domain", "loss"], losses),
    ):
        pl.DataFrame(rows, columns, orient="row").write_csv(folder / file)
    own = {
        "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
        "groups": {"fitted": ["m0", "m1", "m2", "m3"], "held_out": ["m4"]},
        "optimum": {"group": "fitted", "step": STEPS[-1]},
        "held_out": ["held_out"],
        "compare": {"mixtures": ["m4", "m0"]},
    }
    # The report lists bimix first: the one whose optimum the summary names is the other.
    laws = {"compare": ["bimix"], "optimise": ["transfer", "bimix"], "intervals": {"resamples": 20}}
    (folder / "own.yaml").write_text(yaml.safe_dump({"run": ["own"], "laws": laws, "datasets": {"own": own}}))
    done = call(folder, "--configfile", "own.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return Measured(folder, done.stdout, done.stderr)


@pytest.mark.slow
def test_everything_follows_from_two_tables(measured: Measured) -> None:
    folder, printed, errors = measured
    said = errors.splitlines()
    assert re.search(r"^\d+ jobs$", errors, re.MULTILINE)
    assert len(said) <= 40 and not [line for line in said if "reason:" in line or "rule fit_law:" in line]
    assert next(iter(folder.glob(".snakemake/log/*"))).read_text().count("rule fit_law:") == 2
    results = folder / "results/own"
    mixture = json.loads((results / "mixtures/bimix.json").read_text())
    assert list(mixture) == DOMAINS and sum(mixture.values()) == pytest.approx(1)
    figures = {path.name for path in (results / "figures").iterdir()}
    kinds = ("steps", "proportions", "predictions", "optimum")
    of_laws = {f"{kind}_observed_{law}_fitted.svg" for kind in kinds for law in ("bimix", "transfer")}
    perplexities = {f"perplexity_observed_{group}.svg" for group in ("fitted", "compare")}
    assert figures == of_laws | perplexities | {"mixtures.svg", "recommended.svg"}
    tables = {path.stem for path in (results / "tables").iterdir()}
    assert tables == {"comparison", "complexity", "extrapolation", "generalization", "laws"}
    text = (results / "summary.txt").read_text()
    assert text.partition("\n\n")[0] in printed and "The mixture:" not in printed, "through the link"
    facts = json.loads((results / "verdict.json").read_text())
    assert (facts["outcome"], facts["tested"]) == ("promised", False)
    assert facts["law"]["last_step_percent"] is not None and list(facts["law"]["held_out"]) and not facts["entropies"]
    page = (results / "explore.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert data["start"] == facts["take"] and {law["name"] for law in data["laws"]} == {"transfer", "bimix"}
    assert data["mixtures"]["bimix"] == mixture
    assert "predicted for your runs" in page and "<dt>Take</dt>" in page
    took = f"gain of {facts['take']} over m4"
    assert all(took in one for one in (text, (results / "summary_details.txt").read_text()))
    assert not {"runs", "shards", "tokens"} & {path.name for path in results.iterdir()}
    assert "Nothing to be done" in call(folder, "--configfile", "own.yaml").stderr


@pytest.fixture(scope="module")
def report(measured: Measured) -> Path:
    """The report of these results."""
    if obstacle() is not None:
        assert "REQUIRE_BROWSER" not in os.environ, obstacle()
        pytest.skip(obstacle())
    said(measured.folder, "--configfile", "own.yaml", "--report", "report.html")
    return measured.folder / "report.html"


@pytest.fixture(scope="module")
def browser(report: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(params=WIDTHS)
def page(request, browser: Browser, report: Path) -> Browser:
    """The report, opened in a window so wide."""
    browser.resize(request.param, 900)
    browser.open(report)
    browser.wait_for("return document.querySelector('.prose') !== null")
    assert browser.run("return innerWidth") <= request.param
    return browser


def images(page: Browser) -> list[float]:
    """The share of ink in each figure that the page shows."""
    page.wait_for(f"{IMAGES} return images.every(image => image.complete)")
    count = page.run(f"{IMAGES} return images.length")
    script = f"{IMAGES} return (function() {{ {INKED} }})(images[arguments[0]])"
    return [page.run(script, number) for number in range(count)]


@pytest.mark.slow
def test_the_first_page_has_the_result_and_the_figures_of_it(page: Browser) -> None:
    labels = page.run("return [...document.querySelectorAll('.prose dt')].map(label => label.textContent)")
    assert labels == ["Take", "Gain", "Risk", "Next", "Page"]
    assert page.run("return document.querySelector('.prose h1').textContent").startswith("own: ")
    figures = page.run(
        "return [...document.querySelectorAll('.prose img')].map(image => decodeURIComponent(image.src))"
    )
    assert ["shares of the text" in figure for figure in figures] == [True, False, False], (
        "the mixture to take is first"
    )
    assert len(figures) == len(images(page)) and min(images(page)) > 0.005
    assert "System Message" not in page.run("return document.body.textContent"), "RST that cannot be read"
    assert page.run("return document.querySelector('.prose img').getBoundingClientRect().width") > 300
    assert not page.errors()


@pytest.mark.slow
def test_every_entry_opens(page: Browser) -> None:
    parts = page.run(
        "return Object.entries(categories).flatMap(([name, parts]) => Object.keys(parts).map(p => [name, p]))"
    )
    assert sorted(name for name, _ in parts) == list(HEADS)
    opened = 0
    for category, part in parts:
        view = {"navbarMode": "subcategory", "category": category, "subcategory": part}
        page.run("app.setView({navbarMode: 'menu'})")
        page.wait_for("return document.querySelector('tbody') === null")
        page.run("app.setView(arguments[0])", view)
        page.wait_for(f"return {ROWS}.length >= 1 && app.state.category === arguments[0]", category)
        heads = page.run("return [...document.querySelectorAll('th')].map(head => head.textContent).filter(Boolean)")
        assert heads == HEADS[category]
        for row in range(page.run(f"return {ROWS}.length")):
            before = page.run("return app.state.contentPath || ''")
            page.run(f"{ROWS}[arguments[0]].querySelector('a, button').click()", row)
            shown = page.wait_for(SHOWN, before)
            if shown == "IMG":
                assert min(images(page)) > 0.005
            else:
                check_frame(page)
            opened += 1
    assert opened == page.run("return Object.keys(results).length") >= 14
    assert not page.errors()


def check_frame(page: Browser) -> None:
    """A table with rows, or the summary's text, is what the frame shows."""
    page.enter_frame(0)
    try:
        page.wait_for("return document.querySelectorAll('tbody tr').length || document.body?.innerText.length > 500")
    finally:
        page.enter_frame(None)


def test_every_caption_is_there_and_says_what_its_rule_has() -> None:
    """A report is made of all that exists: a caption that is not there would end it."""
    captions = set()
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        for rule in re.split(r"^(?=rule |checkpoint )", path.read_text(), flags=re.MULTILINE):
            for mark in SHOWN_BY_RULES.finditer(rule):
                if "{{dataset}}" in mark["name"]:  # in `figure`, `table` and the rule of their pages
                    continue
                given = re.search(r'caption="(\w+)"', mark["more"]) or re.match(r',\s*"([a-z_]+)",', mark["more"])
                caption = ROOT / "workflow/report" / f"{given[1] if given else mark['name'].split('_{')[0]}.rst"
                captions.add(caption)
                wanted = set(re.findall(r"snakemake\.params\.(\w+)", caption.read_text()))
                has = {"reference", "model"} if mark["kind"] == "table" else set(re.findall(r"^ {8}(\w+)=", rule, re.M))
                assert wanted <= has, f"{caption.name} asks for {wanted - has} of {path.name}"
    assert captions == set((ROOT / "workflow/report").glob("*.rst")) - {ROOT / "workflow/report/workflow.rst"}
