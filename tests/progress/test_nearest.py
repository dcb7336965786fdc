"""What is said of a file that no rule makes."""

import logging

import pytest

from bimix.progress.nearest import nearest
from bimix.progress.terminal import STREAM, Progress, install
from bimix.progress.work import Work

BLOCK = {
    "corpus": {},
    "groups": {"fitted": ["se", "je", "uniform"]},
    "training": {"tiny": {"steps": 100, "evaluate_every": 50}},
    "optimum": {"model": "tiny", "group": "fitted"},
    "held_out": [],
    "compare": {"model": "larger", "mixtures": ["baseline", "bimix"]},
}
CONFIG = {
    "run": ["mine"],
    "laws": {"optimise": ["bimix"], "learning": {"counts": [4]}},
    "datasets": {"mine": BLOCK, "demo": BLOCK},
}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("results/mine/mixtures/unifrm.json", ": did you mean results/mine/mixtures/uniform.json"),
        (
            "results/mine/runs/larger/bimx/losses.parquet",
            ": did you mean results/mine/runs/larger/bimix/losses.parquet",
        ),
        ("results/mine/sumary.txt", ": did you mean results/mine/summary.txt?"),
        ("results/mine/tables/lawz.html", "results/mine/tables/laws.html"),
        ("results/mine/figures/steps.svg", ": did you mean results/mine/figures/steps_tiny_bimix_fitted.svg?"),
        ("results/mine/zzz", ": docs/results.md lists what there is."),
        ("results/mina/summary.txt", ": no dataset is called mina; did you mean mine? There are: mine, demo."),
        ("results/other/summary.txt", ": no dataset is called other. There are: mine, demo."),
        ("summary.txt", ": files are named as in results/mine/summary.txt."),
    ],
)
def test_what_was_meant_is_named(path: str, said: str) -> None:
    sentence = nearest(CONFIG, path)
    assert sentence.startswith(f"No rule to produce {path}: ") and said in sentence


def test_the_terminal_says_it_in_the_place_of_the_exception() -> None:
    lines, logger, handler = [], logging.Logger("snakemake"), logging.Handler()
    handler.name = STREAM
    handler.emit = lambda record: lines.append(handler.format(record))
    logger.addHandler(handler)
    progress = Progress(list, lambda rule, wildcards: Work(0, 0, 0.0), near=lambda path: f"near {path}")
    assert install(logger, progress)
    message = "MissingRuleException:\nNo rule to produce results/a b.json (if you use input functions make sure ...)."
    logger.error(message, extra={"event": "error", "exception": "MissingRuleException"})
    assert lines == ["near results/a b.json"]
