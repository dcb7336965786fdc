"""Groups of domains: what their names say, what a law gains by them, refits and designs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from laws.known import write_tables
from refusals import refused

import fit_law
from bimix.laws import fitted as laws
from bimix.laws.transfer import refit
from bimix.observations.groups import by_name, read_groups, spread_of
from bimix.observations.observations import Observations
from bimix.transfer.factor import jacobian_of, levels, logs_of

NAMES = tuple(f"{source}:{topic}" for source in ("web", "pdf", "book", "code") for topic in "abcd")


def crossed(seed: int, n: int) -> tuple[Observations, Observations]:
    """Runs of domains that are worth what source and topic are; new ones without noise."""
    draw = np.random.default_rng(seed)
    k = np.exp(draw.normal(0, 1.2, (3, 4, 1)) + draw.normal(0, 1.2, (3, 1, 4))).reshape(3, 16)
    shares = draw.dirichlet(np.full(16, 0.5), n + 200)
    losses = (
        3
        * (shares**0.7 @ k.T) ** -0.15
        * np.exp(0.003 * draw.standard_normal((n + 200, 3)) * (np.arange(n + 200) < n)[:, None])
    )
    runs = Observations(tuple(map(str, range(n + 200))), NAMES, np.array([1]), ("x", "y", "z"), shares, losses[:, None])
    return runs.take(range(n)), runs.take(range(n, n + 200))


def error(fitted: dict, new: Observations) -> float:
    return float(np.abs(laws.predict(fitted, new.proportions, [1]) / new.losses - 1).mean())


def test_names_that_are_split_say_source_and_topic_and_others_stand_alone() -> None:
    assert by_name(["web:games", "web/news", "wiki"]) == {
        "web:games": ["web", "games"],
        "web/news": ["web", "news"],
        "wiki": ["wiki", None],
    }
    root = spread_of(by_name(NAMES), NAMES)
    same_source, same_topic = NAMES.index("web:b"), NAMES.index("pdf:a")
    assert (root @ root)[0, [0, same_source, same_topic, NAMES.index("pdf:b")]] == pytest.approx([1, 1 / 3, 1 / 3, 0])
    assert spread_of(by_name(["a", "b", "c"]), ["a", "b", "c"]) is None
    # a group of all domains is a level that they share anyhow
    assert spread_of(by_name(["x:a", "x:b"]), ["x:a", "x:b"]) is None


def test_groups_of_a_file_go_before_names_and_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"web:a": ["forum"], "wiki": [None, "a"]}))
    assert read_groups(path, ("web:a", "web:b", "wiki")) == {
        "web:a": ["forum"],
        "web:b": ["web", "b"],
        "wiki": [None, "a"],
    }
    for text, words in (
        ('{"wki": ["a"]}', "'wki', which no mixture"),
        ('{"wiki": "a"}', "it takes"),
        ('{"wiki": []}', "it takes"),
    ):
        refused(words, read_groups, text, ("wiki", "web"))


def test_domains_of_one_source_and_topic_need_fewer_runs() -> None:
    for seed in range(2):
        seen, new = crossed(seed, 12)
        grouped, alone = (
            laws.fit("transfer", seen),
            laws.fit("transfer", replace(seen, sources={name: [None] for name in NAMES})),
        )
        assert grouped["domain_groups"]["pdf:c"] == ["pdf", "c"] and "domain_groups" not in alone
        assert error(grouped, new) < 0.9 * error(alone, new)


def test_a_refit_to_the_same_runs_is_the_same_law_with_groups_too() -> None:
    seen, new = crossed(0, 20)
    fitted = laws.fit("transfer", seen)
    again = next(refit([(seen, None)], fitted))
    assert laws.predict(fitted | {"coefficients": again}, new.proportions, [1]) == pytest.approx(
        laws.predict(fitted, new.proportions, [1]), rel=1e-3
    )


def test_slopes_by_the_numbers_of_groups_are_those_of_differences() -> None:
    draw = np.random.default_rng(1)
    logs, root = logs_of(draw.dirichlet(np.ones(6), 5)), spread_of(by_name(NAMES[:6]), NAMES[:6])
    own, x, gaps = np.array([2, -1]), draw.normal(0, 0.5, (2, 2 * 2 + 2 + 12)), np.zeros((2, 6))
    slopes = jacobian_of(x, 2, own, gaps, logs, np.ones((2, 5)), root)[1]
    for number in range(x.shape[1]):
        step = np.zeros(x.shape[1])
        step[number] = 1e-6
        between = [levels(x + sign * step, 2, own, gaps, logs, root) for sign in (1, -1)]
        assert slopes[:, number] == pytest.approx((between[0] - between[1]) / 2e-6, abs=1e-7)


def test_the_script_takes_groups_that_no_name_says(tmp_path: Path) -> None:
    seen, _ = crossed(0, 12)
    plain = tuple(f"d{j:02d}" for j in range(16))
    flags = write_tables(replace(seen, domains=plain), tmp_path / "losses.csv", tmp_path / "mixtures.csv")
    groups = {name: name_of.split(":") for name, name_of in zip(plain, NAMES, strict=True)}
    out = tmp_path / "law.json"
    fit_law.main(["--law", "transfer", *flags, "--domain-groups", json.dumps(groups), "--out", str(out)])
    assert json.loads(out.read_text())["domain_groups"] == groups
