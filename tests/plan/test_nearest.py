"""What is said of a file that no rule makes."""

import pytest

from bimix.plan.nearest import nearest

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
