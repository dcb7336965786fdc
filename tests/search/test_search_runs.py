"""Searches that run in the workflow: with a trainer of the user's, with seeds, over two sizes."""

import json
import shlex
import sys
from pathlib import Path

import forked
import polars as pl
import pytest
from mini_dataset import mini_config, write_checkout

START = ["baseline", "uniform", "plain"]
PLAIN = Path(__file__).parents[1] / "training/plain_trainer.py"


def searched(folder: Path, config: dict, rounds: int, also: tuple[str, ...] = (), **optimum) -> Path:
    """The results of a search for the domain sea, which starts with `also` too."""
    config["laws"] = {"compare": ["transfer"], "optimise": ["transfer"], "intervals": {"resamples": 5}}
    block = config["datasets"]["mini"]
    del block["vectors"], block["groups"], block["optimum"]
    block |= {
        "optimum": {"weights": {"sea": 1}, **optimum},
        "search": {"start": [*START, *also], "rounds": rounds, "of": 1},
    }
    block["compare"] = {"model": "large", "mixtures": ["baseline", "found"]}
    write_checkout(folder, config, ["plain"])
    built(folder, "results/mini/mixtures/found.json", "results/mini/figures/rounds.svg")
    assert "Nothing to be done" in built(folder, "results/mini/figures/rounds.svg")
    return folder / "results/mini"


def built(folder: Path, *targets: str) -> str:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *targets, "--configfile", "mini.yaml"]
    done = forked.run(command, cwd=folder, env=forked.jobs(COLUMNS="200", OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def shares(results: Path, mixture: str) -> dict:
    return json.loads((results / f"mixtures/{mixture}.json").read_text())


def check(results: Path, model: str, rounds: int) -> pl.DataFrame:
    """What holds for every search: the answer is the best by all runs, rounds are in the table."""
    table = pl.read_csv(results / f"search/{model}/rounds.csv")
    ran = table.drop_nulls("measured")
    assert set(START) <= set(ran["mixture"]) and ran["round"].max() <= rounds
    said = (results / f"search/{model}/answer.txt").read_text()
    named = said.removeprefix("Answer: ").partition(",")[0]
    assert shares(results, "found") == pytest.approx(shares(results, named))
    return ran


@pytest.mark.full
@pytest.mark.slow
def test_a_search_with_a_trainer_of_the_users(tmp_path: Path) -> None:
    """Its loss of a domain falls by the share: the search goes on to more of the wanted one."""
    config = mini_config(6, 2, slim={}, large={})
    words = shlex.join([sys.executable, str(PLAIN)])
    own = {"command": f"{words} {{mixture}} {{steps}} {{evaluate_every}} {{folder}} {{seed}}", "parameters": 5000}
    own |= {"losses": "{folder}/losses.jsonl"}
    config["models"]["slim"] = own | {"launch": {"nodes": 1, "gpus": 0, "threads": 1}}
    results = searched(tmp_path, config, 2, model="slim")
    ran = check(results, "slim", 2)
    ends = {name: 2 + 1 / 6 - shares(results, name)["sea"] for name in ran["mixture"]}
    assert dict(ran.select("mixture", "measured").iter_rows()) == pytest.approx(ends)
    assert ran["mixture"].to_list() == [*sorted(START), "round1", "round2"]
    assert min(ends, key=ends.get).startswith("round")


@pytest.mark.full
@pytest.mark.slow
def test_a_search_with_seeds(tmp_path: Path) -> None:
    """Each mixture of a round is trained with each seed, and their spread is the noise."""
    config = mini_config(6, 2, slim={}, large={})
    config["datasets"]["mini"]["seeds"] = {"slim": [1, 2]}
    results = searched(tmp_path, config, 1, model="slim")
    ran = check(results, "slim", 1)
    losses = pl.read_parquet(results / "losses/slim/search.parquet").filter(
        pl.col("step") == 6, pl.col("domain") == "sea"
    )
    assert losses.group_by("mixture").len()["len"].to_list() == [2] * len(ran)
    report = json.loads((results / "search/slim/1/report.json").read_text())
    assert 0 < report["noise"] < 0.1
    assert "(taken: no mixture has a further seed)" not in (results / "search/slim/answer.txt").read_text()


@pytest.mark.full
@pytest.mark.slow
def test_a_search_over_two_sizes_for_a_third(tmp_path: Path) -> None:
    """A round trains each size, and the law over sizes proposes for the large model."""
    config = mini_config(6, 2, slim={}, wide={}, large={})
    config["models"]["wide"]["shape"] |= {"width": 32}
    config["models"]["large"]["shape"] |= {"width": 64}
    results = searched(tmp_path, config, 1, models=["slim", "wide"], **{"for": "large"})
    model = next((results / "search").iterdir()).name
    ran = check(results, model, 1)
    assert "round1" in ran["mixture"].to_list()
    for one in ("slim", "wide"):
        assert (results / f"runs/{one}/round1/losses.parquet").exists()
    assert not (results / "runs/large").exists()


@pytest.mark.full
@pytest.mark.slow
def test_a_search_next_to_a_swarm(tmp_path: Path) -> None:
    """One starts from the other's mixtures, and both read the same run."""
    config = mini_config(6, 2, slim={}, large={})
    config["datasets"]["mini"]["swarm"] = {"model": "slim", "runs": 6, "seed": 0, "step": 6}
    results = searched(tmp_path, config, 1, ("swarm_0001",), model="slim", **{"for": "large"})
    assert "swarm_0001" in check(results, "slim", 1)["mixture"].to_list()
    assert not (results / "runs/slim/swarm_0002").exists() and not (results / "runs/large").exists()
    built(tmp_path, "results/mini/mixtures/transfer_swarm.json", "results/mini/mixtures/transfer.json")
    (law,) = results.glob("laws/slim/transfer/search/coefficients.json")
    run = next(iter(json.loads(law.read_text())["coefficients"].values()))["run"]
    large = json.loads((results / "sizes/large.json").read_text())
    assert (run["parameters"], run["tokens"]) == (large["parameters"], large["tokens"])
    alone, of_swarm = (pl.read_parquet(results / f"losses/slim/{name}.parquet") for name in ("search", "swarm"))
    ends = [one.filter(pl.col("mixture") == "swarm_0001", pl.col("step") == 6) for one in (alone, of_swarm)]
    assert ends[0].sort("domain")["loss"].to_list() == ends[1].sort("domain")["loss"].to_list()
    assert "Nothing to be done" in built(tmp_path, "results/mini/figures/rounds.svg")
