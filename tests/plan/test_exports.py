"""What a mixture is exported with: files, tokens, the run."""

import pytest

from bimix.errors import InputError
from bimix.plan.exports import export_data, export_run_steps, export_run_tokens, export_tokens


@pytest.fixture
def config() -> dict:
    own = {"corpus": {}, "training": {"tiny": {"batch_rows": 4, "steps": 700}}, "sequence_length": 10}
    return {"datasets": {"own": own | {"compare": {"model": "tiny"}}, "seen": {"observations": {}}}}


def test_an_export_names_the_datasets_own_files_or_those_of_the_config(config: dict) -> None:
    own = config["datasets"]["own"]
    assert export_data(config, "own", "levanter") == "results/own/export/raw.json"
    assert export_data(config, "own", "olmo-core") == "results/own/export/rows.json"
    assert export_tokens(config, "own") == ["results/own/tokens/train.parquet"]
    assert export_run_tokens(config, "own") == [700 * 4 * 10]
    own["export"] = {"data": "files.json", "run_tokens": 5}
    assert export_data(config, "own", "olmo-core") == "files.json"
    assert (export_tokens(config, "own"), export_run_tokens(config, "own")) == ([], [5])


def test_an_export_of_observed_losses_needs_files_of_its_own(config: dict) -> None:
    with pytest.raises(InputError, match="config: datasets/seen/export/data: an export names the files of each domain"):
        export_data(config, "seen", "csv")
    assert export_run_tokens(config, "seen") == []
    config["datasets"]["seen"]["export"] = {"data": "files.json"}
    assert export_data(config, "seen", "csv") == "files.json"


def test_an_export_begins_its_stages_by_the_updates_of_its_run(config: dict) -> None:
    block = config["datasets"]["own"]
    assert export_run_steps(config, "own") == [700]
    block["export"] = {"run_tokens": 10**12}
    assert export_run_steps(config, "own") == []
    block["export"]["run_steps"] = 250_000
    assert export_run_steps(config, "own") == [250_000]
